"""Ask: post a request, and wait for its first answer. One commit, by one decision."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from parley.app.team.channels.posting import (
    Held,
    PendingCommit,
    check_speaks,
    decide,
    decide_and_commit,
    remembered_changes,
)
from parley.app.team.channels.venues import venue_of
from parley.app.team.directory.keys import check_key
from parley.app.team.rules.governing import lock_conversation
from parley.app.team.state.waits import RightsChanged
from parley.domain.channel.request import check_not_withdrawn
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.errors.team import AskTimeout
from parley.domain.message.message import Pattern
from parley.domain.times import seconds_text

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.directory.callers import Caller


async def ask(team: Team, caller: Caller, channel_id: str, draft: PostDraft, patience: float) -> Post | Held:
    """Post a request and wait up to `patience` seconds for its first answer. `AskTimeout` when none comes in time.

    A message held for approval returns at once as `Held`.
    """
    check_speaks(caller)
    if draft.pattern is not Pattern.REQUEST:
        raise Invalid.because([Problem("invalid", "message_type", "only a request can be waited for")])
    caller = caller._replace(answer=None)  # it is answered with the reply, not with the request
    ids = (team.new_id("msg"),)
    answer: asyncio.Future[Post] | None = None
    tried = False

    async def decide_about(request: PostDraft) -> PendingCommit:
        # What is remembered is tried once: where the commit refuses it, all records are looked at.
        nonlocal tried
        remembered = None if tried else remembered_changes(team, caller, channel_id, request, ids[0])
        tried = True
        if remembered is not None:
            return PendingCommit(remembered)
        return await decide(team, caller, lambda: venue_of(team, caller, channel_id, draft.to), (request,), ids)

    async def attempt() -> PendingCommit:
        nonlocal answer
        # The timeout counts from when the request is posted: an earlier attempt may have used it up already.
        deadline = draft.expires_at or team.now() + timedelta(seconds=patience)
        decided = await decide_about(draft._replace(expires_at=deadline))
        if not decided.changes.posts:
            # A person takes longer than an ask waits, so a held message does not expire with this ask.
            return await decide_about(draft)
        if answer is None:
            answer = team.waits.begin(caller.tenant, decided.changes.posts[0])
        return decided

    try:
        async with lock_conversation(team, caller, draft):
            decided, committed = await decide_and_commit(team, caller, attempt)
        if decided.held is not None:
            return Held(decided.held)
        return await _answer(team, caller, committed.posts[0], answer, patience)
    finally:
        if answer is not None:
            team.waits.end(ids[0], answer)


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
            f"{request.to} did not answer {request.id} within {seconds_text(patience)} s",
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
