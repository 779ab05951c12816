"""The worker: everybody who has something coming gets it, and nobody holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from parley.adapters.postgres.store import PostgresTeamStore
from parley.app.team.decisions import notices
from parley.app.team.webhooks import delivering as webhooks
from parley.app.team.webhooks import subscriptions
from parley.app.team.webhooks.subscriptions import SubscriptionDraft
from parley.app.team.work import sweep
from parley.domain.agents.party import Attributes
from parley.domain.channel.subscription import Answered, Reason, Subscription, endpoint_id
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, KeyKind
from parley.domain.errors.errors import Unavailable
from parley.domain.exchange.approval import Decision
from parley.domain.store.changes import TeamChanges
from tests.rigs.fake_outbound import FakeOutbound
from tests.rigs.node import two_nodes
from tests.rigs.notices import decide, waiting
from tests.rigs.team import INTENT, Rig, in_loop, soon, with_rig

pytestmark = pytest.mark.both_stores

SLOW, QUICK, THIRD = "https://slow.example/", "https://quick.example/", "https://third.example/"


async def prepared(rig: Rig) -> FakeOutbound:
    out = FakeOutbound()
    rig.team.outbound = out
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    return out


async def subscribed(
    rig: Rig, agent: str = "bob", url: str = QUICK, intent_id: str = "", kind: KeyKind = KeyKind.AGENT
) -> Subscription:
    await rig.key(agent, kind)
    return await subscriptions.create(rig.team, rig.caller(agent, kind), SubscriptionDraft(url, intent_id))


async def kept(rig: Rig, made: Subscription) -> Subscription:
    found = await rig.store.get(Subscription, made.tenant_id, made.id)
    assert found is not None
    return found


@asynccontextmanager
async def working(rig: Rig, out: FakeOutbound) -> AsyncIterator[None]:
    """The worker in the background, as a server has it."""
    work = asyncio.ensure_future(webhooks.deliver_forever(rig.team, out))
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


@pytest.fixture
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the next second does not wait so long."""
    monkeypatch.setattr(webhooks, "TICK_SECONDS", 0.01)


@with_rig
async def test_what_is_committed_is_pushed_at_once(rig: Rig) -> None:
    out = await prepared(rig)
    await subscribed(rig)
    async with working(rig, out):
        for number in range(20):
            await rig.say("alice", str(number))
        await soon(lambda: len(out.pushes) == 20)

    assert out.texts() == [str(number) for number in range(20)]


@with_rig
async def test_a_subscription_made_while_the_worker_runs_is_served(rig: Rig) -> None:
    out = await prepared(rig)
    async with working(rig, out):
        await rig.say("alice", "before")
        await subscribed(rig)
        await rig.say("alice", "after")
        await soon(lambda: len(out.pushes) == 1)

    assert out.texts() == ["after"]


@with_rig
async def test_what_was_missed_while_no_worker_ran_is_pushed_at_the_start(rig: Rig) -> None:
    out = await prepared(rig)
    await subscribed(rig)
    await rig.say("alice", "missed")

    async with working(rig, out):
        await soon(lambda: out.texts() == ["missed"])


@with_rig
async def test_a_receiver_that_does_not_answer_holds_up_nobody_else(rig: Rig) -> None:
    out = await prepared(rig)
    await subscribed(rig, "bob", SLOW)
    await subscribed(rig, "carol", QUICK)
    out.held[SLOW] = asyncio.Event()
    async with working(rig, out):
        for number in range(3):
            await rig.say("alice", str(number))
        await soon(lambda: len(out.texts(QUICK)) == 3 and len(out.texts(SLOW)) > 0)
        assert out.texts(SLOW) == ["0"]

        out.held[SLOW].set()
        await soon(lambda: len(out.texts(SLOW)) == 3)

    assert out.texts(SLOW) == out.texts(QUICK) == ["0", "1", "2"]


