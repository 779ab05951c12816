"""An incoming message as this side sees it: its sender, its exchange and the round that it claims."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from parley.domain.agents.party import pair_name
from parley.domain.content.classification import DEFAULT_LEVEL, Classification, level_of
from parley.domain.content.envelope import Origin, disclosure_of, purpose_of
from parley.domain.directory.callers import EVERYONE
from parley.domain.errors.errors import Problem
from parley.domain.errors.rules import (
    CrossEnterpriseBlocked,
    EnvelopeInvalid,
    ExchangeExpired,
    PolicyUnavailable,
    RoundMismatch,
)
from parley.domain.exchange import held
from parley.domain.exchange.exchange import Exchange, Outcome, ended
from parley.domain.rules.judge import Allow, rounds_of
from parley.domain.rules.ruling import Ruling, envelope_time
from parley.domain.times import parse_time, stamp

if TYPE_CHECKING:
    from parley.app.mailbox.rules.docket import MailboxDocket
    from parley.app.mailbox.rules.proving import Proof
    from parley.app.mailbox.rules.sending import HumanDecision
    from parley.domain.agents.party import Party
    from parley.domain.content.envelope import Carried, Envelope
    from parley.domain.mailbox.ledger import StoredMessage
    from parley.domain.message.message import Message


class IncomingMessage(NamedTuple):
    """A message as this side sees it, before it is judged."""

    stored: StoredMessage
    file: str
    sender: Party
    # What it carries because of the rules; limits above mine are lowered.
    carried: Carried | None = None
    # The exchange in my ledger, and as it is for this message: one round before it.
    mine: Exchange | None = None
    view: Exchange | None = None
    # A message of mine that took the same round, and gives way to this one.
    crossed: StoredMessage | None = None
    # What a person signed for it; and my person, who has looked at what was held.
    proof: Proof | None = None
    human: HumanDecision | None = None

    @property
    def origin(self) -> Origin:
        """Who wrote it, as its envelope says."""
        return self.carried.envelope.message_type if self.carried is not None else Origin.AGENT

    @property
    def declared(self) -> Classification:
        """The level that its envelope says; the highest, when that cannot be read."""
        if self.carried is not None:
            return self.carried.envelope.classification
        claims = self.stored.message.extras.get("ocip")
        return level_of(claims.get("classification")) if isinstance(claims, dict) else DEFAULT_LEVEL


def check_tenant(docket: MailboxDocket, message: Message) -> None:
    """Refuse another tenant's message, before its envelope is read."""
    envelope = message.extras.get("ocip")
    source = envelope.get("source_agent") if isinstance(envelope, dict) else None
    tenant = source.get("tenant_id") if isinstance(source, dict) else None
    if tenant is not None and tenant != docket.tenant:
        raise CrossEnterpriseBlocked("nothing crosses from one tenant to another")


async def exchange_of(
    docket: MailboxDocket, message: Message, carried: Carried | None, human: HumanDecision | None
) -> Exchange | None:
    """The exchange of a message in this agent's ledger."""
    if human is not None:
        return await docket.exchange(human.approval.exchange_id)
    ext = carried.ext if carried is not None else None
    if carried is not None and ext is None:
        _wrong("ocip_ext", "is missing")
    conversation = carried.envelope.conversation_id if carried is not None else message.conversation_id
    pair = pair_name(message.sender, docket.kernel.agent if len(message.to) == 1 else EVERYONE)
    exchanges = await docket.kernel.store.records(Exchange, conversation) if conversation else ()
    mine = next((exchange for exchange in exchanges if exchange.name == pair), None)
    named = await docket.exchange(ext.exchange_id) if ext is not None else None
    if ext is not None and (mine or named) and (mine is None or mine.id != ext.exchange_id):
        _wrong("ocip_ext.exchange_id", "is not that of this conversation")
    return mine


async def crossed_message(docket: MailboxDocket, incoming: IncomingMessage) -> StoredMessage | None:
    """My message of the same round, when it gives way: of two that cross, that of the initiator keeps the round.

    Both sides know who that is, so both decide alike. The other message is refused where it arrives, and its sender
    learns of it here, and can send it again.
    """
    carried, mine, me = incoming.carried, incoming.mine, docket.kernel.agent
    if carried is None or mine is None or mine.initiator != incoming.sender.agent or mine.responder != me:
        return None
    number = carried.envelope.exchange_round
    if all((turn.round, turn.sender) != (number, me) for turn in mine.transcript):
        return None
    for stored in await docket.kernel.store.conversation(mine.conversation_id):
        claims = stored.message.extras.get("ocip")
        if stored.message.sender == me and isinstance(claims, dict) and str(claims["exchange_round"]) == str(number):
            return stored
    return None


