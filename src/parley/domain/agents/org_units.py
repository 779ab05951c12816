"""The org units of a tenant. As long as there is only one, no broadcast crosses org units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from parley.domain.agents.party import DEFAULT_ORG
from parley.domain.record import Record

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgUnits(Record):
    """Every org unit that an agent of the tenant was ever put into. One record, so that a decision can depend on it."""

    kind: ClassVar[str] = "org_units"

    names: tuple[str, ...] = (DEFAULT_ORG,)


def with_unit(org_units: OrgUnits, name: str) -> OrgUnits:
    return org_units if name in org_units.names else replace(org_units, names=(*org_units.names, name))
