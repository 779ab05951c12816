"""Timers: posted once, never early, judged when they are set and when they are due."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.app.team.audit import retention
from parley.app.team.channels import reading, timers
from parley.app.team.channels.reading import MessageFilter
from parley.app.team.channels.venues import channel_of
from parley.app.team.work.sweep import sweep
from parley.domain.audit.entry import AuditEntry
from parley.domain.channel.channel import closed
from parley.domain.channel.post import Post, PostDraft
from parley.domain.channel.timer import Timer
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, Caller, KeyKind
from parley.domain.errors.errors import Invalid, NotFound, Unavailable
from parley.domain.errors.rules import Denied
from parley.domain.errors.team import NotMember, QuotaExceeded
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import AppliesTo, CrossOrg
from parley.domain.store.changes import AuditQuery, Committed, TeamChanges
from parley.domain.store.limits import TeamLimits
from parley.domain.times import Instant
from tests.rigs.governed import place, put_policy, said
from tests.rigs.node import two_nodes
from tests.rigs.team import CHANNEL, Rig, in_loop, open_rig, with_rig

pytestmark = pytest.mark.both_stores


async def stage(rig: Rig, **intent: Any) -> Caller:  # noqa: ANN401  # as the rig
    await rig.intent(**intent)
    await rig.channel()
    await rig.key("alice")
    return rig.caller("alice")


def a_draft(text: str = "hello", to: str = "bob", pattern: Pattern = Pattern.NOTIFY, **more: Any) -> PostDraft:  # noqa: ANN401
    return PostDraft(pattern, json.dumps({"text": text}).encode(), to, **more)


async def later(rig: Rig, caller: Caller, seconds: float = 60, **draft: Any) -> Timer:  # noqa: ANN401
    moment = rig.clock.at + timedelta(seconds=seconds)
    return await timers.schedule(rig.team, caller, CHANNEL, a_draft(**draft), moment)


async def posts(rig: Rig) -> list[Post]:
    page = await reading.page(rig.team, rig.caller("", KeyKind.ADMIN), CHANNEL, MessageFilter())
    return [message.post for message in page.messages]


async def listed(rig: Rig, caller: Caller) -> list[Timer]:
    return [timer async for timer in timers.list_page(rig.team, caller)]


def texts(found: list[Post]) -> list[str]:
    return [json.loads(post.payload).get("text", "") for post in found]


async def pass_by(rig: Rig, **span: float) -> None:
    rig.clock.pass_by(**span)
    await sweep(rig.team)


@with_rig
async def test_a_message_is_posted_at_its_moment_once_and_never_early(rig: Rig) -> None:
    alice = await stage(rig)
    timer = await later(rig, alice, 60, pattern=Pattern.REQUEST, trace_id="0" * 32)

    await pass_by(rig, seconds=59.999)
    assert await posts(rig) == []
    await pass_by(rig, seconds=0.001)
    await pass_by(rig, seconds=60)

    [post] = await posts(rig)
    assert (post.id, post.sender, post.to, post.pattern) == (timer.message_id, "alice", "bob", Pattern.REQUEST)
    assert post.created_at >= timer.deliver_at
    assert await listed(rig, alice) == []


@with_rig
async def test_a_request_that_is_posted_later_takes_partial_answers_if_it_says_so(rig: Rig) -> None:
    alice = await stage(rig)
    await later(rig, alice, pattern=Pattern.REQUEST, metadata=b'{"accepts_partial":true}', partial=True)

    await pass_by(rig, seconds=60)

    [post] = await posts(rig)
    assert post.partial


@with_rig
async def test_timers_outlive_a_restart_and_what_was_due_meanwhile_comes_in_order(rig: Rig) -> None:
    alice = await stage(rig)
    for seconds in (30, 10, 20):
        await later(rig, alice, seconds, text=str(seconds))

    rig.clock.pass_by(hours=1)
    await rig.reopen()
    await sweep(rig.team)

    assert texts(await posts(rig)) == ["10", "20", "30"]


@with_rig
async def test_a_clock_that_jumps_posts_nothing_until_it_is_believed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await stage(rig)
    await later(rig, alice, 3600)
    rig.clock.at += timedelta(hours=2)

    with monkeypatch.context() as patch:
        patch.setattr(rig.clock, "now", lambda: Instant(rig.clock.at, "boot-1", 0.0, step=7_200.0))
        await sweep(rig.team)
        assert await posts(rig) == []

    await sweep(rig.team)
    assert texts(await posts(rig)) == ["hello"]


@pytest.mark.parametrize(
    ("seconds", "draft", "field"),
    [
        (0, {}, "deliver_at"),
        (-1, {}, "deliver_at"),
        (366 * 86_400, {}, "deliver_at"),
        (60, {"expires": 60}, "expires_at"),
        (60, {"expires": 61 + 30 * 86_400}, "expires_at"),
        (60, {"pattern": Pattern.RESPONSE}, "message_type"),
        (60, {"pattern": Pattern.REQUEST, "to": ""}, "to"),
    ],
)
@with_rig
async def test_what_cannot_be_posted_then_is_refused_at_once(
    rig: Rig, seconds: float, draft: dict[str, Any], field: str
) -> None:
    alice = await stage(rig)
    more = {name: value for name, value in draft.items() if name != "expires"}
    if "expires" in draft:
        more["expires_at"] = rig.clock.at + timedelta(seconds=draft["expires"])

    with pytest.raises(Invalid) as refused:
        await later(rig, alice, seconds, **more)

    assert [problem.field for problem in refused.value.problems] == [field]


@with_rig
async def test_a_message_that_expires_counts_from_its_moment(rig: Rig) -> None:
    alice = await stage(rig)
    expires_at = rig.clock.at + timedelta(days=40)
    await later(rig, alice, 20 * 86_400, expires_at=expires_at)

    await pass_by(rig, days=20)

    [post] = await posts(rig)
    assert post.expires_at.startswith(expires_at.isoformat()[:19])


@in_loop
async def test_an_agent_has_so_many_timers_and_each_its_own(tmp_path: Path) -> None:
    async with open_rig(tmp_path, limits=TeamLimits(timers_per_agent=2)) as rig:
        alice = await stage(rig)
        first, second = await later(rig, alice, 20), await later(rig, alice, 10)
        with pytest.raises(QuotaExceeded):
            await later(rig, alice)
        other = await later(rig, rig.caller("carol"))

        assert await listed(rig, alice) == [first, second]
        assert len(await listed(rig, rig.caller("", KeyKind.ADMIN))) == 3
        for act in (timers.get, timers.cancel):
            with pytest.raises(NotFound):
                await act(rig.team, alice, other.id)
        with pytest.raises(Invalid):
            await listed(rig, rig.caller(""))


@with_rig
async def test_a_cancelled_timer_posts_nothing_and_a_posted_one_cannot_be_cancelled(rig: Rig) -> None:
    alice = await stage(rig)
    cancelled, posted = await later(rig, alice, text="never"), await later(rig, alice)

    await timers.cancel(rig.team, alice, cancelled.id)
    await pass_by(rig, seconds=60)

    assert texts(await posts(rig)) == ["hello"]
    for timer in (cancelled, posted):
        with pytest.raises(NotFound):
            await timers.cancel(rig.team, alice, timer.id)


# ---------------------------------------------------------------- the rules, now and then


@with_rig
async def test_who_may_not_write_sets_no_timer(rig: Rig) -> None:
    await stage(rig, policy=AccessPolicy.CLOSED, grants=(rig.grant("reader", Permission.READ),))

    with pytest.raises(NotMember):
        await later(rig, rig.caller("reader"))
    with pytest.raises(NotFound):
        await later(rig, rig.caller("stranger"))


@with_rig
async def test_what_the_rules_deny_is_refused_now_and_recorded(rig: Rig) -> None:
    alice = await stage(rig)
    await place(rig, "alice", org_unit="sales")
    await place(rig, "bob", org_unit="engineering")
    await put_policy(rig, cross_org=CrossOrg.DENY)

    with pytest.raises(Denied):
        await later(rig, alice)

    assert await listed(rig, alice) == []
    assert await rig.store.count(Timer, DEFAULT_TENANT, "alice") == 0


@with_rig
async def test_what_the_rules_deny_then_is_told_to_its_sender_once_and_kept_for_a_week(rig: Rig) -> None:
    alice = await stage(rig)
    timer = await later(rig, alice)
    await place(rig, "alice", org_unit="sales")
    await place(rig, "bob", org_unit="engineering")
    await put_policy(rig, cross_org=CrossOrg.DENY)

    await pass_by(rig, seconds=60)
    await pass_by(rig, seconds=60)

    [notice] = await posts(rig)
    assert (notice.sender, notice.to) == ("system", "alice")
    assert json.loads(notice.payload) | {"reason": ""} == {
        "event": "timer_refused",
        "timer_id": timer.id,
        "message_id": timer.message_id,
        "code": "policy_denied",
        "reason": "",
    }
    [kept] = await listed(rig, alice)
    assert (kept.code, kept.payload) == ("policy_denied", "{}")
    await pass_by(rig, days=7)
    assert await listed(rig, alice) == []


@pytest.mark.parametrize("expires_in", [0, 600])
@with_rig
async def test_a_timer_whose_budget_is_spent_is_tried_again_when_there_is_a_new_one(rig: Rig, expires_in: int) -> None:
    alice = await stage(rig, agents=("bob",))
    for agent in ("alice", "bob"):
        await place(rig, agent)
    await put_policy(rig, pair_budget=2, applies_to=AppliesTo.ALL)
    expires_at = rig.clock.at + timedelta(seconds=expires_in) if expires_in else None
    timer = await later(rig, alice, text="at last", expires_at=expires_at)
    for _ in range(2):
        await said(rig, "alice", "bob", pattern=Pattern.NOTIFY)

    await pass_by(rig, seconds=60)
    once = await refusals(rig)
    for _ in range(30):
        await pass_by(rig, seconds=1)
    assert len(once) == 1
    assert await refusals(rig) == once

    await pass_by(rig, hours=1)
    await pass_by(rig, seconds=1)
    if expires_in:
        # Its hour comes too late: the sender learns at once when it has expired.
        assert json.loads((await posts(rig))[-1].payload)["event"] == "timer_refused"
        [kept] = await listed(rig, alice)
        assert (kept.id, kept.reason) == (timer.id, "expires_at: is in the past")
    else:
        assert texts(await posts(rig))[-1] == "at last"
        assert await listed(rig, alice) == []
    assert await refusals(rig) == once


async def refusals(rig: Rig) -> list[AuditEntry]:
    entries = await rig.store.audits(DEFAULT_TENANT, AuditQuery())
    # Not that a person is reminded of it.
    return [entry for entry in entries if b'"pair_budget"' in entry.document and b'"stage"' not in entry.document]


@with_rig
async def test_a_denial_is_audited_once_wherever_the_server_stops(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await stage(rig)
    await later(rig, alice)
    await place(rig, "alice", org_unit="sales")
    await place(rig, "bob", org_unit="engineering")
    await put_policy(rig, cross_org=CrossOrg.DENY)
    commit, commits = rig.store.commit, 0

    async def stop_after_one(changes: TeamChanges) -> Committed:
        nonlocal commits
        commits += 1
        if commits > 1:
            raise Unavailable("the server has stopped")
        return await commit(changes)

    monkeypatch.setattr(rig.store, "commit", stop_after_one)
    rig.clock.pass_by(seconds=60)
    [timer] = await listed(rig, alice)
    with suppress(Unavailable):
        await timers.settle(rig.team, timer)
    monkeypatch.setattr(rig.store, "commit", commit)
    await pass_by(rig, seconds=60)

    entries = await rig.store.audits(DEFAULT_TENANT, AuditQuery(limit=100))
    sides = [entry.side for entry in entries if timer.message_id.encode() in entry.document]
    assert sides
    assert len(sides) == len(set(sides))
    assert (await listed(rig, alice))[0].code == "policy_denied"


@pytest.mark.parametrize("reason", ["closed", "revoked", "gone"])
@with_rig
async def test_a_channel_a_key_or_an_agent_that_is_over_refuses_what_was_to_come(rig: Rig, reason: str) -> None:
    alice = await stage(rig)
    await later(rig, alice)
    if reason == "closed":
        channel, _ = await channel_of(rig.team, alice, CHANNEL)
        await rig.put(closed(channel, rig.at(), rig.limits.retention))
    elif reason == "revoked":
        await rig.revoke("alice")
    else:
        await rig.agent("bob", status=AgentStatus.DEREGISTERED)

    await pass_by(rig, seconds=60)

    [kept] = await listed(rig, alice)
    assert kept.code == {"closed": "channel_closed", "revoked": "unauthorized", "gone": "agent_departed"}[reason]
    assert [post.sender for post in await posts(rig)] == ([] if reason == "closed" else ["system"])


@with_rig
async def test_a_store_that_fails_for_a_moment_delays_and_loses_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await stage(rig)
    await later(rig, alice)

    async def full(changes: object) -> None:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        rig.clock.pass_by(seconds=60)
        patch.setattr(rig.store, "commit", full)
        [due] = await listed(rig, alice)
        await timers.settle(rig.team, due)
    assert await posts(rig) == []

    await sweep(rig.team)
    assert texts(await posts(rig)) == ["hello"]


@with_rig
async def test_erasing_what_an_agent_said_erases_what_it_has_scheduled(rig: Rig) -> None:
    alice = await stage(rig)
    await later(rig, alice)

    await retention.erase(rig.team, rig.caller("", KeyKind.ADMIN), agent_id="alice")
    await pass_by(rig, seconds=60)

    assert await posts(rig) == []


# ---------------------------------------------------------------- exactly once


@settings(deadline=None)
@given(data=st.data())
def test_whatever_crosses_each_timer_is_posted_once_or_cancelled(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Several sweeps at once, cancels in between, restarts and commits that fail before or after they are written."""
    moments = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=8))
    acts = data.draw(st.lists(st.sampled_from(["sweep", "sweeps", "cancel", "restart", "fail", "lost"]), max_size=12))

    async def run() -> None:
        async with open_rig(tmp_path_factory.mktemp("timers")) as rig:
            alice = await stage(rig)
            waiting = [await later(rig, alice, seconds, text=str(n)) for n, seconds in enumerate(moments)]
            cancelled: set[str] = set()
            for act in acts:
                rig.clock.pass_by(seconds=data.draw(st.integers(0, 4)))
                if act == "cancel":
                    timer = data.draw(st.sampled_from(waiting))
                    sweeping = asyncio.ensure_future(sweep(rig.team))
                    try:
                        await timers.cancel(rig.team, alice, timer.id)
                        cancelled.add(timer.message_id)
                    except NotFound:
                        pass
                    await sweeping
                elif act == "restart":
                    await rig.reopen()
                elif act == "sweeps":
                    await asyncio.gather(*[sweep(rig.team) for _ in range(3)])
                elif act == "sweep":
                    await sweep(rig.team)
                else:
                    await interrupted(rig, written=act == "lost")
                found = await posts(rig)
                assert all(post.created_at >= due(waiting, post) for post in found)
            await pass_by(rig, seconds=30)
            found = await posts(rig)
            assert len({post.id for post in found}) == len(found)
            assert {post.id for post in found} | cancelled == {timer.message_id for timer in waiting}
            assert not {post.id for post in found} & cancelled

    asyncio.run(run())


