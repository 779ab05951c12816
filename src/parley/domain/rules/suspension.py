"""The kill switch: an agent, a pair of agents, an org unit or the whole tenant is stopped, until somebody lifts it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from parley.domain.agents.party import PAIR_MARK, pair_name
from parley.domain.errors.rules import Suspended
from parley.domain.record import Record

if TYPE_CHECKING:
    from parley.domain.agents.party import Party


class Stopped(StrEnum):
    """What is stopped."""

    AGENT = "agent"
    PAIR = "pair"
    ORG_UNIT = "org_unit"
    TENANT = "tenant"


# The id of the one record of a tenant.
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """One thing that is stopped: an agent, two agents in alphabetical order, an org unit, or everything."""

    what: Stopped
    name: str = ""
    reason: str = ""
    by: str
    at: str

    @property
    def key(self) -> tuple[Stopped, str]:
        return self.what, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspensions(Record):
    """Everything that is stopped in a tenant. One record, so that every decision can depend on it."""

    kind: ClassVar[str] = "suspensions"

    stopped: tuple[Suspension, ...] = ()


def with_suspension(known: Suspensions, one: Suspension) -> Suspensions:
    """One more. What was stopped before stays as it was, unless another reason is given now: then that one counts."""
    before = next((other for other in known.stopped if other.key == one.key), None)
    if before is None:
        return replace(known, stopped=(*known.stopped, one))
    if not one.reason or one.reason == before.reason:
        return known
    told = replace(before, reason=one.reason, by=one.by)
    return replace(known, stopped=tuple([told if other is before else other for other in known.stopped]))


def without_suspension(known: Suspensions, what: Stopped, name: str) -> Suspensions:
    return replace(known, stopped=tuple(one for one in known.stopped if one.key != (what, name)))


def check_not_stopped(known: Suspensions | None, sender: Party, receiver: Party | None) -> None:
    """Refuse what somebody has stopped; a message to nobody in particular has no receiver."""
    if known is None or not known.stopped:
        return
    for one in known.stopped:
        if _concerns(one, sender, receiver):
            raise Suspended(
                f"{_said(one)} is suspended{f': {one.reason}' if one.reason else ''}",
                facts={"suspended": one.what.value, "name": one.name},
            )


def _concerns(one: Suspension, sender: Party, receiver: Party | None) -> bool:
    if one.what is Stopped.TENANT:
        return True
    sides = (sender,) if receiver is None else (sender, receiver)
    if one.what is Stopped.AGENT:
        return any(side.agent == one.name for side in sides)
    if one.what is Stopped.ORG_UNIT:
        return any(side.attributes.org_unit == one.name for side in sides)
    return receiver is not None and one.name == pair_name(sender.agent, receiver.agent)


def _said(one: Suspension) -> str:
    if one.what is Stopped.TENANT:
        return "the tenant"
    if one.what is Stopped.PAIR:
        return f"talk between {' and '.join(one.name.split(PAIR_MARK))}"
    return f"the {one.what.value.replace('_', ' ')} {one.name}"
