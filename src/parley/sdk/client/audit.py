"""The audit log: look, take it along, compare, prove, erase."""

from __future__ import annotations

from contextlib import aclosing, closing
from typing import TYPE_CHECKING, cast

from parley.sdk.client.session import AsyncSession, Session, fetch, given, spelled
from parley.sdk.records.rules import AuditCheckpoint, AuditCheckpoints, AuditPage, AuditProof, Erasure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from parley.sdk.client.session import Moment


class Audit(Session):
    """What a client does with the audit log. What it sees follows from the key."""

    def list_audit(  # noqa: PLR0913  # one parameter a filter
        self,
        *,
        side: str | None = None,
        exchange_id: str | None = None,
        conversation_id: str | None = None,
        action: str | None = None,
        outcome: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> AuditPage:
        """Audit entries in their order, a page at a time.

        Go on with `after=page.next`, and back with `before=page.previous`. `side` is an agent, a person, or "@tenant".
        """
        query = given(side=side, exchange_id=exchange_id, conversation_id=conversation_id, action=action)
        query |= given(outcome=outcome, since=spelled(since), until=spelled(until))
        query |= given(after=after, before=before, limit=limit)
        return self._run(fetch(self._speaker, AuditPage, "GET", "audit", query=query))

    def export_audit(self, side: str | None = None) -> Generator[bytes]:
        """The audit log line by line, exactly as it can be checked without the server."""
        lines = cast("Generator[bytes]", self.connection.lines("audit", "export", query={"side": side}))
        with closing(lines):
            yield from lines

    def audit_checkpoints(self, *, after: int | None = None, limit: int | None = None) -> AuditCheckpoints:
        """The signed checkpoints, oldest first, and the key by which they are checked."""
        query = given(after=after, limit=limit)
        return self._run(fetch(self._speaker, AuditCheckpoints, "GET", "audit", "checkpoints", query=query))

    def audit_checkpoint(self, size: int | None = None) -> AuditCheckpoint:
        """The checkpoint over so many entries; without a number the last one."""
        which = "latest" if size is None else str(size)
        return self._run(fetch(self._speaker, AuditCheckpoint, "GET", "audit", "checkpoints", which))

    def audit_proof(self, entry_id: str | int) -> AuditProof:
        """The proof that an entry, by its id or number, is part of what a checkpoint signs."""
        return self._run(fetch(self._speaker, AuditProof, "GET", "audit", "proof", str(entry_id)))

    def erase(self, *, conversation_id: str | None = None, agent_id: str | None = None) -> Erasure:
        """Erase what was said in a conversation or by somebody; that it was said stays on record. For admins."""
        body = given(conversation_id=conversation_id, agent_id=agent_id)
        return self._run(fetch(self._speaker, Erasure, "POST", "audit", "erasures", body=body))


class AsyncAudit(AsyncSession):
    """What an asynchronous client does with the audit log. What it sees follows from the key."""

    async def list_audit(  # noqa: PLR0913  # one parameter a filter
        self,
        *,
        side: str | None = None,
        exchange_id: str | None = None,
        conversation_id: str | None = None,
        action: str | None = None,
        outcome: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> AuditPage:
        """Audit entries in their order, a page at a time.

        Go on with `after=page.next`, and back with `before=page.previous`. `side` is an agent, a person, or "@tenant".
        """
        query = given(side=side, exchange_id=exchange_id, conversation_id=conversation_id, action=action)
        query |= given(outcome=outcome, since=spelled(since), until=spelled(until))
        query |= given(after=after, before=before, limit=limit)
        return await self._run(fetch(self._speaker, AuditPage, "GET", "audit", query=query))

    async def export_audit(self, side: str | None = None) -> AsyncGenerator[bytes]:
        """The audit log line by line, exactly as it can be checked without the server."""
        lines = cast("AsyncGenerator[bytes]", self.connection.lines("audit", "export", query={"side": side}))
        async with aclosing(lines):
            async for line in lines:
                yield line

    async def audit_checkpoints(self, *, after: int | None = None, limit: int | None = None) -> AuditCheckpoints:
        """The signed checkpoints, oldest first, and the key by which they are checked."""
        query = given(after=after, limit=limit)
        return await self._run(fetch(self._speaker, AuditCheckpoints, "GET", "audit", "checkpoints", query=query))

    async def audit_checkpoint(self, size: int | None = None) -> AuditCheckpoint:
        """The checkpoint over so many entries; without a number the last one."""
        which = "latest" if size is None else str(size)
        return await self._run(fetch(self._speaker, AuditCheckpoint, "GET", "audit", "checkpoints", which))

    async def audit_proof(self, entry_id: str | int) -> AuditProof:
        """The proof that an entry, by its id or number, is part of what a checkpoint signs."""
        return await self._run(fetch(self._speaker, AuditProof, "GET", "audit", "proof", str(entry_id)))

    async def erase(self, *, conversation_id: str | None = None, agent_id: str | None = None) -> Erasure:
        """Erase what was said in a conversation or by somebody; that it was said stays on record. For admins."""
        body = given(conversation_id=conversation_id, agent_id=agent_id)
        return await self._run(fetch(self._speaker, Erasure, "POST", "audit", "erasures", body=body))
