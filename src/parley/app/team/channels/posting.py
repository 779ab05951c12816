"""Post to a channel: load, decide, commit, notify waiting readers. Every channel message is written here."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.app.rules.messages import refuse_overspent
from parley.app.team.channels import responders
from parley.app.team.channels.forwarding import effects_of
from parley.app.team.channels.leases import answered_by, with_effects
from parley.app.team.channels.venues import channel_of, venue_of, with_channel
from parley.app.team.directory import roles
from parley.app.team.directory.keys import check_key
from parley.app.team.directory.participants import find_joined, find_newcomers
from parley.app.team.directory.permissions import sees
from parley.app.team.rules import governing
from parley.app.team.rules import in_force as rules
from parley.app.team.rules.docket import TeamDocket
from parley.app.team.rules.governing import NOBODY, PersonDecision, ProposedPost
from parley.app.team.state.waits import RightsChanged
from parley.app.team.system_posts import audited
from parley.app.team.team import ATTEMPTS
from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.party import UNKNOWN_ATTRIBUTES
from parley.domain.channel.post import NO_UNITS, SENDER_KIND, Post, PostDraft, check_answerable, place
from parley.domain.channel.request import check_not_withdrawn
from parley.domain.directory.access import ORG_UNIT, Access
from parley.domain.directory.callers import ROLE_PREFIXES, TENANT_MARK, KeyKind, Role, created_ids, role_of
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Problem, Stale
from parley.domain.errors.rules import Overspent
from parley.domain.errors.team import AgentDeparted, AskTimeout, NameTaken
from parley.domain.exchange.exchange import Exchange
from parley.domain.hashes import digest
from parley.domain.message.message import Pattern
from parley.domain.record import Expect, expecting
from parley.domain.rules.isolation import are_apart
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from parley.app.rules.docket import RulesDecision, Submission
    from parley.app.team.channels.leases import AnswerEffects
    from parley.app.team.channels.venues import Venue
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

_NO_LOCK = nullcontext()


class Held(NamedTuple):
    """A message held for approval. It has not been delivered."""

    approval: Approval


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
    ids = (message_id or team.new_id("msg"),)
    check_speaks(caller)
    async with lock_conversation(team, caller, draft):
        decided, committed = await decide_and_commit(
            team,
            caller,
            lambda: decide(team, caller, lambda: venue_of(team, caller, channel_id, draft.to), (draft,), ids),
        )
    return Held(decided.held) if decided.held is not None else committed.posts[0]


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
            # A refusal does not consume the idempotency key, so a corrected request can reuse it.
            changes = changes.with_key(caller.saved)
        try:
            try:
                committed = await team.store.commit(changes)
            except Overspent as error:
                decided = await _without_budget(decided, error)
                committed = await team.store.commit(decided.changes)
        except NameTaken:
            # Another commit has just created the same channel, exchange or approval. Drop the exchange's conversation
            # from the cache, and decide again with what is stored.
            team.governance.drop_cached(caller.tenant, decided.changes.puts)
        except Stale as stale:
            # Only a conflict about a record is retried; a used idempotency key is not.
            if "kind" not in stale.facts:
                raise
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


def lock_conversation(team: Team, caller: Caller, draft: PostDraft) -> AbstractAsyncContextManager[None]:
    """Serialise posts of one conversation, so that they do not compete for the same number in it."""
    wishes = draft.wishes
    conversation = draft.in_reply_to
    if wishes is not None:
        from_envelope = wishes.envelope.conversation_id if wishes.envelope else ""
        conversation = wishes.conversation_id or from_envelope or conversation
    return team.governance.lock(caller.tenant, conversation) if conversation else _NO_LOCK


async def decide(
    team: Team,
    caller: Caller,
    find_venue: Callable[[], Awaitable[Venue]],
    drafts: Sequence[PostDraft],
    ids: Sequence[str],
    person: PersonDecision = NOBODY,
) -> PendingCommit:
    """What these drafts would write now. With `person`: the message they approved, or their answer in its place."""
    # Before anything else: nothing overrides the isolation of tenants.
    for draft, message_id in zip(drafts, ids, strict=True):
        if TENANT_MARK in draft.to and draft.to.partition(TENANT_MARK)[2] != caller.tenant:
            changes, refusal = await governing.blocked(team, caller, draft, message_id)
            return PendingCommit(changes, refusal=refusal)
    venue = await find_venue()
    channel, access, expects = venue.channel, venue.access, venue.expects
    docket = person.docket
    if docket is None:
        docket = TeamDocket(team, caller.tenant, await rules.in_force(team, caller.tenant, expects), expects)
    else:
        docket.expects += expects
        expects = docket.expects
    sender_view = await sees(team, channel, access, caller)
    record = await check_present(team, caller.tenant, caller.agent, expects)
    posts: list[Post] = []
    effects: list[AnswerEffects] = []
    newcomers: dict[str, Participant] = {}
    for original, message_id in zip(drafts, ids, strict=True):
        draft = _as_posted(team, caller, original, person)
        answered = await answered_by(team, caller, channel.id, draft, expects, by_person=person is not NOBODY)
        draft, request = answered.draft, answered.request
        role, units, joined = await _addressees(docket, caller, venue, sender_view, record, draft, request)
        placed = place(
            draft,
            message_id,
            docket.now,
            caller.agent,
            sender_view,
            channel,
            access,
            role=role,
            request=request,
            request_state=answered.state,
            units=units,
            joined=joined,
            longest=team.limits.longest_expiry if draft.expires_at else timedelta(0),
        )
        newcomers |= await find_newcomers(team, access, placed)
        if request is not None or draft.forwards:
            effects.append(await effects_of(team, caller, answered, placed, expects, by_person=person is not NOBODY))
        addressee = await check_reachable(team, caller.tenant, placed, expects) if placed.recipients else None
        message = ProposedPost(caller, channel, access, draft, placed, request, record, addressee, person)
        governed = await governing.govern(docket, message)
        if governed.post is not None:
            posts.append(governed.post)
        else:
            decided = await _governed(docket, venue, draft, governed, effects, alone=len(drafts) == 1)
            return _with_newcomers(decided, newcomers) if newcomers else decided
    decided = PendingCommit(with_channel(with_effects(await _ungoverned(docket, venue, drafts, posts), effects), venue))
    return _with_newcomers(decided, newcomers) if newcomers else decided


def _as_posted(team: Team, caller: Caller, original: PostDraft, person: PersonDecision) -> PostDraft:
    """The draft with an address within the tenant, and marked when a person wrote it."""
    draft = original._replace(to=original.to.partition(TENANT_MARK)[0]) if TENANT_MARK in original.to else original
    if caller.kind is KeyKind.HUMAN or SENDER_KIND in draft.metadata:
        by_person = caller.kind is KeyKind.HUMAN and person.releases is None
        draft = draft._replace(metadata=team.envelopes.with_sender_kind(draft.metadata, by_person=by_person))
    return draft


async def _addressees(
    docket: TeamDocket,
    caller: Caller,
    venue: Venue,
    sender_view: View,
    record: AgentRecord | None,
    draft: PostDraft,
    request: Post | None,
) -> tuple[Role | None, Mapping[str, str], Container[str]]:
    """The role that a draft is for, the org units of whom it may be for, and which holders joined the intent."""
    team, channel, access, expects = docket.team, venue.channel, venue.access, docket.expects
    role = await addressed_role(team, caller.tenant, draft, expects)
    addressed = _addressed(draft, role, request)
    units = await _units(docket, access, record, addressed) if access.names_units else NO_UNITS
    joined = await find_joined(team, access, role, docket.at, expects) if role is not None else ()
    if draft.needs_responders and channel.is_open and sender_view.may_write:
        await responders.check(team, caller, channel, access, draft.to, role, units, joined)
    return role, units, joined


def _with_newcomers(decided: PendingCommit, newcomers: Mapping[str, Participant]) -> PendingCommit:
    """The commit, with those who join by its messages; a message that is held or refused lets nobody in."""
    if not decided.changes.posts or decided.held is not None or decided.refusal is not None:
        return decided
    joining = tuple(newcomers.values())
    changes = decided.changes._replace(puts=(*decided.changes.puts, *joining))
    return decided._replace(changes=changes, newcomers=joining)


async def _ungoverned(
    docket: TeamDocket, venue: Venue, drafts: Sequence[PostDraft], posts: Sequence[Post]
) -> TeamChanges:
    """What messages write that are not governed."""
    team, expects = docket.team, docket.expects
    events: tuple[EventDraft, ...] = ()
    if venue.channel.options.audit:
        # Everybody with access to the intent reads its log, of whichever org unit.
        several_units = await rules.several_units(team, docket.tenant, expects)
        logged = [_with_payload_hash(post) if several_units and post.recipients is not None else post for post in posts]
        events = tuple(audited(team, venue.channel, post, draft) for post, draft in zip(logged, drafts, strict=True))
    created = created_ids([post.id for post in posts])
    return TeamChanges(docket.tenant, tuple(posts), tuple(expects), events=events, created_id=created)


def _addressed(draft: PostDraft, role: Role | None, request: Post | None) -> Iterable[str]:
    """The agents that a draft may be for."""
    if role is not None:
        return [holder.agent for holder in role.holders]
    return (request.sender,) if request is not None else (draft.to,)


async def _units(
    docket: TeamDocket, access: Access, sender: AgentRecord | None, agents: Iterable[str]
) -> Mapping[str, str]:
    """The org units of the addressed agents, where the access list names units.

    An agent that is kept apart from the sender is treated as granted, so that the policy denies the message and the
    denial is audited.
    """
    attributes = sender.attributes if sender is not None else UNKNOWN_ATTRIBUTES
    let_in = next(grant.principal_id for grant in access.grants if grant.principal_type == ORG_UNIT)
    units = {}
    for agent in agents:
        other = (await rules.party(docket.team, docket.tenant, agent)).attributes
        units[agent] = let_in if are_apart(docket.book, attributes, other) else other.org_unit
    return units


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


async def addressed_role(team: Team, tenant: str, draft: PostDraft, expects: list[Expect]) -> Role | None:
    """The role that a draft is for, noted as something the decision depends on."""
    role_id = role_of(draft.to)
    if not role_id:
        return None
    role = await team.store.get(Role, tenant, role_id)
    expects.append(expecting(role) if role else Expect(Role.kind, role_id, 0))
    return role


async def reply(team: Team, caller: Caller, channel_id: str, request_id: str, draft: PostDraft) -> Post | Held:
    """Answer a request: whom it goes to and what it answers follow from the request."""
    check_speaks(caller)
    channel, access = await channel_of(team, caller, channel_id)
    sender_view = await sees(team, channel, access, caller)
    answer = draft._replace(pattern=Pattern.RESPONSE, in_reply_to=request_id, to="")
    answered = await answered_by(team, caller, channel_id, answer)
    request = answered.request
    if request is None or request.channel_id != channel_id:
        raise NotFound.no_such("message")
    # An agent must not learn of messages that it may not read, only that a request was not for it.
    if request.pattern is not Pattern.REQUEST and not request.visible_to(sender_view):
        raise NotFound.no_such("message")
    if channel.is_open and sender_view.takes_part:
        check_answerable(request, caller.agent, team.at(), answered.state)
    return await post(team, caller, channel_id, answer)


async def ask(team: Team, caller: Caller, channel_id: str, draft: PostDraft, patience: float) -> Post | Held:
    """Post a request and wait up to `patience` seconds for its first answer. `AskTimeout` when none comes in time.

    A message held for approval returns at once as `Held`.
    """
    check_speaks(caller)
    if draft.pattern is not Pattern.REQUEST:
        raise Invalid.because([Problem("invalid", "message_type", "only a request can be waited for")])

    def bounded() -> PostDraft:
        """The timeout counts from when the request is posted: deciding may have used it up already."""
        return draft._replace(expires_at=draft.expires_at or team.now() + timedelta(seconds=patience))

    message_id = team.new_id("msg")
    first = await decide(
        team, caller, lambda: venue_of(team, caller, channel_id, draft.to), (bounded(),), (message_id,)
    )
    if not first.changes.posts:
        # A person takes longer than an ask waits, so a held message does not expire with this ask.
        return await post(team, caller, channel_id, draft, message_id)
    answer = team.waits.begin(caller.tenant, first.changes.posts[0])
    try:
        request = await post(team, caller, channel_id, bounded(), message_id)
        return request if isinstance(request, Held) else await _answer(team, caller, request, answer, patience)
    finally:
        team.waits.end(message_id, answer)


async def resume_ask(team: Team, caller: Caller, request_id: str, patience: float) -> Post:
    """Wait again for the first answer to a request that is already posted, after a broken connection."""
    request = await team.requests.get(caller.tenant, request_id)
    if request is None:
        raise NotFound.no_such("message")
    return await _answer(team, caller, request, None, patience)


async def _answer(
    team: Team, caller: Caller, request: Post, answer: asyncio.Future[Post] | None, patience: float
) -> Post:
    """The first answer to a request. Whoever is suspended or loses its key meanwhile is refused at once."""
    try:
        async with asyncio.timeout(patience):
            while True:
                try:
                    return await (answer or _first_answer(team, caller.tenant, request))
                except RightsChanged:
                    await check_key(team, caller)
                    answer = None
    except TimeoutError:
        raise AskTimeout(
            f"{request.to} did not answer {request.id} within {patience:g} s",
            facts={"request_id": request.id},
        ) from None


async def _first_answer(team: Team, tenant: str, request: Post) -> Post:
    answer = team.waits.begin(tenant, request)
    try:
        # Begun before we look: what is answered from now on wakes us.
        check_not_withdrawn(request, await team.requests.state(tenant, request))
        answers = await team.store.answers(tenant, request.id)
        return next((post for post in answers if not post.partial), None) or await answer
    finally:
        team.waits.end(request.id, answer)
