"""Who talked to whom: counts over the messages that are kept, and over what the rules held and denied.

Nothing is counted when a message is sent. Both logs are read backwards in windows, by their positions, from the end of
the period to its beginning: a short period takes as long in a large store as in a small one.

    messages    ... [ window ][ window ][ window ] <- until     channel, sender and recipients, counted by the store
    audit log   ...           [ window ][ window ] <- until     held and denied messages, on the side of who sent them
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from parley.app.team.audit.reading import sight
from parley.app.team.channels.visible import scope_of_all
from parley.app.team.directory.names import agents_of_person
from parley.domain.agents.agent import AgentRecord
from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.store.changes import AuditQuery, ChannelQuery, FeedScope, TrafficQuery
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import TrafficGroup

# Who a message to everyone in a channel is to.
EVERYONE = "*"
PERIOD_DEFAULT = timedelta(days=1)
_WINDOW = 10_000
# Windows that one answer counts: 400,000 messages and events, 100,000 entries.
_MESSAGE_WINDOWS = 40
_AUDIT_WINDOWS = 10
# Servers use their own clocks, so neighbours may be out of order by this much.
_SLACK = timedelta(minutes=1)
_CHANNELS_MAX = 10_000
_NO_END = "9999"
_HELD, _DENIED = "held", "denied"


class Grouping(StrEnum):
    """What is counted: by the agents themselves, by the people they act for, or by their org units."""

    AGENT = "agent"
    USER = "user"
    ORG_UNIT = "org_unit"


@dataclass(slots=True)
class TrafficPair:
    """How many messages went one way. A message to several counts for each of them."""

    sender: str
    to: str
    delivered: int = 0
    held: int = 0
    denied: int = 0
    last_at: str = ""

    @property
    def total(self) -> int:
        """All messages that were tried."""
        return self.delivered + self.held + self.denied

    def add(self, last_at: str, *, delivered: int = 0, held: int = 0, denied: int = 0) -> None:
        """Count more messages."""
        self.delivered += delivered
        self.held += held
        self.denied += denied
        self.last_at = max(self.last_at, last_at)


class Traffic(NamedTuple):
    """Pairs, the busiest first. `since`: from when on is counted. `complete`: that is the whole period, no pair is left
    out, and no channel has evicted messages of it.
    """

    by: Grouping
    since: str
    until: str
    complete: bool
    # How many channels have evicted messages of the period: these are not counted.
    evicted_channels: int
    pairs: tuple[TrafficPair, ...]


class Period(NamedTuple):
    """From one moment to another, as stamps; an empty `until` is now."""

    since: str
    until: str = ""

    @property
    def end(self) -> str:
        """What is counted was sent before this."""
        return self.until or _NO_END

    @property
    def stop(self) -> str:
        """What is older ends the way back."""
        return _moved(self.since, -_SLACK)


class _Counts:
    """Pairs by who they are counted for."""

    def __init__(self, labels: Mapping[str, str] | None) -> None:
        # None: names stand for themselves.
        self._labels = labels
        self.pairs: dict[tuple[str, str], TrafficPair] = {}

    def pair(self, sender: str, to: str) -> TrafficPair:
        key = (self._label(sender), self._label(to))
        return self.pairs.setdefault(key, TrafficPair(*key))

    def _label(self, name: str) -> str:
        if self._labels is None or name == EVERYONE:
            return name
        return self._labels.get(name, "")


async def count(team: Team, caller: Caller, by: Grouping, since: str, until: str, limit: int) -> Traffic:
    """Who talked to whom in a period, of what the caller may see."""
    period = Period(since or _moved(until or team.at(), -PERIOD_DEFAULT), until)
    if until and period.since >= until:
        raise Invalid.because([Problem("invalid", "until", "must be after since")])
    counts = _Counts(await _labels(team, caller.tenant, by))
    scopes = await _scopes(team, caller)
    messages_since = await _add_messages(team, caller.tenant, scopes, period, counts)
    entries_since = await _add_entries(team, caller, period, counts)
    begin = max(period.since, messages_since, entries_since)
    pairs = sorted(counts.pairs.values(), key=lambda pair: (-pair.total, pair.sender, pair.to))
    evicted = await _count_evicted(team, caller.tenant, scopes, begin)
    complete = begin == period.since and len(pairs) <= limit and not evicted
    return Traffic(by, begin, until or team.at(), complete, evicted, tuple(pairs[:limit]))


async def _labels(team: Team, tenant: str, by: Grouping) -> dict[str, str] | None:
    """What each agent is counted as. A person counts as itself, and is in no org unit."""
    if by is Grouping.AGENT:
        return None
    records = await team.store.children(AgentRecord, tenant, "", limit=team.limits.agents_per_tenant + 1)
    if by is Grouping.ORG_UNIT:
        return {record.id: record.attributes.org_unit for record in records}
    people = {name: name for name in (await team.key_names.of(tenant)).people}
    return people | {record.id: record.attributes.user_id for record in records}


# ---------------------------------------------------------------- messages


async def _add_messages(
    team: Team, tenant: str, scopes: list[FeedScope] | None, period: Period, counts: _Counts
) -> str:
    """Count messages, from the end of the period back. From when on all are counted; empty: from its beginning."""
    through = await team.store.head(tenant)
    if period.until:
        end = _moved(period.until, _SLACK)
        through = await _place_at(through, end, lambda position: _sent_at(team, tenant, position), _WINDOW)
    # Where a reader begins to see what is said to everyone, a window ends: each is seen as a whole, or not at all.
    cuts = sorted({since for scope in scopes or () for since in (scope.channels or {}).values()})
    for _ in range(_MESSAGE_WINDOWS):
        if not through:
            return ""
        after = max(0, through - _WINDOW)
        is_empty = True
        for low, high in pairwise([after, *[cut for cut in cuts if after < cut < through], through]):
            groups = await team.store.count_traffic(tenant, TrafficQuery(low, high, period.since, period.end))
            is_empty = is_empty and not groups
            for group in groups:
                if scopes is None or any(_is_visible(scope, group, low) for scope in scopes):
                    _add_group(counts, group)
        through = after
        if is_empty and (await _sent_at(team, tenant, after) or _NO_END) < period.stop:
            return ""
    oldest = await _sent_at(team, tenant, through) if through else ""
    return oldest if oldest >= period.since else ""


async def _count_evicted(team: Team, tenant: str, scopes: list[FeedScope] | None, since: str) -> int:
    """How many channels no longer keep all their messages since a moment, of those that the caller may read."""
    recent = await team.store.list_channels(tenant, ChannelQuery(active_since=since, limit=_CHANNELS_MAX))
    readable = None if scopes is None else {channel_id for scope in scopes for channel_id in scope.channels or ()}
    ids = [channel.id for channel, tally in recent if tally.floor and (readable is None or channel.id in readable)]
    if not ids:
        return 0
    head = await team.store.head(tenant)
    begin = await _place_at(head, since, lambda position: _sent_at(team, tenant, position))
    return len(await team.store.find_evicted(tenant, FeedScope(dict.fromkeys(ids, 0)), begin))


async def _scopes(team: Team, caller: Caller) -> list[FeedScope] | None:
    """What the caller sees; a person, what it and each agent that acts for it see. None: everything."""
    if caller.all_seeing:
        return None
    names = [caller.agent] if caller.agent else []
    if caller.kind is KeyKind.HUMAN and caller.agent in ("", caller.user):
        names += [record.id for record in await agents_of_person(team, caller.tenant, caller.user)]
    return [await scope_of_all(team, caller._replace(agent=name)) for name in dict.fromkeys(names)]


def _is_visible(scope: FeedScope, group: TrafficGroup, after: int) -> bool:
    """Whether a reader sees messages that were sent after a position. None of them crosses the reader's `since`."""
    since = (scope.channels or {}).get(group.channel_id)
    if since is None:
        return False
    return group.sender == scope.viewer or (
        after >= since if group.recipients is None else scope.viewer in group.recipients
    )


