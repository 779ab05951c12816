"""Tasks, on a real server."""

from __future__ import annotations

import pytest

from parley.domain.errors.team import VersionMismatch
from parley.sdk.client.tasks import AsyncTasks
from parley.wire.api.records.intents import Task
from tests.rigs.team import INTENT, LiveServer, with_server
from tests.unit.sdk.client.recorded import public_methods, recorded


@with_server
async def test_a_task_is_created_found_and_changed(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        made = await alice.create_task(
            INTENT,
            "Read",
            "All of it",
            assigned_agent="bob",
            priority="high",
            input={"pages": 7},
            requires_tools=("search",),
            timeout_seconds=5,
            metadata={"a": 1},
        )
        assert isinstance(made, Task)
        assert (made.name, made.assigned_agent, made.priority, made.input) == ("Read", "bob", "high", {"pages": 7})
        assert (made.requires_tools, made.timeout_seconds, made.metadata) == (["search"], 5, {"a": 1})
        assert await alice.get_task(made.id) == made

        ready = await alice.update_task(made.id, status="ready", version=made.version)
        assert await alice.list_tasks(INTENT, "ready", limit=5) == [ready]
        claimed = await alice.update_task(made.id, status="claimed", output={"so": "far"}, artifacts=["a.txt"])
        assert (claimed.status, claimed.output, claimed.artifacts) == ("claimed", {"so": "far"}, ["a.txt"])
        with pytest.raises(VersionMismatch):
            await alice.update_task(made.id, name="Write", version=made.version)
        assert alice.called >= public_methods(AsyncTasks)
