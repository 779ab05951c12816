"""What a caller may see of a tenant, as a scope."""

from __future__ import annotations

import time

import pytest

from parley.app.team.channels import reading
from parley.app.team.channels.visible import scope_of_agent, scope_of_all, scope_of_intent
from parley.domain.channel.channel import MemberPolicy
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from tests.rigs.lists import collect
from tests.rigs.team import CHANNEL, INTENT, Rig, with_rig


async def _team(rig: Rig) -> None:
    await rig.intent()
    await rig.intent("intent_2", policy=AccessPolicy.CLOSED)
    await rig.channel()
    await rig.channel("chan_2", intent_id="intent_2")
    await rig.channel("chan_3", "bob", policy=MemberPolicy.EXPLICIT)


@with_rig
async def test_a_scope_has_the_channels_that_the_caller_takes_part_in(rig: Rig) -> None:
    await _team(rig)

    seen = {}
    for agent in ("alice", "bob", "carol"):
        scope = await scope_of_all(rig.team, rig.caller(agent))
        assert scope.channels is not None
        seen[agent] = sorted(scope.channels)

    assert seen == {"alice": [CHANNEL, "chan_2", "chan_3"], "bob": [CHANNEL, "chan_3"], "carol": [CHANNEL]}
    assert (await scope_of_all(rig.team, rig.caller(kind=KeyKind.ADMIN))).channels is None


@pytest.mark.both_stores
@with_rig
async def test_a_scope_follows_every_change_of_rights(rig: Rig) -> None:
    await _team(rig)
    bob = rig.caller("bob")

    async def channels() -> list[str]:
        return sorted((await scope_of_agent(rig.team, bob, "bob")).channels or {})

    assert await channels() == [CHANNEL, "chan_3"]
    await rig.channel("chan_4")
    assert await channels() == [CHANNEL, "chan_3", "chan_4"]
    await rig.intent("intent_3", created_by="bob", policy=AccessPolicy.CLOSED)
    await rig.channel("chan_5", intent_id="intent_3")
    assert await channels() == [CHANNEL, "chan_3", "chan_4", "chan_5"]


@with_rig
async def test_an_intents_scope_is_its_own_events_and_channels(rig: Rig) -> None:
    await _team(rig)

    scope = await scope_of_intent(rig.team, rig.caller("carol"), INTENT)

    assert (sorted(scope.channels or {}), scope.intents, scope.viewer) == ([CHANNEL], (INTENT,), "carol")


@pytest.mark.slow
@pytest.mark.requirement("CHAN-12-UNREAD")
@with_rig
async def test_the_time_of_a_search_does_not_tell_whether_hidden_messages_have_the_word(rig: Rig) -> None:
    # A7, for search: of two searches without a result, the one that hits hidden messages cannot be told by its time.
    await rig.intent(policy=AccessPolicy.CLOSED)
    await rig.channel()
    for _ in range(300):
        await rig.say("alice", "swordfish " * 20)
    outsider = rig.caller("mallory")
    times: dict[str, list[float]] = {"swordfish": [], "haddock": []}
    for n in range(800):
        word = ("swordfish", "haddock")[n % 2]
        began = time.perf_counter()
        assert await collect(reading.search(rig.team, outsider, word)) == []
        times[word].append(time.perf_counter() - began)

    pairs = [(hit, miss) for hit in times["swordfish"] for miss in times["haddock"]]
    auc = sum([1.0 if hit > miss else 0.5 if hit == miss else 0.0 for hit, miss in pairs]) / len(pairs)
    assert 0.42 < auc < 0.58