def due(waiting: list[Timer], post: Post) -> str:
    return next(timer.deliver_at for timer in waiting if timer.message_id == post.id)


async def interrupted(rig: Rig, *, written: bool) -> None:
    """A sweep whose commits fail: before anything is written, or after, so that nobody knows."""
    commit = rig.store.commit

    async def failing(changes: TeamChanges) -> Committed:
        if written:
            await commit(changes)
        raise Unavailable("the connection broke")

    rig.store.commit = failing  # type: ignore[method-assign]
    try:
        await sweep(rig.team)
    except Unavailable:
        pass
    finally:
        rig.store.commit = commit  # type: ignore[method-assign]


@in_loop
async def test_two_nodes_that_sweep_at_once_post_each_message_once(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        alice = await stage(a)
        waiting = [await later(a, alice, 1 + n % 3, text=str(n)) for n in range(30)]
        for _ in range(4):
            for rig in (a, b):
                rig.clock.pass_by(seconds=1)
            await asyncio.gather(*[sweep(rig.team) for rig in (a, b, a, b)])

        found = await posts(b)
        assert sorted(post.id for post in found) == sorted(timer.message_id for timer in waiting)
        assert all(post.created_at >= due(waiting, post) for post in found)


@in_loop
async def test_a_timer_that_is_cancelled_at_one_node_while_the_other_posts_it_ends_one_way(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        alice = await stage(a)
        waiting = [await later(a, alice, 1, text=str(n)) for n in range(10)]
        for rig in (a, b):
            rig.clock.pass_by(seconds=1)

        async def cancel(timer: Timer) -> str:
            try:
                await timers.cancel(b.team, alice, timer.id)
            except NotFound:
                return ""
            return timer.message_id

        _, *cancelled = await asyncio.gather(sweep(a.team), *[cancel(timer) for timer in waiting])
        await sweep(b.team)

        found = {post.id for post in await posts(b)}
        assert found | ({*cancelled} - {""}) == {timer.message_id for timer in waiting}
        assert not found & {*cancelled}
