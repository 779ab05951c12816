"""Govern a channel message: find its receivers and its exchange, and decide about it."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.rules.docket import Delivered, Submission
from parley.app.rules.messages import decide, fresh_ids, refuse
from parley.app.rules.recording import BlockedMessage, blocked_entry
from parley.app.team.rules import in_force as rules
from parley.app.team.rules.docket import TeamDocket
from parley.domain.agents.party import Party, pair_name
from parley.domain.channel.channel import Channel, view
from parley.domain.channel.post import PostState
from parley.domain.content.envelope import Wishes, disclosure_of
from parley.domain.content.redaction import text_of
from parley.domain.directory.access import Access
from parley.domain.directory.callers import EVERYONE, KeyKind
from parley.domain.errors.errors import ParleyError, Problem
from parley.domain.errors.rules import CrossEnterpriseBlocked, EnvelopeInvalid, PolicyDenied
from parley.domain.exchange.approval import Cause, HeldDraft
from parley.domain.exchange.exchange import Exchange, is_group
from parley.domain.hashes import digest
from parley.domain.message.message import Pattern
from parley.domain.record import expecting
from parley.domain.rules.isolation import are_apart
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.ruling import Proposal
from parley.domain.rules.suspension import check_not_stopped
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from contextlib import AbstractAsyncContextManager

    from parley.app.rules.docket import RulesDecision
    from parley.app.team.team import Team
    from parley.domain.agents.agent import AgentRecord
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.directory.callers import Caller
    from parley.domain.exchange.approval import Approval
    from parley.domain.rules.ruling import Body, Ruling
    from parley.domain.rules.terms import Terms

_NOTHING = Wishes()
_NO_LOCK = nullcontext()


class PersonDecision(NamedTuple):
    """What a person decided about a held message: it is released, or replaced in the person's own words."""

    # Where the decision was made: what that depended on, the commit depends on, too.
    docket: TeamDocket | None = None
    releases: Approval | None = None
    replaces: Approval | None = None
    note: str = ""
    # The link to the approval by which it was decided.
    link: str = ""


NOBODY = PersonDecision()


class ProposedPost(NamedTuple):
    """A placed message, before it is judged."""

    caller: Caller
    channel: Channel
    access: Access
    draft: PostDraft
    placed: Post
    request: Post | None
    # The sender's record, if it has one.
    record: AgentRecord | None
    # The record of the one agent that it is for, if it has one; the decision depends on it already.
    addressee: AgentRecord | None = None
    person: PersonDecision = NOBODY

    @property
    def held(self) -> Approval | None:
        """The held message that this one releases or replaces."""
        return self.person.releases or self.person.replaces

    @property
    def annotated(self) -> bool:
        """Whether the sender asked for the rules."""
        return self.draft.wishes is not None and self.draft.wishes.annotated


class GovernedPost(NamedTuple):
    """The result of the rules: the message to post, or a decision in its place."""

    post: Post | None = None
    decision: RulesDecision[Post] | None = None
    submission: Submission[Post] | None = None


def lock_conversation(team: Team, caller: Caller, draft: PostDraft) -> AbstractAsyncContextManager[None]:
    """Serialise posts of one conversation, so that they do not compete for the same round."""
    conversation = _conversation_of(draft)
    return team.governance.lock(caller.tenant, conversation) if conversation else _NO_LOCK


@asynccontextmanager
async def lock_conversations(team: Team, caller: Caller, drafts: Iterable[PostDraft]) -> AsyncIterator[None]:
    """The same for a batch. Its locks are taken in order, so that no two batches wait for each other."""
    async with AsyncExitStack() as stack:
        for conversation in sorted({_conversation_of(draft) for draft in drafts} - {""}):
            await stack.enter_async_context(team.governance.lock(caller.tenant, conversation))
        yield


def _conversation_of(draft: PostDraft) -> str:
    """What its conversation is locked by: its name, or the request that a message answers without naming it."""
    if draft.wishes is None:
        return draft.in_reply_to
    from_envelope = draft.wishes.envelope.conversation_id if draft.wishes.envelope else ""
    return draft.wishes.conversation_id or from_envelope or draft.in_reply_to


