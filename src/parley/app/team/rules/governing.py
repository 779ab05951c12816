"""Put a message under the rules of an exchange, and say what its commit has to write beside it.

A message that passes is stamped and takes a round. One that is held becomes an approval, and nothing is delivered. One
that is denied leaves only its entry in the audit log. Whatever it is, it is part of the one commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team.rules import holding, recording
from parley.app.team.rules import in_force as rules
from parley.app.team.rules.proposed import Governed, Message
from parley.domain.agents.party import Party, pair_name
from parley.domain.audit.entry import AGENT_EXCHANGE, AuditDraft
from parley.domain.channel.post import PostState
from parley.domain.content.envelope import Origin, Wishes, disclosure_of
from parley.domain.directory.callers import EVERYONE
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import (
    ApprovalQueueFull,
    CrossEnterpriseBlocked,
    LoopDetected,
    Overspent,
    PairBudget,
    PolicyDenied,
)
from parley.domain.exchange.approval import Approval, ApprovalStatus, Cause, decided
from parley.domain.exchange.exchange import Exchange, escalation, is_group
from parley.domain.hashes import digest
from parley.domain.message.message import Pattern
from parley.domain.record import Expect, expecting
from parley.domain.rules.judge import Deny, Hold
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.ruling import Fresh, Proposal, rule
from parley.domain.rules.suspension import check_not_stopped
from parley.domain.store.changes import Spend
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from parley.app.team.state.rules import Rules
    from parley.app.team.team import Team
    from parley.domain.channel.post import PostDraft
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Record
    from parley.domain.rules.ruling import Ruling

_NOTHING = Wishes()
_HOUR = 13
_PAIR = "pair/"


async def govern(team: Team, message: Message, expects: list[Expect]) -> Governed | None:
    """What the rules make of a message; None when they do not concern it."""
    caller, placed = message.caller, message.placed
    sender = rules.speaker(caller, message.record, message.approval.user if message.approval is not None else "")
    in_force = await rules.in_force(team, caller.tenant, expects)
    receivers = await _receivers(team, message, sender, in_force, expects)
    asked = message.draft.wishes
    named = asked is not None and asked.annotated
    try:
        if in_force.stopped is not None and in_force.stopped.stopped:
            receivers = _unstopped(in_force, sender, receivers, to=placed.to)
        exchange, others = await _exchanges(team, message, expects)
    except ParleyError as refusal:
        return recording.refused(team, message, sender, refusal, in_force.book.label)
    book = in_force.book
    if receivers is None:
        return None
    governed = (
        named
        or exchange is not None
        or message.approval is not None
        or message.instead_of is not None
        or any(concerns(book.between(sender.attributes, one.attributes), sender, one) for one in receivers or (sender,))
    )
    if not governed:
        # Where there are several org units, what is said to everyone is said to those who are there now; and what is
        # said to a role, to those of its holders whom nobody has stopped.
        known = tuple([one.agent for one in receivers])
        return Governed(placed._replace(recipients=known)) if placed.recipients != known else None
    return await _ruled(team, message, sender, tuple(receivers), (exchange, others), in_force, expects)


async def _receivers(
    team: Team, message: Message, sender: Party, in_force: Rules, expects: list[Expect]
) -> list[Party] | None:
    """Everyone whom a message is for; None when it is for everyone and it does not matter who that is."""
    placed, tenant = message.placed, message.caller.tenant
    if message.addressee is not None:
        return [Party(placed.to, message.addressee.attributes)]
    if placed.recipients is not None:
        return [await rules.party(team, tenant, one, expects) for one in placed.recipients]
    asked = message.draft.wishes
    own = in_force.book.between(sender.attributes, sender.attributes)
    stopped = in_force.stopped is not None and in_force.stopped.stopped != ()
    if (
        not (asked is not None and asked.annotated)
        and not stopped
        and not concerns(own, sender, sender)
        and not await rules.several_units(team, tenant, expects)
    ):
        return None
    at = placed.created_at
    return await rules.audience(team, message.channel, message.access, sender.agent, at, expects)


def _unstopped(in_force: Rules, sender: Party, receivers: list[Party] | None, *, to: str) -> list[Party] | None:
    """Who is left when those are taken out whom somebody has stopped; a stopped sender or addressee is refused."""
    check_not_stopped(in_force.stopped, sender, None)
    if receivers is None:
        return None
    left, refusal = [], None
    for one in receivers:
        try:
            check_not_stopped(in_force.stopped, sender, one)
        except ParleyError as stopped:
            refusal = stopped
            continue
        left.append(one)
    # Of a role, somebody may be left; what is said to everyone reaches whoever is there, or nobody.
    if refusal is not None and not left and to not in ("", EVERYONE):
        raise refusal
    return left


async def _exchanges(
    team: Team, message: Message, expects: list[Expect]
) -> tuple[Exchange | None, tuple[Exchange, ...]]:
    """The exchange that a message goes on with, and the other ones of its conversation that its sender is in."""
    held = message.approval or message.instead_of
    if message.draft.wishes is None and message.request is None and held is None:
        return None, ()
    tenant, placed, asked = message.caller.tenant, message.placed, message.draft.wishes or _NOTHING
    mine: Exchange | None = None
    parent = ""
    # One that ended with a circle of agents stays so; a person who speaks instead begins anew.
    if held is not None and held.exchange_id and held.cause is not Cause.LOOP:
        mine = await team.store.get(Exchange, tenant, held.exchange_id)
    elif message.request is not None and message.request.exchange_id:
        mine = await team.store.get(Exchange, tenant, message.request.exchange_id)
    elif asked.parent_message_id:
        led = await team.store.post(tenant, asked.parent_message_id)
        parent = led.exchange_id if led is not None else ""
    claimed = asked.envelope.conversation_id if asked.envelope else ""
    conversation = mine.conversation_id if mine is not None else asked.conversation_id or claimed
    others: list[Exchange] = []
    ids = await team.governance.conversation(team.store, tenant, conversation) if conversation else ()
    for exchange_id in dict.fromkeys((*ids, parent) if parent else ids):
        one = await team.store.get(Exchange, tenant, exchange_id)
        if one is None or not one.reserved or (mine is not None and one.id == mine.id):
            continue
        fits = one.conversation_id == conversation
        if mine is None and fits and one.name == pair_name(message.caller.agent, placed.to or EVERYONE):
            mine = one
        elif one.includes(message.caller.agent) or one.id == parent:
            others.append(one)
    if mine is not None:
        expects.append(expecting(mine))
    to_several = is_group(mine.responder if mine is not None else placed.to or EVERYONE)
    # Their rounds count: a decision depends on them.
    expects += [expecting(one) for one in others if to_several or is_group(one.responder)]
    return mine, tuple(others)


async def _ruled(
    team: Team,
    message: Message,
    sender: Party,
    receivers: tuple[Party, ...],
    known: tuple[Exchange | None, tuple[Exchange, ...]],
    in_force: Rules,
    expects: list[Expect],
) -> Governed:
    placed, draft = message.placed, message.draft
    label = in_force.book.label
    if not receivers:
        nobody = PolicyDenied("nobody is there to receive it, so nobody could judge it")
        return recording.refused(team, message, sender, nobody, label)
    payload = draft.payload
    fresh = team.ids.ulid()
    proposal = Proposal(
        tenant=message.caller.tenant,
        sender=sender,
        receivers=receivers,
        to=placed.to or EVERYONE,
        asks=placed.pattern is Pattern.REQUEST or placed.pattern is Pattern.RESPONSE,
        wishes=draft.wishes or _NOTHING,
        body=team.envelopes.body(payload),
        # Compact JSON without escapes reads as plain text.
        text=payload.decode() if payload.isascii() and b"\\" not in payload else None,
        exchange=known[0],
        others=known[1],
        approval=message.approval,
        now=from_stamp(placed.created_at),
        fresh=Fresh(f"exch_{fresh}", f"conv_{fresh}", f"appr_{fresh}"),
        channel_id=message.channel.id,
        detectors=team.governance.detectors,
        instead=message.instead_of is not None,
    )
    try:
        ruling = rule(proposal, in_force.book)
        if team.governance.extension is not None and not isinstance(ruling.verdict, Deny):
            ruling = await team.governance.extension.tighten(proposal, ruling)
    except ParleyError as refusal:
        return recording.refused(team, message, sender, refusal, label, known[0])
    if isinstance(ruling.verdict, Deny):
        denied = await _denied(team, message, known[0], ruling, ruling.verdict)
        return await _with_escalation(team, message, sender, ruling, denied, known[1])
    if isinstance(ruling.verdict, Hold):
        return await _held(team, message, proposal, ruling, ruling.verdict)
    return await _passed(team, message, known[0], ruling)


async def _with_escalation(
    team: Team, message: Message, sender: Party, ruling: Ruling, denied: Governed, others: tuple[Exchange, ...]
) -> Governed:
    """A circle of agents is shown to a person, once: by where it came from, whatever its next message is called."""
    if not isinstance(denied.refusal, LoopDetected):
        return denied
    origin = max(others, key=lambda one: one.hops, default=ruling.exchange)
    unique = f"loop/{origin.conversation_id}"
    known = await holding.only_one(team, message.caller.tenant, unique)
    approval = known or holding.about_a_limit(
        team, message, sender, Cause.LOOP, denied.refusal.message, unique=unique, ruling=ruling
    )
    told = LoopDetected(denied.refusal.message, facts={**denied.refusal.facts, "approval": approval.id})
    puts = denied.puts if known is not None else (*denied.puts, approval)
    return denied._replace(puts=puts, refusal=told)


async def _passed(team: Team, message: Message, known: Exchange | None, ruling: Ruling) -> Governed:
    """The message as it goes out: stamped, to exactly those who may have it."""
    placed, approval = message.placed, message.approval
    payload = placed.payload if ruling.body is None else team.envelopes.payload(_mapping(ruling.body))
    ext = ruling.ext._replace(approved_by=message.caller.user) if approval is not None else ruling.ext
    label = disclosure_of(ruling.origin, ruling.policy.disclosure)
    metadata = team.envelopes.stamped(placed.metadata, ruling.envelope, ext, label, ruling.shared)
    recipients = tuple([one.agent for one in ruling.receivers])
    post = placed._replace(
        payload=payload,
        metadata=metadata,
        recipients=recipients,
        state=PostState.DELIVERED,
        exchange_id=ruling.exchange.id,
    )
    # Two agents are a pair, by whatever name one calls the other: a role, or everyone. What a person says spends
    # nothing: it is the way out where agents have said enough.
    most, hour = ruling.policy.pair_budget, placed.created_at[:_HOUR]
    counted = () if ruling.origin is Origin.HUMAN else recipients
    spends = [Spend(f"{_PAIR}{pair_name(post.sender, one)}", most, hour) for one in counted]
    puts: list[Record] = [ruling.exchange]
    if approval is not None:
        puts.append(
            decided(approval, ApprovalStatus.APPROVED, message.caller.user, placed.created_at, approval.note, post.id)
        )
        spends += holding.left_queue(approval)
    audits = recording.delivered(team, message, post, ruling)
    if known is not None and ruling.exchange.over:
        # It ended with this message: nobody has to decide about what else waits in it.
        held = approval or message.instead_of
        closed = await holding.closing(team, known, message.caller.actor, but=held.id if held is not None else "")
        return Governed(post, (*puts, *closed.approvals), (*audits, *closed.audits), (*spends, *closed.spends))
    return Governed(post, tuple(puts), audits, tuple(spends))


async def _denied(team: Team, message: Message, known: Exchange | None, ruling: Ruling, denial: Deny) -> Governed:
    """The message is nowhere; that it was tried is on record, and its exchange may have ended with it."""
    audits = recording.kept_back(team, message, ruling, "denied", denial.error.message, code=denial.error.code)
    if not (ruling.exchange.over and denial.ends):
        return Governed(None, audits=audits, refusal=denial.error)
    closed = await holding.closing(team, known, message.caller.actor) if known is not None else holding.Closing()
    puts = (ruling.exchange, *closed.approvals)
    return Governed(None, puts, (*audits, *closed.audits), closed.spends, refusal=denial.error)


async def _held(team: Team, message: Message, proposal: Proposal, ruling: Ruling, hold: Hold) -> Governed:
    """The message waits for a person, with everything that the person has to see."""
    exchange = ruling.exchange
    limit = hold.cause is Cause.ROUND_LIMIT
    if limit and exchange.limit_approval != proposal.fresh.approval_id:
        known = await team.store.get(Approval, message.caller.tenant, exchange.limit_approval)
        if known is not None:
            # One limit, one escalation: whoever tries again is told of the same, but of no words that were not its own.
            audits = recording.kept_back(team, message, ruling, "held", hold.reason, approval=known.id)
            story = escalation(exchange, message.placed.sender, ruling.summary)
            told_of = replace(known, escalation=story, detected_keywords=ruling.keywords)
            return Governed(None, audits=audits, held=told_of)
    payload = message.draft.payload if ruling.body is None else team.envelopes.payload(_mapping(ruling.body))
    told = escalation(ruling.begun, message.placed.sender, ruling.summary) if limit else None
    approval = holding.waiting(message, ruling, hold, payload, proposal.fresh.approval_id, told)
    audits = recording.kept_back(team, message, ruling, "held", hold.reason, approval=approval.id)
    spends = (Spend(holding.queue_of(approval.agent), ruling.policy.open_approvals),)
    return Governed(None, (exchange, approval), audits, spends, held=approval)


async def overspent(team: Team, message: Message, error: Overspent) -> Governed:
    """What stands in the place of a message for which nothing was left: of the hour, or of a person's patience."""
    sender = rules.speaker(message.caller, message.record)
    if str(error.facts.get("key", "")).startswith(holding.QUEUE):
        full = ApprovalQueueFull(
            f"{sender.agent} has as many messages waiting for a person as it may", facts={"retry_after": 60}
        )
        return recording.refused(team, message, sender, full, "")
    at = message.placed.created_at
    pair = str(error.facts.get("key", "")).removeprefix(_PAIR)
    rest = 3600 - int(at[14:16]) * 60 - int(at[17:19])
    reason = f"{' and '.join(pair.split(','))} have exchanged as many messages as they may in an hour"
    known = await holding.only_one(team, message.caller.tenant, f"pair_budget/{pair}/{at[:_HOUR]}")
    approval = known or holding.about_a_limit(
        team, message, sender, Cause.PAIR_BUDGET, reason, unique=f"pair_budget/{pair}/{at[:_HOUR]}"
    )
    spent = PairBudget(reason, facts={"retry_after": max(1, rest), "approval": approval.id})
    refused = recording.refused(team, message, sender, spent, approval.policy_version)
    return refused if known is not None else refused._replace(puts=(*refused.puts, approval))


def blocked(team: Team, caller: Caller, draft: PostDraft, message_id: str) -> Governed:
    """A message for another tenant: the same answer whatever is there, and an entry on the side that tried."""
    facts = {
        "role": "sender",
        "direction": "outgoing",
        "sender": caller.agent,
        "to": draft.to,
        "message_id": message_id,
        "content_digest": digest(draft.payload),
        "outcome": "denied",
        "code": CrossEnterpriseBlocked.code,
        "reason": "nothing crosses from one tenant to another",
        "key": caller.key_id,
    }
    entry = AuditDraft(team.new_id("aud"), caller.agent, team.at(), AGENT_EXCHANGE, caller.actor, facts)
    return Governed(None, audits=(entry,), refusal=CrossEnterpriseBlocked(facts["reason"]))


def _mapping(body: object) -> dict[str, object]:
    assert isinstance(body, dict)  # noqa: S101  # a payload is an object
    return body
