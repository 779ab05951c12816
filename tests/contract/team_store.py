"""The contract of every store of a server, as one suite: a store's own test inherits it and says how to make one."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import pytest

from parley.domain.access import Access
from parley.domain.changes import Entry
from parley.domain.channel import Channel, Member, Options, Tally, View
from parley.domain.directory import Holder, Role
from parley.domain.errors import NotFound, Stale
from parley.domain.event import EventDraft
from parley.domain.intent import Intent
from parley.domain.message import Pattern
from parley.domain.post import Post, PostState, Receipt
from parley.domain.record import Expect, Record, expecting
from parley.domain.registry import AgentRecord
from parley.domain.team_changes import Committed, Moved, Query, Saved, TeamChanges
from parley.domain.team_errors import NameTaken
from parley.team_ports import TeamStore
from parley.wire.event_log import event_hash
from tests.contract.store import assert_chained

T1, T2 = "acme", "globex"
AT = "2026-03-13T14:30:00.000000+00:00"
LATER = "2026-03-13T15:30:00.000000+00:00"
ALL = View("", 0, takes_part=True, may_write=False)
PATIENCE = 30.0

R = TypeVar("R", bound=Record)


def an_intent(intent_id: str = "intent_1", tenant: str = T1, **changes: Any) -> Intent:
    made = Intent(id=intent_id, tenant_id=tenant, title="t", created_by="alice", created_at=AT, updated_at=AT)
    return replace(made, **changes)


def a_channel(channel_id: str = "chan_1", tenant: str = T1, *, most: int = 1000, **changes: Any) -> Channel:
    made = Channel(
        id=channel_id,
        tenant_id=tenant,
        intent_id="intent_1",
        label=channel_id,
        created_by="alice",
        created_at=AT,
        members=(Member(agent="alice"), Member(agent="bob")),
        options=Options(max_messages=most),
    )
    return replace(made, **changes)


def a_post(message_id: str = "msg_1", channel_id: str = "chan_1", **changes: Any) -> Post:
    made = Post(
        id=message_id,
        channel_id=channel_id,
        sender="alice",
        to="",
        pattern=Pattern.NOTIFY,
        in_reply_to="",
        payload=b'{"text":"hello"}',
        metadata=b"{}",
        created_at=AT,
        expires_at="",
        state=PostState.DELIVERED,
        recipients=None,
        intent_id="intent_1",
    )
    return made._replace(**changes)


def a_request(message_id: str = "msg_1", to: str = "bob", **changes: Any) -> Post:
    return a_post(message_id, pattern=Pattern.REQUEST, to=to, recipients=(to,))._replace(**changes)


def an_answer(message_id: str, request_id: str, **changes: Any) -> Post:
    return a_post(
        message_id,
        pattern=Pattern.RESPONSE,
        sender="bob",
        to="alice",
        recipients=("alice",),
        in_reply_to=request_id,
        **changes,
    )


def an_event(event_id: str = "evt_1", intent_id: str = "intent_1", **changes: Any) -> EventDraft:
    return EventDraft(event_id, intent_id, "comment", "alice", b'{"title":"t"}', AT)._replace(**changes)


def an_entry(action: str = "channel_created") -> Entry:
    return Entry(action, AT, "alice", "chan_1", "", {"key": "key_1"})


def a_use(scope: str = "s1", **changes: Any) -> Saved:
    return Saved(scope, "f" * 64, "once_1", AT)._replace(**changes)


def seen_by(agent: str, since: int = 0) -> View:
    return View(agent, since, takes_part=True, may_write=True)


def stored(test: Callable[[Any, TeamStore], Coroutine[Any, Any, None]]) -> Callable[[TeamStoreContract], None]:
    """Run a test in an event loop of its own, on a fresh store with a channel `chan_1` of `alice` and `bob`."""

    @wraps(test)
    def run(self: TeamStoreContract) -> None:
        async def bounded() -> None:
            self.opened = []
            try:
                async with asyncio.timeout(PATIENCE):
                    store = self.open()
                    await store.commit(TeamChanges(T1, puts=(a_channel(),)))
                    await test(self, store)
            finally:
                for one in self.opened:
                    await one.close()

        asyncio.run(bounded())

    del run.__wrapped__  # else pytest would look for a fixture called store
    return run


class TeamStoreContract(ABC):
    """Every test begins with an empty store; `make_store` opens the same one each time."""

    opened: list[TeamStore]

    @abstractmethod
    def make_store(self) -> TeamStore: ...

    def open(self) -> TeamStore:
        store = self.make_store()
        self.opened.append(store)
        return store

    async def restarted(self, store: TeamStore) -> TeamStore:
        await store.close()
        return self.open()

    # -------------------------------------------------------- records

    @stored
    async def test_a_record_comes_back_as_it_was_with_its_version(self, store: TeamStore) -> None:
        intent = an_intent(state={"a": [1, {"b": None}]}, constraints=["x"])

        committed = await store.commit(TeamChanges(T1, puts=(intent,)))

        assert committed.puts == (replace(intent, version=1),)
        assert await store.get(Intent, T1, "intent_1") == replace(intent, version=1)
        assert await (await self.restarted(store)).get(Intent, T1, "intent_1") == replace(intent, version=1)

    @stored
    async def test_each_change_of_a_record_counts_its_version_on(self, store: TeamStore) -> None:
        for version in range(1, 4):
            known = await store.get(Intent, T1, "intent_1") or an_intent()
            kept = (await store.commit(TeamChanges(T1, puts=(replace(known, title=f"t{version}"),)))).puts[0]
            assert kept.version == version

        found = await store.get(Intent, T1, "intent_1")
        assert found is not None
        assert (found.title, found.version) == ("t3", 3)

    @stored
    async def test_a_stale_record_is_refused_without_a_trace(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(an_intent(),)))
        before = await self.everything(store)

        with pytest.raises(Stale) as refused:
            await store.commit(self.much(puts=(an_intent(title="of another"),)))

        assert refused.value.facts["kind"] == "intent"
        assert await self.everything(store) == before

    @stored
    async def test_an_expectation_that_no_longer_holds_is_refused_without_a_trace(self, store: TeamStore) -> None:
        kept = (await store.commit(TeamChanges(T1, puts=(an_intent(),)))).puts[0]
        await store.commit(TeamChanges(T1, puts=(replace(kept, title="new"),)))  # type: ignore[call-arg]
        before = await self.everything(store)

        for expect in (expecting(kept), Expect("intent", "intent_1", 0), Expect("role", "none", 1)):
            with pytest.raises(Stale):
                await store.commit(self.much(expects=(expect,)))

        assert await self.everything(store) == before

    @stored
    async def test_after_a_stale_refusal_the_newer_record_is_read(self, store: TeamStore) -> None:
        kept = (await store.commit(TeamChanges(T1, puts=(an_intent(),)))).puts[0]
        await store.commit(TeamChanges(T1, puts=(replace(kept, title="new"),)))  # type: ignore[call-arg]

        with pytest.raises(Stale):
            await store.commit(TeamChanges(T1, puts=(kept,)))

        found = await store.get(Intent, T1, "intent_1")
        assert found is not None
        assert (found.title, found.version) == ("new", 2)

    @stored
    async def test_one_refusal_among_many_at_once_leaves_the_others_written(self, store: TeamStore) -> None:
        wrong = Expect("channel", "chan_1", 7)
        changes = [
            TeamChanges(T1, (a_post(f"msg_{n:02d}"),), (wrong,) if n % 3 == 0 else (), entries=(an_entry(str(n)),))
            for n in range(30)
        ]

        outcomes = await asyncio.gather(*map(store.commit, changes), return_exceptions=True)

        assert [n for n, one in enumerate(outcomes) if isinstance(one, Stale)] == list(range(0, 30, 3))
        page = await store.page(T1, Query("chan_1", ALL, AT))
        assert [one.post.id for one in page] == [f"msg_{n:02d}" for n in range(30) if n % 3]
        assert [one.post.seq for one in page] == list(range(1, 21))
        written = await store.entries(T1, 0, 100)
        assert [one.entry.action for one in written] == [str(n) for n in range(30) if n % 3]
        assert_chained(written)

    @stored
    async def test_of_two_that_change_one_version_one_wins(self, store: TeamStore) -> None:
        kept = (await store.commit(TeamChanges(T1, puts=(an_intent(),)))).puts[0]
        rivals = [TeamChanges(T1, puts=(replace(kept, title=f"of {n}"),)) for n in range(8)]  # type: ignore[call-arg]

        outcomes = await asyncio.gather(*map(store.commit, rivals), return_exceptions=True)

        assert sum(isinstance(one, Committed) for one in outcomes) == 1
        assert sum(isinstance(one, Stale) for one in outcomes) == 7

    @stored
    async def test_a_name_is_taken_once_in_its_parent(self, store: TeamStore) -> None:
        before = await self.everything(store)

        with pytest.raises(NameTaken) as refused:
            await store.commit(self.much(puts=(a_channel("chan_2", label="chan_1"),)))

        assert refused.value.facts["channel_id"] == "chan_1"
        assert await self.everything(store) == before
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", label="chan_1", intent_id="intent_2"),)))
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_3", T2, label="chan_1"),)))

    @stored
    async def test_of_many_that_want_one_name_one_gets_it(self, store: TeamStore) -> None:
        wanted = [TeamChanges(T1, puts=(a_channel(f"chan_x{n}", label="one"),)) for n in range(16)]

        outcomes = await asyncio.gather(*map(store.commit, wanted), return_exceptions=True)

        winners = [one for one in outcomes if isinstance(one, Committed)]
        assert len(winners) == 1
        assert {type(one) for one in outcomes if one not in winners} == {NameTaken}
        found = await store.named(Channel, T1, "intent_1", "one")
        assert found == winners[0].puts[0]

    @stored
    async def test_a_dropped_record_is_gone_and_its_name_is_free(self, store: TeamStore) -> None:
        channel = await self.kept(store, Channel, "chan_1")

        await store.commit(TeamChanges(T1, drops=(channel,), purges=("chan_1",)))

        assert await store.get(Channel, T1, "chan_1") is None
        assert await store.named(Channel, T1, "intent_1", "chan_1") is None
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", label="chan_1"),)))
        with pytest.raises(NotFound):
            await store.commit(TeamChanges(T1, (a_post(),)))
        assert await (await self.restarted(store)).get(Channel, T1, "chan_1") is None

    @stored
    async def test_a_stale_drop_is_refused(self, store: TeamStore) -> None:
        channel = await self.kept(store, Channel, "chan_1")
        await store.commit(TeamChanges(T1, puts=(channel,)))

        with pytest.raises(Stale):
            await store.commit(TeamChanges(T1, drops=(channel,), purges=("chan_1",)))

        assert await store.get(Channel, T1, "chan_1") is not None

    @stored
    async def test_the_records_of_a_parent_are_listed_by_id_and_counted(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=tuple(a_channel(f"chan_{n}") for n in (4, 2, 3))))
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_5", intent_id="other"),)))
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_6", T2),)))

        listed = await store.children(Channel, T1, "intent_1")

        assert [one.id for one in listed] == ["chan_1", "chan_2", "chan_3", "chan_4"]
        assert {one.version for one in listed} == {1}
        page = await store.children(Channel, T1, "intent_1", after="chan_1", limit=2)
        assert [one.id for one in page] == ["chan_2", "chan_3"]
        assert await store.count(Channel, T1, "intent_1") == 4
        assert await store.count(Intent, T1, "intent_1") == 0

    @stored
    async def test_records_without_a_name_are_not_found_by_it(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(an_intent("intent_1"), an_intent("intent_2"))))

        assert await store.named(Intent, T1, "", "") is None

    @stored
    async def test_what_is_due_is_found_over_all_tenants(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", expires=AT), a_channel("chan_3", expires=LATER))))
        agent = AgentRecord(id="bob", tenant_id=T2, registered_at=AT, last_heartbeat_at="2026-03-13T14:00:00+00:00")
        await store.commit(TeamChanges(T2, puts=(agent,)))

        assert [(one.tenant_id, one.id) for one in await store.due(AT)] == [(T2, "bob"), (T1, "chan_2")]
        assert [one.id for one in await store.due(LATER, limit=1)] == ["bob"]
        assert [one.version for one in await store.due(LATER)] == [1, 1, 1]

    @stored
    async def test_what_was_unsettled_becomes_the_position_before_the_commits_posts(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"), a_post("msg_2"))))
        role = Role(id="r", tenant_id=T1, holders=(Holder(agent="bob"),))

        committed = await store.commit(TeamChanges(T1, (a_post("msg_3", "chan_2"),), puts=(a_channel("chan_2"), role)))

        channel, kept_role = committed.puts
        assert isinstance(channel, Channel)
        assert isinstance(kept_role, Role)
        assert {one.since for one in channel.members} == {2}
        assert kept_role.holders[0].since == 2
        assert committed.posts[0].position == 3

    # -------------------------------------------------------- messages and their places

    @stored
    async def test_a_message_comes_back_exactly_as_it_was_posted(self, store: TeamStore) -> None:
        post = a_request(
            payload='{"text":"ümläut \\u0000 \\" 👋"}'.encode(),
            metadata=b'{"a":1}',
            expires_at=LATER,
            recipients=("bob", "carol"),
        )

        committed = await store.commit(TeamChanges(T1, (post,)))

        placed = post._replace(position=1, seq=1)
        assert committed.posts == (placed,)
        assert committed.position == 1
        assert await store.post(T1, "msg_1") == placed
        store = await self.restarted(store)
        assert await store.post(T1, "msg_1") == placed
        assert (await store.page(T1, Query("chan_1", ALL, AT)))[0].post == placed

    @stored
    async def test_positions_and_places_are_dense_under_racing_writers(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))

        async def write(writer: int) -> list[Committed]:
            made = []
            for n in range(4):
                channel_id = f"chan_{1 + (writer + n) % 2}"
                posts = tuple(a_post(f"msg_{writer}_{n}_{k}", channel_id) for k in range(1 + n % 2))
                events = (an_event(f"evt_{writer}_{n}"),) if n == 2 else ()
                made.append(await store.commit(TeamChanges(T1, posts, events=events)))
            return made

        commits = [one for made in await asyncio.gather(*map(write, range(64))) for one in made]

        posts = [post for one in commits for post in one.posts]
        positions = [post.position for post in posts] + [event.position for one in commits for event in one.events]
        assert sorted(positions) == list(range(1, 64 * 7 + 1))
        assert await store.head(T1) == 64 * 7
        for channel_id in ("chan_1", "chan_2"):
            mine = sorted((post.seq, post.position) for post in posts if post.channel_id == channel_id)
            assert [seq for seq, _ in mine] == list(range(1, len(mine) + 1))
            assert mine == sorted(mine, key=lambda one: one[1])
            assert (await store.tally(T1, channel_id)).total == len(mine)

    @stored
    async def test_a_reader_between_racing_writers_never_skips_a_message(self, store: TeamStore) -> None:
        async def write(writer: int) -> None:
            for n in range(10):
                await store.commit(TeamChanges(T1, (a_post(f"msg_{writer}_{n}"),)))

        paged: list[int] = []
        fed: list[int] = []
        writers = asyncio.gather(*map(write, range(16)))
        while not writers.done():
            paged += [one.post.seq for one in await store.page(T1, Query("chan_1", ALL, AT, len(paged), limit=7))]
            fed += [one.position for one in await store.feed(T1, len(fed), limit=5)]
        await writers
        while page := await store.page(T1, Query("chan_1", ALL, AT, len(paged), limit=7)):
            paged += [one.post.seq for one in page]
        while feed := await store.feed(T1, len(fed), limit=5):
            fed += [one.position for one in feed]

        assert paged == list(range(1, 161))
        assert fed == list(range(1, 161))

    @stored
    async def test_what_was_committed_is_read_at_once(self, store: TeamStore) -> None:
        for n in range(20):
            await store.commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))
            found = await store.page(T1, Query("chan_1", ALL, AT, after_seq=n))
            assert [one.post.id for one in found] == [f"msg_{n}"]

    @stored
    async def test_time_within_a_channel_does_not_fall_when_the_clock_does(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", created_at=LATER),)))

        committed = await store.commit(TeamChanges(T1, (a_post("msg_2", created_at=AT),)))

        assert committed.posts[0].created_at == LATER
        assert (await store.tally(T1, "chan_1")).last_at == LATER

    @stored
    async def test_a_post_to_no_channel_is_refused_without_a_trace(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))
        before = await self.everything(store)

        for channel_id in ("chan_none", "chan_t2"):
            with pytest.raises(NotFound):
                await store.commit(self.much(posts=(a_post("msg_x", channel_id),)))

        assert await self.everything(store) == before

    @stored
    async def test_a_change_that_cannot_be_written_takes_no_other_with_it(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
        unfit = TeamChanges(T1, (a_post("msg_2"),), events=(an_event(payload=b"no json"),))
        twice = TeamChanges(T1, (a_post("msg_1"),))
        fit = [TeamChanges(T1, (a_post(f"msg_f{n}"),)) for n in range(4)]

        outcomes = await asyncio.gather(
            *map(store.commit, (fit[0], unfit, fit[1], twice, fit[2], fit[3])), return_exceptions=True
        )

        assert [isinstance(one, Committed) for one in outcomes] == [True, False, True, False, True, True]
        page = await store.page(T1, Query("chan_1", ALL, AT))
        assert [one.post.id for one in page] == ["msg_1", "msg_f0", "msg_f1", "msg_f2", "msg_f3"]
        assert [one.post.seq for one in page] == [1, 2, 3, 4, 5]

    @stored
    async def test_a_page_shows_what_its_reader_may_see(self, store: TeamStore) -> None:
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_post("msg_1"),
                    a_post("msg_2", to="bob", recipients=("bob",)),
                    a_post("msg_3", to="carol", recipients=("carol",)),
                    a_post("msg_4", to="role:r", recipients=("bob", "carol")),
                    a_post("msg_5", to="role:none", recipients=(), state=PostState.PENDING),
                    a_post("msg_6", sender="bob", to="carol", recipients=("carol",)),
                    a_post("msg_7"),
                ),
            )
        )

        async def ids(view: View, **query: Any) -> list[str]:
            return [one.post.id[4:] for one in await store.page(T1, Query("chan_1", view, AT, **query))]

        assert await ids(ALL) == list("1234567")
        assert await ids(seen_by("alice")) == list("123457")
        assert await ids(seen_by("bob")) == list("12467")
        assert await ids(seen_by("carol")) == list("13467")
        assert await ids(seen_by("carol", since=1)) == list("3467")
        assert await ids(seen_by("bo")) == list("17")
        assert await ids(ALL, to="bob") == list("1247")
        assert await ids(seen_by("carol"), to="bob") == list("147")
        assert await ids(ALL, after_seq=3, limit=2) == list("45")

    @stored
    async def test_a_page_begins_after_a_moment(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", created_at=AT), a_post("msg_2", created_at=LATER))))

        found = await store.page(T1, Query("chan_1", ALL, LATER, after_time=AT))

        assert [one.post.id for one in found] == ["msg_2"]

    @stored
    async def test_what_has_expired_is_on_no_page_and_found_by_its_id(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", expires_at=LATER), a_post("msg_2"))))

        before = await store.page(T1, Query("chan_1", ALL, AT))
        after = await store.page(T1, Query("chan_1", ALL, LATER))

        assert [one.post.id for one in before] == ["msg_1", "msg_2"]
        assert [one.post.id for one in after] == ["msg_2"]
        assert await store.post(T1, "msg_1") is not None

    @stored
    async def test_each_reader_sees_its_own_receipt_and_the_sender_the_addressees(self, store: TeamStore) -> None:
        direct = a_post("msg_1", to="bob", recipients=("bob",))
        await store.commit(TeamChanges(T1, (direct, a_post("msg_2"))))
        receipts = (Receipt("msg_1", "bob", AT), Receipt("msg_2", "bob", LATER), Receipt("msg_2", "alice", AT))

        await store.commit(TeamChanges(T1, receipts=receipts))
        await store.commit(TeamChanges(T1, receipts=(Receipt("msg_1", "bob", LATER),)))

        async def read_at(view: View) -> list[str]:
            page = await store.page(T1, Query("chan_1", view, AT))
            single = [(await store.seen(T1, one.post, view.agent)).read_at for one in page]
            assert [one.read_at for one in page] == single
            return single

        assert await read_at(seen_by("bob")) == [AT, LATER]
        assert await read_at(seen_by("alice")) == [AT, AT]
        assert await read_at(seen_by("carol")) == [""]
        assert await read_at(ALL) == [AT, ""]

    @stored
    async def test_answers_are_found_in_order_and_mark_their_request(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_request("msg_1"), a_request("msg_2"))))

        await store.commit(TeamChanges(T1, (an_answer("msg_3", "msg_1"),)))
        await store.commit(TeamChanges(T1, (an_answer("msg_4", "msg_1"),)))

        assert [one.id for one in await store.answers(T1, "msg_1")] == ["msg_3", "msg_4"]
        assert await store.answers(T1, "msg_2") == ()
        asked = [await store.post(T1, message_id) for message_id in ("msg_1", "msg_2")]
        assert [one and one.answered for one in asked] == [True, False]

    @stored
    async def test_a_request_and_its_answer_may_come_in_one_commit(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_request("msg_1"), an_answer("msg_2", "msg_1"))))

        request = await store.post(T1, "msg_1")

        assert request is not None
        assert request.answered

    # -------------------------------------------------------- what goes away

    @stored
    async def test_only_the_last_messages_are_kept_and_all_are_counted(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=3),)))

        for n in range(1, 7):
            await store.commit(TeamChanges(T1, (a_post(f"msg_{n}", "chan_2"),)))

        for restarts in range(2):
            if restarts:
                store = await self.restarted(store)
            assert [one.post.seq for one in await store.page(T1, Query("chan_2", ALL, AT))] == [4, 5, 6]
            assert await store.tally(T1, "chan_2") == Tally(6, AT, 3)
            assert [await store.post(T1, f"msg_{n}") for n in (1, 2, 3)] == [None] * 3
            assert await store.post(T1, "msg_4") is not None
            assert [item.position for item in await store.feed(T1, 0)] == [4, 5, 6]
            assert len(await store.search(T1, "hello", channel_id="chan_2")) == 3

    @stored
    async def test_eviction_goes_on_over_many_messages_in_one_commit(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=10),)))

        for start in range(0, 300, 100):
            posts = tuple(a_post(f"msg_{n:03d}", "chan_2") for n in range(start, start + 100))
            await store.commit(TeamChanges(T1, posts))

        page = await store.page(T1, Query("chan_2", ALL, AT))
        assert [one.post.id for one in page] == [f"msg_{n:03d}" for n in range(290, 300)]
        assert (await store.tally(T1, "chan_2")).total == 300

    @stored
    async def test_a_channel_that_may_keep_fewer_keeps_fewer_at_once(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, tuple(a_post(f"msg_{n}") for n in range(1, 6))))
        channel = await self.kept(store, Channel, "chan_1")

        await store.commit(TeamChanges(T1, puts=(replace(channel, options=Options(max_messages=2)),)))

        assert [one.post.seq for one in await store.page(T1, Query("chan_1", ALL, AT))] == [4, 5]
        assert (await store.tally(T1, "chan_1")).floor == 3
        assert await (await self.restarted(store)).tally(T1, "chan_1") == Tally(5, AT, 3)

    @stored
    async def test_receipts_of_evicted_messages_do_not_return(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
        await store.commit(TeamChanges(T1, receipts=(Receipt("msg_1", "bob", AT),), purges=("chan_1",)))

        again = await store.commit(TeamChanges(T1, (a_post("msg_1"),)))

        assert again.posts[0].seq == 2
        assert (await store.seen(T1, again.posts[0], "bob")).read_at == ""

    @stored
    async def test_a_purge_takes_every_message_and_keeps_the_count_and_the_log(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"), a_request("msg_2")), events=(an_event(),)))

        committed = await store.commit(TeamChanges(T1, purges=("chan_1",)))

        assert committed.ended == ("chan_1",)
        assert await store.page(T1, Query("chan_1", ALL, AT)) == ()
        assert await store.post(T1, "msg_1") is None
        assert await store.tally(T1, "chan_1") == Tally(2, AT, 2)
        assert len(await store.events(T1, "intent_1")) == 1
        store = await self.restarted(store)
        assert await store.page(T1, Query("chan_1", ALL, AT)) == ()
        assert (await store.commit(TeamChanges(T1, (a_post("msg_3"),)))).posts[0].seq == 3

    @stored
    async def test_what_found_its_recipients_takes_a_new_place(self, store: TeamStore) -> None:
        waiting = a_post("msg_1", to="role:r", recipients=(), state=PostState.PENDING)
        await store.commit(TeamChanges(T1, (waiting, a_post("msg_2"))))
        assert [one.id for one in await store.pending(T1, "role:r")] == ["msg_1"]

        committed = await store.commit(TeamChanges(T1, moved=(Moved("msg_1", PostState.DELIVERED, ("bob", "carol")),)))

        moved = waiting._replace(position=3, seq=3, state=PostState.DELIVERED, recipients=("bob", "carol"))
        assert committed.posts == (moved,)
        assert await store.pending(T1, "role:r") == ()
        assert [one.post for one in await store.page(T1, Query("chan_1", seen_by("bob"), AT, after_seq=2))] == [moved]
        assert [one.post for one in await store.feed(T1, 2)] == [moved]
        assert (await store.tally(T1, "chan_1")).total == 2
        assert await (await self.restarted(store)).post(T1, "msg_1") == moved
        assert (await self.open().commit(TeamChanges(T1, (a_post("msg_4"),)))).posts[0].seq == 4

    @stored
    async def test_what_was_delivered_already_is_not_delivered_again(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", to="role:r", recipients=(), state=PostState.PENDING),)))
        move = TeamChanges(T1, moved=(Moved("msg_1", PostState.DELIVERED, ("bob",)),))

        first, second = await asyncio.gather(store.commit(move), store.commit(move))

        assert (len(first.posts), len(second.posts)) == (1, 0)
        assert await store.head(T1) == 2

    @stored
    async def test_what_was_evicted_while_it_waited_stays_away(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))
        waiting = a_post("msg_1", "chan_2", to="role:r", recipients=(), state=PostState.PENDING)
        await store.commit(TeamChanges(T1, (waiting,)))
        await store.commit(TeamChanges(T1, (a_post("msg_2", "chan_2"),)))

        assert await store.pending(T1, "role:r") == ()
        committed = await store.commit(TeamChanges(T1, moved=(Moved("msg_1", PostState.DELIVERED, ("bob",)),)))

        assert committed.posts == ()
        assert [one.post.id for one in await store.page(T1, Query("chan_2", ALL, AT))] == ["msg_2"]

    @stored
    async def test_an_expired_message_leaves_the_list_and_what_is_overdue(self, store: TeamStore) -> None:
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_request("msg_1", expires_at=AT),
                    a_request("msg_2", expires_at=LATER),
                    a_request("msg_3", expires_at=AT),
                    an_answer("msg_4", "msg_3"),
                    a_request("msg_5"),
                ),
            )
        )
        assert await store.overdue(AT) == ((T1, "msg_1"),)
        assert await store.overdue(LATER, limit=9) == ((T1, "msg_1"), (T1, "msg_2"))

        await store.commit(
            TeamChanges(T1, moved=(Moved("msg_1", PostState.EXPIRED), Moved("msg_5", PostState.EXPIRED)))
        )

        assert await store.overdue(AT) == ()
        found = [await store.post(T1, f"msg_{n}") for n in (1, 2, 5)]
        assert [one and one.state for one in found] == [PostState.EXPIRED, PostState.DELIVERED, PostState.EXPIRED]
        page = await store.page(T1, Query("chan_1", ALL, "2026-03-13T14:29:00.000000+00:00"))
        assert [one.post.id for one in page] == ["msg_2", "msg_3", "msg_4"]

    @stored
    async def test_the_end_of_a_channel_expires_what_nobody_answered(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_post("msg_1"),
                    a_request("msg_2"),
                    a_request("msg_3"),
                    an_answer("msg_4", "msg_3"),
                    a_post("msg_5", to="role:r", recipients=(), state=PostState.PENDING),
                    a_request("msg_6")._replace(channel_id="chan_2"),
                ),
            )
        )
        channel = replace(await self.kept(store, Channel, "chan_1"), label="closed")

        committed = await store.commit(TeamChanges(T1, puts=(channel,), ended=("chan_1",)))

        assert committed.ended == ("chan_1",)
        states = [(await store.post(T1, f"msg_{n}")) for n in range(1, 7)]
        expired = [one.id for one in states if one and one.state is PostState.EXPIRED]
        assert expired == ["msg_2", "msg_5"]
        assert await store.pending(T1, "role:r") == ()

    @stored
    async def test_a_request_that_was_answered_in_the_same_moment_does_not_expire_with_its_channel(
        self, store: TeamStore
    ) -> None:
        await store.commit(TeamChanges(T1, (a_request("msg_1"),)))

        await asyncio.gather(
            store.commit(TeamChanges(T1, (an_answer("msg_2", "msg_1"),))),
            store.commit(TeamChanges(T1, ended=("chan_1",))),
        )

        request = await store.post(T1, "msg_1")
        assert request is not None
        assert (request.state, request.answered) == (PostState.DELIVERED, True)

    @stored
    async def test_a_departure_expires_what_the_agent_did_not_answer(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))
        await store.commit(TeamChanges(T2, (a_request("msg_t2")._replace(channel_id="chan_t2"),)))
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_request("msg_1"),
                    a_request("msg_2"),
                    an_answer("msg_3", "msg_2"),
                    a_request("msg_4", to="carol"),
                    a_post("msg_5", to="bob", recipients=("bob",)),
                ),
            )
        )

        committed = await store.commit(TeamChanges(T1, departed=("bob",)))

        assert committed.departed == ("bob",)
        found = [await store.post(T1, f"msg_{n}") for n in range(1, 6)]
        assert [one.id for one in found if one and one.state is PostState.EXPIRED] == ["msg_1"]
        other = await store.post(T2, "msg_t2")
        assert other is not None
        assert other.state is PostState.DELIVERED

    # -------------------------------------------------------- feed, search

    @stored
    async def test_the_feed_has_posts_and_events_in_the_order_of_their_commits(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"),), events=(an_event("evt_1"),)))
        await store.commit(TeamChanges(T1, (a_post("msg_2"), a_post("msg_3"))))
        await store.commit(TeamChanges(T1, events=(an_event("evt_2"),)))

        feed = await store.feed(T1, 0)

        named = [one.post.id if one.post else one.event.id if one.event else "" for one in feed]
        assert named == ["msg_1", "evt_1", "msg_2", "msg_3", "evt_2"]
        assert [one.position for one in feed] == [1, 2, 3, 4, 5]
        assert {(one.intent_id, one.channel_id) for one in feed} == {("intent_1", "chan_1"), ("intent_1", "")}
        assert [one.position for one in await store.feed(T1, 1, limit=2)] == [2, 3]
        assert await store.feed(T1, 5) == ()
        assert await store.head(T1) == 5
        assert await (await self.restarted(store)).feed(T1, 0) == feed

    @stored
    async def test_search_finds_text_in_any_case_newest_first(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_post("msg_1", payload='{"text":"Straße frei"}'.encode()),
                    a_post("msg_2", payload=b'{"text":"nothing"}'),
                    a_post("msg_3", "chan_2", payload=b'{"text":"STRASSE"}'),
                ),
            )
        )

        assert [one.id for one in await store.search(T1, "strasse")] == ["msg_3", "msg_1"]
        assert [one.id for one in await store.search(T1, "straße", channel_id="chan_1")] == ["msg_1"]
        assert [one.id for one in await store.search(T1, "strasse", limit=1)] == ["msg_3"]
        assert [one.id for one in await store.search(T1, "strasse", before=3)] == ["msg_1"]
        assert await store.search(T1, "strasse", before=1) == ()
        assert await store.search(T1, "%") == ()

    # -------------------------------------------------------- log and ledger

    @stored
    async def test_the_events_of_an_intent_are_linked_by_their_hashes(self, store: TeamStore) -> None:
        for n in range(1, 4):
            await store.commit(TeamChanges(T1, events=(an_event(f"evt_{n}"), an_event(f"evt_o{n}", "intent_2"))))

        store = await self.restarted(store)
        await store.commit(TeamChanges(T1, events=(an_event("evt_4", event_type="other", trace_id="a" * 32),)))

        events = await store.events(T1, "intent_1")
        previous = None
        for sequence, event in enumerate(events, start=1):
            document = json.loads(event.document)
            assert (event.sequence, document["sequence"]) == (sequence, sequence)
            assert document["previous_event_hash"] == previous
            assert document["event_hash"] == event.event_hash == event_hash(document)
            previous = event.event_hash
        assert [one.id for one in events] == ["evt_1", "evt_2", "evt_3", "evt_4"]
        assert [one.id for one in await store.events(T1, "intent_1", after=1, limit=2)] == ["evt_2", "evt_3"]
        assert [one.id for one in await store.events(T1, "intent_1", event_type="other")] == ["evt_4"]
        assert [one.id for one in await store.traced(T1, "a" * 32)] == ["evt_4"]
        assert await store.traced(T1, "") == ()
        assert await store.event(T1, "evt_2") == events[1]

    @stored
    async def test_an_event_hashes_to_the_published_vector(self, store: TeamStore) -> None:
        vector = EventDraft("evt_1", "intent_1", "intent_created", "a", b'{"title":"t"}', "2026-02-13T10:00:00Z")

        committed = await store.commit(TeamChanges(T1, events=(vector,)))

        assert committed.events[0].event_hash == "sha256:m4rnlU2FNaRADt0HzpjpnkKs9izmSyf2XZXnjkLAp4I"

    @stored
    async def test_the_ledger_is_chained_over_batches_and_restarts(self, store: TeamStore) -> None:
        await asyncio.gather(
            *(store.commit(TeamChanges(T1, entries=(an_entry(f"a{n}"), an_entry(f"b{n}")))) for n in range(20))
        )
        store = await self.restarted(store)
        await store.commit(TeamChanges(T1, entries=(an_entry("last"),)))
        await store.commit(TeamChanges(T2, entries=(an_entry("other"),)))

        written = await store.entries(T1, 0, 100)

        assert len(written) == 41
        assert_chained(written)
        assert written[-1].entry == an_entry("last")
        assert await store.entries(T1, 39, 1) == (written[39],)
        assert_chained(await store.entries(T2, 0, 9))

    # -------------------------------------------------------- idempotency keys

    @stored
    async def test_an_idempotency_key_is_used_once(self, store: TeamStore) -> None:
        uses = [TeamChanges(T1, (a_post(f"msg_{n}"),), saved=a_use(message_id=f"msg_{n}")) for n in range(8)]

        outcomes = await asyncio.gather(*map(store.commit, uses), return_exceptions=True)

        assert isinstance(outcomes[0], Committed)
        refusals = [one for one in outcomes[1:] if isinstance(one, Stale)]
        assert len(refusals) == 7
        assert all("kind" not in one.facts for one in refusals)
        assert len(await store.page(T1, Query("chan_1", ALL, AT))) == 1
        assert await store.saved("s1") == a_use(message_id="msg_0")

    @stored
    async def test_the_answer_is_kept_with_its_key_until_it_is_forgotten(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, saved=a_use("s1")))
        answered = a_use("s1", message_id="msg_1", status=201, answer=b'{"id":"msg_1"}')
        await store.commit(TeamChanges(T1, saved=answered))
        await store.commit(TeamChanges(T1, saved=a_use("s2", at=LATER)))

        store = await self.restarted(store)
        assert await store.saved("s1") == answered
        assert await store.saved("s0") is None

        await store.commit(TeamChanges(T1, forget_before=LATER))
        assert await store.saved("s1") is None
        assert await store.saved("s2") == a_use("s2", at=LATER)

    # -------------------------------------------------------- tenants

    @stored
    async def test_nothing_crosses_from_one_tenant_to_another(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))
        secret = a_request("msg_s", to="bob")._replace(channel_id="chan_t2", payload=b'{"text":"secret"}')
        waiting = a_post("msg_w", "chan_t2", to="role:r", recipients=(), state=PostState.PENDING)
        answer = an_answer("msg_a", "msg_s")._replace(channel_id="chan_t2")
        event = an_event("evt_t2", "intent_t2", trace_id="a" * 32)
        changes = TeamChanges(T2, (secret, waiting, answer), puts=(an_intent("intent_t2", T2),), events=(event,))
        await store.commit(changes._replace(entries=(an_entry("secret"),)))

        assert await store.head(T1) == 0
        assert await store.get(Intent, T1, "intent_t2") is None
        assert await store.get(Channel, T1, "chan_t2") is None
        assert await store.named(Channel, T1, "intent_1", "chan_t2") is None
        assert [one.id for one in await store.children(Channel, T1, "intent_1")] == ["chan_1"]
        assert await store.post(T1, "msg_s") is None
        assert await store.page(T1, Query("chan_t2", ALL, AT)) == ()
        assert await store.answers(T1, "msg_s") == ()
        assert await store.pending(T1, "role:r") == ()
        assert await store.search(T1, "secret") == ()
        assert await store.feed(T1, 0) == ()
        assert await store.events(T1, "intent_t2") == ()
        assert await store.traced(T1, "a" * 32) == ()
        assert await store.event(T1, "evt_t2") is None
        assert await store.entries(T1, 0, 9) == ()
        assert await store.taking_part(T1, "bob") == await store.children(Channel, T1, "intent_1")

    @stored
    async def test_nothing_of_another_tenant_is_moved_or_ended(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))
        waiting = a_post("msg_w", "chan_t2", to="role:r", recipients=(), state=PostState.PENDING)
        asked = a_request("msg_r", channel_id="chan_t2")
        await store.commit(TeamChanges(T2, (waiting, asked)))
        before = await store.feed(T2, 0)

        moved = (Moved("msg_w", PostState.DELIVERED, ("eve",)), Moved("msg_r", PostState.EXPIRED))
        committed = await store.commit(TeamChanges(T1, moved=moved, ended=("chan_t2",), departed=("bob",)))
        await store.commit(TeamChanges(T1, purges=("chan_t2",)))

        assert committed.posts == ()
        assert await store.feed(T2, 0) == before
        assert await store.head(T1) == 0

    @stored
    async def test_each_tenant_counts_its_own_positions(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))

        mine = await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
        theirs = await store.commit(TeamChanges(T2, (a_post("msg_2", "chan_t2"),)))

        assert (mine.position, theirs.position) == (1, 1)
        assert [one.position for one in await store.feed(T2, 0)] == [1]

    @stored
    async def test_a_tenant_nobody_knows_is_empty(self, store: TeamStore) -> None:
        assert await store.head("nobody") == 0
        assert await store.feed("nobody", 0) == ()
        assert await store.entries("nobody", 0, 9) == ()
        assert await store.tally(T1, "chan_none") == Tally()

    @stored
    async def test_who_takes_part_is_found_by_name_by_what_it_said_and_by_what_it_was_asked(
        self, store: TeamStore
    ) -> None:
        await store.commit(
            TeamChanges(T1, puts=tuple(a_channel(f"chan_{n}", members=(Member(agent="alice"),)) for n in (2, 3, 4)))
        )
        await store.commit(TeamChanges(T1, (a_post("msg_1", "chan_2", sender="bob"),)))
        await store.commit(TeamChanges(T1, (a_request("msg_2")._replace(channel_id="chan_3"),)))

        assert [one.id for one in await store.taking_part(T1, "bob")] == ["chan_1", "chan_2", "chan_3"]
        assert await store.taking_part(T1, "bo") == ()

    # -------------------------------------------------------- watching

    @stored
    async def test_watchers_hear_each_commit_in_order_before_it_returns(self, store: TeamStore) -> None:
        heard: list[tuple[str, int]] = []
        store.watch(lambda tenant, committed: heard.append((tenant, committed.position)))

        async def commit(n: int) -> None:
            committed = await store.commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))
            assert (T1, committed.position) in heard

        await asyncio.gather(*map(commit, range(40)))
        with pytest.raises(NotFound):
            await store.commit(TeamChanges(T1, (a_post("msg_x", "chan_none"),)))

        assert heard == [(T1, n) for n in range(1, 41)]

    @stored
    async def test_a_commit_that_was_begun_is_finished_when_its_caller_goes_away(self, store: TeamStore) -> None:
        going = asyncio.ensure_future(store.commit(TeamChanges(T1, (a_post("msg_1"),))))
        await asyncio.sleep(0)
        going.cancel()

        await store.commit(TeamChanges(T1, (a_post("msg_2"),)))

        assert [one.post.id for one in await store.page(T1, Query("chan_1", ALL, AT))] == ["msg_1", "msg_2"]

    @stored
    async def test_closing_finishes_what_was_queued(self, store: TeamStore) -> None:
        queued = [asyncio.ensure_future(store.commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))) for n in range(50)]
        await asyncio.sleep(0)

        store = await self.restarted(store)

        assert len(await store.page(T1, Query("chan_1", ALL, AT))) == 50
        assert [one.posts[0].seq for one in await asyncio.gather(*queued)] == list(range(1, 51))

    # -------------------------------------------------------- for the tests above

    @staticmethod
    async def kept(store: TeamStore, kind: type[R], record_id: str) -> R:
        found = await store.get(kind, T1, record_id)
        assert found is not None
        return found

    @staticmethod
    def much(**changes: Any) -> TeamChanges:
        """A change of every sort, to see that nothing of it is left behind."""
        everything = TeamChanges(
            T1,
            posts=(a_post("msg_much"),),
            events=(an_event("evt_much"),),
            receipts=(Receipt("msg_much", "bob", AT),),
            ended=("chan_1",),
            departed=("bob",),
            entries=(an_entry("much"),),
            saved=a_use("much"),
        )
        puts = (*changes.pop("puts", ()), an_intent("intent_much"))
        return everything._replace(puts=puts, **changes)

    @staticmethod
    async def everything(store: TeamStore) -> object:
        return (
            await store.head(T1),
            await store.tally(T1, "chan_1"),
            await store.children(Intent, T1, ""),
            await store.children(Channel, T1, "intent_1"),
            await store.get(Access, T1, "intent_1"),
            await store.page(T1, Query("chan_1", ALL, AT)),
            await store.feed(T1, 0),
            await store.entries(T1, 0, 100),
            await store.saved("much"),
            await store.seen(T1, a_post("msg_much"), "bob"),
        )
