"""Post to a channel: load, decide, commit, notify waiting readers. Every channel message is written here."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from parley.app.rules.messages import refuse_overspent
from parley.app.team.channels import plain_messages, responders
from parley.app.team.channels.forwarding import effects_of
from parley.app.team.channels.leases import answered_by, with_effects
from parley.app.team.channels.venues import Venue, channel_of, venue_of, with_channel
from parley.app.team.directory import roles
from parley.app.team.directory.participants import find_newcomers
from parley.app.team.directory.permissions import sees
from parley.app.team.rules import governed_messages, governed_terms, governing
from parley.app.team.rules import in_force as rules
from parley.app.team.rules.docket import TeamDocket
from parley.app.team.rules.governing import NOBODY, PersonDecision, ProposedPost
from parley.app.team.system_posts import audited
from parley.app.team.team import ATTEMPTS
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.post import SENDER_KIND, Post, PostDraft, check_answerable, place
from parley.domain.directory.callers import (
    ROLE_PREFIXES,
    TENANT_MARK,
    KeyKind,
    created_ids,
)
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Problem, Stale
from parley.domain.errors.rules import Overspent
from parley.domain.errors.team import AgentDeparted, NameTaken, NotMember
from parley.domain.exchange.exchange import Exchange
from parley.domain.hashes import digest
from parley.domain.message.message import Pattern
from parley.domain.record import Expect, expecting
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from parley.app.rules.docket import RulesDecision, Submission
    from parley.app.team.channels.leases import AnsweredRequest, AnswerEffects
    from parley.app.team.team import Team
    from parley.domain.channel.channel import View
    from parley.domain.channel.event import EventDraft
    from parley.domain.channel.participation import Participant
    from parley.domain.directory.callers import Caller
    from parley.domain.errors.errors import ParleyError
    from parley.domain.exchange.approval import Approval
    from parley.domain.store.changes import Committed


_ONE_BY_ONE = Problem("governed", "messages", "messages under the rules are sent one by one")
_PARTS_ONE_BY_ONE = Problem("repeated", "messages", "partial answers, and answers under one lease, are sent one by one")


class Held(NamedTuple):
    """A message held for approval. It has not been delivered."""

    approval: Approval


class KnownRequest(NamedTuple):
    """The request that a draft answers, and what that depends on."""

    answered: AnsweredRequest
    expects: list[Expect]


class PendingCommit(NamedTuple):
    """What was decided about messages, and what that writes. A refusal is raised after it is written."""

    changes: TeamChanges
    held: Approval | None = None
    refusal: ParleyError | None = None
    # Of a single governed message: what its decision rests on, the message as the rules were asked about it, and what
    # they said. It is decided again when the commit finds the pair's hourly budget spent, or as many messages waiting
    # for approval as its sender may have.
    docket: TeamDocket | None = None
    submission: Submission[Post] | None = None
    decision: RulesDecision[Post] | None = None
    # Who joins the intent with it.
    newcomers: tuple[Participant, ...] = ()


async def post(team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str = "") -> Post | Held:
    """Post one message; on return it is durable, and its recipients can read it, or it waits for a person."""
    message_id = message_id or team.new_id("msg")
    check_speaks(caller)
    committed = await _post_remembered(team, caller, channel_id, draft, message_id)
    if committed is not None:
        return committed.posts[0]
    async with governing.lock_conversation(team, caller, draft):
        decided, committed = await decide_and_commit(
            team, caller, lambda: _decide_one(team, caller, channel_id, draft, message_id)
        )
    return Held(decided.held) if decided.held is not None else committed.posts[0]


async def _decide_one(
    team: Team,
    caller: Caller,
    channel_id: str,
    draft: PostDraft,
    message_id: str,
    known_request: KnownRequest | None = None,
) -> PendingCommit:
    """What one message would write now: by remembered terms if it is governed and has some, else by all records."""
    by_terms = await governed_terms.govern(team, caller, channel_id, draft, message_id)
    if by_terms is None:
        find_venue = partial(venue_of, team, caller, channel_id, draft.to)
        return await decide(team, caller, find_venue, (draft,), (message_id,), known_request=known_request)
    docket, message, governed = by_terms
    return await _governed(docket, Venue(message.channel, message.access, []), draft, governed, (), alone=True)


def remembered_changes(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str = ""
) -> TeamChanges | None:
    """What a message writes by what was decided about one like it before; None when it has to be decided.

    The commit may refuse it, as `Stale` or `Overspent`: then it has to be decided, too.
    """
    plain = plain_messages.changes_of(team, caller, channel_id, draft, message_id)
    return plain or governed_messages.changes_of(team, caller, channel_id, draft, message_id)


async def _post_remembered(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str = ""
) -> Committed | None:
    """Commit a message by what is remembered; None when it has to be decided."""
    changes = remembered_changes(team, caller, channel_id, draft, message_id)
    if changes is None:
        return None
    if caller.saved is not None:
        changes = changes.with_key(caller.saved, caller.answer)
    try:
        return await team.store.commit(changes)
    except Overspent:
        return None  # the rules record the refusal
    except Stale as stale:
        # A record has changed since: decide. A used idempotency key stays used.
        if "kind" not in stale.facts:
            raise
        return None


async def post_all(team: Team, caller: Caller, channel_id: str, drafts: Sequence[PostDraft]) -> tuple[Post, ...]:
    """Post several messages in one transaction: all of them, or none."""
    check_speaks(caller)
    # Each is decided by what is stored before: the number of parts, whether there is an answer, the job.
    answered = [draft.in_reply_to for draft in drafts if draft.pattern is Pattern.RESPONSE]
    if any((draft.partial or draft.lease) and answered.count(draft.in_reply_to) > 1 for draft in drafts):
        raise Invalid.because([_PARTS_ONE_BY_ONE])
    ids = tuple([team.new_id("msg") for _ in drafts])

    async def attempt() -> PendingCommit:
        decided = await decide(team, caller, lambda: venue_of(team, caller, channel_id, drafts[0].to), drafts, ids)
        if decided.held is not None:
            raise Invalid.because([_ONE_BY_ONE])
        return decided

    async with governing.lock_conversations(team, caller, drafts):
        _, committed = await decide_and_commit(team, caller, attempt)
    # Messages that the server itself adds to the commit come after these.
    return committed.posts[: len(drafts)]


async def decide_and_commit(
    team: Team, caller: Caller, attempt: Callable[[], Awaitable[PendingCommit]]
) -> tuple[PendingCommit, Committed]:
    """Decide about messages and commit what was decided; again when somebody else was faster, a few times."""
    for _ in range(ATTEMPTS):
        decided = await attempt()
        changes = decided.changes
        # `saved` is the use of the request's idempotency key.
        if caller.saved is not None and decided.refusal is None:
            # A refusal does not consume the key, so a corrected request can reuse it. An answer is stored with the key,
            # but what a held message says is in its approval only.
            changes = changes.with_key(caller.saved, caller.answer if decided.held is None else None)
        try:
            try:
                committed = await team.store.commit(changes)
            except Overspent as error:
                if decided.docket is None and changes.ground is not None:
                    continue  # by what is remembered: the rules decide about it, and record the refusal
                decided = await _without_budget(decided, error)
                committed = await team.store.commit(decided.changes)
        except NameTaken:
            # Another commit has just created the same channel, exchange or approval. Drop the exchange's conversation
            # from the cache, and decide again with what is stored.
            team.governance.drop_cached(decided.changes)
        except Stale as stale:
            # Only a conflict about a record is retried; a used idempotency key is not.
            if "kind" not in stale.facts:
                raise
            if decided.changes.new_conversations:
                team.governance.drop_cached(decided.changes)
        else:
            if decided.refusal is not None:
                raise decided.refusal
            for newcomer in decided.newcomers:
                await roles.deliver_to_newcomer(team, newcomer)
            return decided, committed
    raise Conflict("the channel changes too often at this moment", hint="try again")


async def _without_budget(decided: PendingCommit, error: Overspent) -> PendingCommit:
    """The refusal of a governed message: the pair's hourly budget is spent, or the approval queue is full."""
    docket = decided.docket
    if docket is None or decided.submission is None:
        raise error
    # Keep all expected versions except the exchange's: a refusal does not change the exchange.
    docket.expects[:] = [expect for expect in docket.expects if expect.kind != Exchange.kind]
    refused = await refuse_overspent(docket, decided.submission, error)
    return PendingCommit(await docket.changes(refused), refusal=refused.refusal)


