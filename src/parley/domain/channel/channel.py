"""A channel: a place with members, tied to an intent; open, then closed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from parley.domain.directory.access import Permission, standing
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import NotManager, NotMember
from parley.domain.record import UNSETTLED, Record
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from parley.domain.directory.access import Access
    from parley.domain.directory.callers import Caller

DEFAULT_MAX_MESSAGES = 1000


class MemberPolicy(StrEnum):
    """Who takes part: those listed, or everyone with access to the intent."""

    EXPLICIT = "explicit"
    INTENT = "intent"


class ChannelStatus(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a channel: audit, time to live, size."""

    audit: bool = False
    ttl_seconds: int | None = None
    max_messages: int = DEFAULT_MAX_MESSAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a channel; it sees messages to everyone after `since`."""

    agent: str
    since: int = UNSETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Record):
    """A channel without its counters, which every message moves and no decision depends on."""

    kind: ClassVar[str] = "channel"

    intent_id: str
    label: str
    created_by: str
    created_at: str
    task_id: str = ""
    members: tuple[Member, ...] = ()
    policy: MemberPolicy = MemberPolicy.INTENT
    options: Options = Options()
    status: ChannelStatus = ChannelStatus.OPEN
    closed_at: str = ""
    purge_at: str = ""
    # When its time to live may be over; a later message extends it.
    expires: str = ""
    # Since when everyone with access takes part; earlier messages to the members stay theirs.
    open_since: int = 0
    # The two agents whose direct channel it is.
    direct: tuple[str, ...] = ()

    @property
    def parent(self) -> str:
        return self.intent_id

    @property
    def name(self) -> str:
        return self.label

    @property
    def due(self) -> str:
        return self.purge_at if self.status is ChannelStatus.CLOSED else self.expires

    @property
    def is_open(self) -> bool:
        return self.status is ChannelStatus.OPEN

    def with_position(self, position: int) -> Self:
        if self.open_since != UNSETTLED and all(member.since != UNSETTLED for member in self.members):
            return self
        members = tuple(
            replace(member, since=position) if member.since == UNSETTLED else member for member in self.members
        )
        return replace(self, members=members, open_since=position if self.open_since == UNSETTLED else self.open_since)

    def member(self, agent: str) -> Member | None:
        return next((member for member in self.members if member.agent == agent), None)


class Tally(NamedTuple):
    """The number of accepted messages, the time of the last one, and the floor: the seq up to which all are evicted."""

    total: int = 0
    last_at: str = ""
    floor: int = 0


class View(NamedTuple):
    """What a caller may see of a channel. `agent` is empty for one who sees all; `since` bounds broadcasts."""

    agent: str
    since: int
    takes_part: bool
    may_write: bool


def view(channel: Channel, access: Access, caller: Caller, now: str, org_unit: str = "") -> View:
    """What the caller may do here; `NotFound` as if there were no such channel when it may not know of it."""
    if caller.all_seeing:
        return View("", 0, takes_part=True, may_write=False)
    stands = standing(access, caller.agent, now, org_unit) if caller.agent else None
    if stands is None:
        raise NotFound.no_such("channel")
    if channel.policy is MemberPolicy.INTENT:
        joined = channel.open_since
        if joined and (member := channel.member(caller.agent)) is not None:
            joined = min(joined, member.since)
    elif (member := channel.member(caller.agent)) is not None:
        joined = member.since
    elif access.coordinates(caller.agent) or caller.agent == channel.created_by:
        # A creator that left is no member until it joins again.
        return View(caller.agent, 0, takes_part=False, may_write=False)
    else:
        raise NotFound.no_such("channel")
    since = max(joined, stands.since)
    return View(caller.agent, since, takes_part=True, may_write=stands.allows(Permission.WRITE))


def check_takes_part(view: View) -> View:
    """Refuse a caller that may know of the channel but not read it."""
    if not view.takes_part:
        raise NotMember("the channel is open to its members only")
    return view


def check_manages(channel: Channel, access: Access, caller: Caller) -> None:
    """Creator, the intent's coordinator and admin manage members and close."""
    if caller.all_seeing or caller.agent == channel.created_by or access.coordinates(caller.agent):
        return
    raise NotManager("only the channel's creator, the intent's coordinator or an admin may change it")


def reaches(channel: Channel, access: Access, agent: str, now: str, org_unit: str = "") -> bool:
    """Whether a message to this agent of this unit could be read by it."""
    if channel.policy is MemberPolicy.EXPLICIT and channel.member(agent) is None:
        return False
    return standing(access, agent, now, org_unit) is not None


def with_members(channel: Channel, agents: tuple[str, ...]) -> Channel:
    """The channel with exactly these members, and its creator unless it has left; who stays keeps what it saw."""
    creator = (channel.created_by,) if channel.member(channel.created_by) else ()
    wanted = dict.fromkeys((*creator, *agents))
    return replace(channel, members=tuple(channel.member(agent) or Member(agent=agent) for agent in wanted))


def with_policy(channel: Channel, policy: MemberPolicy) -> Channel:
    """The channel under another policy; opening it to all does not open what was said before."""
    if policy is channel.policy:
        return channel
    return replace(
        channel, policy=policy, open_since=UNSETTLED if policy is MemberPolicy.INTENT else channel.open_since
    )


def without_member(channel: Channel, agent: str) -> Channel:
    return replace(channel, members=tuple(member for member in channel.members if member.agent != agent))


def lifetime_end(channel: Channel, tally: Tally) -> str:
    """When the channel's time to live runs out, "" for never: counted from the last message, or from creation."""
    if channel.options.ttl_seconds is None:
        return ""
    return stamp(from_stamp(tally.last_at or channel.created_at) + timedelta(seconds=channel.options.ttl_seconds))


def closed(channel: Channel, at: str, retention: timedelta) -> Channel:
    """The channel closed at a moment; what was said stays readable for the retention window."""
    return replace(
        channel, status=ChannelStatus.CLOSED, closed_at=at, expires="", purge_at=stamp(from_stamp(at) + retention)
    )
