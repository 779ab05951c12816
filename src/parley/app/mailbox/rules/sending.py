"""Put a message that is about to be sent under the rules, and say what its commit has to write beside it.

One that passes is stamped and takes a round. One that is held becomes an approval in the sender's own ledger, and
nothing is carried. One that is denied leaves only its entry. Whatever it is, it is part of the one commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox.rules import holding, recording
from parley.app.mailbox.rules.proving import signed
from parley.domain.agents.party import pair_name
from parley.domain.content.envelope import Wishes, disclosure_of
from parley.domain.errors.errors import ParleyError, Problem, Stale
from parley.domain.errors.rules import CrossEnterpriseBlocked, EnvelopeInvalid, PairBudget
from parley.domain.exchange import held as held_mail
from parley.domain.exchange.approval import LIMITS, Approval, ApprovalStatus, Cause, decided
from parley.domain.exchange.exchange import Exchange, Outcome, ended, escalation, released
from parley.domain.exchange.incoming import Spent, spent_id
from parley.domain.hashes import digest
from parley.domain.mailbox.ledger import Changes
from parley.domain.message.bodies import KIND_SPECS
from parley.domain.message.message import Pattern
from parley.domain.rules.judge import Deny, Hold
from parley.domain.rules.project import local
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.ruling import Fresh, Proposal, Ruling, rule
from parley.domain.rules.suspension import check_not_stopped
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.agents.party import Party
    from parley.domain.mailbox.ledger import StoredMessage
    from parley.domain.message.message import Draft, Message
    from parley.domain.record import Record
    from parley.domain.rules.project import Governance

_NOTHING = Wishes()


class Spoken(NamedTuple):
    """That a person stands behind a message: it released what waited, or says something itself."""

    user: str
    approval: Approval
    # What that person signs with.
    key: str
    note: str = ""
    # The person's own words, in its agent's place.
    answers: bool = False


class Governed(NamedTuple):
    """What the rules make of a message: how it goes out, or the refusal that stands in its place."""

    message: Message
    ruling: Ruling | None = None
    puts: tuple[Record, ...] = ()
    changes: Changes = Changes()
    refusal: ParleyError | None = None
    spoken: Spoken | None = None
    # Who does not get it, and why.
    warnings: tuple[Problem, ...] = ()

    def completed(self, kernel: Kernel, changes: Changes, kept: StoredMessage) -> Changes:
        """The commit of the message, with everything that the rules add to it."""
        ruling, spoken = self.ruling, self.spoken
        assert ruling is not None  # noqa: S101  # a refusal never gets here
        more: dict[str, object] = {**recording.SENT, "outcome": "delivered"}
        audits = []
        if spoken is not None:
            more |= {"approval": spoken.approval.id, "approved_by": spoken.user}
            word = "answer" if spoken.answers else "approve"
            audits.append(recording.decision(kernel, spoken.approval, word, spoken.user, spoken.note))
        audits.append(recording.judged(kernel, kept.message, ruling, kept.digest, more))
        return changes._replace(puts=self.puts, audits=tuple(audits), tenant=ruling.exchange.tenant_id)


async def addressed(kernel: Kernel, draft: Draft) -> Draft:
    """The draft with its recipients' names in this tenant. One in another tenant is refused, whoever that is."""
    governance = kernel.governance.load()
    try:
        return draft._replace(to=tuple([local(one, governance.tenant) for one in draft.to]))
    except CrossEnterpriseBlocked as blocked:
        facts = {
            **recording.SENT,
            "sender": draft.sender,
            "to": ",".join(draft.to),
            "receivers": [],
            "content_digest": digest(f"{draft.subject}\n{draft.body}".encode("utf-8", "replace")),
            "outcome": "denied",
            "code": blocked.code,
            "reason": blocked.message,
        }
        entry = recording.entry(kernel, facts, "")
        await kernel.store.commit(Changes(audits=(entry,), tenant=governance.tenant))
        raise


async def govern(
    kernel: Kernel, draft: Draft, message: Message, parent: Message | None, spoken: Spoken | None
) -> Governed | None:
    """What the rules make of a message; None when they do not concern it."""
    governance = kernel.governance.load()
    sender = governance.party(kernel.agent)
    if spoken is not None and spoken.answers:
        sender = sender._replace(human=True)
    receivers = tuple([governance.party(one) for one in message.to])
    mine: Exchange | None = None
    try:
        for one in receivers:
            check_not_stopped(governance.directory.stopped, sender, one)
        mine, others = await _exchanges(kernel, message, parent, spoken)
        named = draft.wishes is not None and draft.wishes.annotated
        if not named and mine is None and spoken is None and not _concerned(governance, sender, receivers):
            return None
        proposal = _proposal(kernel, governance, draft, message, sender, (mine, others), spoken)
        ruling = _ruled(governance, proposal, message)
        await _check_budget(kernel, ruling, message)
        if isinstance(ruling.verdict, Hold):
            return await _held(kernel, draft, message, proposal, ruling, ruling.verdict)
        if isinstance(ruling.verdict, Deny):
            return _denied(kernel, message, ruling, ruling.verdict)
        return await _passed(kernel, governance, message, ruling, spoken)
    except Stale:
        raise
    except ParleyError as refusal:
        label, seen = governance.book.label, _digest(message)
        entry = recording.refused(kernel, message, sender, refusal, seen, recording.SENT, label, mine)
        return Governed(message, changes=Changes(audits=(entry,), tenant=governance.tenant), refusal=refusal)


