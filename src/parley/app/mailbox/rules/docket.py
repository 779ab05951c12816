"""The docket of a mailbox: what its own ledger knows, and the one commit that a decision becomes.

The other side has a ledger of its own: laid beside each other, both must tell the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from parley.app.rules.holding import INCOMING, QUEUE
from parley.app.rules.messages import PAIR
from parley.domain.directory.callers import EVERYONE
from parley.domain.errors.rules import MessageHeld, Overspent
from parley.domain.exchange.approval import Approval, ApprovalStatus, deciders_of
from parley.domain.exchange.exchange import Exchange
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict, Spent
from parley.domain.mailbox.ledger import MailboxChanges
from parley.domain.rules.policy import Policy
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.app.rules.docket import RulesDecision
    from parley.domain.agents.party import Party
    from parley.domain.message.message import Message
    from parley.domain.record import Record
    from parley.domain.rules.project import Governance
    from parley.domain.rules.rulebook import Rulebook
    from parley.domain.rules.ruling import Proposal, Ruling
    from parley.domain.store.changes import Spend

R = TypeVar("R", bound="Record")
PENDING = "pending"
_PAGE = 500
_NEVER = frozenset({ApprovalStatus.REJECTED, ApprovalStatus.CLOSED, ApprovalStatus.EXPIRED})


class MailboxDocket:
    """See `app.rules.docket.Docket`. A mailbox keeps the chain of its own agent."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.now = kernel.clock.now().at
        self.at = stamp(self.now)

    @cached_property
    def governance(self) -> Governance:
        """The rules of the project; read once, and only when something has to be decided."""
        return self.kernel.governance.load()

    @property
    def tenant(self) -> str:
        """The tenant of the project."""
        return self.governance.tenant

    @property
    def me(self) -> Party:
        """The agent of this mailbox."""
        return self.governance.party(self.kernel.agent)

    @property
    def book(self) -> Rulebook:
        """The policies of the project."""
        return self.governance.book

    @property
    def own_policy(self) -> Policy:
        """The policy of this mailbox's agent, which says who decides here."""
        return self.book.of(self.me.attributes) or Policy()

    def new_id(self, prefix: str) -> str:
        """A fresh id."""
        return f"{prefix}_{self.kernel.ids.ulid()}"

    def keeps(self, side: str) -> bool:
        """Only my own."""
        return side == self.kernel.agent

    async def exchange(self, exchange_id: str) -> Exchange | None:
        """An exchange by its id."""
        return await self.kernel.store.record(Exchange, exchange_id) if exchange_id else None

    async def approval(self, approval_id: str) -> Approval | None:
        """An approval by its id."""
        return await self.kernel.store.record(Approval, approval_id)

    async def every(self, kind: type[R], parent: str | None = None) -> list[R]:
        """All records of a kind, oldest first."""
        records: list[R] = []
        after = ""
        while page := await self.kernel.store.records(kind, parent, after=after, limit=_PAGE):
            records += page
            after = page[-1].id
        return records

    async def approval_by_key(self, dedup_key: str) -> Approval | None:
        """The approval of which there is only one, decided or not."""
        return next((approval for approval in await self.every(Approval) if approval.unique == dedup_key), None)

    async def sides(self, exchange: Exchange) -> tuple[str, ...]:
        """Mine: whatever is in my ledger I know of."""
        del exchange
        return (self.kernel.agent,)

    async def policy_for(self, approval: Approval) -> Policy:
        """My own, also for what somebody else wants to tell me."""
        del approval
        return self.own_policy

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        """A mailbox has no rules beside its policies."""
        del proposal
        return ruling

    async def check_budgets(self, spends: tuple[Spend, ...]) -> None:
        """Refuse with `Overspent` what would use more than there is."""
        for spend in spends:
            if spend.key.startswith(QUEUE):
                used = len(await self.kernel.store.records(Approval, PENDING, limit=spend.most))
            else:
                used = (await self._spent(spend)).count
            if used >= spend.most:
                raise Overspent("nothing is left of this budget", facts={"key": spend.key})

    async def changes(self, decision: RulesDecision[Any], *more: Record) -> MailboxChanges:
        """The commit of a decision, and with it what became of the files that its approvals are about."""
        puts: list[Record] = [*decision.records, *more]
        for spend in decision.spends:
            if spend.key.startswith(PAIR):
                spent = await self._spent(spend)
                puts.append(replace(spent, count=spent.count + 1))
        for approval in decision.decided:
            receipt = await self.receipt_of(approval) if approval.status in _NEVER else None
            if receipt is not None:
                puts.append(_refused(receipt, approval.status))
        return MailboxChanges(puts=tuple(puts), audits=decision.audits, tenant=self.tenant)

    async def _spent(self, spend: Spend) -> Spent:
        name = f"{spend.key}/{spend.window}"
        return await self.kernel.store.record(Spent, name) or Spent(id=name, tenant_id=self.tenant)

    async def receipt_of(self, approval: Approval) -> InboxReceipt | None:
        """The receipt of the incoming message that an approval is about; None for one of my own."""
        if not approval.unique.startswith(INCOMING):
            return None
        return await self.kernel.store.record(InboxReceipt, approval.unique.removeprefix(INCOMING))

    def held(self, approval: Approval) -> MessageHeld:
        """What a sender is told of a message that waits."""
        policy = self.own_policy
        facts: dict[str, object] = {
            "approval": approval.id,
            "reason": approval.reason,
            "cause": approval.cause.value,
            "user": approval.user,
            "detectedKeywords": list(approval.detected_keywords),
            "exchange_id": approval.exchange_id,
            "conversation_id": approval.conversation_id,
            "digest": approval.digest,
            "expires_at": approval.expires_at,
            "deciders": list(deciders_of(approval, policy.approvers, self_approval=policy.self_approval)),
        }
        if approval.escalation is not None:
            facts["escalation"] = approval.escalation
        hint = f"nobody has it until a person decides: parley approvals show {approval.id}"
        return MessageHeld(approval.reason, hint=hint, facts=facts)


def _refused(receipt: InboxReceipt, status: ApprovalStatus) -> InboxReceipt:
    if status is ApprovalStatus.CLOSED:
        return replace(receipt, status=InboxVerdict.REFUSED, code="exchange_closed", reason="its exchange ended")
    return replace(receipt, status=InboxVerdict.REFUSED, code=status.value, reason=f"its approval was {status.value}")


def addressee(message: Message) -> str:
    """Whom a message is for, as an exchange calls it."""
    return message.to[0] if len(message.to) == 1 else EVERYONE
