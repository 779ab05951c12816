"""What people decide: exchanges, approvals and suspensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.client.area import AsyncArea
from parley.sdk.client.fields import without_none
from parley.wire.api.records.rules import Approval, Exchange, Suspension

if TYPE_CHECKING:
    from collections.abc import Mapping


class AsyncApprovals(AsyncArea):
    """What a client does with what needs a person."""

    async def list_exchanges(
        self,
        *,
        outcome: str | None = None,
        agent: str | None = None,
        conversation_id: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Exchange]:
        """The exchanges that you may see; `after` is the id of one: what comes behind it."""
        query = without_none(outcome=outcome, agent=agent, conversation_id=conversation_id, after=after, limit=limit)
        return await self._fetch(list[Exchange], "GET", "exchanges", query=query)

    async def get_exchange(self, exchange_id: str) -> Exchange:
        """An exchange."""
        return await self._fetch(Exchange, "GET", "exchanges", exchange_id)

    async def close_exchange(self, exchange_id: str, reason: str = "") -> Exchange:
        """End an exchange."""
        body = {"reason": reason}
        return await self._fetch(Exchange, "POST", "exchanges", exchange_id, "close", body=body)

    async def list_approvals(
        self, status: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> list[Approval]:
        """What waits, or waited, for a person; `after` is the id of one: what comes behind it."""
        query = without_none(status=status, after=after, limit=limit)
        return await self._fetch(list[Approval], "GET", "approvals", query=query)

    async def get_approval(self, approval_id: str) -> Approval:
        """What a person has to decide, or has decided."""
        return await self._fetch(Approval, "GET", "approvals", approval_id)

    async def decide(
        self,
        approval: Approval,
        decision: str,
        note: str = "",
        *,
        answer: Mapping[str, Any] | str | None = None,
    ) -> Approval:
        """Decide about exactly what this approval shows: "approve", "reject" or "answer".

        Needs the key of a person who may decide. Raises `ApprovalStale` when what would be sent has changed, and
        `ApprovalDecided` when somebody was faster.
        """
        # The digest says what the person saw: nothing else is decided.
        body = without_none(decision=decision, digest=approval.digest, note=note, answer=answer)
        return await self._fetch(Approval, "POST", "approvals", approval.id, "decision", body=body)

    async def approve(self, approval: Approval, note: str = "") -> Approval:
        """Have the message sent, as this approval shows it."""
        return await self.decide(approval, "approve", note)

    async def reject(self, approval: Approval, note: str = "") -> Approval:
        """Have the message not sent."""
        return await self.decide(approval, "reject", note)

    async def answer(self, approval: Approval, answer: Mapping[str, Any] | str, note: str = "") -> Approval:
        """Say something yourself instead of what the agent wanted to say."""
        return await self.decide(approval, "answer", note, answer=answer)

    async def list_suspensions(self) -> list[Suspension]:
        """What is stopped. Needs an admin's key."""
        return await self._fetch(list[Suspension], "GET", "suspensions")

    async def suspend(self, what: str, name: str = "", reason: str = "") -> Suspension:
        """Stop an "agent", a "pair" (two names with a comma), an "org_unit" or the "tenant". Needs an admin's key."""
        body = {"what": what, "name": name, "reason": reason}
        return await self._fetch(Suspension, "POST", "suspensions", body=body)

    async def lift_suspension(self, what: str, name: str = "") -> None:
        """Let what was stopped go on. Needs an admin's key."""
        await self._tell("DELETE", "suspensions", query={"what": what, "name": name})
