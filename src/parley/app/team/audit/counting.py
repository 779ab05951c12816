"""How many entries of the audit log each hour or day has, by what came of the messages; of what the caller may see."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.audit.reading import sight
from parley.domain.store.changes import AuditQuery
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

# Entries counted by one query of the store, and by one call.
_PIECE = 20_000
_ENTRIES_MAX = 200_000
# Clocks of several nodes differ a little, so entries are not strictly in the order of their times.
_CLOCKS_DIFFER = timedelta(minutes=5)
SPANS = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
# How many characters of a time name its hour or day.
_DIGITS = {"hour": 13, "day": 10}
_DEFAULT_SPANS = 24
_COUNTED = ("delivered", "held", "denied")


class SpanCount(NamedTuple):
    """The entries of one hour or day. A delivered message has an entry of its sender and one of each receiver."""

    at: str
    entries: int = 0
    sent: int = 0
    received: int = 0
    held: int = 0
    denied: int = 0


class SpanCounts(NamedTuple):
    """The counts of a period, oldest first; spans without entries are left out. They are complete from `since` on."""

    since: str
    until: str
    spans: list[SpanCount]


async def count_by(team: Team, caller: Caller, by: str, *, side: str, since: str, until: str) -> SpanCounts:
    """Count the entries from a time to another, the newest first, up to a limit; by default of the last 24 spans."""
    now = team.at()
    since = since or _shifted(until or now, -_DEFAULT_SPANS * SPANS[by])
    visible = (await sight(team, caller)).narrowed(side)
    size = await team.store.audit_size(caller.tenant)
    counts: dict[str, SpanCount] = {}
    if visible.sides == () or not size:
        return SpanCounts(since, until or now, [])
    first = await _first_since(team, caller.tenant, since, size)
    last = size
    if until:
        last = await _first_since(team, caller.tenant, _shifted(until, 2 * _CLOCKS_DIFFER), size + 1) - 1
    begin = max(first, last - _ENTRIES_MAX + 1)
    query = AuditQuery(sides=visible.sides, or_actor=visible.actor, since=since, until=until)
    for after in range(begin - 1, last, _PIECE):
        piece = query._replace(after=after, through=min(after + _PIECE, last))
        for span, outcome, role, entries in await team.store.audit_counts(caller.tenant, piece, _DIGITS[by]):
            counts[span] = _added(counts.get(span, SpanCount(span)), outcome, role, entries)
    if begin > first:
        since = max(since, await _time_of(team, caller.tenant, begin))
    return SpanCounts(since, until or now, [counts[span] for span in sorted(counts)])


def _added(count: SpanCount, outcome: str, role: str, entries: int) -> SpanCount:
    field = outcome
    if outcome == "delivered":
        field = "received" if role == "receiver" else "sent"
    # The end of an exchange has an outcome, too, and no role: it is no message.
    fields = {field: getattr(count, field) + entries} if outcome in _COUNTED and role else {}
    return count._replace(entries=count.entries + entries, **fields)


async def _first_since(team: Team, tenant: str, since: str, end: int) -> int:
    """The first entry that may be of this time or later, found by halving; `end` when there is none."""
    earliest = _shifted(since, -_CLOCKS_DIFFER)
    low, high = 1, end
    while low < high:
        middle = (low + high) // 2
        if await _time_of(team, tenant, middle) < earliest:
            low = middle + 1
        else:
            high = middle
    return low


def _shifted(at: str, by: timedelta) -> str:
    """A time a little earlier or later; the same at the ends of the calendar."""
    try:
        return stamp(from_stamp(at) + by)
    except OverflowError:
        return at


async def _time_of(team: Team, tenant: str, number: int) -> str:
    query = AuditQuery(after=number - 1, through=number, limit=1, bare=True)
    entries = await team.store.audits(tenant, query)
    return entries[0].at if entries else ""
