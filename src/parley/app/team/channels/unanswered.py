"""Requests that nobody will answer, because their job died or was finished without an answer: their senders are told.

The server answers with an error in the commit that ends the job, so whoever asked does not wait until the expiry. What
a reader wrote about its failure was judged for nobody, so the error only says what happened to the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team import system_posts
from parley.app.team.channels.leases import AnsweredRequest, answer_effects, first_request
from parley.app.team.system_posts import audited
from parley.domain.channel.channel import Channel
from parley.domain.channel.job import failure_of
from parley.domain.channel.post import PostDraft
from parley.domain.directory.callers import QUEUE_PREFIX, SYSTEM
from parley.domain.message.message import Pattern
from parley.domain.record import expecting

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.job import Job
    from parley.domain.channel.post import Post
    from parley.domain.record import Expect
    from parley.domain.store.changes import TeamChanges


async def with_failures(team: Team, changes: TeamChanges, *jobs: Job) -> TeamChanges:
    """The changes that end these jobs, and an error to everyone who waits for the answer of one."""
    for job in jobs:
        if not job.asks:
            continue
        answered = await _open_request(team, job, expects := list(changes.expects))
        if answered is not None:
            changes = await _with_failure(team, changes._replace(expects=tuple(expects)), job, answered)
    return changes


async def _open_request(team: Team, job: Job, expects: list[Expect]) -> AnsweredRequest | None:
    """The request that a job leaves without an answer; None when there is none, or somebody else may answer it."""
    tenant, now = job.tenant_id, team.at()
    received = await team.store.post(tenant, job.item_id, evicted=True)
    if received is None or received.answered or received.over(now) or not _is_for_one(received):
        return None
    state, draft = await team.requests.state(tenant, received, expects), PostDraft(Pattern.RESPONSE, b"")
    if state is None or not state.root:
        return AnsweredRequest(draft, received, job, state)
    for request_id in (state.root, *state.path):
        handed_on = await team.store.post(tenant, request_id, evicted=True)
        if handed_on is not None and not _is_for_one(handed_on):
            return None
    root, root_state = await first_request(team, received, state, expects)
    return AnsweredRequest(draft, root, job, root_state, received, state) if root is not None else None


def _is_for_one(request: Post) -> bool:
    """Whether nobody else can answer a request: it is for one reader of a queue, or for one agent."""
    return request.to.startswith(QUEUE_PREFIX) or (request.recipients is not None and len(request.recipients) == 1)


async def _with_failure(team: Team, changes: TeamChanges, job: Job, answered: AnsweredRequest) -> TeamChanges:
    request, now = answered.request, team.at()
    assert request is not None  # noqa: S101  # it is open
    channel = await team.store.get(Channel, job.tenant_id, request.channel_id)
    if channel is None or not await system_posts.is_alive(team, channel, now):
        return changes
    answer = _failure(team, channel, request, job, now)
    written = {(record.kind, record.id) for record in changes.puts}
    effects = await answer_effects(team, job.tenant_id, answered, answer)
    events = (audited(team, channel, answer, answered.draft),) if channel.options.audit else ()
    return changes._replace(
        posts=(*changes.posts, answer),
        expects=(*changes.expects, expecting(channel)),
        # Two of one sender may make the same mark.
        puts=(*changes.puts, *[record for record in effects.puts if (record.kind, record.id) not in written]),
        events=(*changes.events, *events),
        answered=(*changes.answered, *effects.answered),
        open_requests=(*changes.open_requests, (answered.received or request).id),
    )


def _failure(team: Team, channel: Channel, request: Post, job: Job, now: str) -> Post:
    """The error that the sender of a request gets."""
    code, reason = failure_of(job)
    error = {"code": code, "message": f"nobody will answer {request.id}: {reason}", "agent": SYSTEM}
    post = system_posts.spoken(team, channel, team.envelopes.payload({"error": error}), now, to=request.sender)
    metadata = b'{"error":"%b"}' % code.encode()
    return post._replace(pattern=Pattern.RESPONSE, in_reply_to=request.id, metadata=metadata)
