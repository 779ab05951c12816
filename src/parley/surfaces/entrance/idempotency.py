"""Idempotency keys: an operation runs once, however often it is sent with the same key.

The key is written in the commit of what the operation does, and with it an answer that follows from what it writes.
Other answers are stored after it; until then they are rendered again from what the operation created. A refusal does
not consume the key.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Protocol, TypeVar

from parley.app.team.state.suspended import check_not_suspended
from parley.domain.directory.callers import Saved
from parley.domain.errors.errors import Invalid, ParleyError, Problem, Stale, Unavailable
from parley.domain.errors.team import KeyReused
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller, RenderAnswer
    from parley.domain.store.changes import Committed
    from parley.ports.team import TeamStore

_KEY_MAX_CHARS = 255
# Answers that nobody waits for are gathered for this long, and stored in one commit.
_GATHER_SECONDS = 0.05

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

    @property
    def answer_of(self) -> RenderAnswer | None:
        """Renders the answer from what the operation writes, for its commit; None: it does not follow from that."""
        ...


def key_of(header: bytes) -> str:
    """The key that a header holds: UTF-8, as in a path; other bytes are taken one by one."""
    try:
        return header.decode()
    except UnicodeDecodeError:
        return header.decode("latin-1")


def scope_of(caller: Caller, name: str, key: str) -> str:
    """Where the use of a key is stored: it belongs to the caller and to the operation."""
    where = "\n".join((caller.tenant, caller.key_id, caller.agent, name, key))
    return hashlib.sha256(where.encode()).hexdigest()


class _LateAnswers:
    """Answers that nobody waits for: gathered for a moment, then stored in one transaction."""

    def __init__(self, store: TeamStore) -> None:
        self._store = store
        self._gathered: list[TeamChanges] = []
        # Those that are not stored yet, by scope.
        self._unwritten: dict[str, Saved] = {}

    def add(self, changes: TeamChanges) -> None:
        """Store an answer soon."""
        assert changes.saved is not None  # noqa: S101  # it is the answer
        if not self._gathered:
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._flush)
        self._gathered.append(changes)
        self._unwritten[changes.saved.scope] = changes.saved

    def get(self, scope: str) -> Saved | None:
        """An answer that is not stored yet."""
        return self._unwritten.get(scope)

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        for changes in gathered:
            self._write(changes)

    def _write(self, changes: TeamChanges) -> None:
        scope = changes.saved.scope if changes.saved is not None else ""

        def forget(_outcome: Committed | Exception) -> None:
            # Also when it was refused, for example by a full disk: the next request reports it.
            self._unwritten.pop(scope, None)

        try:
            self._store.submit(changes, forget)
        except ParleyError as error:  # the store is closed
            forget(error)


class Idempotency:
    """Runs operations once for each key."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._late = _LateAnswers(team.store)

    async def run(self, operation: Operation[A], caller: Caller, key: str) -> tuple[A, bool]:
        """The answer, and whether it is the repeated one of an earlier call."""
        scope, fingerprint = _identity(operation, caller, key)
        saved = None if operation.commits_key else await self._team.store.saved(scope)
        if saved is None:
            use = Saved(scope, fingerprint, self._team.new_id("once"), self._team.at())
            try:
                answer = await operation.run(caller._replace(saved=use, answer=operation.answer_of))
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

    def use_of(self, operation: Operation[A], caller: Caller, key: str) -> Saved:
        """The use of a key by a call of this operation, for the one commit that carries it out."""
        return Saved(*_identity(operation, caller, key), self._team.new_id("once"), self._team.at())

    async def _store(self, operation: Operation[A], tenant: str, use: Saved, answer: A) -> None:
        stored = None if operation.confidential else operation.stored(answer)
        if stored is None:
            return
        status, content = stored
        changes = TeamChanges(tenant, saved=use._replace(status=status, answer=content))
        if not operation.repeatable:
            await self._team.store.commit(changes)
            return
        # It can be answered again without the stored answer, so the caller does not wait for this write.
        self._late.add(changes)

    async def _repeat(self, operation: Operation[A], saved: Saved) -> A:
        if not saved.status:  # neither stored nor erased
            saved = self._late.get(saved.scope) or saved
        if saved.answer:
            return operation.restored(saved.status, saved.answer)
        if operation.repeatable and saved.message_id:
            return await operation.repeat(saved.message_id)
        raise Stale("this was carried out, but its answer was lost", hint="look for what it made")


def _identity(operation: Operation[A], caller: Caller, key: str) -> tuple[str, str]:
    """The scope of a key, and the fingerprint of what it was used for."""
    if not 1 <= len(key) <= _KEY_MAX_CHARS:
        raise Invalid.because([Problem("invalid", "Idempotency-Key", f"has 1 to {_KEY_MAX_CHARS} characters")])
    return scope_of(caller, operation.name, key), hashlib.sha256(operation.content).hexdigest()
