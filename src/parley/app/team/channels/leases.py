"""The request that a response answers, and the job that ends with it when the request was claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.channel.job import Job, check_lease, enqueue, job_id
from parley.domain.channel.request import RequestMark, mark_id, new_mark, new_state, with_answer
from parley.domain.directory.callers import QUEUE_PREFIX
from parley.domain.errors.errors import LeaseLost
from parley.domain.message.message import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.app.team.team import Team
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.channel.request import RequestState
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Expect, Record
    from parley.domain.store.changes import TeamChanges


class AnsweredRequest(NamedTuple):
    """A request, the job of whoever answers it, and what happened to it beside its answers."""

    request: Post | None
    job: Job | None = None
    state: RequestState | None = None


class AnswerEffects(NamedTuple):
    """What an answer changes beside its post: a job that ends, and what is known of its request."""

    drops: tuple[Record, ...] = ()
    puts: tuple[Record, ...] = ()


async def answered_by(
    team: Team, caller: Caller, draft: PostDraft, expects: list[Expect] | None = None, *, by_person: bool = False
) -> AnsweredRequest:
    """The request that a draft answers. Whoever claimed it counts as the one who was asked.

    What a person releases, or says instead, needs no lease: the job ended when the answer was held.
    """
    if draft.pattern is not Pattern.RESPONSE or not draft.in_reply_to:
        return AnsweredRequest(None)
    request = await team.requests.get(caller.tenant, draft.in_reply_to)
    if request is None and draft.lease:
        # Messages that wait in a queue are kept, even where the channel shows only newer ones.
        request = await team.store.post(caller.tenant, draft.in_reply_to, evicted=True)
    if request is None:
        return AnsweredRequest(None)
    state = await team.requests.state(caller.tenant, request, expects)
    is_queued = request.to.startswith(QUEUE_PREFIX)
    if by_person:
        return AnsweredRequest(_asked_of(request, caller) if is_queued else request, state=state)
    if not is_queued and not draft.lease:
        return AnsweredRequest(request, state=state)
    if not draft.lease:
        raise LeaseLost(f"{request.id} is for one of {request.to}", hint="claim it, and answer with its lease")
    queue = request.to if is_queued else caller.agent
    job = check_lease(await team.store.get(Job, caller.tenant, job_id(request.id, queue)), caller.agent, draft.lease)
    return AnsweredRequest(_asked_of(request, caller), job, state)


async def effects_of(team: Team, tenant: str, answered: AnsweredRequest, answer: Post) -> AnswerEffects:
    """What an answer changes: a partial one ends no job, and both count where a request accepts partial answers."""
    request = answered.request
    drops = () if answered.job is None or answer.partial else (answered.job,)
    if request is None or not request.partial:
        return AnswerEffects(drops)
    state = with_answer(answered.state or new_state(tenant, request, team.limits.retention), answer)
    # The mark says that there is something to look up. It changes only where others must decide again.
    mark = await team.store.get(RequestMark, tenant, mark_id(request))
    return AnswerEffects(drops, (state,) if mark is not None else (state, new_mark(tenant, request)))


def _asked_of(request: Post, caller: Caller) -> Post:
    return request._replace(recipients=(caller.agent,))


def with_effects(changes: TeamChanges, effects: Sequence[AnswerEffects]) -> TeamChanges:
    """The changes with the jobs that its posts make, and with what its answers change."""
    drops = tuple([record for effect in effects for record in effect.drops]) if effects else ()
    # What is held says nothing yet.
    if effects and any(post.in_reply_to for post in changes.posts):
        changes = changes._replace(puts=(*changes.puts, *[record for effect in effects for record in effect.puts]))
    if not drops and not any(post.to.startswith(QUEUE_PREFIX) for post in changes.posts):
        return changes
    posts, jobs = enqueue(changes.tenant, changes.posts)
    return changes._replace(posts=posts, puts=(*changes.puts, *jobs), drops=(*changes.drops, *drops))
