"""The team: ids, entries, and what a commit carries for its caller."""

from __future__ import annotations

import asyncio

import pytest

from parley.domain.directory.callers import Saved
from parley.domain.store.changes import TeamChanges
from tests.rigs.team import CHANNEL, Rig, with_rig


@with_rig
async def test_a_new_id_has_its_prefix_and_is_never_given_twice(rig: Rig) -> None:
    ids = {rig.team.new_id("msg") for _ in range(100)}

    assert len(ids) == 100
    assert {one[:4] for one in ids} == {"msg_"}


@with_rig
async def test_an_entry_says_who_did_it_and_with_which_key(rig: Rig) -> None:
    entry = rig.team.entry(rig.caller("alice"), "channel_created", CHANNEL, name="talk")

    assert (entry.agent, entry.at, entry.message_id) == ("alice", rig.at(), CHANNEL)
    assert entry.facts == {"name": "talk", "key": rig.caller("alice").key_id}


@pytest.mark.both_stores
@with_rig
async def test_the_idempotency_key_of_a_caller_is_written_with_its_commit(rig: Rig) -> None:
    await rig.intent()
    caller = rig.caller("alice")._replace(saved=Saved("scope", "f", "once_1", rig.at()))

    await rig.team.commit(caller, TeamChanges("default", entries=(rig.team.entry(caller, "x", "y"),)))

    assert await rig.store.saved("scope") == caller.saved


@with_rig
async def test_the_idempotency_key_names_what_the_commit_says_that_it_creates(rig: Rig) -> None:
    await rig.intent()
    caller = rig.caller("alice")._replace(saved=Saved("scope", "f", "once_1", rig.at()))

    await rig.team.commit(caller, TeamChanges("default", created_id="task_1"))

    saved = await rig.store.saved("scope")
    assert saved is not None
    assert saved.message_id == "task_1"


@with_rig
async def test_what_happens_in_one_round_of_the_loop_has_one_stamp(rig: Rig) -> None:
    first = rig.team.round_stamp()
    rig.clock.pass_by(seconds=1)
    second = rig.team.round_stamp()
    await asyncio.sleep(0)

    assert (first, second, rig.team.round_stamp()) == (first, first, rig.at())
