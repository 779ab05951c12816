# Written by tools/gen_client.py from sdk/client/approvals.py. Change that, then run: make docs
"""What people decide: exchanges, approvals and suspensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid
from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import timestamp_of, without_none
from parley.sdk.protocol.call_arguments import brief
from parley.wire.api.records.rules import Approval, ApprovalCount, ApprovalLink, Exchange, Suspension, SuspensionPreview

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.client.fields import Moment


class Approvals(Area):
    """What a client does with what needs a person."""

    def list_exchanges(  # noqa: PLR0913  # one parameter a filter
        self,
        *,
        outcome: str | None = None,
        agent: str | None = None,
        conversation_id: str | None = None,
        user: str | None = None,
        org_unit: str | None = None,
        pair: tuple[str, str] | None = None,
        purpose: str | None = None,
        classification: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        order: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> list[Exchange]:
        """The exchanges that you may see, "oldest" first or "newest" first.

        `after` and `before` are the id of an exchange: what follows it in the list. `classification` is the highest of
        its messages, `since` and `until` are about when it began.
        """
        query = without_none(outcome=outcome, agent=agent, conversation_id=conversation_id, user=user)
        query |= without_none(org_unit=org_unit, pair=None if pair is None else ",".join(pair), purpose=purpose)
        query |= without_none(classification=classification, since=timestamp_of(since), until=timestamp_of(until))
        query |= without_none(order=order, after=after, before=before, limit=limit)
        return self._fetch(list[Exchange], "GET", "exchanges", query=query)

    def get_exchange(self, exchange_id: str) -> Exchange:
        """An exchange, with its messages: also those that were held or denied."""
        return self._fetch(Exchange, "GET", "exchanges", exchange_id)

    def close_exchange(self, exchange_id: str, reason: str = "") -> Exchange:
        """End an exchange."""
        body = {"reason": reason}
        return self._fetch(Exchange, "POST", "exchanges", exchange_id, "close", body=body)

    def list_approvals(  # noqa: PLR0913  # one parameter a field
        self,
        status: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        to: str | None = None,
        cause: str | None = None,
        order: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        summary: bool = False,
    ) -> list[Approval]:
        """What waits, or waited, for a person: "oldest" first, "newest" first or by when they expire ("expiring").

        The status "decided" is every one but "pending". `after` and `before` are the id of an approval: what follows it
        in the list. With `summary` the approvals come without their content.
        """
        query = without_none(
            status=status,
            agent=agent,
            user=user,
            to=to,
            cause=cause,
            order=order,
            after=after,
            before=before,
            limit=limit,
            summary="true" if summary else None,
        )
        return self._fetch(list[Approval], "GET", "approvals", query=query)

    def count_approvals(
        self,
        status: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        to: str | None = None,
        cause: str | None = None,
    ) -> ApprovalCount:
        """How many approvals match, up to 1000."""
        query = without_none(status=status, agent=agent, user=user, to=to, cause=cause)
        return self._fetch(ApprovalCount, "GET", "approvals", "count", query=query)

    def get_approval(self, approval_id: str, *, expand: str | None = None) -> Approval:
        """What a person has to decide, or has decided; with `expand="exchange"` also what was said before."""
        return self._fetch(Approval, "GET", "approvals", approval_id, query=without_none(expand=expand))

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
        subject: object = approval
        if not isinstance(subject, Approval):
            text = f"{decision}: this decides about an approval, not about {brief(subject)}"
            raise Invalid(text, hint="to answer a message: reply_to(channel_id, message_id, payload=...)")
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

    def create_approval_link(self, approval: Approval | str) -> ApprovalLink:
        """A link by which you decide about this in a browser that has not signed in: `client.url + link.path`.

        Needs the key of a person who may decide, and a server with `approval_links = "decide"`. Whoever has the link
        can decide in your name, until it ends: with the decision, with your key, or after 24 hours.
        """
        approval_id = approval if isinstance(approval, str) else approval.id
        return self._fetch(ApprovalLink, "POST", "approvals", approval_id, "link", body={})

    def list_suspensions(self) -> list[Suspension]:
        """What is stopped. Needs an admin's key."""
        return self._fetch(list[Suspension], "GET", "suspensions")

    def preview_suspension(self, what: str, name: str = "") -> SuspensionPreview:
        """What would be halted by suspending this. Needs an admin's key."""
        query = {"what": what, "name": name}
        return self._fetch(SuspensionPreview, "GET", "suspensions", "preview", query=query)

    def suspend(self, what: str, name: str = "", reason: str = "", *, until: Moment | None = None) -> Suspension:
        """Stop an "agent", a "pair" (two names with a comma), an "org_unit" or the "tenant". Needs an admin's key.

        With `until` it is lifted by itself at that moment.
        """
        body = {"what": what, "name": name, "reason": reason} | without_none(until=timestamp_of(until))
        return self._fetch(Suspension, "POST", "suspensions", body=body)

    def lift_suspension(self, what: str, name: str = "") -> None:
        """Let what was stopped go on. Needs an admin's key."""
        self._tell("DELETE", "suspensions", query={"what": what, "name": name})
