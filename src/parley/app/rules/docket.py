"""What the rules need to know about a place, what a place asks them, and what they decide.

    place (mailbox, server)                     app.rules
    a message ──> Submission, Proposal ──────>  decide  <── Docket: exchange, approvals, parties, policies, time, ids
    one commit  <── Decision <───────────────     │
                                                  └── audit entries, approvals, the end of the exchange

A docket is made for one attempt at one request, so it has one time and one set of policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from parley.domain.agents.party import Party
    from parley.domain.audit.entry import AuditDraft
    from parley.domain.content.classification import Classification
    from parley.domain.errors.errors import ParleyError
    from parley.domain.exchange.approval import Approval, HeldDraft
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.record import Record
    from parley.domain.rules.policy import Policy
    from parley.domain.rules.rulebook import Rulebook
    from parley.domain.rules.ruling import Proposal, Ruling
    from parley.domain.store.changes import Spend

M = TypeVar("M")


class Docket(Protocol):
    """The stored state that one decision needs, from a mailbox or a server."""

    # The time of the request, and the same as a stamp.
    now: datetime
    at: str

    @property
    def tenant(self) -> str:
        """The tenant of all records."""
        ...

    @property
    def book(self) -> Rulebook:
        """The policies in force."""
        ...

    def new_id(self, prefix: str) -> str:
        """A fresh id: prefix, then 26 characters that sort by time."""
        ...

    def keeps(self, side: str) -> bool:
        """Whether this side's audit chain is kept here."""
        ...

    async def exchange(self, exchange_id: str) -> Exchange | None:
        """An exchange by its id."""
        ...

    async def approval(self, approval_id: str) -> Approval | None:
        """An approval by its id."""
        ...

    async def approval_by_key(self, dedup_key: str) -> Approval | None:
        """The approval with this deduplication key, decided or not."""
        ...

    async def sides(self, exchange: Exchange) -> tuple[str, ...]:
        """The sides that know of an exchange: those with an audit entry about it."""
        ...

    async def policy_for(self, approval: Approval) -> Policy:
        """The policy that says who decides about an approval."""
        ...

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        """Apply the organisation's own rules to a ruling. They can only make it stricter."""
        ...


class Delivered(NamedTuple, Generic[M]):
    """A message as it is sent, and the digest of its content."""

    message: M
    digest: str


class Submission(NamedTuple, Generic[M]):
    """A message submitted to the rules by a mailbox or a server."""

    message_id: str
    sender: Party
    receivers: tuple[Party, ...]
    # Whom it is addressed to: an agent, a role, or everyone.
    to: str
    # Who acts, and with which key.
    actor: str
    key: str
    # The person who must approve it when it is held.
    user: str
    # Whether the sender asked for the rules.
    annotated: bool
    # Of the submitted content.
    digest: str
    # The level that it declares, and the conversation that it names, before anything is judged.
    declared: Classification
    conversation_id: str
    # The draft that an approval stores: as ruled, or as submitted.
    as_held_draft: Callable[[Ruling | None], HeldDraft]
    deliver: Callable[[Ruling], Delivered[M]]
    channel_id: str = ""
    # It creates its channel, so that the channel's name is judged with it.
    creates_channel: bool = False
    expires_at: str = ""
    # It is judged at the receiver's mailbox.
    incoming: bool = False
    # The deduplication key of its approval: there is one approval with this key.
    dedup_key: str = ""
    # The approval that it was held for and that releases it, or the one that a person answers with it.
    releases: Approval | None = None
    replaces: Approval | None = None
    # The approval that it carries, and who gave it.
    approval_id: str = ""
    approved_by: str = ""
    note: str = ""
    # The link to the approval by which a person decided.
    link: str = ""


class RulesDecision(NamedTuple, Generic[M]):
    """A decision, and everything that its commit writes.

    A refusal is raised, and a held message reported, after it is written.
    """

    audits: tuple[AuditDraft, ...] = ()
    # As it is now; None when nothing about it changes.
    exchange: Exchange | None = None
    # Opened, decided or closed by this.
    approvals: tuple[Approval, ...] = ()
    # Budgets that it uses: the hourly budget of two agents, or the queue of one.
    spends: tuple[Spend, ...] = ()
    ruling: Ruling | None = None
    # As it is sent; None when it is not.
    message: M | None = None
    # The approval that it waits for.
    held: Approval | None = None
    refusal: ParleyError | None = None

    @property
    def records(self) -> tuple[Record, ...]:
        """What the commit puts: the exchange and the approvals."""
        return self.approvals if self.exchange is None else (self.exchange, *self.approvals)

    @property
    def decided(self) -> tuple[Approval, ...]:
        """The approvals that are no longer pending."""
        return tuple([approval for approval in self.approvals if not approval.pending])