async def govern(docket: TeamDocket, message: ProposedPost) -> GovernedPost:
    """Decide about a message; without a decision when the rules do not apply to it."""
    placed = message.placed
    if message.draft.wishes is not None and message.draft.wishes.parent_message_id:
        message = await _with_checked_parent(docket, message, message.draft.wishes)
    home = ""
    if message.caller.kind is KeyKind.HUMAN and message.record is None:
        home = await rules.home_unit(docket.team, message.caller, docket.expects)
    held_for = message.person.releases.user if message.person.releases is not None else ""
    sender = rules.speaker(message.caller, message.record, held_for, home)
    receivers = await _receivers(docket, message, sender)
    try:
        if docket.stopped is not None and docket.stopped.stopped:
            receivers = _unstopped(docket, sender, receivers, to=placed.to)
        if message.draft.asker:
            await _check_asker(docket, message.draft.asker, receivers or [])
        exchange, others = await _exchanges(docket, message)
    except ParleyError as refusal:
        submission = _submission(docket.team, message, sender, tuple(receivers or ()))
        return GovernedPost(None, refuse(docket, submission, refusal), submission)
    if receivers is None:
        return GovernedPost(placed)
    if not (
        message.annotated
        or exchange is not None
        or message.held is not None
        or _concerned(docket, sender, receivers or [sender])
    ):
        # Where there are several org units, what is said to everyone is said to those who are there now; and what is
        # said to a role, to those of its holders whom nobody has stopped.
        names = tuple([party.agent for party in receivers])
        return GovernedPost(placed if placed.recipients == names else placed._replace(recipients=names))
    submission = _submission(docket.team, message, sender, tuple(receivers))
    proposal = _proposal(docket, message, submission, exchange, others)
    return GovernedPost(None, await decide(docket, submission, proposal), submission)


async def govern_by(docket: TeamDocket, message: ProposedPost, terms: Terms) -> GovernedPost:
    """Decide about a message by the terms that its parties had before, while the ground of the docket holds."""
    submission = _submission(docket.team, message, terms.sender, terms.receivers)
    try:
        exchange, others = await _exchanges(docket, message)
    except ParleyError as refusal:
        return GovernedPost(None, refuse(docket, submission, refusal), submission)
    proposal = _proposal(docket, message, submission, exchange, others, terms)
    return GovernedPost(None, await decide(docket, submission, proposal), submission)


async def _with_checked_parent(docket: TeamDocket, message: ProposedPost, wishes: Wishes) -> ProposedPost:
    """The message, with a refusal in its wishes if the parent that it names is no message that its sender may see."""
    team, caller = docket.team, message.caller
    parent = await team.store.post(docket.tenant, wishes.parent_message_id)
    channel, access = message.channel, message.access
    if parent is not None and parent.channel_id != channel.id:
        parent_channel = await team.store.get(Channel, docket.tenant, parent.channel_id)
        parent_access = await team.store.get(Access, docket.tenant, parent.intent_id)
        if parent_channel is None or parent_access is None:
            parent = None
        else:
            channel, access = parent_channel, parent_access
    if parent is not None:
        unit = (await rules.units_of(team, access, (caller.agent,))).get(caller.agent, "")
        reader = view(channel, access, caller, docket.at, unit)
        if reader.takes_part and parent.visible_to(reader):
            return message
    problem = Problem("invalid", "parent_message_id", "names no message that you can see; leave it out")
    unseen = wishes._replace(
        parent_message_id="", problem=wishes.problem or EnvelopeInvalid(str(problem), problems=(problem,))
    )
    return message._replace(draft=message.draft._replace(wishes=unseen))


def _concerned(docket: TeamDocket, sender: Party, receivers: list[Party]) -> bool:
    """Whether the rules concern a message to any of these."""
    attributes = sender.attributes
    for receiver in receivers:
        if concerns(docket.book.between(attributes, receiver.attributes), sender, receiver):
            return True
    return False


async def _receivers(docket: TeamDocket, message: ProposedPost, sender: Party) -> list[Party] | None:
    """The receivers of a message; None for a broadcast whose receivers do not matter."""
    team, tenant, expects, placed = docket.team, docket.tenant, docket.expects, message.placed
    if message.addressee is not None:
        return [Party(placed.to, message.addressee.attributes)]
    if placed.recipients is not None:
        return [await rules.party(team, tenant, agent, expects) for agent in placed.recipients]
    stopped = docket.stopped is not None and docket.stopped.stopped != ()
    if (
        not message.annotated
        and not stopped
        and not _concerned(docket, sender, [sender])
        and not await rules.several_units(team, tenant, expects)
    ):
        return None
    return await rules.audience(team, message.channel, message.access, sender.agent, docket.at, expects)


