"""Checkpoints of event logs: made on request and when due, and proofs that an event is in one.

Each continues where the last one of its intent ended, so only new events are read.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from parley.app.team.directory.permissions import intent_access
from parley.app.team.intents.intents import visible
from parley.domain.channel.checkpoint import Checkpoint, LogMark, encode_digest, merkle_path, merkle_root, raw_digest
from parley.domain.directory.access import Permission
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, Caller, Tenant
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Problem, Stale
from parley.domain.errors.team import NameTaken
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from parley.app.team.team import Team
    from parley.domain.channel.event import Event

_PAGE = 1_000
# Events in one checkpoint: its tree is computed without interruption.
MOST_EVENTS = 8_192
# A checkpoint is due after this many events of the tenant, or after this time.
DUE_EVENTS = 1_000
DUE_AFTER = timedelta(hours=1)
_MARK = "events"


class EventProof(NamedTuple):
    """Proof that an event is in a checkpoint: the sibling hashes from its leaf to the root."""

    checkpoint: Checkpoint
    event: Event
    leaf_index: int
    path: tuple[tuple[str, str], ...]


class Consistency(NamedTuple):
    """Whether two checkpoints are consistent; `boundary` is the last event of the first one."""

    earlier: Checkpoint
    later: Checkpoint
    consistent: bool
    boundary: str


class Links(Protocol):
    """Verifies the hash chain of a log, event by event."""

    @property
    def valid(self) -> bool:
        """Whether everything so far does."""
        ...

    @property
    def last(self) -> int:
        """The number of the last event."""
        ...

    def take_all(self, events: Iterable[Event]) -> None:
        """Look at the next events."""
        ...


async def make(team: Team, caller: Caller, intent_id: str) -> tuple[Checkpoint, bool]:
    """Make a checkpoint over the new events of an intent, and return whether one was made; else the last one."""
    if await team.store.get(Intent, caller.tenant, intent_id) is None:
        raise NotFound.no_such("intent")
    last = await _last(team, caller.tenant, intent_id)
    after = last.last_sequence if last else 0
    events = await _events(team, caller.tenant, intent_id, after, after + MOST_EVENTS)
    if not events:
        if last is None:
            raise NotFound("no event in this intent's log")
        return last, False
    checkpoint = Checkpoint(
        id=team.new_id("ckpt"),
        tenant_id=caller.tenant,
        intent_id=intent_id,
        merkle_root=encode_digest(merkle_root([raw_digest(event.event_hash) for event in events])),
        first_sequence=events[0].sequence,
        last_sequence=events[-1].sequence,
        created_at=team.at(),
    )
    entry = team.entry(
        caller,
        "checkpoint_made",
        checkpoint.id,
        intent=intent_id,
        root=checkpoint.merkle_root,
        last=str(checkpoint.last_sequence),
    )
    try:
        changes = TeamChanges(caller.tenant, puts=(checkpoint,), entries=(entry,), created_id=checkpoint.id)
        record = (await team.commit(caller, changes)).puts[0]
    except NameTaken:
        # Made concurrently.
        last = await _last(team, caller.tenant, intent_id)
        if last is None:
            raise
        return last, False
    assert isinstance(record, Checkpoint)  # noqa: S101  # what was put
    return record, True


async def make_due(team: Team) -> int:
    """Make the checkpoints that are due in all tenants; return how many."""
    tenants = {tenant.id for tenant in await team.store.children(Tenant, NO_TENANT, "")} | {DEFAULT_TENANT}
    await team.store.catch_up(*tenants)
    return sum([await _make_due(team, tenant) for tenant in sorted(tenants)])


async def _make_due(team: Team, tenant: str) -> int:
    mark = await team.store.get(LogMark, tenant, _MARK)
    mark = mark or LogMark(id=_MARK, tenant_id=tenant, position=0, made_at="")
    head = await team.store.head(tenant)
    waited = not mark.made_at or stamp(from_stamp(mark.made_at) + DUE_AFTER) <= team.at()
    # Positions bound the number of events, so counting is rarely needed.
    if head - mark.position < (1 if waited else DUE_EVENTS):
        return 0
    grown = await team.store.logged(tenant, mark.position)
    if not grown or not (waited or sum(count for _, count in grown) >= DUE_EVENTS):
        return 0
    nobody = Caller.system(tenant)
    count = 0
    for intent_id, _ in grown:
        count += await _make_all(team, nobody, intent_id)
    # Events written meanwhile are after this head, so they count as new next time.
    try:
        await team.store.commit(TeamChanges(tenant, puts=(replace(mark, position=head, made_at=team.at()),)))
    except Stale:
        return count
    return count


async def _make_all(team: Team, caller: Caller, intent_id: str) -> int:
    count = 0
    while True:
        try:
            checkpoint, new = await make(team, caller, intent_id)
        except NotFound:
            return count  # a log without an intent
        count += new
        if not new or checkpoint.event_count < MOST_EVENTS:
            return count


async def list_page(team: Team, caller: Caller, intent_id: str = "") -> list[Checkpoint]:
    """The checkpoints of an intent, or of all that the caller may see, oldest first."""
    if intent_id:
        await intent_access(team, caller, intent_id, Permission.READ)
        return await _all(team, caller.tenant, intent_id)
    checkpoints: list[Checkpoint] = []
    async for intent in visible(team, caller):
        checkpoints += await _all(team, caller.tenant, intent.id)
        if len(checkpoints) >= team.limits.page:
            break
    return sorted(checkpoints[: team.limits.page], key=lambda checkpoint: checkpoint.id)


async def get(team: Team, caller: Caller, checkpoint_id: str) -> Checkpoint:
    """One checkpoint."""
    checkpoint = await team.store.get(Checkpoint, caller.tenant, checkpoint_id)
    if checkpoint is None:
        raise NotFound.no_such("checkpoint")
    try:
        await intent_access(team, caller, checkpoint.intent_id, Permission.READ)
    except NotFound:
        raise NotFound.no_such("checkpoint") from None
    return checkpoint


async def proof(team: Team, caller: Caller, checkpoint_id: str, event_id: str) -> EventProof:
    """The proof that an event is in a checkpoint."""
    checkpoint = await get(team, caller, checkpoint_id)
    event = await team.store.event(caller.tenant, event_id)
    if event is None or event.intent_id != checkpoint.intent_id or not checkpoint.covers(event.sequence):
        raise NotFound("no such event in this checkpoint")
    events = await _events(
        team,
        checkpoint.tenant_id,
        checkpoint.intent_id,
        checkpoint.first_sequence - 1,
        checkpoint.last_sequence,
    )
    if len(events) != checkpoint.event_count:
        raise Conflict("the log no longer holds what this checkpoint covers", hint="verify the log")
    index = event.sequence - checkpoint.first_sequence
    path = merkle_path([raw_digest(event.event_hash) for event in events], index)
    return EventProof(checkpoint, event, index, tuple((side, encode_digest(digest)) for side, digest in path))


async def consistency(team: Team, caller: Caller, first: str, second: str, links: Links) -> Consistency:
    """Whether the log still gives both roots, and the chain between them is complete."""
    earlier, later = await get(team, caller, first), await get(team, caller, second)
    if earlier.intent_id != later.intent_id:
        raise Invalid.because([Problem("invalid", "to_checkpoint", "is of another intent")])
    if earlier.last_sequence > later.last_sequence:
        raise Invalid.because([Problem("invalid", "to_checkpoint", "is older than the other")])
    leaves: dict[Checkpoint, list[bytes]] = {earlier: [], later: []}
    boundary = ""
    async for piece in _pieces(
        team, earlier.tenant_id, earlier.intent_id, earlier.first_sequence - 1, later.last_sequence
    ):
        await asyncio.to_thread(links.take_all, piece)
        for checkpoint, digests in leaves.items():
            digests += [raw_digest(event.event_hash) for event in piece if checkpoint.covers(event.sequence)]
        boundary = next((event.id for event in piece if event.sequence == earlier.last_sequence), boundary)
    roots = [
        digests != [] and encode_digest(merkle_root(digests)) == checkpoint.merkle_root
        for checkpoint, digests in leaves.items()
    ]
    consistent = all(roots) and links.valid and links.last == later.last_sequence
    return Consistency(earlier, later, consistent, boundary)


async def _last(team: Team, tenant: str, intent_id: str) -> Checkpoint | None:
    checkpoints = await _all(team, tenant, intent_id)
    return max(checkpoints, key=lambda checkpoint: checkpoint.last_sequence, default=None)


async def _all(team: Team, tenant: str, intent_id: str) -> list[Checkpoint]:
    checkpoints: list[Checkpoint] = []
    while True:
        after = checkpoints[-1].id if checkpoints else ""
        page = await team.store.children(Checkpoint, tenant, intent_id, after=after, limit=_PAGE)
        checkpoints += page
        if len(page) < _PAGE:
            return checkpoints


async def _events(team: Team, tenant: str, intent_id: str, after: int, last: int) -> list[Event]:
    return [event async for piece in _pieces(team, tenant, intent_id, after, last) for event in piece]


async def _pieces(team: Team, tenant: str, intent_id: str, after: int, last: int) -> AsyncIterator[tuple[Event, ...]]:
    while after < last:
        wanted = min(_PAGE, last - after)
        piece = await team.store.events(tenant, intent_id, after=after, limit=wanted)
        if not piece:
            return
        yield piece
        after = piece[-1].sequence
