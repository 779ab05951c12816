"""Dead letters: who sees them, and how they come back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.app.team.channels import bookmarks
from parley.app.team.channels.bookmarks import SavedPosition
from parley.app.team.queues import claims, dead
from parley.app.team.queues.claims import ClaimWish
from parley.app.team.work.sweep import sweep
from parley.domain.channel.bookmark import Start
from parley.domain.channel.job import DEAD_LETTERS_KEPT, LOST_READERS_MAX, Job, JobState
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Conflict, NotFound
from parley.domain.errors.team import WrongSender
from parley.domain.message.message import Pattern
from tests.rigs.team import Rig, with_rig

pytestmark = pytest.mark.both_stores


async def a_dead_job(rig: Rig, **draft: object) -> Job:
    """A request to any coder that bob could not do."""
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    await rig.role("coder", "bob", "carol")
    await rig.say("alice", "hard", to="any:coder", pattern=Pattern.REQUEST, **draft)  # type: ignore[arg-type]
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())
    return await claims.fail(rig.team, rig.caller("bob"), "bob", item.job.id, item.job.lease, "no disk", None)


@with_rig
async def test_sender_holders_and_keys_of_the_tenant_see_a_dead_letter_and_nobody_else(rig: Rig) -> None:
    job = await a_dead_job(rig)
    admin = rig.caller("", KeyKind.ADMIN)

    for caller in (rig.caller("alice"), rig.caller("bob"), rig.caller("carol"), admin):
        (letter,) = [each async for each in dead.list_page(rig.team, caller, "", "", 10)]
        # The reader's words are for readers: the sender may be of another org unit.
        error = "" if caller.agent == "alice" else "no disk"
        assert (letter.job.error, letter.post.payload if letter.post else b"") == (error, b'{"text": "hard"}')
    for stranger in (rig.caller("dora"), rig.caller("bob", tenant="other")):
        assert [each async for each in dead.list_page(rig.team, stranger, "", "", 10)] == []
        for verb in (dead.get, dead.retry, dead.drop):
            with pytest.raises(NotFound):
                await verb(rig.team, stranger, job.id)
    assert [each async for each in dead.list_page(rig.team, admin, "any:other", "", 10)] == []


@with_rig
async def test_a_retried_letter_is_a_new_job(rig: Rig) -> None:
    job = await a_dead_job(rig)
    await dead.retry(rig.team, rig.caller("alice"), job.id)
    (item,) = await claims.claim(rig.team, rig.caller("carol"), "carol", ClaimWish())

    assert (item.job.attempts, item.job.lost_readers) == (1, 0)
    with pytest.raises(NotFound):
        await dead.retry(rig.team, rig.caller("alice"), job.id)


@with_rig
async def test_a_letter_whose_message_has_expired_is_not_retried(rig: Rig) -> None:
    job = await a_dead_job(rig, expires_at=rig.clock.at + timedelta(seconds=60))
    rig.clock.pass_by(seconds=61)

    with pytest.raises(Conflict, match="expired"):
        await dead.retry(rig.team, rig.caller("alice"), job.id)
    await dead.drop(rig.team, rig.caller("alice"), job.id)
    assert await rig.store.get(Job, DEFAULT_TENANT, job.id) is None


@with_rig
async def test_dead_letters_are_kept_for_their_time(rig: Rig) -> None:
    job = await a_dead_job(rig)
    rig.clock.pass_by(seconds=DEAD_LETTERS_KEPT.total_seconds() - 1)
    await sweep(rig.team)
    assert await rig.store.get(Job, DEFAULT_TENANT, job.id) is not None
    rig.clock.pass_by(seconds=1)
    await sweep(rig.team)

    assert await rig.store.get(Job, DEFAULT_TENANT, job.id) is None


@with_rig
async def test_queues_are_counted_by_state(rig: Rig) -> None:
    await a_dead_job(rig)
    for _ in range(3):
        await rig.say("alice", "more", to="any:coder")
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())
    await claims.finish(rig.team, rig.caller("bob"), "bob", item.job.id, item.job.lease)
    await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())
    expected = {"any:coder": {"waiting": 1, "claimed": 1, "done": 1, "dead": 1}}

    for caller in (rig.caller("bob"), rig.caller("", KeyKind.SERVICE)):
        assert await dead.count(rig.team, caller) == expected
    assert await dead.count(rig.team, rig.caller("dora")) == {}


@with_rig
async def test_an_agent_reports_what_it_could_not_deal_with(rig: Rig) -> None:
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    told = await rig.say("alice", "hard", to="bob")
    other = await rig.say("alice", "secret", to="carol")
    caller = rig.caller("bob")
    await dead.report(rig.team, caller, "bob", told.position, "ValueError: no", 3)
    job = await dead.report(rig.team, caller, "bob", told.position, "ValueError: no", 3)  # changes nothing

    assert (job.queue, job.state, job.error, job.attempts) == ("bob", JobState.DEAD, "ValueError: no", 3)
    with pytest.raises(NotFound):
        await dead.report(rig.team, caller, "bob", other.position, "", 1)
    with pytest.raises(WrongSender):
        await dead.report(rig.team, rig.caller("carol"), "bob", told.position, "", 1)
    await dead.retry(rig.team, caller, job.id)
    (item,) = await claims.claim(rig.team, caller, "bob", ClaimWish())
    assert item.item.position == told.position


@with_rig
async def test_what_ends_its_reader_again_and_again_leaves_the_bookmark(rig: Rig) -> None:
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    told = await rig.say("alice", "poison", to="bob")
    await rig.say("alice", "fine", to="bob")
    caller = rig.caller("bob")
    saved = None
    for attempt in range(LOST_READERS_MAX + 1):
        opened = await bookmarks.open_(rig.team, caller, "bob", "main", Start.BEGINNING)
        assert opened.bookmark.interrupted == (attempt > 0)
        mark = SavedPosition(2, (1, 2), started=(1,))
        saved = await bookmarks.save(rig.team, caller, "bob", "main", opened.bookmark.holder, mark)

    assert saved is not None
    assert saved.bookmark.open == (2,)
    (letter,) = [each async for each in dead.list_page(rig.team, caller, "bob", "", 10)]
    assert (letter.job.item_id, letter.job.error) == (told.id, "its reader ended 5 times")
    assert (letter.job.attempts, letter.job.lost_readers) == (LOST_READERS_MAX, LOST_READERS_MAX)


@with_rig
async def test_a_process_that_stops_in_good_order_blames_nothing(rig: Rig) -> None:
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    await rig.say("alice", "slow", to="bob")
    caller = rig.caller("bob")
    saved = None
    for _ in range(2 * LOST_READERS_MAX):
        opened = await bookmarks.open_(rig.team, caller, "bob", "main", Start.BEGINNING)
        assert not opened.bookmark.interrupted
        holder = opened.bookmark.holder
        await bookmarks.save(rig.team, caller, "bob", "main", holder, SavedPosition(1, (1,), started=(1,)))
        saved = await bookmarks.save(rig.team, caller, "bob", "main", holder, SavedPosition(1, (1,), closes=True))

    assert saved is not None
    assert saved.bookmark.open == (1,)
