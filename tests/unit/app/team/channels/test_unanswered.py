"""Requests that nobody will answer: whoever asked is told in the commit that ends the job."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from parley.app.team.channels import asking, bookmarks, posting, requests
from parley.app.team.channels.bookmarks import SavedPosition
from parley.app.team.queues import claims, dead
from parley.app.team.queues.claims import ClaimWish
from parley.domain.channel.bookmark import Start
from parley.domain.channel.job import LOST_READERS_MAX
from parley.domain.channel.post import Post, PostDraft
from parley.domain.channel.request import RequestPhase
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.team import AlreadyAnswered
from parley.domain.message.message import Pattern
from tests.rigs.team import CHANNEL, Rig, delivered, soon, with_rig

pytestmark = pytest.mark.both_stores

PARTS = b'{"accepts_partial":true}'


async def stage(rig: Rig) -> None:
    await rig.intent(agents=("bob", "carol", "dora"))
    await rig.channel()
    await rig.role("coder", "bob", "carol")


async def fail(rig: Rig, request: Post, agent: str = "bob") -> None:
    """It fails for good."""
    (item,) = await claims.claim(rig.team, rig.caller(agent), agent, ClaimWish(shared=request.to == agent))
    await claims.fail(rig.team, rig.caller(agent), agent, item.job.id, item.job.lease, "no disk", None)


async def finish(rig: Rig, _request: Post) -> None:
    """Its reader has nothing to say."""
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())
    await claims.finish(rig.team, rig.caller("bob"), "bob", item.job.id, item.job.lease)


async def lose(rig: Rig, _request: Post) -> None:
    """It ends its readers."""
    for _ in range(LOST_READERS_MAX):
        await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish(lease_seconds=5))
        rig.clock.pass_by(seconds=5)
    assert await claims.claim(rig.team, rig.caller("carol"), "carol", ClaimWish()) == []


async def report(rig: Rig, request: Post) -> None:
    """An agent that has its mail for itself gives up."""
    await dead.report(rig.team, rig.caller("bob"), "bob", request.position, "no disk", 3)


async def lose_mail(rig: Rig, request: Post) -> None:
    """It ends the process of an agent that has its mail for itself."""
    for _ in range(LOST_READERS_MAX + 1):
        opened = await bookmarks.open_(rig.team, rig.caller("bob"), "bob", "main", Start.BEGINNING)
        mark = SavedPosition(request.position, (request.position,), started=(request.position,))
        await bookmarks.save(rig.team, rig.caller("bob"), "bob", "main", opened.bookmark.holder, mark)


async def forward_and_fail(rig: Rig, request: Post) -> None:
    """Who was asked hands it on to a queue, where it fails."""
    draft = PostDraft(Pattern.REQUEST, b"", "any:coder", forwards=request.id)
    await requests.forward(rig.team, rig.caller("dora"), CHANNEL, draft)
    await fail(rig, request)


End = Callable[[Rig, Post], Awaitable[None]]
ENDS: list[tuple[str, End, str, str]] = [
    ("any:coder", fail, "dead_letter", "its reader could not finish it, at attempt 1"),
    ("any:coder", lose, "dead_letter", "its reader ended 5 times"),
    ("any:coder", finish, "no_answer", "its reader finished it without an answer"),
    ("bob", fail, "dead_letter", "its reader could not finish it, at attempt 1"),
    ("bob", report, "dead_letter", "its reader could not finish it, at attempt 3"),
    ("bob", lose_mail, "dead_letter", "its reader ended 5 times"),
    ("dora", forward_and_fail, "dead_letter", "its reader could not finish it, at attempt 1"),
]
IDS = [f"{to} {end.__name__}" for to, end, _, _ in ENDS]


@pytest.mark.parametrize(("to", "end", "code", "reason"), ENDS, ids=IDS)
@with_rig
async def test_who_asked_is_told_at_once_why_nobody_will_answer(
    rig: Rig, to: str, end: End, code: str, reason: str
) -> None:
    await stage(rig)
    draft = PostDraft(Pattern.REQUEST, b'{"text": "work"}', to)
    asked = asyncio.ensure_future(asking.ask(rig.team, rig.caller("alice"), CHANNEL, draft, 3600))
    await soon(lambda: newest_request(rig) is not None)
    request = newest_request(rig)
    assert request is not None
    await end(rig, request)

    async with asyncio.timeout(10):
        answer = delivered(await asked)
    assert (answer.sender, answer.recipients, answer.in_reply_to) == ("system", ("alice",), request.id)
    error = {"code": code, "message": f"nobody will answer {request.id}: {reason}", "agent": "system"}
    assert json.loads(answer.payload) == {"error": error}
    assert json.loads(answer.metadata) == {"error": code}
    assert b"no disk" not in answer.payload  # a reader's words were judged for nobody
    view = await requests.get(rig.team, rig.caller("alice"), CHANNEL, request.id)
    assert (view.phase, [each.id for each in view.answers]) == (RequestPhase.ANSWERED, [answer.id])


def newest_request(rig: Rig) -> Post | None:
    return rig.team.requests.unanswered(DEFAULT_TENANT, CHANNEL, "alice")


@with_rig
async def test_the_answer_of_a_retried_letter_is_recorded_beside_the_error(rig: Rig) -> None:
    await stage(rig)
    request = await rig.say("alice", "work", to="any:coder", pattern=Pattern.REQUEST)
    await fail(rig, request)
    await dead.retry(rig.team, rig.caller("alice"), request.id)
    (item,) = await claims.claim(rig.team, rig.caller("carol"), "carol", ClaimWish())
    draft = PostDraft(Pattern.RESPONSE, b'{"answer":42}', lease=item.job.lease)
    await posting.reply(rig.team, rig.caller("carol"), CHANNEL, request.id, draft)

    view = await requests.get(rig.team, rig.caller("alice"), CHANNEL, request.id)
    assert [answer.sender for answer in view.answers] == ["system", "carol"]


@with_rig
async def test_a_retried_letter_that_dies_again_is_told_once(rig: Rig) -> None:
    await stage(rig)
    request = await rig.say("alice", "work", to="any:coder", pattern=Pattern.REQUEST)
    await fail(rig, request)
    await dead.retry(rig.team, rig.caller("alice"), request.id)
    await fail(rig, request)

    assert len(await rig.store.answers(DEFAULT_TENANT, request.id)) == 1


@with_rig
async def test_a_retried_letter_that_was_told_is_not_handed_on_and_gets_no_parts(rig: Rig) -> None:
    await stage(rig)
    request = await rig.say("alice", "work", to="any:coder", pattern=Pattern.REQUEST, partial=True, metadata=PARTS)
    await fail(rig, request)
    await dead.retry(rig.team, rig.caller("alice"), request.id)
    (item,) = await claims.claim(rig.team, rig.caller("carol"), "carol", ClaimWish())

    draft = PostDraft(Pattern.REQUEST, b"", "dora", forwards=request.id, lease=item.job.lease)
    with pytest.raises(AlreadyAnswered):
        await requests.forward(rig.team, rig.caller("carol"), CHANNEL, draft)
    part = PostDraft(Pattern.RESPONSE, b"{}", lease=item.job.lease, partial=True)
    with pytest.raises(AlreadyAnswered):
        await posting.reply(rig.team, rig.caller("carol"), CHANNEL, request.id, part)


@with_rig
async def test_several_that_die_in_one_commit_are_all_told(rig: Rig) -> None:
    await stage(rig)
    posts = [
        await rig.say("alice", "work", to="any:coder", pattern=Pattern.REQUEST, partial=True, metadata=PARTS)
        for _ in range(3)
    ]
    for _ in range(LOST_READERS_MAX):
        await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish(most=3, lease_seconds=5))
        rig.clock.pass_by(seconds=5)
    assert await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish(most=3)) == []

    for post in posts:
        (answer,) = await rig.store.answers(DEFAULT_TENANT, post.id)
        assert answer.sender == "system"


@pytest.mark.parametrize("case", ["role", "notification", "expired", "withdrawn", "shared and finished"])
@with_rig
async def test_nothing_is_said_where_nobody_waits_or_somebody_else_may_answer(rig: Rig, case: str) -> None:
    await stage(rig)
    to = {"role": "role:coder", "shared and finished": "bob"}.get(case, "any:coder")
    pattern = Pattern.NOTIFY if case == "notification" else Pattern.REQUEST
    expires_at = rig.clock.at + timedelta(seconds=60) if case == "expired" else None
    post = await rig.say("alice", "work", to=to, pattern=pattern, expires_at=expires_at)
    wish = ClaimWish(shared=not to.startswith("any:"), start=Start.BEGINNING)
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", wish)
    held = (rig.team, rig.caller("bob"), "bob", item.job.id, item.job.lease)
    if case == "shared and finished":
        await claims.finish(*held)  # it may still answer, as who was asked
    else:
        rig.clock.pass_by(seconds=60 if case == "expired" else 0)
        if case == "withdrawn":
            await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, post.id)
            return
        await claims.fail(*held, "no disk", None)

    assert await rig.store.answers(DEFAULT_TENANT, post.id) == ()
