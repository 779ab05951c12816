from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from parley.app.team.state import rules
from parley.app.team.state.rules import RulesState
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.exchange.exchange import Exchange
from parley.domain.store.changes import Committed, TeamChanges
from tests.rigs.team import Rig, in_loop, with_rig
from tests.samples.governed import a_snapshot, an_exchange


def test_a_rulebook_is_worked_out_once_for_each_snapshot() -> None:
    state, first, second = RulesState(), a_snapshot(), a_snapshot(max_rounds=2)

    book = state.rulebook("t", first)

    assert state.rulebook("t", first) is book
    assert state.rulebook("other", first) is not book
    assert state.rulebook("t", second).snapshot is second


async def known(rig: Rig, conversation: str = "conv-1") -> tuple[str, ...]:
    return await rig.team.governance.conversation(rig.store, DEFAULT_TENANT, conversation)


@pytest.mark.both_stores
@with_rig
async def test_the_exchanges_of_a_conversation_are_known_from_their_commits_and_after_a_restart(rig: Rig) -> None:
    assert await known(rig) == ()

    await rig.put(an_exchange())
    await rig.put(an_exchange(id="exch_2", responder="carol"))
    await rig.put(an_exchange(id="exch_3", conversation_id="conv-2"))

    assert await known(rig) == ("exch_1", "exch_2")
    await rig.reopen()
    assert await known(rig) == ("exch_1", "exch_2")


@with_rig
async def test_what_begins_while_the_store_is_asked_is_not_forgotten(rig: Rig) -> None:
    state = rig.team.governance
    asked = asyncio.Event()

    class Slow:
        """A store that answers with what there was before."""

        async def children(self, kind: type[Exchange], tenant: str, parent: str) -> tuple[Exchange, ...]:
            found = await rig.store.children(kind, tenant, parent)
            asked.set()
            await go_on.wait()
            return found

    go_on = asyncio.Event()
    slow: Any = Slow()
    asking = asyncio.create_task(state.conversation(slow, DEFAULT_TENANT, "conv-1"))
    await asked.wait()
    await rig.put(an_exchange())
    go_on.set()

    assert await asking == ("exch_1",)
    assert await known(rig) == ("exch_1",)


@pytest.mark.parametrize(
    "refused",
    [
        TeamChanges(DEFAULT_TENANT, puts=(an_exchange(),)),
        TeamChanges(DEFAULT_TENANT, new_conversations=("conv-1",)),
    ],
    ids=["puts", "not governed"],
)
@with_rig
async def test_what_may_be_too_little_is_asked_for_again(rig: Rig, refused: TeamChanges) -> None:
    state = rig.team.governance
    await rig.put(an_exchange())
    state._conversations[DEFAULT_TENANT, "conv-1"] = ()

    state.drop_cached(refused)

    assert await known(rig) == ("exch_1",)


@in_loop
async def test_those_who_speak_in_one_conversation_wait_for_each_other_and_nobody_else() -> None:
    state = RulesState()

    async with state.lock("t", "conv-1"):
        assert state.lock("t", "conv-1").locked()
        assert not state.lock("t", "conv-2").locked()
        assert not state.lock("other", "conv-1").locked()

    assert len(state._locks) == 0  # nobody waits any more


@with_rig
async def test_as_many_conversations_as_there_are_do_not_fill_the_memory(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "_CONVERSATIONS_MAX", 3)

    for number in range(10):
        await known(rig, f"conv-{number}")

    assert len(rig.team.governance._conversations) == 3


def test_each_conversation_that_began_in_merged_commits_is_known_from_then_on() -> None:
    state = RulesState()
    opened = [
        an_exchange(id=f"exch_{number}", conversation_id=f"conv-{number}", tenant_id="t", version=1)
        for number in (1, 2)
    ]
    went_on, known_before = replace(opened[0], version=2), an_exchange(id="exch_3", conversation_id="conv-3", version=2)

    # Of the third one it is not known whether it is alone: nobody has looked for others before it.
    puts = (*opened, went_on, known_before)
    state.publish("t", Committed(4, puts=puts, new_conversations=("conv-1", "conv-2")))

    known = [state.known_conversation("t", f"conv-{number}") for number in (1, 2, 3)]
    assert known == [("exch_1",), ("exch_2",), None]


def test_what_nobody_has_asked_for_is_not_remembered() -> None:
    state = RulesState()

    state.publish("t", Committed(1, puts=(an_exchange(), a_snapshot())))

    assert state._conversations == {}
    assert TeamChanges("t").puts == ()
