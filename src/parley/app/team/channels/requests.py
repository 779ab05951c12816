"""What happens to a request beside its answers: its sender withdraws it. Where one stands, and which wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.rules import exchanges as exchange_rules
from parley.app.rules.recording import withdrawn_entries
from parley.app.team import system_posts
from parley.app.team.channels import posting, reading, venues
from parley.app.team.channels.channels import find_channel, view_of
from parley.app.team.channels.forwarding import forward_draft, next_mark
from parley.app.team.channels.posting import Held, check_speaks
from parley.app.team.channels.visible import scope_of_all
from parley.app.team.directory.viewers import list_viewers
from parley.app.team.retry import committed
from parley.app.team.rules.docket import TeamDocket
from parley.app.team.system_posts import audited
from parley.domain.channel.channel import Channel
from parley.domain.channel.job import Job, job_id
from parley.domain.channel.post import Post, PostDraft, PostState
from parley.domain.channel.request import (
    RequestPhase,
    RequestState,
    check_withdrawable,
    evicted_request,
    new_state,
    phase_of,
)
from parley.domain.directory.callers import QUEUE_PREFIX, Role, role_of
from parley.domain.errors.errors import LeaseLost, NotFound
from parley.domain.errors.team import BadCursor, NotARequest
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.message.message import Pattern
from parley.domain.record import expecting
from parley.domain.store.changes import Moved, TeamChanges, UnansweredQuery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

WITHDRAWN = "request_withdrawn"
# Messages read at once for a list: each may be as long as a body.
_PAGE = 50


class RequestView(NamedTuple):
    """A request with what happened to it, as its sender and those who were asked see it."""

    request: Post
    phase: RequestPhase
    state: RequestState | None
    # In their order.
    answers: tuple[Post, ...]
    # How many partial answers are stored.
    parts: int = 0


class UnansweredRequest(NamedTuple):
    """A request that nobody has answered. Its time has passed when it is `late`."""

    request: Post
    late: bool
    # Who has it now, where whoever was asked has handed it on.
    forwarded_to: str = ""


async def list_unanswered(
    team: Team, caller: Caller, wanted: UnansweredQuery, after: str = ""
) -> AsyncIterator[UnansweredRequest]:
    """The unanswered requests that the caller may see, after one of them. A person sees those of its agents."""
    tenant, left = caller.tenant, wanted.limit
    if after:
        cursor = await team.store.post(tenant, after, evicted=True)
        if cursor is None:
            raise BadCursor("after is no message that is kept")
        wanted = wanted._replace(after=cursor.position)
    viewers = await _viewers(team, caller)
    wanted = wanted._replace(viewers=viewers, limit=_PAGE)
    readable = await _readable_channels(team, caller, viewers)
    while left and (page := await team.store.unanswered(tenant, wanted)):
        for request in page:
            if left and _is_readable(request, readable):
                left -= 1
                state = await team.requests.state(tenant, request)
                forwarded_to = state.forwards[-1].to if state is not None and state.forwards else ""
                yield UnansweredRequest(request, request.over(wanted.now), forwarded_to)
        wanted = wanted._replace(after=page[-1].position)


async def count_unanswered(team: Team, caller: Caller, wanted: UnansweredQuery) -> int:
    """How many requests match that the caller may see."""
    wanted = wanted._replace(viewers=await _viewers(team, caller))
    return sum([number for _, number in await team.store.count_unanswered(caller.tenant, wanted)])


async def open_by_agent(team: Team, caller: Caller, agent: str = "") -> Counter[str]:
    """How many requests wait for each agent, or for one of them, of those that the caller may see."""
    wanted = UnansweredQuery(team.at(), agent=agent, viewers=await _viewers(team, caller))
    waiting: Counter[str] = Counter()
    for recipients, number in await team.store.count_unanswered(caller.tenant, wanted):
        waiting.update(dict.fromkeys(recipients, number))
    return waiting


async def _viewers(team: Team, caller: Caller) -> tuple[str, ...] | None:
    """Whose requests a caller sees: those of its agent, of all agents that act for a person; None: everybody's."""
    if caller.all_seeing:
        return None
    return tuple([viewer.caller.agent for viewer in await list_viewers(team, caller) if viewer.caller.agent])


async def _readable_channels(
    team: Team, caller: Caller, viewers: tuple[str, ...] | None
) -> dict[str, Mapping[str, int]] | None:
    """The channels that each viewer may read; None: all of them."""
    if viewers is None:
        return None
    scopes = {viewer: await scope_of_all(team, caller._replace(agent=viewer)) for viewer in viewers}
    return {viewer: scope.channels or {} for viewer, scope in scopes.items()}


def _is_readable(request: Post, readable: dict[str, Mapping[str, int]] | None) -> bool:
    """Whether one of the viewers may read the channel of a request that it sent or was asked."""
    if readable is None:
        return True
    parties = {request.sender, *(request.recipients or ())}
    return any(viewer in parties and request.channel_id in channels for viewer, channels in readable.items())


