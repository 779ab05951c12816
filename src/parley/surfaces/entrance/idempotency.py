"""Idempotency keys: an operation runs once, however often it is sent with the same key.

The key is written in the commit of what the operation does, the answer after it. A refusal does not consume the key.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from parley.app.team.state.suspended import check_not_suspended
from parley.domain.directory.callers import Saved
from parley.domain.errors.errors import Invalid, ParleyError, Problem, Stale, Unavailable
from parley.domain.errors.team import KeyReused
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import Committed

_KEY_MAX_CHARS = 255
# How long to wait for the answer of a request that is still running, and how often to look for it.
_RUNNING_SECONDS = 2.0
_POLL_SECONDS = 0.05

A = TypeVar("A")


class Operation(Protocol[A]):
    """One call of a surface that carries an idempotency key; `A` is what the surface answers with."""

    # Its single commit writes the key: a repeated call is recognised by that commit, without a lookup before it.
    commits_key: bool
    # Its answer holds a secret, and is never stored.
    confidential: bool
    # A repeated call can be answered from what the first one created, without the stored answer.
    repeatable: bool

    @property
    def name(self) -> str:
        """What the key belongs to, beside the caller."""
        ...

    @property
    def content(self) -> bytes:
        """What a repeated call must have in common with the first one."""
        ...

    async def run(self, caller: Caller) -> A:
        """Carry it out; the commit of `caller` takes the key with it."""
        ...

    async def repeat(self, created_id: str) -> A:
        """The answer again, from the id of what the first call created."""
        ...

    def stored(self, answer: A) -> tuple[int, bytes] | None:
        """The answer as a status and bytes; None when it is not worth storing."""
        ...

    def restored(self, status: int, content: bytes) -> A:
        """The reverse of `stored`."""
        ...


def scope_of(caller: Caller, name: str, key: str) -> str:
    """Where the use of a key is stored: it belongs to the caller and to the operation."""
    where = "\n".join((caller.tenant, caller.key_id, caller.agent, name, key))
    return hashlib.sha256(where.encode()).hexdigest()


class Idempotency:
    """Runs operations once for each key."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._writes: set[asyncio.Future[Committed]] = set()

    async def run(self, operation: Operation[A], caller: Caller, key: str) -> tuple[A, bool]:
        """The answer, and whether it is the repeated one of an earlier call."""
        if not 1 <= len(key) <= _KEY_MAX_CHARS:
            raise Invalid.because([Problem("invalid", "Idempotency-Key", f"has 1 to {_KEY_MAX_CHARS} characters")])
        scope = scope_of(caller, operation.name, key)
        fingerprint = hashlib.sha256(operation.content).hexdigest()
        saved = None if operation.commits_key else await self._team.store.saved(scope)
        if saved is None:
            use = Saved(scope, fingerprint, self._team.new_id("once"), self._team.at())
            try:
                answer = await operation.run(caller._replace(saved=use))
            except ParleyError as error:
                if type(error) is Unavailable:  # the store does not answer: asking it again takes as long again
                    raise
                # If it ran before, or runs right now, that answer counts, not what is wrong with it by now.
                saved = await self._team.store.saved(scope)
                if saved is None or saved.made == use.made:
                    raise
            else:
                await self._store(operation, caller.tenant, use, answer)
                return answer, False
        if saved.fingerprint != fingerprint:
            raise KeyReused
        # What was answered before is not told again to an agent that was suspended since.
        await check_not_suspended(self._team.store, caller)
        return await self._repeat(operation, saved), True

    async def _store(self, operation: Operation[A], tenant: str, use: Saved, answer: A) -> None:
        stored = None if operation.confidential else operation.stored(answer)
        if stored is None:
            return
        status, content = stored
        changes = TeamChanges(tenant, saved=use._replace(status=status, answer=content))
        write = asyncio.ensure_future(self._team.store.commit(changes))
        if not operation.repeatable:
            await write
            return
        # It can be answered again without the stored answer, so the caller does not wait for this write.
        self._writes.add(write)
        write.add_done_callback(self._written)

    def _written(self, write: asyncio.Future[Committed]) -> None:
        self._writes.discard(write)
        if not write.cancelled():
            write.exception()  # for example a full disk: the next request reports it

    async def _repeat(self, operation: Operation[A], saved: Saved) -> A:
        repeatable = operation.repeatable and saved.message_id
        if not saved.answer and not repeatable and not operation.confidential:
            saved = await self._wait_for_answer(saved)
        if saved.answer:
            return operation.restored(saved.status, saved.answer)
        if operation.repeatable and saved.message_id:
            return await operation.repeat(saved.message_id)
        raise Stale("this was carried out, but its answer was lost", hint="look for what it made")

    async def _wait_for_answer(self, saved: Saved) -> Saved:
        """The first call may be about to store its answer, here or on another server."""
        if self._team.now() - from_stamp(saved.at) > timedelta(seconds=_RUNNING_SECONDS):
            return saved
        with suppress(TimeoutError):
            async with asyncio.timeout(_RUNNING_SECONDS):
                while not saved.answer:
                    await asyncio.sleep(_POLL_SECONDS)
                    saved = await self._team.store.saved(saved.scope) or saved
        return saved
