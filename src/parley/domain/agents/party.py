"""A party to an exchange, as the directory knows it: for whom it acts, where it belongs, what it may know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from parley.domain.content.classification import DEFAULT_LEVEL, Classification
from parley.domain.content.envelope import NOBODY, Purpose, Source

DEFAULT_ORG = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes of an agent, set by an admin; an agent cannot set its own."""

    org_unit: str = DEFAULT_ORG
    user_id: str = ""
    team: str = ""
    # The highest level that it may share and receive.
    max_classification: Classification = DEFAULT_LEVEL
    can_receive_queries: bool = True
    can_auto_respond: bool = True
    supported_exchange_types: tuple[Purpose, ...] = tuple(Purpose)
    max_rounds_accepted: int | None = None


UNKNOWN_ATTRIBUTES = Attributes()


class Party(NamedTuple):
    """One side of an exchange."""

    agent: str
    attributes: Attributes = UNKNOWN_ATTRIBUTES
    # A person with a credential of their own.
    human: bool = False

    @property
    def user(self) -> str:
        return self.attributes.user_id or NOBODY


def source_of(party: Party, tenant: str) -> Source:
    """The sender, as in an envelope."""
    return Source(party.agent, party.user, party.attributes.org_unit, tenant)


PAIR_MARK = ","


def pair_name(first: str, second: str) -> str:
    """The name of a pair of parties, in either order."""
    return f"{first}{PAIR_MARK}{second}" if first <= second else f"{second}{PAIR_MARK}{first}"
