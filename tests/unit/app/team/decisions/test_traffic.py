"""Who talked to whom: every message is counted once, whether it is kept or was removed."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.app.team.audit import checkpoints, retention
from parley.app.team.channels import channels
from parley.app.team.decisions import traffic
from parley.app.team.decisions.traffic import Grouping, Traffic
from parley.domain.channel.channel import Channel
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from parley.domain.store.changes import TrafficCount, TrafficQuery
from parley.domain.times import from_stamp, stamp
from tests.rigs.governed import held, person, said, two_agents
from tests.rigs.team import CHANNEL, Rig, open_rig, with_rig

pytestmark = pytest.mark.both_stores

ADMIN = Caller(DEFAULT_TENANT, "", KeyKind.ADMIN, "key_admin")


async def counted(rig: Rig, since: str = "", until: str = "", caller: Caller = ADMIN) -> Traffic:
    return await traffic.count(rig.team, caller, Grouping.AGENT, since, until, 100)


def delivered(found: Traffic) -> dict[tuple[str, str], int]:
    return {(pair.sender, pair.to): pair.delivered for pair in found.pairs if pair.delivered}


@with_rig
async def test_a_period_is_counted_over_windows_and_to_its_ends(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "_WINDOW", 3)
    monkeypatch.setattr(traffic, "_PRECISION", 2)
    await two_agents(rig)
    moments = []
    for number in range(12):
        moments.append(rig.team.at())
        await said(rig, "alice", "bob", conversation_id=f"conv-{number}")
        if number % 4 == 0:
            await held(rig, "bob", "alice", conversation_id=f"held-{number}")
        rig.clock.pass_by(hours=1)

    day = await counted(rig)
    middle = await counted(rig, moments[3], moments[9])
    one = await counted(rig, moments[5], moments[6])

    assert (delivered(day), day.complete) == ({("alice", "bob"): 12}, True)
    assert [pair.held for pair in day.pairs if pair.sender == "bob"] == [3]
    assert delivered(middle) == {("alice", "bob"): 6}
    assert [(pair.held, pair.last_at) for pair in middle.pairs if pair.sender == "bob"] == [(2, moments[8])]
    assert (delivered(one), one.pairs[0].last_at) == ({("alice", "bob"): 1}, moments[5])
    assert delivered(await counted(rig, caller=person("ben"))) == {("alice", "bob"): 12}


@with_rig
async def test_a_period_with_more_than_one_answer_counts_says_from_when_on_it_counted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "_PRECISION", 1)
    monkeypatch.setattr(traffic, "_POSITIONS_MAX", 4)
    await two_agents(rig)
    for number in range(9):
        await said(rig, "alice", "bob", conversation_id=f"conv-{number}")
        rig.clock.pass_by(minutes=1)

    found = await counted(rig)

    assert not found.complete
    assert 0 < found.pairs[0].delivered < 9
    assert delivered(await counted(rig, found.since)) == delivered(found)


async def keep(rig: Rig, most: int, channel_id: str = CHANNEL) -> None:
    """Let a channel keep so many messages from now on."""
    channel = await rig.store.get(Channel, DEFAULT_TENANT, channel_id)
    assert channel is not None
    await rig.put(replace(channel, options=replace(channel.options, max_messages=most)))


@with_rig
async def test_what_a_channel_has_evicted_is_counted_by_the_hour(rig: Rig) -> None:
    await two_agents(rig)
    await keep(rig, 2)
    begin = rig.team.at()
    for number in range(6):
        await said(rig, "alice", "bob", conversation_id=f"conv-{number}")
        rig.clock.pass_by(minutes=30)
    # At once, and not only when there are enough of them.
    await keep(rig, 1)

    found = await counted(rig)
    # Messages came at half past and at the hour: 15:00 begins an hour, 15:30 is in the middle of it.
    hour, half_past = [
        await counted(rig, stamp(from_stamp(begin) + timedelta(minutes=minutes))) for minutes in (30, 60)
    ]

    assert (delivered(found), found.complete, found.evicted_channels) == ({("alice", "bob"): 6}, True, 0)
    assert (delivered(hour), hour.complete) == ({("alice", "bob"): 5}, True)
    assert delivered(half_past) == delivered(hour)
    assert delivered(await counted(rig, caller=person("ben"))) == {("alice", "bob"): 6}
    assert delivered(await counted(rig, caller=person("eve"))) == {}


@with_rig
async def test_of_evicted_messages_to_everyone_a_reader_counts_those_of_hours_that_it_saw(rig: Rig) -> None:
    await rig.intent(agents=("bob",), policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"),))
    await rig.channel()
    await rig.say("alice")
    since = await rig.store.head(DEFAULT_TENANT)
    await rig.access(grants=(rig.grant("bob"), replace(rig.grant("dave"), since=since)))
    await rig.say("alice")
    rig.clock.pass_by(hours=1)
    await rig.say("alice")
    dave = rig.caller("dave")

    kept = await counted(rig, caller=dave)
    await keep(rig, 1)
    await rig.say("bob")
    evicted = await counted(rig, caller=dave)

    assert (delivered(kept), kept.complete) == ({("alice", "*"): 2}, True)
    assert (delivered(evicted), evicted.complete) == ({("alice", "*"): 1, ("bob", "*"): 1}, False)
    assert delivered(await counted(rig)) == {("alice", "*"): 3, ("bob", "*"): 1}


@with_rig
async def test_erased_messages_and_trimmed_entries_stay_counted(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(audit_retention_days=30)
    await two_agents(rig)
    for number in range(3):
        await said(rig, "alice", "bob", conversation_id=f"conv-{number}")
        await held(rig, "bob", "alice", conversation_id=f"held-{number}")
    begin = rig.team.at()
    await retention.erase(rig.team, ADMIN, agent_id="alice")
    await keep(rig, 1)
    before = await counted(rig, begin[:14] + "00:00.000000+00:00")
    rig.clock.pass_by(days=31)
    await checkpoints.make(rig.team, DEFAULT_TENANT)
    assert await retention.trim_due(rig.team)

    after = await counted(rig, begin[:14] + "00:00.000000+00:00")

    assert delivered(after) == {("alice", "bob"): 3}
    assert [(pair.held, pair.last_at) for pair in after.pairs if pair.sender == "bob"] == [(3, begin)]
    assert after.pairs == before.pairs
    assert [pair.held for pair in (await counted(rig, begin, caller=person("ben"))).pairs if pair.held] == [3]


@with_rig
async def test_what_was_evicted_before_it_was_counted_is_said(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_agents(rig)
    await said(rig, "alice", "bob")
    count_traffic = rig.store.count_traffic

    async def with_uncounted(tenant: str, query: TrafficQuery) -> TrafficCount:
        return (await count_traffic(tenant, query))._replace(uncounted=(CHANNEL, "other"))

    monkeypatch.setattr(rig.store, "count_traffic", with_uncounted)

    found, bens = await counted(rig), await counted(rig, caller=person("ben"))

    assert (found.complete, found.evicted_channels, delivered(found)) == (False, 2, {("alice", "bob"): 1})
    assert (bens.complete, bens.evicted_channels) == (False, 1)


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from(["alice", "bob"]), st.sampled_from(["", "alice", "bob"])),
        st.tuples(st.just("hold"), st.sampled_from(["alice", "bob"]), st.just("")),
        st.tuples(st.just("keep"), st.integers(1, 6), st.just("")),
        st.tuples(st.just("pass"), st.integers(1, 90), st.just("")),
        st.tuples(st.just("delete"), st.just(""), st.just("")),
        st.tuples(st.just("restart"), st.just(""), st.just("")),
    ),
    min_size=8,
    max_size=40,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts=ACTS)
def test_whatever_is_said_and_removed_every_period_of_hours_counts_what_a_counter_beside_it_does(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, Any, Any]]
) -> None:
    async def play() -> None:
        async with open_rig(tmp_path_factory.mktemp("traffic")) as rig:
            await two_agents(rig)
            messages: Counter[tuple[str, str, str, str]] = Counter()  # by hour, sender, receiver and outcome
            rooms = 0
            for number, (act, first, second) in enumerate(acts):
                hour, channel = rig.team.at()[:13], f"room-{rooms}" if rooms else CHANNEL
                if act == "say":
                    post = await rig.say(first, to=second if second != first else "", channel_id=channel)
                    for receiver in ("*",) if post.recipients is None else post.recipients:
                        messages[hour, first, receiver, "delivered"] += 1
                elif act == "hold":
                    other = "bob" if first == "alice" else "alice"
                    await held(rig, first, other, conversation_id=f"held-{number}")
                    messages[hour, first, other, "held"] += 1
                elif act == "keep":
                    await keep(rig, first, channel)
                elif act == "pass":
                    rig.clock.pass_by(minutes=first)
                elif act == "delete" and rooms:
                    await channels.delete(rig.team, rig.caller("alice"), channel)
                if act == "delete":
                    rooms += 1
                    await rig.channel(f"room-{rooms}")
                elif act == "restart":
                    await rig.reopen()
            await keep(rig, 1, f"room-{rooms}" if rooms else CHANNEL)
            hours = sorted({hour for hour, *_ in messages})
            for since, until in combinations([*hours, "2999-01-01T00"], 2):
                found = await counted(rig, f"{since}:00:00.000000+00:00", f"{until}:00:00.000000+00:00")
                expected: Counter[tuple[str, str, str]] = Counter()
                for (hour, sender, to, outcome), number in messages.items():
                    expected[sender, to, outcome] += number if since <= hour < until else 0
                assert all_of(found) == +expected, (since, until)
                assert found.complete

    asyncio.run(play())


def all_of(found: Traffic) -> Counter[tuple[str, str, str]]:
    """What was counted, by sender, receiver and outcome."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for pair in found.pairs:
        for outcome in ("delivered", "held", "denied"):
            counts[pair.sender, pair.to, outcome] += getattr(pair, outcome)
    return +counts