def _add_group(counts: _Counts, group: TrafficGroup) -> None:
    receivers = (EVERYONE,) if group.recipients is None else group.recipients or (group.to,)
    for receiver in receivers:
        counts.pair(group.sender, receiver).add(group.last_at, delivered=group.number)


async def _sent_at(team: Team, tenant: str, position: int) -> str:
    """When the first message or event after a position was written; empty without any."""
    for item in await team.store.feed(tenant, position, limit=1):
        if item.post is not None:
            return item.post.created_at
        if item.event is not None:
            return item.event.created_at
    return ""


# ---------------------------------------------------------------- what the rules held and denied


async def _add_entries(team: Team, caller: Caller, period: Period, counts: _Counts) -> str:
    """Count held and denied messages; the same as `_add_messages`, in the audit log."""
    tenant, visible = caller.tenant, await sight(team, caller)
    if visible.sides == ():
        return ""
    through = await team.store.audit_size(tenant)
    if period.until:
        end = _moved(period.until, _SLACK)
        through = await _place_at(through, end, lambda number: _recorded_at(team, tenant, number), _WINDOW)
    for _ in range(_AUDIT_WINDOWS):
        if not through:
            return ""
        after = max(0, through - _WINDOW)
        query = AuditQuery(
            after, through, _WINDOW, visible.sides, since=period.since, until=period.end, action=AGENT_EXCHANGE
        )
        for outcome in (_HELD, _DENIED):
            for entry in await team.store.audits(tenant, query._replace(outcome=outcome)):
                _add_entry(counts, entry.document, entry.at, outcome)
        through = after
        if (await _recorded_at(team, tenant, after) or _NO_END) < period.stop:
            return ""
    oldest = await _recorded_at(team, tenant, through) if through else ""
    return oldest if oldest >= period.since else ""


def _add_entry(counts: _Counts, document: bytes, at: str, outcome: str) -> None:
    facts = msgspec.json.decode(document)
    for receiver in facts.get("receivers") or [facts["to"]]:
        counts.pair(facts["sender"], receiver).add(at, held=outcome == _HELD, denied=outcome == _DENIED)


async def _recorded_at(team: Team, tenant: str, number: int) -> str:
    entries = await team.store.audits(tenant, AuditQuery(after=number, limit=1, bare=True))
    return entries[0].at if entries else ""


# ---------------------------------------------------------------- periods


async def _place_at(size: int, moment: str, at: Callable[[int], Awaitable[str]], precision: int = 1) -> int:
    """The place in a log up to which everything before a moment is, or a little more: by halves, as logs are sorted."""
    low, high = 0, size
    while high - low > precision:
        middle = (low + high) // 2
        if (await at(middle) or _NO_END) < moment:
            low = middle
        else:
            high = middle
    return high


def _moved(moment: str, by: timedelta) -> str:
    try:
        return stamp(from_stamp(moment) + by)
    except OverflowError:
        return moment