def _unstopped(docket: TeamDocket, sender: Party, receivers: list[Party] | None, *, to: str) -> list[Party] | None:
    """The receivers that are not suspended; a suspended sender or addressee is refused."""
    check_not_stopped(docket.stopped, sender, None)
    if receivers is None:
        return None
    left, refusal = [], None
    for receiver in receivers:
        try:
            check_not_stopped(docket.stopped, sender, receiver)
        except ParleyError as stopped:
            refusal = stopped
            continue
        left.append(receiver)
    # Of a role, somebody may be left; what is said to everyone reaches whoever is there, or nobody.
    if refusal is not None and not left and to not in ("", EVERYONE):
        raise refusal
    return left


async def _check_asker(docket: TeamDocket, asker: str, receivers: list[Party]) -> None:
    """Refuse to hand a request on to an agent that may not talk to whoever sent it."""
    party = await rules.party(docket.team, docket.tenant, asker, docket.expects)
    for receiver in receivers:
        check_not_stopped(docket.stopped, party, receiver)
        if are_apart(docket.book, party.attributes, receiver.attributes):
            raise PolicyDenied(f"{receiver.agent} may not answer {asker}")


async def _exchanges(docket: TeamDocket, message: ProposedPost) -> tuple[Exchange | None, tuple[Exchange, ...]]:
    """The exchange that a message continues, and the sender's other exchanges in the conversation."""
    held = message.held
    if message.draft.wishes is None and message.request is None and held is None:
        return None, ()
    team, tenant, sender = docket.team, docket.tenant, message.caller.agent
    to, wishes = message.placed.to or EVERYONE, message.draft.wishes or _NOTHING
    mine: Exchange | None = None
    parent = ""
    # An exchange that ended by a loop stays ended; a person who answers instead starts a new one.
    if held is not None and held.exchange_id and held.cause is not Cause.LOOP:
        mine = await docket.exchange(held.exchange_id)
    elif message.request is not None and message.request.exchange_id:
        mine = await docket.exchange(message.request.exchange_id)
    elif wishes.parent_message_id:
        parent_post = await team.store.post(tenant, wishes.parent_message_id)
        parent = parent_post.exchange_id if parent_post is not None else ""
    claimed = wishes.envelope.conversation_id if wishes.envelope else ""
    conversation = mine.conversation_id if mine is not None else wishes.conversation_id or claimed
    others: list[Exchange] = []
    of_receiver: list[Exchange] = []
    ids = await team.governance.conversation(team.store, tenant, conversation) if conversation else ()
    # The commit checks this again: messages by a remembered opening, or on other nodes, do not wait for the lock.
    if conversation and not ids:
        docket.new_conversations.append(conversation)
    for exchange_id in dict.fromkeys((*ids, parent) if parent else ids):
        exchange = await docket.exchange(exchange_id)
        if exchange is None or not exchange.reserved or (mine is not None and exchange.id == mine.id):
            continue
        same_conversation = exchange.conversation_id == conversation
        if mine is None and same_conversation and exchange.name == pair_name(sender, to):
            mine = exchange
        elif exchange.includes(sender) or exchange.id == parent:
            others.append(exchange)
        elif exchange.includes(to):
            of_receiver.append(exchange)
    if mine is not None:
        docket.expects.append(expecting(mine))
    to_several = is_group(mine.responder if mine is not None else to)
    # The decision depends on their rounds.
    counted = [exchange for exchange in others if to_several or is_group(exchange.responder)]
    docket.expects += [expecting(exchange) for exchange in counted]
    # What the receiver says in its other exchanges then follows from this message: that is one hop more.
    docket.affected += [exchange for exchange in (*counted, *of_receiver) if exchange.conversation_id == conversation]
    return mine, tuple(others)


