"""Govern an outgoing message: decide about it, and collect what its commit writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.mailbox.rules.docket import MailboxDocket, addressee
from parley.app.mailbox.rules.proving import signed
from parley.app.rules import messages
from parley.app.rules.docket import Delivered, Submission
from parley.app.rules.recording import BlockedMessage, blocked_entry
from parley.domain.agents.party import pair_name
from parley.domain.content.envelope import Wishes, disclosure_of
from parley.domain.errors.errors import ParleyError, Problem, Stale
from parley.domain.errors.rules import CrossEnterpriseBlocked, EnvelopeInvalid, Overspent
from parley.domain.exchange import held as held_mail
from parley.domain.exchange.approval import LIMITS
from parley.domain.exchange.exchange import Exchange
from parley.domain.hashes import digest
from parley.domain.mailbox.ledger import MailboxChanges
from parley.domain.message.message import Pattern
from parley.domain.rules.project import local
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.ruling import Proposal
from parley.domain.rules.suspension import check_not_stopped
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.agents.party import Party
    from parley.domain.exchange.approval import Approval, HeldDraft
    from parley.domain.message.message import Draft, Message
    from parley.domain.rules.ruling import Ruling

_NOTHING = Wishes()


class HumanDecision(NamedTuple):
    """That a person stands behind a message: it released what waited, or says something itself."""

    user: str
    approval: Approval
    # What that person signs with.
    key: str
    key_id: str
    note: str = ""
    # The person's own words, in its agent's place.
    answers: bool = False


class GovernedMail(NamedTuple):
    """The result of the rules: the message as sent, or the refusal."""

    message: Message
    content: bytes = b""
    changes: MailboxChanges = MailboxChanges()
    refusal: ParleyError | None = None
    # Who does not get it, and why.
    warnings: tuple[Problem, ...] = ()


async def addressed(kernel: Kernel, draft: Draft) -> Draft:
    """The draft with local recipient names. A recipient in another tenant is refused."""
    docket = MailboxDocket(kernel)
    try:
        return draft._replace(to=tuple([local(name, docket.tenant) for name in draft.to]))
    except CrossEnterpriseBlocked:
        content = digest(f"{draft.subject}\n{draft.body}".encode("utf-8", "replace"))
        wishes = draft.wishes or _NOTHING
        if draft.conversation_id:
            wishes = wishes._replace(conversation_id=draft.conversation_id)
        message = BlockedMessage(docket.me, ",".join(draft.to), draft.sender, "", wishes, content)
        entry = blocked_entry(docket, message)
        await kernel.store.commit(MailboxChanges(audits=(entry,), tenant=docket.tenant))
        raise


async def govern(
    kernel: Kernel,
    draft: Draft,
    message: Message,
    parent: Message | None,
    decided: HumanDecision | None,
    file: str = "",
) -> GovernedMail | None:
    """Decide about a message; None when the rules do not apply to it. `file` is the sender's part of its file name."""
    docket = MailboxDocket(kernel)
    sender = docket.me._replace(human=decided is not None and decided.answers)
    receivers = tuple([docket.governance.party(name) for name in message.to])
    submission = _submission(docket, draft, message, sender, receivers, decided)
    mine: Exchange | None = None
    try:
        for receiver in receivers:
            check_not_stopped(docket.governance.directory.stopped, sender, receiver)
        mine, others = await _exchanges(kernel, message, parent, decided)
        if not submission.annotated and mine is None and decided is None and not _concerned(docket, sender, receivers):
            return None
        # Its own id was made here, and what it answers was found by its id: nobody chose those to say something.
        judged = message._replace(id="", in_reply_to="" if parent is not None else message.in_reply_to)
        proposal = _proposal(docket, draft, judged, submission, mine, others, file)
    except Stale:
        raise
    except ParleyError as refusal:
        decision = messages.refuse(docket, submission, refusal, mine)
    else:
        decision = await messages.decide(docket, submission, proposal)
        try:
            await docket.check_budgets(decision.spends)
        except Overspent as error:
            decision = await messages.refuse_overspent(docket, submission, error)
    changes = await docket.changes(decision)
    if decision.held is not None:
        return GovernedMail(message, changes=changes, refusal=docket.held(decision.held))
    if decision.message is None or decision.ruling is None:
        return GovernedMail(message, changes=changes, refusal=decision.refusal)
    excluded = [Problem("excluded", "to", f"{name} does not get it: {why}") for name, why in decision.ruling.excluded]
    return GovernedMail(*decision.message, changes, warnings=tuple(excluded))


def _concerned(docket: MailboxDocket, sender: Party, receivers: tuple[Party, ...]) -> bool:
    """Whether the policies concern a message that does not ask for them."""
    between = docket.book.between
    return docket.governance.set_up and any(
        concerns(between(sender.attributes, receiver.attributes), sender, receiver) for receiver in receivers
    )


