"""Who takes part in an intent: whom messages to everyone, or to a role, are delivered to.

access to the intent ──> may list, follow and write
takes part           ──> also gets what is said to everyone or to its role: on its own stream, by its webhooks

An agent takes part that opened the intent, is assigned, has an entry of its own in the access list, or is a member of
the channel. Where an intent is open, to all or to an org unit, an agent also joins by speaking there, or when another
writes to it by name: that is recorded once, as a `Participant`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from parley.domain.channel.channel import Channel, MemberPolicy, reaches
from parley.domain.record import UNSETTLED, Record

if TYPE_CHECKING:
    from parley.domain.channel.channel import View
    from parley.domain.directory.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant(Record):
    """An agent that joined an intent by speaking there, or because another agent wrote to it there by name.

    It is a record of its own: agents that join at the same moment do not change one record.
    """

    kind: ClassVar[str] = "participant"

    intent_id: str
    agent: str
    since: int = UNSETTLED

    @property
    def parent(self) -> str:
        return self.agent

    def with_position(self, position: int) -> Self:
        return replace(self, since=position) if self.since == UNSETTLED else self


def participant_id(intent_id: str, agent: str) -> str:
    """The id of an agent's participation in an intent."""
    return f"{intent_id}:{agent}"


def joining(access: Access, agent: str) -> Participant:
    """The participation of an agent that joins now."""
    record_id = participant_id(access.id, agent)
    return Participant(id=record_id, tenant_id=access.tenant_id, intent_id=access.id, agent=agent)


def takes_part(
    channel: Channel, access: Access, agent: str, now: str, org_unit: str = "", *, joined: bool = False
) -> bool:
    """Whether messages to everyone in this channel are delivered to the agent. `joined`: it is a `Participant`."""
    if not reaches(channel, access, agent, now, org_unit):
        return False
    return joined or is_listed(channel, access, agent, now)


def is_listed(channel: Channel, access: Access, agent: str, now: str) -> bool:
    """Whether an agent with access takes part without having joined."""
    if access.reaches_all or channel.policy is MemberPolicy.EXPLICIT:
        return True
    return access.lists(agent, now) or channel.member(agent) is not None


def heard_since(channel: Channel, access: Access, participant: Participant | None, view: View, now: str) -> int | None:
    """The position from which on messages to everyone are delivered to an agent that may read the channel, as its
    view says; None when it does not take part. One that joined gets what is said from then on.
    """
    if is_listed(channel, access, view.agent, now):
        return view.since
    return max(view.since, participant.since) if participant is not None else None
