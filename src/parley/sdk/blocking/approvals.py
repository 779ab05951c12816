# Written by tools/gen_client.py from sdk/client/approvals.py. Change that, then run: make docs
"""What people decide: exchanges, approvals and suspensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import without_none
from parley.wire.api.records.rules import Approval, Exchange, Suspension

if TYPE_CHECKING:
    from collections.abc import Mapping


class Approvals(Area):
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
        query = without_none(outcome=outcome, agent=agent, conversation_id=conversation_id, after=after, limit=limit)
        return self._fetch(list[Exchange], "GET", "exchanges", query=query)

    def get_exchange(self, exchange_id: str) -> Exchange:
        """An exchange."""
        return self._fetch(Exchange, "GET", "exchanges", exchange_id)

    def close_exchange(self, exchange_id: str, reason: str = "") -> Exchange:
        """End an exchange."""
        body = {"reason": reason}
        return self._fetch(Exchange, "POST", "exchanges", exchange_id, "close", body=body)

    def list_approvals(
        self, status: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> list[Approval]:
        """What waits, or waited, for a person; `after` is the id of one: what comes behind it."""
        query = without_none(status=status, after=after, limit=limit)
        return self._fetch(list[Approval], "GET", "approvals", query=query)

    def get_approval(self, approval_id: str) -> Approval:
        """What a person has to decide, or has decided."""
        return self._fetch(Approval, "GET", "approvals", approval_id)

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
        # The digest says what the person saw: nothing else is decided.
        body = without_none(decision=decision, digest=approval.digest, note=note, answer=answer)
        return self._fetch(Approval, "POST", "approvals", approval.id, "decision", body=body)

    def approve(self, approval: Approval, note: str = "") -> Approval:
        """Have the message sent, as this approval shows it."""
        return self.decide(approval, "approve", note)

    def reject(self, approval: Approval, note: str = "") -> Approval:
        """Have the message not sent."""
        return self.decide(approval, "reject", note)

    def answer(self, approval: Approval, answer: Mapping[str, Any] | str, note: str = "") -> Approval:
        """Say something yourself instead of what the agent wanted to say."""
        return self.decide(approval, "answer", note, answer=answer)

    def list_suspensions(self) -> list[Suspension]:
        """What is stopped. Needs an admin's key."""
        return self._fetch(list[Suspension], "GET", "suspensions")

    def suspend(self, what: str, name: str = "", reason: str = "") -> Suspension:
        """Stop an "agent", a "pair" (two names with a comma), an "org_unit" or the "tenant". Needs an admin's key."""
        body = {"what": what, "name": name, "reason": reason}
        return self._fetch(Suspension, "POST", "suspensions", body=body)

    def lift_suspension(self, what: str, name: str = "") -> None:
        """Let what was stopped go on. Needs an admin's key."""
        self._tell("DELETE", "suspensions", query={"what": what, "name": name})