def _submission(team: Team, message: ProposedPost, sender: Party, receivers: tuple[Party, ...]) -> Submission[Post]:
    caller, placed, person, held = message.caller, message.placed, message.person, message.held
    wishes = message.draft.wishes or _NOTHING
    submitted, actor = digest(placed.payload), caller.actor
    if caller.kind is KeyKind.HUMAN and caller.user:
        # A person in its agent's place is the actor; a held message keeps its owner.
        actor = person.releases.user if person.releases is not None else caller.user

    def payload_with(body: Body | None) -> bytes:
        return placed.payload if body is None else team.envelopes.payload(_mapping(body))

    def as_held_draft(ruling: Ruling | None) -> HeldDraft:
        return HeldDraft(
            pattern=placed.pattern.value,
            to=placed.to,
            # What it answers as its sender got it: placed, it answers what was handed on.
            in_reply_to=message.draft.in_reply_to,
            payload=payload_with(ruling.body if ruling is not None else None).decode(),
            metadata=placed.metadata.decode(),
            expires_at=placed.expires_at,
        )

    def deliver(ruling: Ruling) -> Delivered[Post]:
        payload = payload_with(ruling.body)
        ext = ruling.ext._replace(approved_by=caller.user) if person.releases is not None else ruling.ext
        label = disclosure_of(ruling.origin, ruling.policy.disclosure)
        post = placed._replace(
            payload=payload,
            metadata=team.envelopes.stamped(placed.metadata, ruling.envelope, ext, label, ruling.shared),
            recipients=tuple([party.agent for party in ruling.receivers]),
            state=PostState.DELIVERED,
            exchange_id=ruling.exchange.id,
        )
        return Delivered(post, submitted if ruling.body is None else digest(payload))

    return Submission(
        message_id=placed.id,
        sender=sender,
        receivers=receivers,
        to=placed.to or EVERYONE,
        actor=actor,
        key=caller.key_id,
        user=sender.user,
        annotated=wishes.annotated,
        digest=submitted,
        declared=wishes.declared,
        conversation_id=wishes.named_conversation,
        as_held_draft=as_held_draft,
        deliver=deliver,
        channel_id=placed.channel_id,
        creates_channel=not message.channel.version,
        expires_at=placed.expires_at,
        releases=person.releases,
        replaces=person.replaces,
        approval_id=held.id if held is not None else "",
        approved_by=caller.user if held is not None else "",
        note=person.note,
        link=person.link,
    )


def _proposal(
    docket: TeamDocket,
    message: ProposedPost,
    submission: Submission[Post],
    exchange: Exchange | None,
    others: tuple[Exchange, ...],
    terms: Terms | None = None,
) -> Proposal:
    placed, payload, team = message.placed, message.draft.payload, docket.team
    body = message.draft.body if message.draft.body is not None else team.envelopes.body(payload)
    beside = texts_beside(team, placed.metadata)
    if submission.creates_channel:
        # Under a name that its sender chose.
        beside.append(message.channel.label)

    def texts(shown: Body) -> tuple[str, ...]:
        return (content_text(payload, body) if shown is body else text_of(shown), *beside)

    return Proposal(
        tenant=docket.tenant,
        sender=submission.sender,
        receivers=submission.receivers,
        to=submission.to,
        asks=placed.pattern is Pattern.REQUEST or placed.pattern is Pattern.RESPONSE,
        wishes=message.draft.wishes or _NOTHING,
        body=body,
        exchange=exchange,
        others=others,
        approval=message.person.releases,
        now=docket.now,
        fresh=fresh_ids(docket),
        channel_id=message.channel.id,
        detectors=team.governance.detectors,
        instead=message.person.replaces is not None,
        texts=texts,
        at=docket.at,
        partial=placed.partial and placed.pattern is Pattern.RESPONSE,
        terms=terms,
    )


def content_text(payload: bytes, body: Body) -> str:
    """All texts of a message's content. Compact JSON without escapes reads as plain text."""
    return payload.decode() if payload.isascii() and b"\\" not in payload else text_of(body)


def texts_beside(team: Team, metadata: bytes) -> list[str]:
    """What the receivers of a message read beside its content, as its sender wrote it."""
    return [team.envelopes.written_text(metadata)] if len(metadata) > 2 else []


async def blocked(team: Team, caller: Caller, draft: PostDraft, message_id: str) -> tuple[TeamChanges, ParleyError]:
    """Refuse a message to another tenant, with an audit entry. The answer never depends on that tenant."""
    docket = await TeamDocket.open(team, caller.tenant)
    sender = await rules.party(team, caller.tenant, caller.agent)
    wishes, content = draft.wishes or _NOTHING, digest(draft.payload)
    message = BlockedMessage(sender, draft.to, caller.actor, caller.key_id, wishes, content, message_id)
    entry = blocked_entry(docket, message)
    return TeamChanges(caller.tenant, audits=(entry,)), CrossEnterpriseBlocked(entry.facts["reason"])


def _mapping(body: object) -> dict[str, Any]:
    assert isinstance(body, dict)  # noqa: S101  # a payload is an object
    return body