async def decide(
    team: Team,
    caller: Caller,
    find_venue: Callable[[], Awaitable[Venue]],
    drafts: Sequence[PostDraft],
    ids: Sequence[str],
    person: PersonDecision = NOBODY,
    known_request: KnownRequest | None = None,
) -> PendingCommit:
    """What these drafts would write now. With `person`: the message they approved, or their answer in its place; with
    `known_request`: what was just read of the request that the only draft answers.
    """
    generation = team.store.generation(caller.tenant)  # read before the records: see `domain.store.ground`
    if (blocked := await _blocked(team, caller, drafts, ids)) is not None:
        return blocked
    venue = await find_venue()
    channel, access = venue.channel, venue.access
    docket = await _docket(team, venue, person)
    sender_view = await sees(team, channel, access, caller)
    record = await check_present(team, caller.tenant, caller.agent, docket.expects)
    posts: list[Post] = []
    effects: list[AnswerEffects] = []
    newcomers: dict[str, Participant] = {}
    by_person = person is not NOBODY
    for original, message_id in zip(drafts, ids, strict=True):
        draft = _as_posted(team, caller, original, person)
        # What was read is about the draft as it came.
        request_read = known_request if draft is original else None
        answered = await _answered_request(docket, caller, channel.id, draft, request_read, by_person=by_person)
        draft, request = answered.draft, answered.request
        addressees = await responders.addressees_of(docket, caller, venue, sender_view, record, draft, request)
        placed = await _placed(docket, caller, venue, sender_view, answered, addressees, message_id)
        newcomers |= await find_newcomers(team, access, placed)
        if request is not None or draft.forwards:
            effects.append(await effects_of(team, caller, answered, placed, docket.expects, by_person=by_person))
        addressee = await check_reachable(team, caller.tenant, placed, docket.expects) if placed.recipients else None
        message = ProposedPost(caller, channel, access, draft, placed, request, record, addressee, person)
        governed = await governing.govern(docket, message)
        if governed.post is None:
            decided = await _governed(docket, venue, draft, governed, effects, alone=len(drafts) == 1)
            if not by_person and not newcomers:
                governed_terms.remember(docket, message, governed, generation)
            return _with_newcomers(decided, newcomers)
        posts.append(governed.post)
    decided = PendingCommit(with_channel(with_effects(await _ungoverned(docket, venue, drafts, posts), effects), venue))
    if len(drafts) == 1 and not by_person and not newcomers:
        plain_messages.remember(team, caller, venue, drafts[0], decided.changes, generation)
    return _with_newcomers(decided, newcomers)


