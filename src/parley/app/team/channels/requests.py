"""What happens to a request beside its answers: its sender withdraws it. And where a request stands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.rules import exchanges as exchange_rules
from parley.app.rules.recording import withdrawn_entries
from parley.app.team import system_posts
from parley.app.team.channels import posting, reading, venues
from parley.app.team.channels.channels import find_channel
from parley.app.team.channels.forwarding import forward_draft, next_mark
from parley.app.team.channels.posting import Held, check_speaks
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
    new_state,
    phase_of,
)
from parley.domain.directory.callers import QUEUE_PREFIX
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import NotARequest
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.message.message import Pattern
from parley.domain.record import expecting
from parley.domain.store.changes import Moved, TeamChanges

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

WITHDRAWN = "request_withdrawn"


class RequestView(NamedTuple):
    """A request with what happened to it, as its sender and those who were asked see it."""

    request: Post
    phase: RequestPhase
    state: RequestState | None
    # In their order.
    answers: tuple[Post, ...]
    # How many partial answers are stored.
    parts: int = 0


async def get(team: Team, caller: Caller, channel_id: str, request_id: str) -> RequestView:
    """Where a request stands. `NotFound` when the caller may not see it, or when it is no request."""
    request = (await reading.get(team, caller, channel_id, request_id)).post
    if request.pattern is not Pattern.REQUEST:
        raise NotFound.no_such("request")
    state = await team.requests.state(caller.tenant, request)
    responses = await team.store.answers(caller.tenant, request_id)
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
        forwarded = await forward_draft(team, caller, channel_id, draft)
        return await posting.decide(
            team, caller, lambda: venues.venue_of(team, caller, channel_id), (forwarded,), (message_id,)
        )

    decided, done = await posting.decide_and_commit(team, caller, attempt)
    return Held(decided.held) if decided.held is not None else done.posts[0]


async def withdraw(team: Team, caller: Caller, channel_id: str, request_id: str) -> RequestView:
    """Withdraw a request: it can no longer be answered, and whoever was asked is notified. Twice is no error."""
    check_speaks(caller)

    async def decide() -> TeamChanges | None:
        request = (await reading.get(team, caller, channel_id, request_id)).post
        state = await team.requests.state(caller.tenant, request)
        if state is not None and state.withdrawn_at and caller.agent == request.sender:
            return None
        check_withdrawable(request, state, caller.agent, team.at())
        return await _withdrawal(team, caller, request, state)

    await committed(team, caller, decide, "request")
    return await get(team, caller, channel_id, request_id)


async def _withdrawal(team: Team, caller: Caller, request: Post, state: RequestState | None) -> TeamChanges:
    """The commit of a withdrawal; it is refused as stale when an answer was faster."""
    now, tenant = team.at(), caller.tenant
    channel = await team.store.get(Channel, tenant, request.channel_id)
    if channel is None:
        raise NotFound.no_such("channel")
    changes = await _governed_withdrawal(team, caller, request) if request.exchange_id else TeamChanges(tenant)
    jobs = await _jobs(team, tenant, request)
    forwards = await _forwards(team, tenant, state)
    forwardings = [forwarding for known in (state, *forwards) if known for forwarding in known.forwards]
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
        moved=tuple([Moved(expired, PostState.EXPIRED) for expired in (request.id, *[one.id for one in forwards])]),
        open_requests=(request.id,),
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