def with_view(docket: MailboxDocket, incoming: IncomingMessage) -> IncomingMessage:
    """The exchange one round before this message, with limits above the maximum lowered to it.

    Messages are taken in the order of their urgency, so an earlier one may still wait: any round fits that no other
    message has had.
    """
    carried, mine = incoming.carried, incoming.mine
    if carried is None:
        return incoming._replace(view=mine)
    envelope = carried.envelope
    number = envelope.exchange_round
    exchange = mine or _begun(docket, incoming, carried)
    most = min(envelope.max_rounds, exchange.max_rounds)
    ends = min(stamp(parse_time(envelope.expires_at)), exchange.expires_at)
    if ends <= docket.at and not exchange.over:
        raise ExchangeExpired(f"the exchange expired at {ends}")
    if incoming.crossed is not None:
        exchange = replace(exchange, transcript=tuple([turn for turn in exchange.transcript if turn.round != number]))
    had = any(turn.round == number for turn in exchange.transcript)
    if had or (number > most and envelope.message_type is not Origin.HUMAN):
        expected = (mine.current_round if mine is not None else 0) + 1
        raise RoundMismatch(f"round {number} does not fit here", facts={"exchange_round": expected})
    hops = carried.ext.hops if carried.ext is not None else 1
    view = replace(exchange, current_round=number - 1, hops=hops, max_rounds=most, expires_at=ends)
    lowered = envelope._replace(max_rounds=most, expires_at=envelope_time(ends))
    return incoming._replace(view=view, carried=carried._replace(envelope=lowered))


def judged_text(docket: MailboxDocket, incoming: IncomingMessage) -> str:
    """All texts of the message that its sender could write, its envelope's and its file's name among them."""
    message, carried, directory = incoming.stored.message, incoming.carried, docket.governance.directory
    exists = docket.kernel.inbox.owner_of
    names = {name for name in (message.sender, *message.to) if name in directory.agents or exists(name) is not None}
    policy = docket.book.between(incoming.sender.attributes, docket.me.attributes)
    label = disclosure_of(incoming.origin, policy.disclosure) if policy is not None else ""
    stamps: object = None
    if carried is not None:
        # The envelope's other texts were compared with the directory.
        ext = carried.ext
        if ext is not None and ext.approved_by in directory.humans:
            ext = ext._replace(approved_by="")
        stamps = (ext or (), "" if carried.label == label else carried.label)
    return held.judged_text(message, incoming.file, names, stamps, label)


def _begun(docket: MailboxDocket, incoming: IncomingMessage, carried: Carried) -> Exchange:
    """The exchange that this message starts."""
    envelope: Envelope = carried.envelope
    sender, message = incoming.sender, incoming.stored.message
    policy = docket.book.between(sender.attributes, docket.me.attributes)
    if policy is None:
        raise PolicyUnavailable("no enterprise policy: nothing is allowed")
    latest = docket.now + timedelta(hours=policy.exchange_hours)
    return Exchange(
        id=carried.ext.exchange_id if carried.ext is not None else f"exch_{message.id}"[:128],
        tenant_id=docket.tenant,
        conversation_id=envelope.conversation_id,
        # What I began, my ledger would know.
        initiator=sender.agent,
        responder=docket.kernel.agent if len(message.to) == 1 else EVERYONE,
        purpose=purpose_of(envelope.reply_policy, requires_commitment=envelope.requires_commitment),
        reply_policy=envelope.reply_policy,
        requires_commitment=envelope.requires_commitment,
        max_rounds=rounds_of(policy, sender, docket.me, None),
        started_at=docket.at,
        expires_at=stamp(latest),
        policy_version=policy.version,
    )


def exchange_after(docket: MailboxDocket, incoming: IncomingMessage, ruling: Ruling) -> Exchange:
    """The exchange after this message, with its round in order."""
    mine, after = incoming.mine, ruling.exchange
    rounds = mine.current_round if mine is not None else 0
    if not isinstance(ruling.verdict, Allow):
        return replace(after, current_round=rounds, transcript=mine.transcript if mine is not None else ())
    turns = tuple(sorted(after.transcript, key=lambda turn: turn.round))
    after = replace(after, current_round=max(after.current_round, rounds), transcript=turns)
    ext = incoming.carried.ext if incoming.carried is not None else None
    proof = incoming.proof
    if ext is not None and proof is not None and ext.outcome == Outcome.RESOLVED.value and not after.over:
        # A person answered where there were no more rounds: their side has ended it, and so does mine.
        return ended(after, Outcome.RESOLVED, docket.at, proof.approval.decided_by, "answered by a person")
    return after


def _wrong(field: str, detail: str) -> NoReturn:
    raise EnvelopeInvalid.because([Problem("invalid", field, detail)])