async def get(team: Team, caller: Caller, channel_id: str, request_id: str) -> RequestView:
    """Where a request stands. `NotFound` when the caller may not see it, or when it is no request."""
    request, _ = await _find(team, caller, channel_id, request_id)
    if request.pattern is not Pattern.REQUEST:
        raise NotFound.no_such("request")
    status = await _view(team, caller.tenant, request)
    # Whoever handed it on learns that it is answered, and nothing of the answer.
    reader = await view_of(team, caller, channel_id)
    return status._replace(answers=tuple([answer for answer in status.answers if answer.visible_to(reader)]))


async def _find(team: Team, caller: Caller, channel_id: str, request_id: str) -> tuple[Post, str]:
    """A request that the caller may see, and the message that is open as long as it is: mostly its own.

    For its sender also one that the channel has evicted, as long as a request that stands for it is kept.
    """
    try:
        return (await reading.get(team, caller, channel_id, request_id)).post, request_id
    except NotFound:
        state = await team.store.get(RequestState, caller.tenant, request_id)
        if state is None or (state.asker, state.channel_id) != (caller.agent, channel_id) or state.root:
            raise
        await find_channel(team, caller, channel_id)
        ids = [forward.id for forward in await _forwards(team, caller.tenant, state)]
        kept = [post for forward_id in ids if (post := await team.store.post(caller.tenant, forward_id, evicted=True))]
        if not kept:
            raise
        forward = next((post for post in kept if post.answered), kept[0])
        return evicted_request(state, forward), forward.id


async def _view(team: Team, tenant: str, request: Post) -> RequestView:
    state = await team.requests.state(tenant, request)
    responses = await team.store.answers(tenant, request.id)
    answers = tuple([response for response in responses if not response.partial])
    phase = phase_of(request, state, team.at())
    if phase is RequestPhase.ANSWERED and answers and team.envelopes.is_question(answers[-1].metadata):
        phase = RequestPhase.QUESTION
    return RequestView(request, phase, state, answers, len(responses) - len(answers))


async def forward(team: Team, caller: Caller, channel_id: str, draft: PostDraft) -> Post | Held:
    """Hand a request on, by a request of one's own: whoever gets it answers the first sender."""
    check_speaks(caller)
    message_id = team.new_id("msg")

    async def attempt() -> posting.PendingCommit:
        # Of what one may not see, one learns nothing. Who has claimed a request shows its lease instead.
        await find_channel(team, caller, channel_id)
        request = None if draft.lease else (await reading.get(team, caller, channel_id, draft.forwards)).post
        if request is not None and request.pattern is not Pattern.REQUEST:
            raise NotARequest(f"{request.id} is a {request.pattern.value}; only a request is handed on")
        try:
            forwarded = await forward_draft(team, caller, channel_id, draft)
        except LeaseLost:
            await _check_knows(team, caller, channel_id, draft.forwards)
            raise
        return await posting.decide(
            team, caller, lambda: venues.venue_of(team, caller, channel_id), (forwarded,), (message_id,)
        )

    decided, done = await posting.decide_and_commit(team, caller, attempt)
    return Held(decided.held) if decided.held is not None else done.posts[0]


async def _check_knows(team: Team, caller: Caller, channel_id: str, request_id: str) -> None:
    """Refuse as not found, unless the caller may see the request or claim it."""
    request = await team.store.post(caller.tenant, request_id, evicted=True)
    role_id = role_of(request.to) if request is not None else ""
    role = await team.store.get(Role, caller.tenant, role_id) if role_id else None
    if role is None or not role.held_by(caller.agent):
        await reading.get(team, caller, channel_id, request_id)


async def withdraw(team: Team, caller: Caller, channel_id: str, request_id: str) -> RequestView:
    """Withdraw a request: it can no longer be answered, and whoever was asked is notified. Twice is no error."""
    check_speaks(caller)

    request: Post

    async def decide() -> TeamChanges | None:
        nonlocal request
        request, open_id = await _find(team, caller, channel_id, request_id)
        state = await team.requests.state(caller.tenant, request)
        if state is not None and state.withdrawn_at and caller.agent == request.sender:
            return None
        check_withdrawable(request, state, caller.agent, team.at())
        return await _withdrawal(team, caller, request, state, open_id)

    await committed(team, caller, decide, "request")
    # Its job has ended, so the channel may have evicted it.
    return await _view(team, caller.tenant, await team.store.post(caller.tenant, request_id, evicted=True) or request)


