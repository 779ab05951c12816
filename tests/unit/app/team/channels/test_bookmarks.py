"""Bookmarks: taken over, saved beside others, and gone with their agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from parley.app.team.channels import bookmarks
from parley.app.team.channels.bookmarks import BookmarkWithHead, SavedPosition
from parley.app.team.directory import agents as registry
from parley.app.team.directory import departure
from parley.app.team.intents import intents
from parley.app.team.intents.intents import IntentDraft
from parley.domain.agents.agent import AgentDraft
from parley.domain.channel.bookmark import MOST_OF_AN_AGENT, Bookmark, Start
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, KeyKind
from parley.domain.directory.intent import Intent, IntentStatus
from parley.domain.errors.errors import BadName, NotFound
from parley.domain.errors.team import BookmarkTaken, QuotaExceeded, WrongSender
from parley.domain.message.message import Pattern
from tests.rigs.team import INTENT, Rig, with_rig

pytestmark = pytest.mark.both_stores


async def opened(
    rig: Rig, name: str = "main", *, agent: str = "bob", start: Start = Start.UNANSWERED
) -> BookmarkWithHead:
    return await bookmarks.open_(rig.team, rig.caller(agent), agent, name, start)


async def saved(rig: Rig, holder: str, position: int, *still: int) -> BookmarkWithHead:
    return await bookmarks.save(rig.team, rig.caller("bob"), "bob", "main", holder, SavedPosition(position, still))


async def shown(rig: Rig, name: str = "main") -> Bookmark:
    return (await bookmarks.get(rig.team, rig.caller("bob"), "bob", name)).bookmark


async def talk(rig: Rig) -> None:
    """A channel in which something was said: positions 1 and 2."""
    await rig.intent()
    await rig.channel()
    await rig.say("alice", "one")
    await rig.say("alice", "two")


async def ask(rig: Rig, to: str = "bob", expires_at: datetime | None = None) -> int:
    """A request; its position."""
    return (await rig.say("alice", "how?", to=to, pattern=Pattern.REQUEST, expires_at=expires_at)).position


@with_rig
async def test_the_first_opening_begins_right_before_the_oldest_request_that_waits(rig: Rig) -> None:
    await talk(rig)
    await ask(rig, "carol")
    waits = await ask(rig)
    await ask(rig)

    placed = await opened(rig)

    assert placed.bookmark.position == waits - 1
    assert placed.head == waits + 1


@with_rig
async def test_the_first_opening_passes_over_what_was_answered_or_is_over(rig: Rig) -> None:
    await talk(rig)
    answered = await rig.say("alice", "how?", to="bob", pattern=Pattern.REQUEST)
    await rig.say("bob", "so", pattern=Pattern.RESPONSE, in_reply_to=answered.id)
    await ask(rig, expires_at=rig.clock.at + timedelta(seconds=5))
    rig.clock.at += timedelta(seconds=5)

    placed = await opened(rig)

    assert placed.bookmark.position == placed.head == 5


@with_rig
async def test_the_first_opening_begins_right_before_the_oldest_assignment_on_a_running_intent(rig: Rig) -> None:
    await talk(rig)
    await rig.intent("intent_over")
    await rig.intent("intent_runs")
    for intent in ("intent_over", INTENT, "intent_runs"):
        await intents.assign(rig.team, rig.caller("alice"), intent, "carol" if intent == INTENT else "bob")
    over = await rig.store.get(Intent, DEFAULT_TENANT, "intent_over")
    assert over is not None
    await rig.put(replace(over, status=IntentStatus.COMPLETED))
    told = (await rig.store.events(DEFAULT_TENANT, "intent_runs", event_type="agent_assigned"))[0].position
    await ask(rig)

    placed = await opened(rig)

    assert placed.bookmark.position == told - 1


@with_rig
async def test_the_first_opening_begins_where_it_is_told_to(rig: Rig) -> None:
    await talk(rig)
    await ask(rig)

    assert (await opened(rig, "new", start=Start.NOW)).bookmark.position == 3
    assert (await opened(rig, "all", start=Start.BEGINNING)).bookmark.position == 0


@with_rig
async def test_a_later_opening_finds_the_place_whatever_it_asks_for(rig: Rig) -> None:
    await talk(rig)
    first = await opened(rig, start=Start.BEGINNING)
    await saved(rig, first.bookmark.holder, 2, 1)

    again = await opened(rig, start=Start.NOW)

    assert (again.bookmark.position, again.bookmark.open) == (2, (1,))
    assert again.bookmark.holder != first.bookmark.holder


@with_rig
async def test_a_restarted_server_knows_the_place_and_the_holder(rig: Rig) -> None:
    await talk(rig)
    placed = await opened(rig, start=Start.BEGINNING)
    await saved(rig, placed.bookmark.holder, 1)

    await rig.reopen()

    assert (await saved(rig, placed.bookmark.holder, 2)).bookmark.position == 2


@with_rig
async def test_the_last_to_open_is_the_only_one_who_saves(rig: Rig) -> None:
    await talk(rig)
    first = await opened(rig, start=Start.BEGINNING)
    last = await opened(rig)

    with pytest.raises(BookmarkTaken):
        await saved(rig, first.bookmark.holder, 2)
    assert (await shown(rig)).position == 0
    assert (await saved(rig, last.bookmark.holder, 2)).bookmark == await shown(rig)


@with_rig
async def test_an_opening_beside_saves_loses_none_that_was_confirmed(rig: Rig) -> None:
    await talk(rig)
    for n in range(20):
        await rig.say("alice", str(n))
    first = await opened(rig, start=Start.BEGINNING)
    saves = [saved(rig, first.bookmark.holder, n, 1) for n in range(1, 8)]

    taken, *outcomes = await asyncio.gather(opened(rig), *saves, return_exceptions=True)

    assert isinstance(taken, BookmarkWithHead)
    confirmed = [n for n, one in enumerate(outcomes, 1) if isinstance(one, BookmarkWithHead)]
    assert all(isinstance(one, BookmarkWithHead | BookmarkTaken) for one in outcomes)
    assert (await shown(rig)).position == max(confirmed, default=0)
    assert (await shown(rig)).holder == taken.bookmark.holder


@with_rig
async def test_the_same_twice_is_written_once(rig: Rig) -> None:
    await talk(rig)
    placed = await opened(rig, start=Start.BEGINNING)
    once = await saved(rig, placed.bookmark.holder, 2, 1)
    version = (await shown(rig)).version

    assert await saved(rig, placed.bookmark.holder, 2, 1) == BookmarkWithHead(await shown(rig), once.head)
    assert (await shown(rig)).version == version


@with_rig
async def test_two_bookmarks_of_an_agent_know_nothing_of_each_other(rig: Rig) -> None:
    await talk(rig)
    one, other = await opened(rig, start=Start.BEGINNING), await opened(rig, "other", start=Start.BEGINNING)
    await saved(rig, one.bookmark.holder, 2)

    assert await shown(rig, "other") == other.bookmark


@with_rig
async def test_a_deleted_bookmark_is_not_there_and_begins_anew(rig: Rig) -> None:
    await talk(rig)
    placed = await opened(rig, start=Start.BEGINNING)

    await bookmarks.delete(rig.team, rig.caller("bob"), "bob", "main")

    for late in (shown(rig), saved(rig, placed.bookmark.holder, 1)):
        with pytest.raises(NotFound):
            await late
    with pytest.raises(NotFound):
        await bookmarks.delete(rig.team, rig.caller("bob"), "bob", "main")
    assert (await opened(rig)).bookmark.position == 2


@with_rig
async def test_an_agent_has_only_so_many_bookmarks_and_opens_those_again(rig: Rig) -> None:
    for n in range(MOST_OF_AN_AGENT):
        await opened(rig, f"n{n}")

    with pytest.raises(QuotaExceeded):
        await opened(rig, "more")
    await opened(rig, "n7")
    await opened(rig, agent="carol")


@with_rig
async def test_bookmarks_of_ended_runs_make_room_for_new_ones(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookmarks, "MOST_OF_AN_AGENT", 3)
    ended, going_on = [
        await intents.create(rig.team, rig.caller("bob"), IntentDraft("a run", status=IntentStatus.ACTIVE))
        for _ in range(2)
    ]
    for label in ("default", ended.id, going_on.id):
        await opened(rig, label)
    await intents.set_status(rig.team, rig.caller("bob"), ended.id, None, IntentStatus.COMPLETED)

    await opened(rig, "more")

    kept = await rig.store.children(Bookmark, DEFAULT_TENANT, "bob")
    assert sorted(bookmark.label for bookmark in kept) == sorted(["default", going_on.id, "more"])
    with pytest.raises(QuotaExceeded):
        await opened(rig, "and-more")


@with_rig
async def test_only_the_agent_itself_a_service_or_an_admin_comes_near_its_bookmark(rig: Rig) -> None:
    await opened(rig)
    carol, service = rig.caller("carol"), rig.caller("", KeyKind.SERVICE)

    for refused in (
        bookmarks.open_(rig.team, carol, "bob", "main", Start.NOW),
        bookmarks.save(rig.team, carol, "bob", "main", "x", SavedPosition(0)),
        bookmarks.get(rig.team, carol, "bob", "main"),
        bookmarks.delete(rig.team, carol, "bob", "main"),
    ):
        with pytest.raises(WrongSender):
            await refused
    assert (await bookmarks.get(rig.team, service, "bob", "main")).bookmark == await shown(rig)
    with pytest.raises(NotFound):
        await bookmarks.get(rig.team, rig.caller("bob", tenant="globex"), "bob", "main")


@with_rig
async def test_a_name_that_is_none_is_refused(rig: Rig) -> None:
    with pytest.raises(BadName):
        await opened(rig, "a b")


@with_rig
async def test_who_deregisters_takes_its_bookmarks_along(rig: Rig) -> None:
    await rig.agent("bob")
    for agent in ("bob", "carol"):
        await opened(rig, agent=agent)

    await departure.depart(rig.team, rig.caller("bob"), "bob")

    assert await rig.store.children(Bookmark, "default", "bob") == ()
    assert len(await rig.store.children(Bookmark, "default", "carol")) == 1


@with_rig
async def test_who_falls_silent_finds_its_bookmark_when_it_comes_back(rig: Rig) -> None:
    await rig.agent("bob", last_heartbeat_at=rig.at())
    placed = await opened(rig)
    rig.clock.pass_by(hours=1)
    await departure.settle(rig.team, "default", "bob")

    back = await registry.register(rig.team, rig.caller("bob"), AgentDraft("bob"))

    assert back.status is AgentStatus.ACTIVE
    assert await shown(rig) == placed.bookmark


@with_rig
async def test_who_counts_as_dead_and_is_deregistered_loses_its_bookmarks(rig: Rig) -> None:
    await rig.agent("bob", status=AgentStatus.DEAD)
    await opened(rig)

    await departure.depart(rig.team, rig.caller("bob"), "bob")

    assert await rig.store.children(Bookmark, "default", "bob") == ()
