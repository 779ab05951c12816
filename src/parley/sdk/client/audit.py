"""The audit log: look, take it along, compare, prove, erase."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from parley.sdk.client.area import AsyncArea
from parley.sdk.client.fields import timestamp_of, without_none
from parley.wire.api.records.audit import (
    AuditCheckpoint,
    AuditCheckpoints,
    AuditCounts,
    AuditExplanation,
    AuditLogState,
    AuditPage,
    AuditProof,
    Erasure,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from parley.sdk.client.fields import Moment


class AsyncAudit(AsyncArea):
    """What a client does with the audit log. What it sees follows from the key."""

    async def list_audit(  # noqa: PLR0913  # one parameter a filter
        self,
        *,
        side: str | None = None,
        exchange_id: str | None = None,
        message_id: str | None = None,
        conversation_id: str | None = None,
        action: str | None = None,
        outcome: str | None = None,
        actor: str | None = None,
        code: str | None = None,
        pair: tuple[str, str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> AuditPage:
        """Audit entries in their order, a page at a time.

        Go on with `after=page.next`, and back with `before=page.previous`. `side` is an agent, a person, or "@tenant";
        `pair` are two agents, for the messages between them.
        """
        query = without_none(side=side, exchange_id=exchange_id, message_id=message_id, conversation_id=conversation_id)
        query |= without_none(action=action, outcome=outcome, since=timestamp_of(since), until=timestamp_of(until))
        query |= without_none(actor=actor, code=code, pair=None if pair is None else ",".join(pair))
        query |= without_none(after=after, before=before, limit=limit)
        return await self._fetch(AuditPage, "GET", "audit", query=query)

    async def export_audit(
        self, side: str | None = None, *, since: str | None = None, until: str | None = None
    ) -> AsyncGenerator[bytes]:
        """The audit log line by line, exactly as it can be checked without the server; others only as hashes."""
        lines = self.connection.lines("audit", "export", query={"side": side, "since": since, "until": until})
        async with aclosing(lines):
            async for line in lines:
                yield line

    async def audit_state(self) -> AuditLogState:
        """How far the log is signed and verified. Call again while `verified_to` is less than `size`."""
        return await self._fetch(AuditLogState, "GET", "audit", "state")

    async def explain_audit(self, entry_id: str | int) -> AuditExplanation:
        """Why the message of an entry, by its id or number, was delivered, held or denied."""
        return await self._fetch(AuditExplanation, "GET", "audit", str(entry_id), "explain")

    async def count_audit(
        self,
        by: str | None = None,
        *,
        side: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> AuditCounts:
        """Numbers of entries by "hour" or "day"; by default of the last 24 of them."""
        query = without_none(by=by, side=side, since=timestamp_of(since), until=timestamp_of(until))
        return await self._fetch(AuditCounts, "GET", "audit", "counts", query=query)

    async def audit_checkpoints(self, *, after: int | None = None, limit: int | None = None) -> AuditCheckpoints:
        """The signed checkpoints, oldest first, and the key by which they are checked."""
        query = without_none(after=after, limit=limit)
        return await self._fetch(AuditCheckpoints, "GET", "audit", "checkpoints", query=query)

    async def audit_checkpoint(self, size: int | None = None) -> AuditCheckpoint:
        """The checkpoint over so many entries; without a number the last one."""
        which = "latest" if size is None else str(size)
        return await self._fetch(AuditCheckpoint, "GET", "audit", "checkpoints", which)

    async def audit_proof(self, entry_id: str | int) -> AuditProof:
        """The proof that an entry, by its id or number, is part of what a checkpoint signs."""
        return await self._fetch(AuditProof, "GET", "audit", "proof", str(entry_id))

    async def erase(self, *, conversation_id: str | None = None, agent_id: str | None = None) -> Erasure:
        """Erase what was said in a conversation or by somebody; that it was said stays on record. For admins."""
        body = without_none(conversation_id=conversation_id, agent_id=agent_id)
        return await self._fetch(Erasure, "POST", "audit", "erasures", body=body)
