"""Shared mail: several processes of an agent take turns, and none of them gets what another has."""

from __future__ import annotations

import pytest

from parley.app.team.channels import bookmarks
from parley.app.team.channels.bookmarks import SavedPosition
from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimedItem, ClaimWish
from parley.app.team.queues.sharing import LABEL
from parley.domain.channel.bookmark import Start
from parley.domain.channel.event import AGENT_ASSIGNED
from parley.domain.channel.post import PostDraft
from parley.domain.errors.errors import LeaseLost
from parley.domain.errors.team import BookmarkTaken
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges
from tests.rigs.team import CHANNEL, INTENT, Rig, with_rig

pytestmark = pytest.mark.both_stores


async def stage(rig: Rig) -> None:
    await rig.intent(assignments=(rig.assignment("bob"),))
    await rig.channel()


async def claim(rig: Rig, most: int = 1, start: Start = Start.BEGINNING) -> list[ClaimedItem]:
    """As a process of bob."""
    wish = ClaimWish(most, shared=True, start=start)
    return await claims.claim(rig.team, rig.caller("bob"), "bob", wish)


def texts(items: list[ClaimedItem]) -> list[str]:
    return [item.item.post.payload.decode()[10:-2] for item in items if item.item.post is not None]


@with_rig
async def test_each_message_goes_to_one_process_in_order(rig: Rig) -> None:
    await stage(rig)
    await rig.role("coder", "bob")
    await rig.say("alice", "direct", to="bob")
    await rig.say("alice", "role", to="role:coder")
    await rig.say("alice", "all", pattern=Pattern.BROADCAST)
    await rig.say("alice", "other", to="carol")
    await rig.say("bob", "own", to="alice")
    first, second = await claim(rig, 2), await claim(rig, 2)

    assert (texts(first), texts(second)) == (["direct", "role"], ["all"])
    assert await claim(rig) == []


@with_rig
async def test_a_request_is_answered_with_its_lease_and_a_late_process_is_refused(rig: Rig) -> None:
    from parley.app.team.channels import posting

    await stage(rig)
    request = await rig.say("alice", "how?", to="bob", pattern=Pattern.REQUEST)
    (late,) = await claim(rig)
    rig.clock.pass_by(seconds=30)
    (item,) = await claim(rig)

    def answer(lease: str) -> PostDraft:
        return PostDraft(Pattern.RESPONSE, b"{}", lease=lease)

    with pytest.raises(LeaseLost):
        await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, answer(late.job.lease))
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, answer(item.job.lease))
    rig.clock.pass_by(hours=1)
    assert await claim(rig) == []


@with_rig
async def test_assignments_become_jobs_and_responses_do_not(rig: Rig) -> None:
    await stage(rig)
    caller = rig.caller("alice")
    events = [
        rig.team.event_by(caller, INTENT, AGENT_ASSIGNED, agent_id=agent, role="worker") for agent in ("bob", "carol")
    ]
    await rig.store.commit(TeamChanges("default", events=tuple(events)))
    request = await rig.say("bob", "how?", to="alice", pattern=Pattern.REQUEST)
    await rig.say("alice", "so", pattern=Pattern.RESPONSE, in_reply_to=request.id)
    items = await claim(rig, 9)

    assert [item.item.event.event_type for item in items if item.item.event is not None] == [AGENT_ASSIGNED]
    assert texts(items) == []


@with_rig
async def test_mail_begins_where_the_first_process_says(rig: Rig) -> None:
    await stage(rig)
    await rig.say("alice", "old", to="bob")
    assert await claim(rig, start=Start.NOW) == []
    await rig.say("alice", "new", to="bob")

    assert texts(await claim(rig, 9, start=Start.BEGINNING)) == ["new"]


@with_rig
async def test_what_a_process_had_open_alone_is_shared_and_it_is_taken_over(rig: Rig) -> None:
    await stage(rig)
    for text in ("0", "1", "2"):
        await rig.say("alice", text, to="bob")
    caller = rig.caller("bob")
    opened = await bookmarks.open_(rig.team, caller, "bob", LABEL, Start.BEGINNING)
    await bookmarks.save(rig.team, caller, "bob", LABEL, opened.bookmark.holder, SavedPosition(2, (1,)))

    assert texts(await claim(rig, 9)) == ["0", "2"]
    with pytest.raises(BookmarkTaken):
        await bookmarks.save(rig.team, caller, "bob", LABEL, opened.bookmark.holder, SavedPosition(3))


@with_rig
async def test_a_restarted_server_shares_each_message_once(rig: Rig) -> None:
    await stage(rig)
    for number in range(5):
        await rig.say("alice", f"{number}", to="bob")
    first = texts(await claim(rig, 2))
    await rig.reopen()
    await rig.say("alice", "5", to="bob")

    assert first + texts(await claim(rig, 9)) == ["0", "1", "2", "3", "4", "5"]