async def _withdrawal(
    team: Team, caller: Caller, request: Post, state: RequestState | None, open_id: str
) -> TeamChanges:
    """The commit of a withdrawal; it is refused as stale when an answer was faster."""
    now, tenant = team.at(), caller.tenant
    channel = await team.store.get(Channel, tenant, request.channel_id)
    if channel is None:
        raise NotFound.no_such("channel")
    changes = await _governed_withdrawal(team, caller, request) if request.exchange_id else TeamChanges(tenant)
    jobs = await _jobs(team, tenant, request)
    forwards = await _forwards(team, tenant, state)
    forwardings = [forwarding for stored in (state, *forwards) if stored for forwarding in stored.forwards]
    handed_on = {forwarding.by for forwarding in forwardings}
    queued = {forwarding.request_id for forwarding in forwardings if forwarding.to.startswith(QUEUE_PREFIX)}
    jobs += [job for forward_id in queued if (job := await team.store.get(Job, tenant, forward_id)) is not None]
    # Whoever has it now, and the request as it got it.
    holders = dict.fromkeys(request.recipients or (), request.id)
    holders |= {agent: forward.id for forward in forwards if forward.id not in queued for agent in forward.asked}
    # Of those who could have claimed it, only the one who did.
    holders |= {job.holder: job.item_id for job in jobs if job.holder}
    asked = {agent: received for agent, received in holders.items() if agent not in handed_on}
    notices = [_notice(team, channel, received, request.sender, agent, now) for agent, received in asked.items()]
    events = [audited(team, channel, notice, PostDraft(notice.pattern, b"")) for notice in notices]
    withdrawn = replace(state or new_state(tenant, request, team.limits.retention), withdrawn_at=now)
    entry = team.entry(caller, WITHDRAWN, request.id, channel=channel.id, to=request.to)
    return changes._replace(
        posts=(*changes.posts, *notices),
        expects=(*changes.expects, expecting(channel)),
        puts=(
            *changes.puts,
            withdrawn,
            await next_mark(team, tenant, request),
            *[replace(forward, withdrawn_at=now) for forward in forwards],
        ),
        events=(*changes.events, *(events if channel.options.audit else ())),
        moved=tuple(
            [Moved(expired, PostState.EXPIRED) for expired in (request.id, *[forward.id for forward in forwards])]
        ),
        open_requests=(open_id,),
        entries=(entry,),
        drops=(*changes.drops, *jobs),
    )


async def _forwards(team: Team, tenant: str, state: RequestState | None) -> list[RequestState]:
    """What is known of the requests that stand for this one, in the order in which it was handed on."""
    states: list[RequestState] = []
    waiting = [state] if state is not None else []
    while waiting:
        for forwarding in waiting.pop().forwards:
            forward = await team.store.get(RequestState, tenant, forwarding.request_id)
            if forward is not None:
                states.append(forward)
                waiting.append(forward)
    return states


async def _jobs(team: Team, tenant: str, request: Post) -> list[Job]:
    """The jobs of a request in the queues of a role and of agents with several processes; they end with it."""
    queues = (request.to,) if request.to.startswith(QUEUE_PREFIX) else request.recipients or ()
    jobs = [await team.store.get(Job, tenant, job_id(request.id, queue)) for queue in queues]
    return [job for job in jobs if job is not None]


def _notice(team: Team, channel: Channel, request_id: str, asker: str, agent: str, now: str) -> Post:
    payload = b'{"event":"%b","request_id":"%b","agent_id":"%b"}' % (
        WITHDRAWN.encode(),
        request_id.encode(),
        asker.encode(),
    )
    return system_posts.spoken(team, channel, payload, now, to=agent)


async def _governed_withdrawal(team: Team, caller: Caller, request: Post) -> TeamChanges:
    """The audit entries of both sides; and the end of the exchange, when the request was the last thing said in it.

    An exchange that waits for a person is ended by a person only, so it stays as it is.
    """
    docket = await TeamDocket.open(team, caller.tenant)
    exchange = await docket.exchange(request.exchange_id)
    if exchange is None:
        return TeamChanges(caller.tenant)
    sides = (request.sender, *(request.recipients or ()))
    audits = withdrawn_entries(docket, exchange, request.id, sides, caller.actor)
    if (
        exchange.over
        or not _is_last(team, request, exchange)
        or await _waits_for_person(docket, exchange, request.sender)
    ):
        return TeamChanges(caller.tenant, expects=tuple(docket.expects), audits=audits)
    reason = "the request was withdrawn"
    decision = await exchange_rules.end(docket, exchange, Outcome.EXPIRED, caller.actor, reason)
    return await docket.changes(decision._replace(audits=(*audits, *decision.audits)))


async def _waits_for_person(docket: TeamDocket, exchange: Exchange, agent: str) -> bool:
    """Whether a person has to decide first: about the round limit, or about a message of this agent."""
    if exchange.limit_approval:
        return True
    approvals = [await docket.approval(approval_id) for approval_id in exchange.holds]
    return any(approval is not None and approval.agent == agent for approval in approvals)


def _is_last(team: Team, request: Post, exchange: Exchange) -> bool:
    """Whether nothing was said in the exchange after this request."""
    wishes = team.envelopes.wishes(request.metadata)
    envelope = wishes.envelope if wishes is not None else None
    return envelope is not None and envelope.exchange_round == exchange.current_round
