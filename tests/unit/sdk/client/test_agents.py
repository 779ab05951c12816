"""Agents, roles and bookmarks, on a real server."""

from __future__ import annotations

import pytest

from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import BookmarkTaken
from parley.sdk.client.agents import AsyncAgents
from parley.wire.api.records.directory import AgentInfo, Role
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.client.recorded import admin, public_methods, recorded

BOOKMARKS = {"open_bookmark", "save_bookmark", "get_bookmark", "delete_bookmark"}


@with_server
async def test_an_agent_registers_lives_and_leaves(server: LiveServer) -> None:
    async with recorded(server, "bob") as bob, admin(server) as boss:
        made = await bob.register_agent(
            "bob", capabilities=["python"], name="Bob", max_concurrent_tasks=3, metadata={"a": 1}
        )
        assert isinstance(made, AgentInfo)
        assert (made.agent_id, made.name, made.capabilities) == ("bob", "Bob", ["python"])
        assert (made.capacity.max_concurrent_tasks, made.metadata) == (3, {"a": 1})
        told = await boss.register_agent("bob", org_unit="sales", user_id="ben", can_auto_respond=False)
        assert (told.org_unit, told.user_id, told.can_auto_respond) == ("sales", "ben", False)
        assert told.capacity.max_concurrent_tasks == 3

        beat = await bob.heartbeat("bob", current_load=2, tasks_in_progress=["task_1"])
        assert (beat.agent_status, beat.next_heartbeat_at > beat.server_timestamp) == ("active", True)
        assert (await bob.get_agent("bob")).capacity.current_load == 2
        assert [one.agent_id for one in await bob.list_agents(capability="python", status="active")] == ["bob"]

        assert await boss.grant_role("reviewer", "bob") == Role(role_id="reviewer", holders=["bob"])
        assert [one.role_id for one in await bob.list_roles()] == ["reviewer"]
        assert (await bob.get_role("reviewer")).holders == ["bob"]
        assert (await boss.revoke_role("reviewer", "bob")).holders == []

        assert (await bob.set_agent_status("bob", "draining")).status == "draining"
        assert (await bob.deregister_agent("bob")).status == "deregistered"
        assert bob.called | boss.called | BOOKMARKS >= public_methods(AsyncAgents)


@with_server
async def test_a_bookmark_is_opened_saved_taken_over_and_forgotten(server: LiveServer) -> None:
    async with recorded(server, "bob") as bob:
        await bob.register_agent("bob")
        opened = await bob.open_bookmark("bob", "default", start="now")
        assert (opened.agent_id, opened.name, opened.position, opened.open) == ("bob", "default", opened.head, [])

        await server.rig.say("alice")
        head = (await bob.get_bookmark("bob", "default")).head
        saved = await bob.save_bookmark("bob", "default", opened.holder, head, [head])
        assert (saved.position, saved.open) == (head, [head])

        again = await bob.open_bookmark("bob", "default")
        assert again.holder != opened.holder
        with pytest.raises(BookmarkTaken):
            await bob.save_bookmark("bob", "default", opened.holder, head)

        assert await bob.delete_bookmark("bob", "default") is None
        with pytest.raises(NotFound):
            await bob.get_bookmark("bob", "default")
        assert bob.called >= BOOKMARKS
