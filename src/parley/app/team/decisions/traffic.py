"""Who talked to whom: counts over messages, and over what the rules held and denied.

Nothing is counted when a message is sent. Kept messages are counted when somebody asks; what removes messages and audit
entries counts them by the hour, in its commit.

    messages    [ removed, by the hour ] ... [ after ── kept ── through ] <- until     in one statement of the store
    audit log   [ trimmed, by the hour ] ...      [ window ][ window ]    <- until     held and denied messages
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from parley.app.team.audit.checkpoints import mark_of
from parley.app.team.audit.reading import sight
from parley.app.team.channels.visible import scope_of_all
from parley.app.team.directory.viewers import list_viewers
from parley.domain.agents.agent import AgentRecord
from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.store.changes import DELIVERED, DENIED, HELD, AuditQuery, FeedScope, TrafficCount, TrafficQuery
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import TrafficGroup

# Who a message to everyone in a channel is to.
EVERYONE = "*"
PERIOD_DEFAULT = timedelta(days=1)
# Positions that one answer counts messages in; they are also those of events.
_POSITIONS_MAX = 400_000
# How close the ends of the period are looked for.
_PRECISION = 1_000
# Entries of the audit log that one answer counts: so many at once, so often.
_WINDOW = 10_000
_AUDIT_WINDOWS = 10
# Servers use their own clocks, so neighbours may be out of order by this much.
_SLACK = timedelta(minutes=1)
_NO_END = "9999"


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

    def add(self, outcome: str, number: int, last_at: str) -> None:
        """Count more messages."""
        self.delivered += number if outcome == DELIVERED else 0
        self.held += number if outcome == HELD else 0
        self.denied += number if outcome == DENIED else 0
        self.last_at = max(self.last_at, last_at)


class Traffic(NamedTuple):
    """Pairs, the busiest first. `since`: from when on is counted. `complete`: that is the whole period, no pair is left
    out, and nothing of it was removed uncounted.
    """

    by: Grouping
    since: str
    until: str
    complete: bool
    # How many channels evicted messages of the period before Parley 0.7, which counts them.
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
    labels, scopes = await _labels(team, caller.tenant, by), await _scopes(team, caller)
    while True:
        trimmed = (await mark_of(team, caller.tenant)).let_go
        counts = _Counts(labels)
        messages, messages_since = await _count_messages(team, caller.tenant, scopes, period)
        entries_since = await _add_entries(team, caller, period, counts, messages)
        # An entry that is trimmed meanwhile would count twice, or not at all. That happens once a minute at most.
        if (await mark_of(team, caller.tenant)).let_go == trimmed:
            break
    is_cut = _add_messages(counts, scopes, messages)
    begin = max(period.since, messages_since, entries_since)
    pairs = sorted(counts.pairs.values(), key=lambda pair: (-pair.total, pair.sender, pair.to))
    evicted = [channel_id for channel_id in messages.uncounted if _is_readable(scopes, channel_id)]
    complete = begin == period.since and len(pairs) <= limit and not evicted and not is_cut
    return Traffic(by, begin, until or team.at(), complete, len(evicted), tuple(pairs[:limit]))


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


async def _count_messages(
    team: Team, tenant: str, scopes: list[FeedScope] | None, period: Period
) -> tuple[TrafficCount, str]:
    """What the store counts, and from when on; empty: from the beginning of the period."""

    def sent_at(position: int) -> Awaitable[str]:
        return _sent_at(team, tenant, position)

    through = await team.store.head(tenant)
    if period.until:
        through = await _place_at(through, _moved(period.until, _SLACK), sent_at, _PRECISION)
    after = max(0, await _place_at(through, period.stop, sent_at, _PRECISION) - _PRECISION)
    since = ""
    if through - after > _POSITIONS_MAX:
        after = through - _POSITIONS_MAX
        oldest = await _sent_at(team, tenant, after)
        since = oldest if oldest >= period.since else ""
    # Where a reader begins to see what is said to everyone, a group ends: each is seen as a whole, or not at all.
    cuts = sorted({since for scope in scopes or () for since in (scope.channels or {}).values()})
    between = tuple([cut for cut in cuts if after < cut < through])
    query = TrafficQuery(after, through, max(period.since, since), period.end, between)
    return await team.store.count_traffic(tenant, query), since


def _add_messages(counts: _Counts, scopes: list[FeedScope] | None, count: TrafficCount) -> bool:
    """Add the messages that the caller may see; whether there are counted ones of which it may see a part."""
    is_cut = False
    for group in count.groups:
        if group.kind != DELIVERED:
            continue
        if scopes is None or any(_is_visible(scope, group) for scope in scopes):
            _add_group(counts, group)
        else:
            is_cut = is_cut or any(_sees_part(scope, group) for scope in scopes)
    return is_cut


def _is_readable(scopes: list[FeedScope] | None, channel_id: str) -> bool:
    return scopes is None or any(channel_id in (scope.channels or {}) for scope in scopes)


async def _scopes(team: Team, caller: Caller) -> list[FeedScope] | None:
    """What the caller sees; a person, what it and each agent that acts for it see. None: everything."""
    if caller.all_seeing:
        return None
    viewers = [viewer.caller for viewer in await list_viewers(team, caller)]
    return [await scope_of_all(team, viewer) for viewer in viewers if viewer.agent]


def _is_visible(scope: FeedScope, group: TrafficGroup) -> bool:
    """Whether a reader sees all messages of a group."""
    since = (scope.channels or {}).get(group.place)
    if since is None:
        return False
    return group.sender == scope.viewer or (
        group.after >= since if group.recipients is None else scope.viewer in group.recipients
    )


def _sees_part(scope: FeedScope, group: TrafficGroup) -> bool:
    """Whether a reader sees the later ones of messages to everyone, which were counted together."""
    since = (scope.channels or {}).get(group.place)
    return group.recipients is None and since is not None and group.through > since


def _add_group(counts: _Counts, group: TrafficGroup) -> None:
    # What was said to everyone reached nobody where it has no recipients and names no queue.
    receivers = (EVERYONE,) if group.recipients is None else group.recipients or (group.to or EVERYONE,)
    for receiver in receivers:
        counts.pair(group.sender, receiver).add(group.kind, group.number, group.last_at)


async def _sent_at(team: Team, tenant: str, position: int) -> str:
    """When the first message or event after a position was written; empty without any."""
    for item in await team.store.feed(tenant, position, limit=1):
        if item.post is not None:
            return item.post.created_at
        if item.event is not None:
            return item.event.created_at
    return ""


# ---------------------------------------------------------------- what the rules held and denied


async def _add_entries(team: Team, caller: Caller, period: Period, counts: _Counts, count: TrafficCount) -> str:
    """Count held and denied messages, from the end of the period back. From when on all are counted; empty: from its
    beginning.
    """
    tenant, visible = caller.tenant, await sight(team, caller)
    if visible.sides == ():
        return ""
    for group in count.groups:
        if group.kind != DELIVERED and (visible.sides is None or group.place in visible.sides):
            _add_group(counts, group)
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
        for outcome in (HELD, DENIED):
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
        counts.pair(facts["sender"], receiver).add(outcome, 1, at)


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