async def _blocked(team: Team, caller: Caller, drafts: Sequence[PostDraft], ids: Sequence[str]) -> PendingCommit | None:
    """The refusal of a message to another tenant. Before anything else: nothing overrides the isolation of tenants."""
    for draft, message_id in zip(drafts, ids, strict=True):
        if TENANT_MARK in draft.to and draft.to.partition(TENANT_MARK)[2] != caller.tenant:
            changes, refusal = await governing.blocked(team, caller, draft, message_id)
            return PendingCommit(changes, refusal=refusal)
    return None


async def _docket(team: Team, venue: Venue, person: PersonDecision) -> TeamDocket:
    """The docket of a decision in a channel: the person's, if one decided before."""
    if person.docket is None:
        return await TeamDocket.open(team, venue.channel.tenant_id, venue.expects)
    person.docket.expects += venue.expects
    return person.docket


def _as_posted(team: Team, caller: Caller, original: PostDraft, person: PersonDecision) -> PostDraft:
    """The draft with an address within the tenant, and marked when a person wrote it."""
    draft = original._replace(to=original.to.partition(TENANT_MARK)[0]) if TENANT_MARK in original.to else original
    if caller.kind is KeyKind.HUMAN or SENDER_KIND in draft.metadata:
        by_person = caller.kind is KeyKind.HUMAN and person.releases is None
        draft = draft._replace(metadata=team.envelopes.with_sender_kind(draft.metadata, by_person=by_person))
    return draft


async def _answered_request(
    docket: TeamDocket,
    caller: Caller,
    channel_id: str,
    draft: PostDraft,
    known_request: KnownRequest | None,
    *,
    by_person: bool,
) -> AnsweredRequest:
    """The request that a draft answers; the decision depends on it."""
    if known_request is None:
        return await answered_by(docket.team, caller, channel_id, draft, docket.expects, by_person=by_person)
    docket.expects += known_request.expects
    return known_request.answered


async def _placed(
    docket: TeamDocket,
    caller: Caller,
    venue: Venue,
    sender_view: View,
    answered: AnsweredRequest,
    addressees: responders.Addressees,
    message_id: str,
) -> Post:
    """The message that a draft becomes; a refusal of whom it is for names similar agents."""
    draft = answered.draft
    try:
        return place(
            draft,
            message_id,
            docket.now,
            caller.agent,
            sender_view,
            venue.channel,
            venue.access,
            role=addressees.role,
            request=answered.request,
            request_state=answered.state,
            units=addressees.units,
            joined=addressees.joined,
            longest=docket.team.limits.longest_expiry if draft.expires_at else timedelta(0),
        )
    except NotMember as refusal:
        raise await responders.with_similar(docket.team, caller, refusal) from None


def _with_newcomers(decided: PendingCommit, newcomers: Mapping[str, Participant]) -> PendingCommit:
    """The commit, with those who join by its messages; a message that is held or refused lets nobody in."""
    if not newcomers or not decided.changes.posts or decided.held is not None or decided.refusal is not None:
        return decided
    joining = tuple(newcomers.values())
    changes = decided.changes._replace(puts=(*decided.changes.puts, *joining))
    return decided._replace(changes=changes, newcomers=joining)