@with_rig
async def test_many_receivers_that_do_not_answer_hold_up_no_other_tenant(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_MOST_AT_ONCE", 4)
    monkeypatch.setattr(webhooks, "_MOST_OF_A_TENANT", 2)
    out = await prepared(rig)
    for _ in range(6):
        await subscribed(rig, "bob", SLOW)
    out.held[SLOW] = asyncio.Event()
    await rig.tenant("other")
    await rig.intent("intent_2", tenant="other", agents=("bob",))
    await rig.channel("chan_2", intent_id="intent_2", tenant="other")
    await rig.key("bob", tenant="other")
    await subscriptions.create(rig.team, rig.caller("bob", tenant="other"), SubscriptionDraft(QUICK))
    async with working(rig, out):
        await rig.say("alice", "stuck")
        await rig.say("alice", "through", channel_id="chan_2", tenant="other")
        await soon(lambda: out.texts(QUICK) == ["through"])
        assert len(out.texts(SLOW)) <= 2

        out.held[SLOW].set()
        await soon(lambda: len(out.texts(SLOW)) == 6)


@pytest.mark.usefixtures("quick_ticks")
@with_rig
async def test_a_failed_push_is_tried_again_when_its_time_has_come_and_the_rest_follows_in_order(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, "bob", SLOW)
    await subscribed(rig, "carol", QUICK)
    out.answer = lambda push: Answered(503 if push.url == SLOW else 200)
    async with working(rig, out):
        await rig.say("alice", "one")
        await soon(lambda: len(out.pushes) == 2)
        await rig.say("alice", "two")
        await soon(lambda: len(out.texts(QUICK)) == 2)
        assert out.texts(SLOW) == ["one"]

        out.answer = lambda _: Answered(200)
        rig.clock.pass_by(seconds=5)
        await soon(lambda: len(out.texts(SLOW)) == 3)

    assert out.texts(SLOW) == ["one", "one", "two"]
    assert (await kept(rig, made)).tries == 0


@with_rig
async def test_constant_traffic_for_others_does_not_put_off_a_try_that_is_due(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "TICK_SECONDS", 0.2)  # much longer than there is ever silence
    out = await prepared(rig)
    await subscribed(rig, "bob", SLOW)
    await subscribed(rig, "carol", QUICK)
    out.answer = lambda push: Answered(503 if push.url == SLOW else 200)

    async def talk() -> None:
        while True:
            await rig.say("alice", "hello")

    async with working(rig, out):
        talking = asyncio.ensure_future(talk())
        await soon(lambda: len(out.texts(SLOW)) == 1 and len(out.texts(QUICK)) > 20)
        rig.clock.pass_by(seconds=5)
        await soon(lambda: len(out.texts(SLOW)) == 2)
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)


