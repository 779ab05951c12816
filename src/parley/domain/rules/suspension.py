"""The kill switch: suspend an agent, a pair of agents, an org unit or the whole tenant."""

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
    # When it is lifted by itself; empty for never.
    until: str = ""

    @property
    def key(self) -> tuple[Stopped, str]:
        return self.what, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspensions(Record):
    """Everything that is stopped in a tenant. One record, so that every decision can depend on it."""

    kind: ClassVar[str] = "suspensions"

    stopped: tuple[Suspension, ...] = ()

    @property
    def due(self) -> str:
        return min([suspension.until for suspension in self.stopped if suspension.until], default="")


def with_suspension(suspensions: Suspensions, suspension: Suspension) -> Suspensions:
    """One more. What was stopped before keeps its reason, unless another is given now; it ends when is said now."""
    before = next((other for other in suspensions.stopped if other.key == suspension.key), None)
    if before is None:
        return replace(suspensions, stopped=(*suspensions.stopped, suspension))
    updated = replace(before, reason=suspension.reason or before.reason, until=suspension.until)
    if updated == before:
        return suspensions
    updated = replace(updated, by=suspension.by)
    return replace(suspensions, stopped=tuple([updated if other is before else other for other in suspensions.stopped]))


def without_suspension(suspensions: Suspensions, what: Stopped, name: str) -> Suspensions:
    return replace(
        suspensions, stopped=tuple(suspension for suspension in suspensions.stopped if suspension.key != (what, name))
    )


def ended_by(suspensions: Suspensions, now: str) -> tuple[Suspension, ...]:
    """The suspensions whose time is over."""
    return tuple([suspension for suspension in suspensions.stopped if suspension.until and suspension.until <= now])


def check_not_stopped(suspensions: Suspensions | None, sender: Party, receiver: Party | None) -> None:
    """Refuse a message whose sender or receiver is suspended; a broadcast has no receiver."""
    if suspensions is None or not suspensions.stopped:
        return
    for suspension in suspensions.stopped:
        if _concerns(suspension, sender, receiver):
            raise _refusal(suspension)


def concerns(what: Stopped, name: str, sender: Party, receiver: Party | None) -> bool:
    """Whether a suspension of this would refuse messages of the sender to the receiver."""
    return _concerns(Suspension(what=what, name=name, by="", at=""), sender, receiver)


def check_person_not_stopped(suspensions: Suspensions, name: str) -> None:
    """Refuse a person that is suspended by name. Suspending its tenant or unit stops agents: people go on deciding."""
    for suspension in suspensions.stopped:
        if suspension.key == (Stopped.AGENT, name):
            raise _refusal(suspension)


def _refusal(suspension: Suspension) -> Suspended:
    return Suspended(
        f"{describe(suspension)} is suspended{f': {suspension.reason}' if suspension.reason else ''}",
        facts={"suspended": suspension.what.value, "name": suspension.name},
    )


def _concerns(suspension: Suspension, sender: Party, receiver: Party | None) -> bool:
    if suspension.what is Stopped.TENANT:
        return True
    sides = (sender,) if receiver is None else (sender, receiver)
    if suspension.what is Stopped.AGENT:
        return any(side.agent == suspension.name for side in sides)
    if suspension.what is Stopped.ORG_UNIT:
        return any(side.attributes.org_unit == suspension.name for side in sides)
    return receiver is not None and suspension.name == pair_name(sender.agent, receiver.agent)


def describe(suspension: Suspension) -> str:
    if suspension.what is Stopped.TENANT:
        return "the tenant"
    if suspension.what is Stopped.PAIR:
        return f"talk between {' and '.join(suspension.name.split(PAIR_MARK))}"
    return f"the {suspension.what.value.replace('_', ' ')} {suspension.name}"
