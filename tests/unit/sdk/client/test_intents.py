"""Intents, on a real server."""

from __future__ import annotations

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import VersionMismatch
from parley.sdk.client.intents import AsyncIntents
from parley.wire.api.records.intents import Assignment, Intent
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.client.recorded import public_methods, recorded


@with_server
async def test_an_intent_is_created_changed_worked_on_and_completed(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        made = await alice.create_intent(
            "Research", "Q1", state={"phase": "begin"}, constraints={"budget": 5}, status="active", confidence=80
        )
        assert isinstance(made, Intent)
        assert (made.title, made.description, made.status, made.confidence) == ("Research", "Q1", "active", 80)
        assert await alice.get_intent(made.id) == made
        assert made.id in [one.id for one in await alice.list_intents("active", limit=10, offset=0)]

        changed = await alice.update_state(made.id, {"phase": "middle", "found": []})
        patches = [{"op": "append", "path": "found", "value": 1}, {"op": "remove", "path": "phase"}]
        patched = await alice.patch_state(made.id, patches, version=changed.version)
        assert patched.state == {"found": [1]}

        assigned = await alice.assign_agent(made.id, "bob", "coordinator")
        assert isinstance(assigned, Assignment)
        assert [one.agent_id for one in await alice.list_assignments(made.id)] == ["bob"]
        assert await alice.unassign_agent(made.id, "bob") is None
        assert await alice.list_assignments(made.id) == []

        assert (await alice.set_status(made.id, "blocked", reason="waits")).status == "blocked"
        await alice.set_status(made.id, "active")
        assert (await alice.complete_intent(made.id)).status == "completed"
        assert alice.called >= public_methods(AsyncIntents)


@with_server
async def test_a_change_for_a_version_that_is_gone_is_refused_with_the_current_one(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        made = await alice.create_intent("Research", status="active")
        now = await alice.update_state(made.id, {"a": 1})

        with pytest.raises(VersionMismatch) as refused:
            await alice.update_state(made.id, {"a": 2}, version=made.version)

        assert refused.value.facts["current_version"] == now.version
        assert (await alice.get_intent(made.id)).state == {"a": 1}


@with_server
async def test_an_intent_says_who_has_access_when_it_is_created(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        named = await alice.create_intent("for two", access=("bob", "carol"))
        opened, closed = await alice.create_intent("for all", access="open"), await alice.create_intent("for me")

        lists = [await alice.get_acl(intent.id) for intent in (named, opened, closed)]
        assert [one.default_policy for one in lists] == ["closed", "open", "closed"]
        assert [(entry.principal_id, entry.permission) for entry in lists[0].entries] == [
            ("bob", "write"),
            ("carol", "write"),
        ]
        for wrong in ("opne", "", ["no name"], ["system"]):
            with pytest.raises(Invalid, match=r"access|name"):
                await alice.create_intent("x", access=wrong)
