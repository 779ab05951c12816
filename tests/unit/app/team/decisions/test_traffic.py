from __future__ import annotations

from dataclasses import replace

import pytest

from parley.app.team.decisions import traffic
from parley.app.team.decisions.traffic import Grouping, Traffic
from parley.domain.channel.channel import Channel
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from tests.rigs.governed import held, person, said, two_agents
from tests.rigs.team import CHANNEL, Rig, with_rig

ADMIN = Caller(DEFAULT_TENANT, "", KeyKind.ADMIN, "key_admin")


async def counted(rig: Rig, since: str = "", until: str = "", caller: Caller = ADMIN) -> Traffic:
    return await traffic.count(rig.team, caller, Grouping.AGENT, since, until, 100)


def delivered(found: Traffic) -> dict[tuple[str, str], int]:
    return {(pair.sender, pair.to): pair.delivered for pair in found.pairs if pair.delivered}


@with_rig
async def test_a_period_is_counted_over_windows_and_to_its_ends(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "_WINDOW", 3)
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
    monkeypatch.setattr(traffic, "_WINDOW", 2)
    monkeypatch.setattr(traffic, "_MESSAGE_WINDOWS", 2)
    await two_agents(rig)
    for number in range(9):
        await said(rig, "alice", "bob", conversation_id=f"conv-{number}")
        rig.clock.pass_by(minutes=1)

    found = await counted(rig)

    assert not found.complete
    assert 0 < found.pairs[0].delivered < 9
    assert delivered(await counted(rig, found.since)) == delivered(found)


@with_rig
async def test_what_a_channel_has_evicted_is_not_counted_and_that_is_said(rig: Rig) -> None:
    await two_agents(rig)
    channel = await rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    assert channel is not None
    await rig.put(replace(channel, options=replace(channel.options, max_messages=2)))
    early = rig.team.at()
    for number in range(5):
        await said(rig, "alice", "bob", conversation_id=f"conv-{number}")
        rig.clock.pass_by(minutes=1)

    found, late = await counted(rig), await counted(rig, rig.team.at())

    assert (found.complete, found.evicted_channels, found.since < early) == (False, 1, True)
    assert delivered(found) == {("alice", "bob"): 2}
    assert (late.complete, late.pairs) == (True, ())
