"""Reading: pages, cursors, receipts, search; waiting for what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from parley.app.team.channels import posting, reading
from parley.app.team.channels.reading import MessageFilter, MessagePage
from parley.app.team.directory import roles
from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.channel.post import PostDraft, status_of
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import BadCursor, CursorEvicted, MessageExpired, NotAddressee, NotMember
from parley.domain.message.message import Pattern
from parley.domain.times import stamp
from tests.rigs.lists import collect
from tests.rigs.node import two_nodes
from tests.rigs.team import CHANNEL, CountedIds, Rig, in_loop, refusal, soon, with_rig

pytestmark = pytest.mark.both_stores

REPLY = PostDraft(Pattern.NOTIFY, b'{"a":1}')


def paged(rig: Rig, agent: str, **asked: object) -> Awaitable[MessagePage]:
    return reading.page(rig.team, rig.caller(agent), CHANNEL, MessageFilter(**asked))  # type: ignore[arg-type]


async def read(rig: Rig, agent: str, **asked: object) -> list[int]:
    return [one.post.seq for one in (await paged(rig, agent, **asked)).messages]


async def a_channel(rig: Rig, most: int = 1000) -> None:
    await rig.key("bob")  # who waits, waits no longer than its key is good
    await rig.intent(agents=("bob",))
    await rig.channel(options=Options(max_messages=most))


# ---------------------------------------------------------------- pages and cursors


@with_rig
async def test_what_is_said_to_another_is_in_nobodys_list_but_its_two(rig: Rig) -> None:
    await a_channel(rig)
    await rig.say("alice")
    secret = await rig.say("alice", to="bob")

    assert await read(rig, "carol") == [1]
    assert await read(rig, "bob") == [1, 2]
    assert await read(rig, "alice") == [1, 2]
    assert await refusal(reading.get(rig.team, rig.caller("carol"), CHANNEL, secret.id)) is NotFound


@with_rig
async def test_the_whole_channel_is_the_union_of_its_pages(rig: Rig) -> None:
    await a_channel(rig)
    for n in range(7):
        await rig.say("alice", to="bob" if n % 3 == 0 else "")

    found: list[int] = []
    since = ""
    while page := (await paged(rig, "carol", since=since, limit=2)).messages:
        found += [one.post.seq for one in page]
        since = page[-1].post.id

    assert found == await read(rig, "carol") == [2, 3, 5, 6]


@with_rig
async def test_a_cursor_is_a_message_a_place_or_a_time(rig: Rig) -> None:
    await a_channel(rig)
    first = await rig.say("alice")
    rig.clock.pass_by(seconds=1)
    await rig.say("alice")
    await rig.say("alice")

    assert await read(rig, "bob", since=first.id) == [2, 3]
    assert await read(rig, "bob", since="2") == [3]
    assert await read(rig, "bob", since="3") == []
    assert await read(rig, "bob", since=first.created_at) == [2, 3]
    assert await read(rig, "bob", since=first.created_at.replace("+", " ")) == [2, 3]
    assert await read(rig, "bob", since="2026-03-13T14:30:00Z") == [2, 3]


@with_rig
async def test_a_cursor_of_nowhere_is_refused(rig: Rig) -> None:
    await a_channel(rig)
    await rig.channel("chan_2")
    await rig.say("alice")
    elsewhere = await rig.say("alice", channel_id="chan_2")

    for since in (elsewhere.id, "msg_none", "yesterday", "-1", "1.5", "9" * 16, "2026-03-13T14:30:00", "' OR 1=1"):
        assert await refusal(paged(rig, "bob", since=since)) is BadCursor


@with_rig
async def test_a_message_that_one_may_not_see_is_no_cursor(rig: Rig) -> None:
    await a_channel(rig)
    secret = await rig.say("alice", to="bob")

    assert await refusal(paged(rig, "carol", since=secret.id)) is BadCursor
    assert await read(rig, "bob", since=secret.id) == []


@with_rig
async def test_an_evicted_cursor_goes_on_with_the_oldest_and_says_so(rig: Rig) -> None:
    await a_channel(rig, most=3)
    posts = []
    for _ in range(6):
        posts.append(await rig.say("alice"))
        rig.clock.pass_by(seconds=1)
    await rig.channel("chan_2")
    elsewhere = await rig.say("alice", channel_id="chan_2")

    for since in (posts[0].id, "1", posts[0].created_at, "2026-01-01T00:00:00Z"):
        page = await paged(rig, "bob", since=since)
        assert ([one.post.seq for one in page.messages], page.oldest) == ([4, 5, 6], 4)
        with pytest.raises(CursorEvicted) as refused:
            await paged(rig, "bob", since=since, strict=True)
        assert refused.value.facts["oldest"] == 4
    for since, expected in ((posts[3].id, [5, 6]), ("3", [4, 5, 6]), (posts[3].created_at, [5, 6])):
        page = await paged(rig, "bob", since=since, strict=True)
        assert ([one.post.seq for one in page.messages], page.oldest) == (expected, 0)
    for since in (elsewhere.id, "msg_" + "9" * 26):
        assert await refusal(paged(rig, "bob", since=since)) is BadCursor


@with_rig
async def test_an_evicted_cursor_is_known_as_one_whatever_clock_made_its_id(rig: Rig) -> None:
    await a_channel(rig, most=3)
    ours, rig.team.ids = rig.team.ids, CountedIds(10**9)  # of a server whose clock is ahead
    early = await rig.say("alice")
    rig.team.ids = ours
    kept = [await rig.say("alice") for _ in range(4)]
    assert early.id > kept[-1].id

    page = await paged(rig, "bob", since=early.id)

    assert ([one.post.seq for one in page.messages], page.oldest) == ([3, 4, 5], 3)
    with pytest.raises(CursorEvicted):
        await paged(rig, "bob", since=early.id, strict=True)


@with_rig
async def test_an_evicted_cursor_is_known_as_one_when_what_waited_is_the_oldest(rig: Rig) -> None:
    await a_channel(rig, most=2)
    waited = await rig.say("alice", to="role:billing")
    evicted = await rig.say("alice")
    await roles.grant(rig.team, rig.caller(kind=KeyKind.ADMIN), "billing", "bob")
    last = await rig.say("alice")
    assert [one.post.id for one in (await paged(rig, "bob")).messages] == [waited.id, last.id]

    page = await paged(rig, "bob", since=evicted.id)

    assert ([one.post.seq for one in page.messages], page.oldest) == ([3, 4], 3)


@pytest.mark.parametrize("since", ["msg_none", "msg_", f"msg_{'9' * 26}", f"msg_{'0' * 25}", f"msg_{'0' * 25}U"])
@with_rig
async def test_what_is_no_id_is_no_cursor_of_a_channel_that_has_evicted_messages(rig: Rig, since: str) -> None:
    await a_channel(rig, most=1)
    for _ in range(3):
        await rig.say("alice")

    assert await refusal(paged(rig, "bob", since=since)) is BadCursor


@with_rig
async def test_a_message_whose_time_has_passed_is_shown_by_its_id_alone(rig: Rig) -> None:
    await a_channel(rig)
    said = await rig.say("alice", to="bob", expires_at=rig.clock.at + timedelta(seconds=5))
    assert await read(rig, "bob") == [1]

    rig.clock.pass_by(seconds=5)

    assert await read(rig, "bob") == []
    seen = await reading.get(rig.team, rig.caller("bob"), CHANNEL, said.id)
    assert status_of(seen.post, seen.read_at, rig.at()) == "expired"


@with_rig
async def test_the_filter_by_addressee_shows_no_more_than_both_may_see(rig: Rig) -> None:
    await a_channel(rig)
    await rig.role("billing", "bob")
    await rig.say("alice")
    await rig.say("alice", to="bob")
    await rig.say("alice", to="role:billing")
    await rig.say("alice", to="carol")

    assert await read(rig, "alice", to="bob") == [1, 2, 3]
    assert await read(rig, "carol", to="bob") == [1]


@with_rig
async def test_who_does_not_take_part_reads_nothing(rig: Rig) -> None:
    await rig.intent(assignments=(rig.assignment("carla", "coordinator"),))
    await rig.channel(policy=MemberPolicy.EXPLICIT)
    said = await rig.say("alice")

    assert await refusal(paged(rig, "carla")) is NotMember
    assert await refusal(reading.get(rig.team, rig.caller("carla"), CHANNEL, said.id)) is NotMember
    assert await refusal(paged(rig, "dave")) is NotFound
    admin = await reading.page(rig.team, rig.caller(kind=KeyKind.ADMIN), CHANNEL, MessageFilter())
    assert [one.post.id for one in admin.messages] == [said.id]


# ---------------------------------------------------------------- waiting


@with_rig
async def test_a_page_that_waits_comes_with_the_next_message(rig: Rig) -> None:
    await a_channel(rig)
    await rig.say("alice")
    waiting = asyncio.create_task(read(rig, "bob", since="1", wait=600.0))
    await soon(lambda: len(rig.team.tail) == 1)

    await rig.say("alice", to="carol")  # not for bob: it goes on waiting
    await rig.say("alice", to="bob")

    assert await waiting == [3]
    assert rig.team.tail._listeners == {}


@with_rig
async def test_a_page_that_waits_in_vain_is_empty(rig: Rig) -> None:
    await a_channel(rig)

    assert await read(rig, "bob", wait=0.01) == []
    assert rig.team.tail._listeners == {}


@with_rig
async def test_who_loses_access_while_it_waits_is_refused(rig: Rig) -> None:
    await rig.key("bob")
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"),))
    await rig.channel()
    waiting = asyncio.create_task(read(rig, "bob", wait=600.0))
    await soon(lambda: len(rig.team.tail) == 1)

    await rig.access(grants=())

    assert await refusal(waiting) is NotFound


@pytest.fixture
def held_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HOLD_SECONDS", 600.0)


@pytest.mark.usefixtures("held_for_ever")
@with_rig
async def test_the_whole_list_is_held_for_who_waits_for_an_answer(rig: Rig) -> None:
    await a_channel(rig)
    await rig.key("alice")
    await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    listing = asyncio.create_task(read(rig, "alice"))
    await soon(lambda: len(rig.team.tail) == 1)
    await rig.say("bob")
    await asyncio.sleep(0.01)
    assert not listing.done()

    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY)

    assert await listing == [1, 2, 3, 4]


@pytest.mark.usefixtures("held_for_ever")
@with_rig
async def test_a_list_is_not_held_for_a_cursor_nor_for_others_nor_for_an_old_request(rig: Rig) -> None:
    await a_channel(rig)
    await rig.say("alice", to="bob", pattern=Pattern.REQUEST)

    assert await read(rig, "bob") == [1]
    assert await read(rig, "alice", since="0") == [1]
    assert await read(rig, "alice", limit=5) == [1]
    rig.clock.pass_by(seconds=60)
    assert await read(rig, "alice") == [1]


@pytest.mark.usefixtures("held_for_ever")
@with_rig
async def test_a_list_is_not_held_for_an_answered_request(rig: Rig) -> None:
    await a_channel(rig)
    await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY)

    assert await read(rig, "alice") == [1, 2, 3]


@with_rig
async def test_a_page_that_waits_comes_empty_when_the_server_stops(rig: Rig) -> None:
    await a_channel(rig)
    waiting = asyncio.create_task(read(rig, "bob", wait=600.0))
    await soon(lambda: len(rig.team.tail) == 1)

    rig.team.tail.close()

    assert await waiting == []


@in_loop
async def test_a_page_that_waits_at_one_server_comes_with_what_is_said_at_another(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await a_channel(a)
        waiting = asyncio.create_task(read(b, "bob", wait=600.0))
        await soon(lambda: len(b.team.tail) == 1)

        await a.say("alice")

        assert await waiting == [1]


@pytest.mark.usefixtures("held_for_ever")
@in_loop
async def test_a_list_is_not_held_for_a_request_that_was_answered_at_another_server(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await a_channel(a)
        await a.key("alice")
        request = await a.say("alice", to="bob", pattern=Pattern.REQUEST)
        await b.store.catch_up("default")
        await posting.reply(b.team, b.caller("bob"), CHANNEL, request.id, REPLY)

        await a.store.catch_up("default")
        assert a.team.requests.unanswered("default", CHANNEL, "alice") is not None  # nobody listened here
        assert await read(a, "alice") == [1, 2]


# ---------------------------------------------------------------- receipts


@with_rig
async def test_a_receipt_is_the_readers_own_and_written_once(rig: Rig) -> None:
    await a_channel(rig)
    said = await rig.say("alice")
    first = await reading.mark_read(rig.team, rig.caller("bob"), CHANNEL, said.id)
    at = rig.at()
    rig.clock.pass_by(seconds=1)

    again = await reading.mark_read(rig.team, rig.caller("bob"), CHANNEL, said.id)

    assert first.read_at == again.read_at == at
    for agent, expected in (("bob", at), ("carol", ""), ("alice", "")):
        assert (await reading.get(rig.team, rig.caller(agent), CHANNEL, said.id)).read_at == expected


@with_rig
async def test_the_sender_sees_the_receipt_of_the_one_it_wrote_to(rig: Rig) -> None:
    await a_channel(rig)
    said = await rig.say("alice", to="bob")

    await reading.mark_read(rig.team, rig.caller("bob"), CHANNEL, said.id)

    assert (await reading.get(rig.team, rig.caller("alice"), CHANNEL, said.id)).read_at == rig.at()


@with_rig
async def test_only_a_recipient_acknowledges(rig: Rig) -> None:
    await a_channel(rig)
    said = await rig.say("alice", to="bob")

    async def mark(caller: Caller) -> str:
        return (await reading.mark_read(rig.team, caller, CHANNEL, said.id)).read_at

    assert await refusal(mark(rig.caller("alice"))) is NotAddressee
    assert await refusal(mark(rig.caller("carol"))) is NotFound
    assert await refusal(mark(rig.caller("alice", KeyKind.SERVICE))) is NotAddressee
    assert await mark(rig.caller(kind=KeyKind.SERVICE)) == rig.at()
    assert (await reading.get(rig.team, rig.caller("bob"), CHANNEL, said.id)).read_at == rig.at()


@with_rig
async def test_what_has_expired_is_never_read(rig: Rig) -> None:
    await a_channel(rig)
    early = await rig.say("alice", to="bob", expires_at=rig.clock.at + timedelta(seconds=5))
    late = await rig.say("alice", to="bob", expires_at=rig.clock.at + timedelta(seconds=5))
    await reading.mark_read(rig.team, rig.caller("bob"), CHANNEL, early.id)

    rig.clock.pass_by(seconds=5)

    assert await refusal(reading.mark_read(rig.team, rig.caller("bob"), CHANNEL, late.id)) is MessageExpired
    seen = await reading.mark_read(rig.team, rig.caller("bob"), CHANNEL, early.id)
    assert status_of(seen.post, seen.read_at, rig.at()) == "read"


@with_rig
async def test_an_answered_question_is_listed_and_found_after_its_time_and_cannot_be_answered_again(rig: Rig) -> None:
    await a_channel(rig)
    until = rig.clock.at + timedelta(seconds=5)
    asked = await rig.say("alice", "which one?", to="bob", pattern=Pattern.REQUEST, expires_at=until)
    late = await rig.say("alice", "which other one?", to="bob", pattern=Pattern.REQUEST, expires_at=until)
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, asked.id, REPLY)

    rig.clock.pass_by(seconds=5)

    for reader in ("alice", "bob"):
        found = reading.search(rig.team, rig.caller(reader), "which")
        assert await read(rig, reader) == [1, 3]
        assert [one.post.id for one in await collect(found)] == [asked.id]
    assert await refusal(posting.reply(rig.team, rig.caller("bob"), CHANNEL, late.id, REPLY)) is MessageExpired


# ---------------------------------------------------------------- search


@with_rig
async def test_search_finds_what_one_may_see(rig: Rig) -> None:
    await a_channel(rig)
    await rig.channel("chan_2", policy=MemberPolicy.EXPLICIT)
    await rig.say("alice", "the word")
    await rig.say("alice", "a WORD for bob", to="bob")
    await rig.say("alice", "word among members", channel_id="chan_2")
    await rig.say("alice", "a word that passes", expires_at=rig.clock.at + timedelta(seconds=1))
    rig.clock.pass_by(seconds=1)

    async def found(agent: str, **asked: object) -> list[bytes]:
        seen = await collect(reading.search(rig.team, rig.caller(agent), "word", **asked))  # type: ignore[arg-type]
        return [one.post.payload for one in seen]

    assert len(await found("alice")) == 3
    assert await found("bob") == [b'{"text": "a WORD for bob"}', b'{"text": "the word"}']
    assert await found("carol") == [b'{"text": "the word"}']
    assert len(await found("alice", channel_id="chan_2")) == 1
    assert len(await found("alice", limit=2)) == 2
    assert await refusal(found("carol", channel_id="chan_2")) is NotFound


@with_rig
async def test_search_looks_behind_what_one_may_not_see(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PIECE", 3)
    await a_channel(rig)
    await rig.say("alice", "word")
    for _ in range(7):
        await rig.say("alice", "word", to="bob")

    found = await collect(reading.search(rig.team, rig.caller("carol"), "word"))

    assert [one.post.seq for one in found] == [1]
    assert len(await collect(reading.search(rig.team, rig.caller("bob"), "word"))) == 8


@pytest.mark.parametrize("text", ['say "hi"', "back\\slash", "two\nlines", "ünï", "100%"])
@with_rig
async def test_search_finds_text_as_it_was_said(rig: Rig, text: str) -> None:
    await a_channel(rig)
    payload = msgspec.json.encode({"text": f"they {text} again"})
    await posting.post(rig.team, rig.caller("alice"), CHANNEL, PostDraft(Pattern.NOTIFY, payload))

    assert len(await collect(reading.search(rig.team, rig.caller("bob"), text))) == 1
    assert await collect(reading.search(rig.team, rig.caller("bob"), 'text":"they')) == []


@with_rig
async def test_the_time_of_a_message_is_a_stamp(rig: Rig) -> None:
    await a_channel(rig)

    said = await rig.say("alice")

    assert said.created_at == stamp(rig.clock.at) == "2026-03-13T14:30:00.000000+00:00"
