"""The hub: what a commit carries for its caller, and what the process remembers of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.app.team import team as hub
from parley.app.team.channels import posting
from parley.app.team.directory import roles
from parley.domain.channel.post import PostDraft, PostState
from parley.domain.directory.callers import KeyKind, Saved
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Moved, TeamChanges
from tests.node_rig import two_nodes
from tests.team_rig import CHANNEL, Rig, in_loop, with_rig

REPLY = PostDraft(Pattern.NOTIFY, b"{}")


async def a_request(rig: Rig, sender: str = "alice") -> str:
    return (await rig.say(sender, to="bob", pattern=Pattern.REQUEST)).id


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


@pytest.mark.both_stores
@with_rig
async def test_a_request_is_remembered_and_found_after_a_restart_too(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    request_id = await a_request(rig)

    remembered = await rig.team.request("default", request_id)
    await rig.reopen()

    kept = await rig.team.request("default", request_id)
    assert remembered is not None
    assert kept is not None
    assert remembered == kept._replace(payload=b"", metadata=b"")
    assert await rig.team.request("other", request_id) is None
    assert await rig.team.request("default", "msg_none") is None


@pytest.mark.both_stores
@with_rig
async def test_what_expired_or_found_its_recipients_is_not_remembered_as_it_was(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.channel("chan_2")
    waiting = await rig.say("alice", to="role:billing", pattern=Pattern.REQUEST)
    ended = await rig.say("alice", to="bob", pattern=Pattern.REQUEST, channel_id="chan_2")

    await rig.store.commit(TeamChanges("default", moved=(Moved(waiting.id, PostState.DELIVERED, ("bob",)),)))
    moved = await rig.team.request("default", waiting.id)
    await rig.store.commit(TeamChanges("default", ended=("chan_2",)))
    expired = await rig.team.request("default", ended.id)

    assert moved is not None
    assert moved.recipients == ("bob",)
    assert expired is not None
    assert expired.state is PostState.EXPIRED


@with_rig
async def test_only_so_many_requests_are_remembered(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    before, hub._REMEMBERED = hub._REMEMBERED, 2
    try:
        ids = [await a_request(rig, sender) for sender in ("alice", "carol", "dave")]
    finally:
        hub._REMEMBERED = before

    assert len(rig.team._requests) == len(rig.team._asking) == 2
    assert await rig.team.request("default", ids[0]) is not None


@with_rig
async def test_an_agent_asks_until_its_last_request_is_answered(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    first, second = await a_request(rig), await a_request(rig)

    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, first, REPLY)
    asked = rig.team.asks("default", CHANNEL, "alice")
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, second, REPLY)

    assert asked is not None
    assert asked.id == second
    assert rig.team.asks("default", CHANNEL, "alice") is None
    assert rig.team.asks("default", CHANNEL, "bob") is None


@in_loop
async def test_a_request_for_a_role_is_answered_by_who_found_it_at_another_server(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await a.intent()
        await a.channel()
        await a.role("ops")
        asked = await a.say("alice", to="role:ops", pattern=Pattern.REQUEST)
        assert asked.recipients == ()

        await b.store.catch_up("default")
        await roles.grant(b.team, b.caller("", KeyKind.ADMIN), "ops", "bob")
        await a.store.catch_up("default")

        found = await a.team.request("default", asked.id)
        assert found is not None
        assert found.recipients == ("bob",)