def _concerned(governance: Governance, sender: Party, receivers: tuple[Party, ...]) -> bool:
    """Whether the policies concern a message that does not ask for them."""
    if not governance.set_up:
        return False
    book = governance.book
    return any(concerns(book.between(sender.attributes, one.attributes), sender, one) for one in receivers)


async def _exchanges(
    kernel: Kernel, message: Message, parent: Message | None, spoken: Spoken | None
) -> tuple[Exchange | None, tuple[Exchange, ...]]:
    """The exchange that a message goes on with, and the others of its conversation that this agent is in."""
    mine: Exchange | None = None
    answered = exchange_id_in(parent)
    if spoken is not None and spoken.approval.exchange_id:
        mine = await kernel.store.record(Exchange, spoken.approval.exchange_id)
    elif parent is not None and "ocip" in parent.extras:
        if parent.sender != kernel.agent:
            from parley.app.mailbox.rules import receiving as mail_receiving

            await mail_receiving.admitted(kernel, parent.id)
        answers = message.to == (parent.sender,) or (parent.sender == kernel.agent and message.to == parent.to)
        mine = await kernel.store.record(Exchange, answered) if answered and answers else None
    others: list[Exchange] = []
    pair = pair_name(kernel.agent, recording.addressee(message))
    for one in await kernel.store.records(Exchange, message.conversation_id) if message.conversation_id else ():
        if not one.reserved or (mine is not None and one.id == mine.id):
            continue
        if mine is None and one.name == pair:
            mine = one
        else:
            others.append(one)
    return mine, tuple(others)


def exchange_id_in(message: Message | None) -> str:
    """The exchange that a message says it is part of; nobody has checked it."""
    beside = message.extras.get("ocip_ext") if message is not None else None
    found = beside.get("exchange_id") if isinstance(beside, dict) else None
    return found if isinstance(found, str) else ""


def _proposal(
    kernel: Kernel,
    governance: Governance,
    draft: Draft,
    message: Message,
    sender: Party,
    known: tuple[Exchange | None, tuple[Exchange, ...]],
    spoken: Spoken | None,
) -> Proposal:
    wishes: Wishes = draft.wishes or _NOTHING
    asks = KIND_SPECS[message.kind].pattern in (Pattern.REQUEST, Pattern.RESPONSE)
    if len(message.to) > 1 and (known[0] is None) and (asks or wishes.purpose is not None):
        raise EnvelopeInvalid.because(
            [Problem("invalid", "to", "an exchange has two parties: send one message to each, or a notification")]
        )
    if known[0] is None and not wishes.expires_at and draft.expires_at is not None:
        wishes = wishes._replace(expires_at=stamp(draft.expires_at))
    if spoken is not None and spoken.answers:
        wishes = _NOTHING
    return Proposal(
        tenant=governance.tenant,
        sender=sender,
        receivers=tuple([governance.party(one) for one in message.to]),
        to=recording.addressee(message),
        asks=asks,
        wishes=wishes._replace(conversation_id=message.conversation_id),
        body=message.body,
        text=held_mail.text_of(message),
        exchange=known[0],
        others=known[1],
        approval=spoken.approval if spoken is not None and not spoken.answers else None,
        now=kernel.clock.now().at,
        fresh=fresh(kernel),
    )


def fresh(kernel: Kernel) -> Fresh:
    """Ids that a ruling may need."""
    ulid = kernel.ids.ulid
    return Fresh(f"exch_{ulid()}", f"conv_{ulid()}", f"appr_{ulid()}")


def _ruled(governance: Governance, proposal: Proposal, message: Message) -> Ruling:
    """The ruling. Where something is taken out of the body, what is left is looked at with all that is around it."""
    ruling = rule(proposal, governance.book)
    if ruling.body is None:
        return ruling
    left = message._replace(body=ruling.body)
    kept = proposal.wishes._replace(data=ruling.shared)
    again = proposal._replace(body=ruling.body, wishes=kept, text=held_mail.text_of(left))
    seen = rule(again, governance.book)
    return seen._replace(body=ruling.body, withheld=ruling.withheld, ceiling=ruling.ceiling)