async def _exchanges(
    kernel: Kernel, message: Message, parent: Message | None, decided: HumanDecision | None
) -> tuple[Exchange | None, tuple[Exchange, ...]]:
    """The exchange that a message continues, and this agent's others in the conversation."""
    mine: Exchange | None = None
    answered = exchange_id_in(parent)
    if decided is not None and decided.approval.exchange_id:
        mine = await kernel.store.record(Exchange, decided.approval.exchange_id)
    elif parent is not None and "ocip" in parent.extras:
        if parent.sender != kernel.agent:
            from parley.app.mailbox.rules import receiving

            await receiving.check_admitted(kernel, parent.id)
        answers = message.to == (parent.sender,) or (parent.sender == kernel.agent and message.to == parent.to)
        mine = await kernel.store.record(Exchange, answered) if answered and answers else None
    others: list[Exchange] = []
    pair = pair_name(kernel.agent, addressee(message))
    conversation = message.conversation_id
    for exchange in await kernel.store.records(Exchange, conversation) if conversation else ():
        if not exchange.reserved or (mine is not None and exchange.id == mine.id):
            continue
        if mine is None and exchange.name == pair:
            mine = exchange
        else:
            others.append(exchange)
    return mine, tuple(others)


def exchange_id_in(message: Message | None) -> str:
    """The exchange that a message claims, unverified."""
    beside = message.extras.get("ocip_ext") if message is not None else None
    exchange_id = beside.get("exchange_id") if isinstance(beside, dict) else None
    return exchange_id if isinstance(exchange_id, str) else ""


def _submission(
    docket: MailboxDocket,
    draft: Draft,
    message: Message,
    sender: Party,
    receivers: tuple[Party, ...],
    decided: HumanDecision | None,
) -> Submission[tuple[Message, bytes]]:
    kernel = docket.kernel

    def as_held_draft(ruling: Ruling | None) -> HeldDraft:
        if ruling is None:
            return held_mail.outgoing(draft, message)
        shown = message if ruling.body is None else message._replace(body=ruling.body)
        return held_mail.outgoing(draft._replace(conversation_id=ruling.exchange.conversation_id), shown)

    def deliver(ruling: Ruling) -> Delivered[tuple[Message, bytes]]:
        """The message file: stamped, for exactly the receivers that may have it."""
        body = message.body if ruling.body is None else ruling.body
        going = message._replace(to=tuple([party.agent for party in ruling.receivers]), body=body)
        ext = ruling.ext._replace(shared=ruling.shared, withheld=ruling.withheld)
        label = disclosure_of(ruling.origin, ruling.policy.disclosure)
        if decided is None:
            stamped = kernel.envelopes.stamped(going, ruling.envelope, ext, label)
        else:
            # The other side cannot know that this answers a limit, and ends the exchange.
            ends = decided.answers and decided.approval.cause in LIMITS
            outcome = ruling.exchange.outcome.value if ends else ""
            ext = ext._replace(approval_id=decided.approval.id, approved_by=decided.user, outcome=outcome)
            stamped = signed(kernel, docket.governance, going, ruling.envelope, ext, label, decided.key)
        content = kernel.format.encode(stamped)
        return Delivered((stamped, content), digest(content))

    answers = decided is not None and decided.answers
    return Submission(
        message_id=message.id,
        sender=sender,
        receivers=receivers,
        to=addressee(message),
        actor=decided.user if decided is not None and answers else kernel.agent,
        key=decided.key_id if decided is not None else "",
        user=sender.user,
        annotated=draft.wishes is not None and draft.wishes.annotated,
        declared=(draft.wishes or _NOTHING).declared,
        conversation_id=message.conversation_id,
        # Of what was not sent: what it would have said.
        digest=digest(held_mail.text_of(message).encode("utf-8", "replace")),
        as_held_draft=as_held_draft,
        deliver=deliver,
        expires_at=stamp(draft.expires_at) if draft.expires_at is not None else "",
        releases=decided.approval if decided is not None and not answers else None,
        replaces=decided.approval if decided is not None and answers else None,
        approval_id=decided.approval.id if decided is not None else "",
        approved_by=decided.user if decided is not None else "",
        note=decided.note if decided is not None else "",
    )


def _proposal(
    docket: MailboxDocket,
    draft: Draft,
    message: Message,
    submission: Submission[Any],
    mine: Exchange | None,
    others: tuple[Exchange, ...],
    file: str,
) -> Proposal:
    wishes = draft.wishes or _NOTHING
    asks = message.kind.spec.pattern in (Pattern.REQUEST, Pattern.RESPONSE)
    if len(message.to) > 1 and mine is None and (asks or wishes.purpose is not None):
        raise EnvelopeInvalid.because(
            [Problem("invalid", "to", "an exchange has two parties: send one message to each, or a notification")]
        )
    if mine is None and not wishes.expires_at and submission.expires_at:
        wishes = wishes._replace(expires_at=submission.expires_at)
    if submission.replaces is not None:
        wishes = _NOTHING
    return Proposal(
        tenant=docket.tenant,
        sender=submission.sender,
        receivers=submission.receivers,
        to=submission.to,
        asks=asks,
        wishes=wishes._replace(conversation_id=message.conversation_id),
        body=message.body,
        exchange=mine,
        others=others,
        approval=submission.releases,
        now=docket.now,
        fresh=messages.fresh_ids(docket),
        instead=submission.replaces is not None,
        texts=lambda body: (held_mail.judged_text(message._replace(body=body), file, (message.sender, *message.to)),),
    )
