"""One stream of several topics: what is said, decided, recorded and suspended, as it happens.

It has two cursors, one in each log of the tenant, so that it resumes without a gap:

    position   messages and events of channels and intents
    audit      entries of the audit log, and what they say of approvals, exchanges and suspensions

Agents come without a cursor: whoever connects again asks for them. Commits only wake it; what is shown is read from the
store after the cursors, by the rights of that moment.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.audit import reading as audits
from parley.app.team.channels import streams
from parley.app.team.channels.streams import PING_SECONDS, Followed
from parley.app.team.decisions import approvals, exchanges
from parley.app.team.directory import agents
from parley.app.team.directory.keys import check_key
from parley.app.team.rules import suspensions
from parley.app.team.state.tail import of_tenant
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import ScopeRequired
from parley.domain.exchange.approval import Approval
from parley.domain.store.changes import AuditQuery, FeedScope

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from parley.app.team.directory.agents import AgentWithStatus
    from parley.app.team.state.tail import Listener
    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditEntry
    from parley.domain.channel.feed import FeedItem
    from parley.domain.directory.callers import Caller
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.rules.suspension import Suspension

_PAGE = 200
# The actions of audit entries about suspensions.
_SUSPENDING = frozenset({"suspended", "suspension_lifted"})


class LiveTopics(NamedTuple):
    """What a stream is about."""

    approvals: bool = False
    exchanges: bool = False
    agents: bool = False
    audit: bool = False
    suspensions: bool = False
    channels: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()

    @property
    def followed(self) -> tuple[Followed, ...]:
        """The channels and intents."""
        return (
            *[Followed(channel_id=channel_id) for channel_id in self.channels],
            *[Followed(intent_id=intent_id) for intent_id in self.intents],
        )

    @property
    def reads_audit(self) -> bool:
        """Whether anything of it follows from the audit log."""
        return self.approvals or self.exchanges or self.audit or self.suspensions


class LiveCursor(NamedTuple):
    """Up to where a stream was read, in both logs."""

    position: int
    audit: int


class LiveBatch(NamedTuple):
    """What is new on a stream, as the caller may see it, and the cursor behind it. An empty one is a sign of life."""

    cursor: LiveCursor
    items: tuple[FeedItem, ...] = ()
    entries: tuple[AuditEntry, ...] = ()
    approvals: tuple[Approval, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    agents: tuple[AgentWithStatus, ...] = ()
    # All of them, when one was added or lifted.
    suspensions: tuple[Suspension, ...] | None = None


async def check_topics(team: Team, caller: Caller, topics: LiveTopics) -> None:
    """Refuse a caller that may not follow one of these topics."""
    if caller.kind is KeyKind.AUDITOR and topics != LiveTopics(exchanges=topics.exchanges, audit=topics.audit):
        raise ScopeRequired("an auditor's key follows exchanges and audit, nothing else")
    if topics.suspensions and caller.kind is not KeyKind.ADMIN:
        raise ScopeRequired("the topic suspensions needs an admin's key")
    for followed in topics.followed:
        await streams.check_follows(team, caller, followed)


async def current_cursor(team: Team, caller: Caller) -> LiveCursor:
    """Where both logs end now."""
    return LiveCursor(await team.store.head(caller.tenant), await team.store.audit_size(caller.tenant))


async def follow(
    team: Team, caller: Caller, topics: LiveTopics, after: LiveCursor | None
) -> AsyncGenerator[LiveBatch | None]:
    """Batches of what is new; None when listening starts. Raises when a right is revoked or the key has ended."""
    listener = team.tail.listen(of_tenant(caller.tenant))
    team.connected.enter(caller)
    try:
        end = await current_cursor(team, caller)
        # A cursor from the future belongs to another store: from there on nothing would ever come.
        cursor = end if after is None else LiveCursor(min(after.position, end.position), min(after.audit, end.audit))
        yield None
        spoke = _time()
        while True:
            listener.take()
            changed_agents = listener.take_agents()
            # At every wake: a key that was revoked shows nothing more.
            await check_key(team, caller)
            await check_topics(team, caller, topics)
            async for batch in _new(team, caller, topics, cursor, changed_agents):
                cursor = batch.cursor
                if batch != LiveBatch(cursor):
                    yield batch
                    spoke = _time()
            if _time() >= spoke + PING_SECONDS:
                yield LiveBatch(cursor)
                spoke = _time()
            await _wait(listener, spoke + PING_SECONDS - _time())
    finally:
        team.connected.leave(caller)
        team.tail.leave(listener)


def _time() -> float:
    return asyncio.get_running_loop().time()


async def _wait(listener: Listener, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):
            await listener.event.wait()


async def _new(
    team: Team, caller: Caller, topics: LiveTopics, cursor: LiveCursor, changed_agents: set[str]
) -> AsyncIterator[LiveBatch]:
    end = await current_cursor(team, caller)
    if topics.agents and changed_agents:
        shown = []
        for name in sorted(changed_agents):
            with suppress(NotFound):
                shown.append(await agents.get(team, caller, name))
        yield LiveBatch(cursor, agents=tuple(shown))
    if topics.followed:
        async for items, position in _items(team, caller, topics.followed, cursor.position, end.position):
            cursor = cursor._replace(position=position)
            yield LiveBatch(cursor, items=items)
    cursor = cursor._replace(position=end.position)
    while topics.reads_audit and cursor.audit < end.audit:
        through = min(end.audit, cursor.audit + _PAGE)
        cursor, after = cursor._replace(audit=through), cursor.audit
        yield await _recorded(team, caller, topics, after, cursor)
    yield LiveBatch(cursor._replace(audit=end.audit))


async def _items(
    team: Team, caller: Caller, followed: tuple[Followed, ...], after: int, through: int
) -> AsyncIterator[tuple[tuple[FeedItem, ...], int]]:
    """What was said and happened between two positions, in order, each with the position up to which it was read."""
    scopes = [await streams.scope_of(team, caller, target) for target in followed]
    channels: dict[str, int] = {}
    for scope in scopes:
        channels.update(scope.channels or {})
    intents = tuple(dict.fromkeys([intent for scope in scopes for intent in scope.intents]))
    merged = FeedScope(channels, intents, viewer=scopes[0].viewer)
    while after < through:
        positions, looked = await team.store.find_positions(caller.tenant, merged, after, through, _PAGE)
        while positions:
            items, read = await team.store.read_positions(caller.tenant, positions)
            positions = tuple([position for position in positions if position > read])
            visible = [item for item in items if await _is_visible(team, caller, followed, item)]
            yield tuple(visible), read
        after = looked


async def _is_visible(team: Team, caller: Caller, followed: tuple[Followed, ...], item: FeedItem) -> bool:
    for target in followed:
        if await streams.is_visible(team, caller, target, item):
            return True
    return False


async def _recorded(team: Team, caller: Caller, topics: LiveTopics, after: int, cursor: LiveCursor) -> LiveBatch:
    """What the audit log says between two numbers: entries that the caller may see, and what they changed."""
    tenant = caller.tenant
    entries = await team.store.audits(tenant, AuditQuery(after=after, through=cursor.audit, limit=_PAGE))
    shown: tuple[AuditEntry, ...] = ()
    if topics.audit:
        sight = await audits.sight(team, caller)
        query = AuditQuery(after, cursor.audit, _PAGE, sight.sides, or_actor=sight.actor)
        shown = await team.store.audits(tenant, query) if sight.sides != () else ()
    facts = [json.loads(entry.document) for entry in entries if entry.document]
    suspended = topics.suspensions and any(fact.get("action") in _SUSPENDING for fact in facts)
    return LiveBatch(
        cursor,
        entries=shown,
        approvals=await _approvals(team, caller, [str(fact.get("approval", "")) for fact in facts])
        if topics.approvals
        else (),
        exchanges=await _exchanges(team, caller, [entry.exchange_id for entry in entries]) if topics.exchanges else (),
        suspensions=await suspensions.list_all(team, caller) if suspended else None,
    )


async def _approvals(team: Team, caller: Caller, ids: list[str]) -> tuple[Approval, ...]:
    shown = []
    for approval_id in dict.fromkeys(ids):
        approval = await team.store.get(Approval, caller.tenant, approval_id) if approval_id else None
        if approval is not None and await approvals.sees(team, caller, approval):
            shown.append(approval)
    return tuple(shown)


async def _exchanges(team: Team, caller: Caller, ids: list[str]) -> tuple[Exchange, ...]:
    shown = []
    for exchange_id in filter(None, dict.fromkeys(ids)):
        with suppress(NotFound):
            shown.append(await exchanges.get(team, caller, exchange_id))
    return tuple(shown)