async def _ungoverned(
    docket: TeamDocket, venue: Venue, drafts: Sequence[PostDraft], posts: Sequence[Post]
) -> TeamChanges:
    """What messages write that are not governed: where they name a conversation, because it has no exchange."""
    team, expects = docket.team, docket.expects
    events: tuple[EventDraft, ...] = ()
    if venue.channel.options.audit:
        # Everybody with access to the intent reads its log, of whichever org unit.
        several_units = await rules.several_units(team, docket.tenant, expects)
        logged = [_with_payload_hash(post) if several_units and post.recipients is not None else post for post in posts]
        events = tuple(audited(team, venue.channel, post, draft) for post, draft in zip(logged, drafts, strict=True))
    created = created_ids([post.id for post in posts])
    new = tuple(docket.new_conversations)
    return TeamChanges(
        docket.tenant, tuple(posts), tuple(expects), new_conversations=new, events=events, created_id=created
    )


async def _governed(
    docket: TeamDocket,
    venue: Venue,
    draft: PostDraft,
    governed: governing.GovernedPost,
    effects: Sequence[AnswerEffects],
    *,
    alone: bool,
) -> PendingCommit:
    """What the decision about the one message writes."""
    if not alone:
        raise Invalid.because([_ONE_BY_ONE])
    decision = governed.decision
    assert decision is not None  # noqa: S101  # it is governed, so there is a decision
    events: tuple[EventDraft, ...] = ()
    if decision.message is not None and venue.channel.options.audit:
        # Everybody with access to the intent reads its log, so a governed message appears there only as a hash.
        events = (audited(docket.team, venue.channel, _with_payload_hash(decision.message), draft),)
    changes = await docket.changes(decision, events)
    if decision.refusal is None:
        # What is refused ends no job: the one who has it may answer otherwise.
        changes = with_channel(with_effects(changes, effects), venue)
    return PendingCommit(changes, decision.held, decision.refusal, docket, governed.submission, decision)


def _with_payload_hash(post: Post) -> Post:
    """The message with the digest of its payload in place of the payload."""
    return post._replace(payload=b'{"sha256":"%b"}' % digest(post.payload).encode())


def check_speaks(caller: Caller) -> None:
    """A message has a sender."""
    if not caller.agent:
        detail = "name the agent that speaks, by sender or X-Agent-ID"
        raise Invalid.because([Problem("required", "sender", detail)])


async def check_present(team: Team, tenant: str, agent: str, expects: list[Expect] | None = None) -> AgentRecord | None:
    """Refuse an agent that has left. Agents that never registered may post."""
    record = await team.store.get(AgentRecord, tenant, agent)
    if record is not None and record.gone:
        raise AgentDeparted(f"{agent} has left", hint="register it again")
    if expects is not None:
        # An unknown one may be registered meanwhile, in another org unit.
        expects.append(expecting(record) if record is not None else Expect(AgentRecord.kind, agent, 0))
    return record


async def check_reachable(team: Team, tenant: str, post: Post, expects: list[Expect]) -> AgentRecord | None:
    """Refuse what is said to one agent that has left; else the agent's record, if it has one."""
    if post.recipients and not post.to.startswith(ROLE_PREFIXES):
        return await check_present(team, tenant, post.to, expects)
    return None


async def reply(team: Team, caller: Caller, channel_id: str, request_id: str, draft: PostDraft) -> Post | Held:
    """Answer a request: whom it goes to and what it answers follow from the request."""
    check_speaks(caller)
    answer = draft._replace(pattern=Pattern.RESPONSE, in_reply_to=request_id, to="")
    remembered = await _post_remembered(team, caller, channel_id, answer)
    if remembered is not None:
        return remembered.posts[0]
    channel, access = await channel_of(team, caller, channel_id)
    sender_view = await sees(team, channel, access, caller)
    expects: list[Expect] = []
    answered = await answered_by(team, caller, channel_id, answer, expects)
    request = answered.request
    if request is None or request.channel_id != channel_id:
        raise NotFound.no_such("message")
    # An agent must not learn of messages that it may not read, only that a request was not for it.
    if request.pattern is not Pattern.REQUEST and not request.visible_to(sender_view):
        raise NotFound.no_such("message")
    if channel.is_open and sender_view.takes_part:
        check_answerable(request, caller.agent, team.at(), answered.state)
    message_id = team.new_id("msg")
    # Only the first attempt may use what was read above; later ones read again.
    first = [KnownRequest(answered, expects)]

    async with governing.lock_conversation(team, caller, answer):
        decided, committed = await decide_and_commit(
            team,
            caller,
            lambda: _decide_one(team, caller, channel_id, answer, message_id, first.pop() if first else None),
        )
    return Held(decided.held) if decided.held is not None else committed.posts[0]
