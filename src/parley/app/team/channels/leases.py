"""The request that a response answers, and the job that ends with it when the request was claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.channel.job import Job, check_lease, enqueue, job_id
from parley.domain.channel.post import check_answerable
from parley.domain.channel.request import RequestMark, RequestState, mark_id, new_mark, new_state, with_answer
from parley.domain.content.envelope import Wishes
from parley.domain.directory.callers import QUEUE_PREFIX
from parley.domain.errors.errors import LeaseLost
from parley.domain.exchange.exchange import Exchange
from parley.domain.message.message import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.app.team.team import Team
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Expect, Record
    from parley.domain.store.changes import TeamChanges


class AnsweredRequest(NamedTuple):
    """A request, the job of whoever answers it, and what happened to it beside its answers."""

    # The draft of the answer; to a request that was handed on, it says by whom, and continues that conversation.
    draft: PostDraft
    request: Post | None = None
    job: Job | None = None
    state: RequestState | None = None
    # When it was handed on: the request that its answerer got, and what is known of that.
    received: Post | None = None
    received_state: RequestState | None = None


class AnswerEffects(NamedTuple):
    """What an answer changes beside its post: a job that ends, and what is known of its request."""

    drops: tuple[Record, ...] = ()
    puts: tuple[Record, ...] = ()
    # Requests that it answers beside the one that it names; and one that must be open for it.
    answered: tuple[str, ...] = ()
    open_requests: tuple[str, ...] = ()


async def answered_by(
    team: Team,
    caller: Caller,
    channel_id: str,
    draft: PostDraft,
    expects: list[Expect] | None = None,
    *,
    by_person: bool = False,
) -> AnsweredRequest:
    """The request of this channel that a draft answers. Whoever claimed it counts as the one who was asked.

    What a person releases, or says instead, needs no lease: the job ended when the answer was held.
    """
    if draft.pattern is not Pattern.RESPONSE or not draft.in_reply_to:
        return AnsweredRequest(draft)
    request = await team.requests.get(caller.tenant, draft.in_reply_to)
    if request is None and draft.lease:
        # Messages that wait in a queue are kept, even where the channel shows only newer ones.
        request = await team.store.post(caller.tenant, draft.in_reply_to, evicted=True)
    # Before the lease is looked at: of a request in another channel, its caller learns nothing.
    if request is None or request.channel_id != channel_id:
        return AnsweredRequest(draft)
    state = await team.requests.state(caller.tenant, request, expects)
    asked, job = await _asked(team, caller, draft, request, by_person=by_person)
    if state is None or not state.root:
        return AnsweredRequest(draft, asked, job, state)
    # It stands for another request, whose sender gets the answer.
    check_answerable(asked, caller.agent, team.at(), state)
    root, root_state = await first_request(team, asked, state, expects)
    if root is None:
        return AnsweredRequest(draft)
    root = root._replace(recipients=(caller.agent,), exchange_id="")
    metadata = team.envelopes.with_forwarded(draft.metadata, asked.id, root.sender, state.chain)
    draft = draft._replace(metadata=metadata, wishes=await _continued(team, caller.tenant, draft.wishes, asked))
    return AnsweredRequest(draft, root, job, root_state, asked, state)


async def first_request(
    team: Team, received: Post, state: RequestState, expects: list[Expect] | None
) -> tuple[Post | None, RequestState | None]:
    """The request that another one stands for, and what happened to it.

    Its channel may have evicted it by now. The one that stands for it ends with it, and is in the same channel.
    """
    tenant = state.tenant_id
    root_state = await team.store.get(RequestState, tenant, state.root)
    if root_state is None:
        return None, None
    root = received._replace(id=state.root, sender=root_state.asker)
    return root, await team.requests.state(tenant, root, expects)


async def _continued(team: Team, tenant: str, wishes: Wishes | None, received: Post) -> Wishes | None:
    """The answer to a governed request that was handed on belongs to the same conversation."""
    exchange = await team.store.get(Exchange, tenant, received.exchange_id) if received.exchange_id else None
    if exchange is None:
        return wishes
    # `meant`: the rules apply to it, as to every answer in an exchange.
    return (wishes or Wishes())._replace(
        parent_message_id=received.id, conversation_id=exchange.conversation_id, meant=True
    )


async def _asked(
    team: Team, caller: Caller, draft: PostDraft, request: Post, *, by_person: bool
) -> tuple[Post, Job | None]:
    """The request with whom it counts as asked, and the job that was claimed."""
    is_queued = request.to.startswith(QUEUE_PREFIX)
    if by_person:
        return (_asked_of(request, caller) if is_queued else request), None
    if not is_queued and not draft.lease:
        return request, None
    if not draft.lease:
        raise LeaseLost(f"{request.id} is for one of {request.to}", hint="claim it, and answer with its lease")
    queue = request.to if is_queued else caller.agent
    job = check_lease(await team.store.get(Job, caller.tenant, job_id(request.id, queue)), caller.agent, draft.lease)
    return _asked_of(request, caller), job


async def answer_effects(team: Team, tenant: str, answered: AnsweredRequest, answer: Post) -> AnswerEffects:
    """What an answer changes: a partial one ends no job, and both count where a request accepts partial answers."""
    request = answered.request
    ids: tuple[str, ...] = ()
    drops = () if answered.job is None or answer.partial else (answered.job,)
    if answered.received is not None and answered.received_state is not None and not answer.partial:
        ids = (*answered.received_state.path, answered.received.id)
    if request is None or not request.partial:
        return AnswerEffects(drops, answered=ids)
    state = with_answer(answered.state or new_state(tenant, request, team.limits.retention), answer)
    # The mark says that there is something to look up. It changes only where others must decide again.
    mark = await team.store.get(RequestMark, tenant, mark_id(request))
    return AnswerEffects(drops, (state,) if mark is not None else (state, new_mark(tenant, request)), ids)


def _asked_of(request: Post, caller: Caller) -> Post:
    return request._replace(recipients=(caller.agent,))


def with_effects(changes: TeamChanges, effects: Sequence[AnswerEffects]) -> TeamChanges:
    """The changes with the jobs that its posts make, and with what its answers change."""
    drops = tuple([record for effect in effects for record in effect.drops]) if effects else ()
    # What is held says nothing yet.
    if effects and any(post.pattern is not Pattern.NOTIFY for post in changes.posts):
        changes = changes._replace(
            puts=(*changes.puts, *[record for effect in effects for record in effect.puts]),
            answered=tuple([request_id for effect in effects for request_id in effect.answered]),
            open_requests=tuple([request_id for effect in effects for request_id in effect.open_requests]),
        )
    if not drops and not any(post.to.startswith(QUEUE_PREFIX) for post in changes.posts):
        return changes
    posts, jobs = enqueue(changes.tenant, changes.posts)
    return changes._replace(posts=posts, puts=(*changes.puts, *jobs), drops=(*changes.drops, *drops))
