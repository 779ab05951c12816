"""Requests that a process has seen committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.app.team.channels import posting
from parley.app.team.directory import roles
from parley.app.team.state import requests
from parley.domain.channel.post import PostDraft, PostState
from parley.domain.directory.callers import KeyKind
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Moved, TeamChanges
from tests.rigs.node import two_nodes
from tests.rigs.team import CHANNEL, Rig, in_loop, with_rig

pytestmark = pytest.mark.both_stores

REPLY = PostDraft(Pattern.NOTIFY, b"{}")


async def a_request(rig: Rig, sender: str = "alice") -> str:
    return (await rig.say(sender, to="bob", pattern=Pattern.REQUEST)).id


@with_rig
async def test_a_request_is_remembered_and_found_after_a_restart_too(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    request_id = await a_request(rig)

    remembered = await rig.team.requests.get("default", request_id)
    await rig.reopen()

    kept = await rig.team.requests.get("default", request_id)
    assert remembered is not None
    assert kept is not None
    assert remembered == kept._replace(payload=b"", metadata=b"")
    assert await rig.team.requests.get("other", request_id) is None
    assert await rig.team.requests.get("default", "msg_none") is None


@with_rig
async def test_what_expired_or_found_its_recipients_is_not_remembered_as_it_was(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.channel("chan_2")
    waiting = await rig.say("alice", to="role:billing", pattern=Pattern.REQUEST)
    ended = await rig.say("alice", to="bob", pattern=Pattern.REQUEST, channel_id="chan_2")

    await rig.store.commit(TeamChanges("default", moved=(Moved(waiting.id, PostState.DELIVERED, ("bob",)),)))
    moved = await rig.team.requests.get("default", waiting.id)
    await rig.store.commit(TeamChanges("default", ended=("chan_2",)))
    expired = await rig.team.requests.get("default", ended.id)

    assert moved is not None
    assert moved.recipients == ("bob",)
    assert expired is not None
    assert expired.state is PostState.EXPIRED


@with_rig
async def test_only_so_many_requests_are_remembered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.intent()
    await rig.channel()
    monkeypatch.setattr(requests, "_CACHE_SIZE", 2)

    ids = [await a_request(rig, sender) for sender in ("alice", "carol", "dave")]

    assert len(rig.team.requests) == 2
    assert await rig.team.requests.get("default", ids[0]) is not None


@with_rig
async def test_an_agent_asks_until_its_last_request_is_answered(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    first, second = await a_request(rig), await a_request(rig)

    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, first, REPLY)
    asked = rig.team.requests.unanswered("default", CHANNEL, "alice")
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, second, REPLY)

    assert asked is not None
    assert asked.id == second
    assert rig.team.requests.unanswered("default", CHANNEL, "alice") is None
    assert rig.team.requests.unanswered("default", CHANNEL, "bob") is None


@in_loop
async def test_a_request_for_a_role_is_answered_by_who_found_it_at_another_server(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await a.intent(agents=("bob",))
        await a.channel()
        await a.role("ops")
        asked = await a.say("alice", to="role:ops", pattern=Pattern.REQUEST)
        assert asked.recipients == ()

        await b.store.catch_up("default")
        await roles.grant(b.team, b.caller("", KeyKind.ADMIN), "ops", "bob")
        await a.store.catch_up("default")

        found = await a.team.requests.get("default", asked.id)
        assert found is not None
        assert found.recipients == ("bob",)