@with_rig
async def test_enabled_again_it_goes_on_at_once(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    out.answer = lambda _: Answered(410)
    async with working(rig, out):
        await rig.say("alice", "one")
        await soon(lambda: len(out.pushes) == 1)
        await soon(lambda: _is_off(rig, made))
        await rig.say("alice", "two")

        out.answer = lambda _: Answered(200)
        await subscriptions.switch(rig.team, rig.caller("bob"), made.id, active=True)
        await soon(lambda: len(out.pushes) == 3)

    assert out.texts() == ["one", "one", "two"]


async def _is_off(rig: Rig, made: Subscription) -> bool:
    return not (await kept(rig, made)).pushes


@with_rig
async def test_a_deleted_subscription_is_pushed_nothing(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, "bob", THIRD)
    await subscribed(rig, "carol", QUICK)
    async with working(rig, out):
        await rig.say("alice", "one")
        await soon(lambda: len(out.pushes) == 2)
        await subscriptions.delete(rig.team, rig.caller("bob"), made.id)
        await rig.say("alice", "two")
        await rig.say("alice", "three")
        await soon(lambda: len(out.texts(QUICK)) == 3)

    assert out.texts(THIRD) == ["one"]


@pytest.mark.usefixtures("quick_ticks")
@with_rig
async def test_a_subscription_whose_time_is_up_is_deleted_without_anything_to_push(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.key("bob")
    in_an_hour = rig.clock.at.replace(hour=rig.clock.at.hour + 1)
    wanted = SubscriptionDraft(QUICK, expires_at=in_an_hour.isoformat(timespec="microseconds"))
    made = await subscriptions.create(rig.team, rig.caller("bob"), wanted)

    async def is_gone() -> bool:
        return await rig.store.get(Subscription, DEFAULT_TENANT, made.id) is None

    async with working(rig, out):
        assert not await is_gone()
        rig.clock.pass_by(hours=1)
        await soon(is_gone)


@with_rig
async def test_an_agent_that_registers_an_endpoint_is_pushed_what_is_said_to_it_from_then_on(rig: Rig) -> None:
    out = await prepared(rig)
    async with working(rig, out):
        await rig.say("alice", "before", to="bob")
        await rig.agent("bob", endpoint=QUICK)
        await rig.say("alice", "after", to="bob")
        await rig.say("alice", "to carol", to="carol")
        await rig.say("alice", "to all")
        await soon(lambda: len(out.pushes) == 2)

    assert out.texts() == ["after", "to all"]


@with_rig
async def test_an_endpoint_that_was_registered_while_no_worker_ran_is_followed(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.agent("bob", endpoint=QUICK)

    async def is_followed() -> bool:
        return await rig.store.get(Subscription, DEFAULT_TENANT, endpoint_id("bob")) is not None

    async with working(rig, out):
        await soon(is_followed)
        await rig.say("alice", "hello", to="bob")
        await soon(lambda: out.texts() == ["hello"])


@with_rig
async def test_an_endpoint_that_moves_is_followed_and_one_that_goes_is_left(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.agent("bob", endpoint=SLOW)
    async with working(rig, out):
        await rig.say("alice", "old", to="bob")
        await rig.agent("bob", endpoint=QUICK)

        async def stands(url: str, *, on: bool) -> bool:
            found = await rig.store.get(Subscription, DEFAULT_TENANT, endpoint_id("bob"))
            return found is not None and found.url == url and found.pushes is on

        await soon(lambda: stands(QUICK, on=True))
        await rig.say("alice", "new", to="bob")
        await soon(lambda: "new" in out.texts(QUICK))
        await rig.agent("bob", endpoint="")
        await soon(lambda: stands(QUICK, on=False))

        found = await rig.store.get(Subscription, DEFAULT_TENANT, endpoint_id("bob"))
        assert found is not None
        assert found.reason is Reason.NO_ENDPOINT


@with_rig
async def test_each_kind_of_subscription_hears_of_what_it_wants(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.access(assignments=(rig.assignment("carol"),))
    await subscribed(rig, "bob", QUICK, intent_id=INTENT)
    await subscribed(rig, "carol", SLOW)
    await subscribed(rig, "", THIRD, kind=KeyKind.SERVICE)
    async with working(rig, out):
        await rig.say("alice", "to carol", to="carol")
        await rig.store.commit(
            TeamChanges(DEFAULT_TENANT, events=(rig.team.event(INTENT, "status_changed", "alice", b"{}"),))
        )
        await soon(lambda: len(out.pushes) == 5)

    assert out.texts(QUICK) == ["status_changed"]
    assert out.texts(SLOW) == out.texts(THIRD) == ["to carol", "status_changed"]


@pytest.mark.usefixtures("quick_ticks")
@with_rig
async def test_the_cursor_of_who_wants_little_is_moved_on_and_loses_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_FAR_BEHIND", 10)
    out = await prepared(rig)
    await rig.intent("intent_2")
    await rig.channel("chan_2", intent_id="intent_2")
    made = await subscribed(rig, intent_id="intent_2")

    async def has_moved() -> bool:
        return (await kept(rig, made)).cursor >= made.cursor + 20

    async with working(rig, out):
        for number in range(30):
            await rig.say("alice", str(number))
        await soon(has_moved)
        await rig.say("alice", "mine", channel_id="chan_2")
        await soon(lambda: out.texts() == ["mine"])


@pytest.mark.usefixtures("quick_ticks")
@with_rig
async def test_the_cursor_of_who_waits_for_notices_is_moved_on_by_the_audit_log_and_loses_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_FAR_BEHIND", 10)
    out = await prepared(rig)
    for agent, user in (("alice", "ann"), ("bob", "ben")):
        await rig.agent(agent, attributes=Attributes(user_id=user))
    await rig.key("", KeyKind.ADMIN)
    admin = rig.caller("", KeyKind.ADMIN)
    made = await subscriptions.create(rig.team, admin, SubscriptionDraft(QUICK, "", ("approval.pending",)))

    async def has_moved() -> bool:
        return (await kept(rig, made)).cursor >= made.cursor + 20

    async with working(rig, out):
        for number in range(30):
            # Far more is said than is recorded: the two are counted apart.
            await rig.say("bob", str(number))
        for _ in range(8):
            await decide(rig, await waiting(rig), Decision.REJECT)
        await soon(has_moved)
        assert out.pushes == []
        assert (await kept(rig, made)).cursor <= await notices.newest(rig.team, DEFAULT_TENANT)
        approval = await waiting(rig)
        await sweep.sweep(rig.team)
        await soon(lambda: len(out.pushes) == 1)

    notice = out.pushes[0].item.notice
    assert notice is not None
    assert notice.approval is not None
    assert notice.approval.id == approval.id


@pytest.mark.usefixtures("quick_ticks")
@with_rig
async def test_a_store_that_stumbles_stops_the_worker_for_a_moment_only(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out = await prepared(rig)
    await subscribed(rig)
    feed, failures = rig.store.feed, iter((True, True))

    async def stumbling(*args: object, **options: object) -> object:
        if next(failures, False):
            raise Unavailable
        return await feed(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(rig.store, "feed", stumbling)
    async with working(rig, out):
        await rig.say("alice", "through")
        await soon(lambda: out.texts() == ["through"])

    assert "a webhook could not be handled" in caplog.text


@pytest.mark.usefixtures("quick_ticks")
@with_rig
async def test_a_store_that_cannot_be_read_at_the_start_is_tried_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = await prepared(rig)
    await subscribed(rig)
    await rig.say("alice", "missed")
    children, failures = rig.store.children, iter((True,))

    async def stumbling(*args: object, **options: object) -> object:
        if next(failures, False):
            raise Unavailable
        return await children(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(rig.store, "children", stumbling)
    async with working(rig, out):
        await soon(lambda: out.texts() == ["missed"])


@with_rig
async def test_a_worker_that_is_cancelled_leaves_no_push_behind(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, "bob", SLOW)
    out.held[SLOW] = asyncio.Event()
    async with working(rig, out):
        await rig.say("alice", "one")
        await soon(lambda: len(out.pushes) == 1)

    assert (await kept(rig, made)).cursor == made.cursor
    out.held.clear()
    async with working(rig, out):
        await soon(lambda: out.texts() == ["one", "one"])


# ---------------------------------------------------------------- servers that share a store


@with_rig
async def test_a_worker_that_ends_hears_nothing_any_more(rig: Rig) -> None:
    out = await prepared(rig)
    await subscribed(rig)
    worker = webhooks.Worker(rig.team, out)
    work = asyncio.ensure_future(worker.run())
    await rig.say("alice", to="bob")
    await soon(lambda: len(out.pushes) == 1)

    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    heads = dict(worker._heads)
    await rig.say("alice", to="bob")

    assert worker._heads == heads
    assert len(out.pushes) == 1


@pytest.mark.slow
@in_loop
async def test_what_is_said_at_one_server_is_pushed_by_the_other(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        out = await prepared(a)
        async with working(b, out):
            await subscribed(a)
            for _ in range(3):
                await a.say("alice", to="bob")

            await soon(lambda: len(out.pushes) == 3)


@pytest.mark.parametrize("heard_of", [False, True])
@in_loop
async def test_a_tenant_that_begins_at_one_server_is_pushed_to_by_the_other_though_every_call_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard_of: bool
) -> None:
    async with two_nodes(tmp_path) as (a, b):
        out = FakeOutbound()
        a.team.outbound = b.team.outbound = out
        assert isinstance(b.store, PostgresTeamStore)
        follower = b.store.follower
        monkeypatch.setattr(follower, "_on_notification", lambda payload: None)
        await a.tenant()  # as every server finds it
        await b.store.catch_up(NO_TENANT)
        async with working(b, out):
            await a.tenant("acme")
            if heard_of:
                await soon(lambda: follower.find_cache("acme") is not None)
            await a.intent(tenant="acme")
            await a.channel(tenant="acme")
            await a.key("bob", tenant="acme")
            await subscriptions.create(a.team, a.caller("bob", tenant="acme"), SubscriptionDraft(QUICK))
            await a.say("alice", to="bob", tenant="acme")

            await soon(lambda: len(out.pushes) == 1)