async def _check_budget(kernel: Kernel, ruling: Ruling, message: Message) -> None:
    pair, at = pair_name(kernel.agent, recording.addressee(message)), recording.now(kernel)
    known = await kernel.store.record(Spent, spent_id(pair, at))
    if known is not None and known.count >= ruling.policy.pair_budget:
        rest = 3600 - int(at[14:16]) * 60 - int(at[17:19])
        said = f"{' and '.join(pair.split(','))} have exchanged as many messages as they may in an hour"
        raise PairBudget(said, facts={"retry_after": max(1, rest)})


async def spent(kernel: Kernel, tenant: str, pair: str) -> Spent:
    """One more message of two agents in this hour."""
    name = spent_id(pair, recording.now(kernel))
    known = await kernel.store.record(Spent, name) or Spent(id=name, tenant_id=tenant)
    return replace(known, count=known.count + 1)


async def _passed(
    kernel: Kernel, governance: Governance, message: Message, ruling: Ruling, spoken: Spoken | None
) -> Governed:
    """The message as it goes out: stamped, to exactly those who may have it."""
    exchange, ext = ruling.exchange, ruling.ext
    puts: list[Record] = []
    if spoken is not None:
        approval, at = spoken.approval, recording.now(kernel)
        ext = ext._replace(approval_id=approval.id, approved_by=spoken.user)
        status = ApprovalStatus.ANSWERED if spoken.answers else ApprovalStatus.APPROVED
        puts.append(decided(approval, status, spoken.user, at, spoken.note, message.id))
        if spoken.answers and not exchange.over:
            if approval.cause in LIMITS:
                exchange = ended(exchange, Outcome.RESOLVED, at, spoken.user, "answered by a person")
            else:
                exchange = released(exchange, approval.id)
    label = disclosure_of(ruling.origin, ruling.policy.disclosure)
    passing = tuple([one.agent for one in ruling.receivers])
    body = message.body if ruling.body is None else ruling.body
    going = message._replace(to=passing, body=body)
    if spoken is not None:
        stamped = signed(kernel, governance, going, ruling.envelope, ext, label, spoken.key)
    else:
        stamped = kernel.envelopes.stamped(going, ruling.envelope, ext, label)
    pair = pair_name(kernel.agent, recording.addressee(message))
    puts += [exchange, await spent(kernel, exchange.tenant_id, pair)]
    lacking = tuple([Problem("excluded", "to", f"{agent} does not get it: {why}") for agent, why in ruling.excluded])
    return Governed(stamped, ruling._replace(exchange=exchange), tuple(puts), spoken=spoken, warnings=lacking)


def _denied(kernel: Kernel, message: Message, ruling: Ruling, denial: Deny) -> Governed:
    """The message is nowhere; that it was tried is on record, and its exchange may have ended with it."""
    more = {**recording.SENT, "outcome": "denied", "reason": denial.error.message, "code": denial.error.code}
    entry = recording.judged(kernel, message, ruling, _digest(message), more)
    puts = (ruling.exchange,) if ruling.exchange.over and denial.ends else ()
    changes = Changes(puts=puts, audits=(entry,), tenant=ruling.exchange.tenant_id)
    return Governed(message, changes=changes, refusal=denial.error)


async def _held(
    kernel: Kernel, draft: Draft, message: Message, proposal: Proposal, ruling: Ruling, hold: Hold
) -> Governed:
    """The message waits for a person, with everything that the person has to see."""
    exchange, tenant = ruling.exchange, ruling.exchange.tenant_id
    more: dict[str, object] = {**recording.SENT, "outcome": "held", "reason": hold.reason}
    seen = _digest(message)
    limit = hold.cause is Cause.ROUND_LIMIT
    known = await kernel.store.record(Approval, exchange.limit_approval) if limit else None
    if known is not None:
        # One limit, one escalation: whoever tries again is told of the same.
        entry = recording.judged(kernel, message, ruling, seen, {**more, "approval": known.id})
        return Governed(message, changes=Changes(audits=(entry,), tenant=tenant), refusal=holding.held(kernel, known))
    await holding.check_room(kernel, ruling.policy)
    shown = message if ruling.body is None else message._replace(body=ruling.body)
    kept = held_mail.outgoing(draft._replace(conversation_id=exchange.conversation_id), shown)
    told = escalation(proposal.exchange or exchange, message.sender, ruling.summary) if limit else None
    approval = holding.waiting(
        proposal.fresh.approval_id,
        ruling,
        hold,
        kept,
        told,
        sender=kernel.agent,
        user=proposal.sender.user,
        at=stamp(proposal.now),
    )
    entry = recording.judged(kernel, message, ruling, seen, {**more, "approval": approval.id})
    changes = Changes(puts=(exchange, approval), audits=(entry,), tenant=tenant)
    return Governed(message, changes=changes, refusal=holding.held(kernel, approval))


def _digest(message: Message) -> str:
    """Of what was not sent: what it would have said."""
    return digest(held_mail.text_of(message).encode("utf-8", "replace"))
