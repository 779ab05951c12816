"""What people decide: exchanges, approvals and suspensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.client.session import AsyncSession, Session, fetch, given, tell
from parley.sdk.records.rules import Approval, Exchange, Suspension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.protocol.flow import Flow, Speaker


def _decide(
    speaker: Speaker, approval: Approval, decision: str, note: str, answer: Mapping[str, Any] | str | None = None
) -> Flow[Approval]:
    """The digest says what the person saw: of anything else nothing is decided."""
    body = given(decision=decision, digest=approval.digest, note=note, answer=answer)
    return fetch(speaker, Approval, "POST", "approvals", approval.id, "decision", body=body)


class Approvals(Session):
    """What a client does with what needs a person."""

    def list_exchanges(
        self,
        *,
        outcome: str | None = None,
        agent: str | None = None,
        conversation_id: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Exchange]:
        """The exchanges that you may see; `after` is the id of one: what comes behind it."""
        query = given(outcome=outcome, agent=agent, conversation_id=conversation_id, after=after, limit=limit)
        return self._run(fetch(self._speaker, list[Exchange], "GET", "exchanges", query=query))

    def get_exchange(self, exchange_id: str) -> Exchange:
        """An exchange."""
        return self._run(fetch(self._speaker, Exchange, "GET", "exchanges", exchange_id))

    def close_exchange(self, exchange_id: str, reason: str = "") -> Exchange:
        """End an exchange."""
        body = {"reason": reason}
        return self._run(fetch(self._speaker, Exchange, "POST", "exchanges", exchange_id, "close", body=body))

    def list_approvals(
        self, status: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> list[Approval]:
        """What waits, or waited, for a person; `after` is the id of one: what comes behind it."""
        query = given(status=status, after=after, limit=limit)
        return self._run(fetch(self._speaker, list[Approval], "GET", "approvals", query=query))

    def get_approval(self, approval_id: str) -> Approval:
        """What a person has to decide, or has decided."""
        return self._run(fetch(self._speaker, Approval, "GET", "approvals", approval_id))

    def decide(
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
        return self._run(_decide(self._speaker, approval, decision, note, answer))

    def approve(self, approval: Approval, note: str = "") -> Approval:
        """Have the message sent, as this approval shows it."""
        return self._run(_decide(self._speaker, approval, "approve", note))

    def reject(self, approval: Approval, note: str = "") -> Approval:
        """Have the message not sent."""
        return self._run(_decide(self._speaker, approval, "reject", note))

    def answer(self, approval: Approval, answer: Mapping[str, Any] | str, note: str = "") -> Approval:
        """Say something yourself instead of what the agent wanted to say."""
        return self._run(_decide(self._speaker, approval, "answer", note, answer))

    def list_suspensions(self) -> list[Suspension]:
        """What is stopped. Needs an admin's key."""
        return self._run(fetch(self._speaker, list[Suspension], "GET", "suspensions"))

    def suspend(self, what: str, name: str = "", reason: str = "") -> Suspension:
        """Stop an "agent", a "pair" (two names with a comma), an "org_unit" or the "tenant". Needs an admin's key."""
        body = {"what": what, "name": name, "reason": reason}
        return self._run(fetch(self._speaker, Suspension, "POST", "suspensions", body=body))

    def lift_suspension(self, what: str, name: str = "") -> None:
        """Let what was stopped go on. Needs an admin's key."""
        return self._run(tell(self._speaker, "DELETE", "suspensions", query={"what": what, "name": name}))


class AsyncApprovals(AsyncSession):
    """What an asynchronous client does with what needs a person."""

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
        query = given(outcome=outcome, agent=agent, conversation_id=conversation_id, after=after, limit=limit)
        return await self._run(fetch(self._speaker, list[Exchange], "GET", "exchanges", query=query))

    async def get_exchange(self, exchange_id: str) -> Exchange:
        """An exchange."""
        return await self._run(fetch(self._speaker, Exchange, "GET", "exchanges", exchange_id))

    async def close_exchange(self, exchange_id: str, reason: str = "") -> Exchange:
        """End an exchange."""
        body = {"reason": reason}
        return await self._run(fetch(self._speaker, Exchange, "POST", "exchanges", exchange_id, "close", body=body))

    async def list_approvals(
        self, status: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> list[Approval]:
        """What waits, or waited, for a person; `after` is the id of one: what comes behind it."""
        query = given(status=status, after=after, limit=limit)
        return await self._run(fetch(self._speaker, list[Approval], "GET", "approvals", query=query))

    async def get_approval(self, approval_id: str) -> Approval:
        """What a person has to decide, or has decided."""
        return await self._run(fetch(self._speaker, Approval, "GET", "approvals", approval_id))

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
        return await self._run(_decide(self._speaker, approval, decision, note, answer))

    async def approve(self, approval: Approval, note: str = "") -> Approval:
        """Have the message sent, as this approval shows it."""
        return await self._run(_decide(self._speaker, approval, "approve", note))

    async def reject(self, approval: Approval, note: str = "") -> Approval:
        """Have the message not sent."""
        return await self._run(_decide(self._speaker, approval, "reject", note))

    async def answer(self, approval: Approval, answer: Mapping[str, Any] | str, note: str = "") -> Approval:
        """Say something yourself instead of what the agent wanted to say."""
        return await self._run(_decide(self._speaker, approval, "answer", note, answer))

    async def list_suspensions(self) -> list[Suspension]:
        """What is stopped. Needs an admin's key."""
        return await self._run(fetch(self._speaker, list[Suspension], "GET", "suspensions"))

    async def suspend(self, what: str, name: str = "", reason: str = "") -> Suspension:
        """Stop an "agent", a "pair" (two names with a comma), an "org_unit" or the "tenant". Needs an admin's key."""
        body = {"what": what, "name": name, "reason": reason}
        return await self._run(fetch(self._speaker, Suspension, "POST", "suspensions", body=body))

    async def lift_suspension(self, what: str, name: str = "") -> None:
        """Let what was stopped go on. Needs an admin's key."""
        return await self._run(tell(self._speaker, "DELETE", "suspensions", query={"what": what, "name": name}))
