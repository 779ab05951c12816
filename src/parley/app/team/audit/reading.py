"""Reading the audit log: a page, one entry, all entries. The key decides which sides are visible."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.names import agents_of_person, name_of_person
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.store.changes import AuditQuery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditEntry
    from parley.domain.directory.callers import Caller

# Entries scanned for one page. A rare match gives a short page, and the caller continues after it.
_LOOKED_AT = 20_000
_PIECE = 1_000


class Filters(NamedTuple):
    """Which entries: after a number, or the last ones before one; of one side, exchange, message or conversation, of a
    kind, actor or error code, of messages between two agents, from a time to another.
    """

    after: int = 0
    before: int = 0
    limit: int = 100
    side: str = ""
    exchange_id: str = ""
    message_id: str = ""
    conversation_id: str = ""
    action: str = ""
    outcome: str = ""
    since: str = ""
    until: str = ""
    actor: str = ""
    code: str = ""
    pair: tuple[str, str] | None = None


class AuditPage(NamedTuple):
    """Some entries, after which number the next page begins, and before which the previous one ends; 0: there is none.

    Who goes forward gets `next`, who goes back `previous`.
    """

    entries: tuple[AuditEntry, ...]
    next: int
    previous: int = 0


class Sight(NamedTuple):
    """Which entries a caller sees: all, or those of some sides and those of which it is the actor."""

    sides: tuple[str, ...] | None
    actor: str = ""
    # Of these only those of a period, as stamps.
    since: str = ""
    until: str = ""

    def in_period(self, at: str) -> bool:
        """Whether an entry of this time may be shown."""
        return self.since <= at and (not self.until or at < self.until)

    def narrowed(self, side: str) -> Sight:
        """Limited to one side; empty for a side that the caller may not see."""
        if not side:
            return self
        if self.sides is None or side in self.sides:
            return Sight((side,))
        return Sight(())


async def sight(team: Team, caller: Caller) -> Sight:
    """What a key may see: an admin's and a service's its tenant, an agent's its side, a person's that of its agents."""
    if caller.all_seeing:
        return Sight(None)
    if caller.kind is not KeyKind.HUMAN:
        return Sight((caller.agent,) if caller.agent else ())
    if not caller.user:
        return Sight(())
    name = await name_of_person(team, caller.tenant, caller.user)
    own = [name] if name else []
    own += [record.id for record in await agents_of_person(team, caller.tenant, caller.user)]
    # Where its name is an agent's, what that agent did is not what the person did.
    return Sight(tuple(dict.fromkeys(own)), name)


async def page(team: Team, caller: Caller, filters: Filters) -> AuditPage:
    """The next matching entries, or the last ones before a number; in order."""
    if filters.message_id and not filters.exchange_id:
        # Entries of one exchange are indexed, and those of a message that is still stored are entries of its exchange.
        post = await team.store.post(caller.tenant, filters.message_id)
        filters = filters._replace(exchange_id=post.exchange_id if post is not None else "")
    visible = (await sight(team, caller)).narrowed(filters.side)
    size = await team.store.audit_size(caller.tenant)
    if visible.sides == () or filters.after >= size:
        return AuditPage((), 0)
    # Entries of one exchange are indexed, so the length of the log does not matter.
    after, through = filters.after, size if filters.exchange_id else min(size, filters.after + _LOOKED_AT)
    if filters.before:
        through = min(size, filters.before - 1)
        after = max(after, 0 if filters.exchange_id else through - _LOOKED_AT)
        if through <= after:
            return AuditPage((), 0)
    entries = await team.store.audits(
        caller.tenant,
        AuditQuery(
            after=after,
            through=through,
            limit=filters.limit,
            sides=visible.sides,
            or_actor=visible.actor,
            exchange_id=filters.exchange_id,
            conversation_id=filters.conversation_id,
            action=filters.action,
            outcome=filters.outcome,
            since=filters.since,
            until=filters.until,
            actor=filters.actor,
            code=filters.code,
            message_id=filters.message_id,
            pair=filters.pair,
            newest=bool(filters.before),
        ),
    )
    if filters.before:
        first = entries[0].number if len(entries) == filters.limit else after + 1
        return AuditPage(entries, 0, first if first > filters.after + 1 else 0)
    last = entries[-1].number if len(entries) == filters.limit else through
    return AuditPage(entries, last if last < size else 0)


async def get(team: Team, caller: Caller, entry_id: str) -> AuditEntry:
    """One entry, by id or number. `NotFound` when the caller may not see it."""
    visible = await sight(team, caller)
    query = AuditQuery(limit=1, sides=visible.sides, or_actor=visible.actor)
    if entry_id.isascii() and entry_id.isdigit() and len(entry_id) < 16:
        number = int(entry_id)
        query = query._replace(after=number - 1, through=number)
    else:
        query = query._replace(entry_id=entry_id)
    entries = await team.store.audits(caller.tenant, query) if visible.sides != () and entry_id != "0" else ()
    if not entries:
        raise NotFound.no_such("entry")
    return entries[0]


async def whole(team: Team, tenant: str, through: int, visible: Sight) -> AsyncIterator[list[tuple[AuditEntry, bool]]]:
    """All entries up to a number in their order, piece by piece, each with whether it may be shown."""
    after = 0
    while after < through:
        query = AuditQuery(after=after, through=through, limit=_PIECE)
        entries = await team.store.audits(tenant, query)
        if not entries:
            return
        allowed = None
        if visible.sides is not None:
            mine = query._replace(sides=visible.sides, or_actor=visible.actor, bare=True, through=entries[-1].number)
            allowed = {entry.number for entry in await team.store.audits(tenant, mine)} if visible.sides else set[int]()
        yield [
            (entry, (allowed is None or entry.number in allowed) and visible.in_period(entry.at)) for entry in entries
        ]
        after = entries[-1].number
