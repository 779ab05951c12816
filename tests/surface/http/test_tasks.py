"""Tasks over HTTP, as the OpenIntent SDK calls them."""

from __future__ import annotations

import pytest

from parley.domain.directory.access import AccessPolicy
from tests.rigs.team import INTENT, LiveServer, with_server


@with_server
async def test_a_task_is_created_shown_and_listed(server: LiveServer) -> None:
    alice = await server.client("alice")
    said = {"intent_id": INTENT, "name": "look", "priority": "high", "input": {"a": 1}, "metadata": {"m": 1}}

    made = await alice.post("/tasks", {**said, "whatever": "the caller wrote"})
    shown = await alice.get(f"/tasks/{made.json['id']}")
    listed = await alice.get(f"/intents/{INTENT}/tasks", limit=100, offset=0)

    assert (made.status, made.headers["etag"]) == (201, '"1"')
    assert made.json.items() >= {**said, "status": "pending", "version": 1, "requires_tools": []}.items()
    assert "whatever" not in made.json
    assert shown.json == made.json
    assert listed.json == [made.json]


@with_server
async def test_a_task_that_says_null_shows_lists_all_the_same(server: LiveServer) -> None:
    alice = await server.client("alice")

    made = await alice.post("/tasks", {"intent_id": INTENT, "name": "look", "requires_tools": None, "metadata": None})

    assert (made.json["requires_tools"], made.json["metadata"]) == ([], {})


@with_server
async def test_a_task_changes_for_the_version_that_is_there(server: LiveServer) -> None:
    alice = await server.client("alice")
    task = (await alice.post("/tasks", {"intent_id": INTENT, "name": "look"})).json["id"]

    running = await alice.patch(f"/tasks/{task}", {"status": "running", "assigned_agent": "bob"}, {"If-Match": "1"})
    found = await alice.patch(f"/tasks/{task}", {"output": {"x": 1}}, {"If-Match": '"2"'})
    late = await alice.patch(f"/tasks/{task}", {"status": "completed"}, {"If-Match": "2"})
    silent = await alice.patch(f"/tasks/{task}", {"status": "completed"})

    assert (running.json["status"], running.json["assigned_agent"], running.json["version"]) == ("running", "bob", 2)
    assert running.json["started_at"] is not None
    assert (found.json["status"], found.json["output"], found.headers["etag"]) == ("running", {"x": 1}, '"3"')
    assert (late.status, late.code, late.json["current_version"]) == (409, "version_mismatch", 3)
    assert (silent.status, silent.code) == (428, "version_required")


@with_server
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "skipped"])
async def test_a_task_that_is_over_closes_its_channels_and_no_other(server: LiveServer, status: str) -> None:
    alice = await server.client("alice")
    task = (await alice.post("/tasks", {"intent_id": INTENT, "name": "look"})).json["id"]
    own = await alice.post(f"/intents/{INTENT}/channels", {"name": "own", "task_id": task})
    other = await alice.post(f"/intents/{INTENT}/channels", {"name": "other"})

    over = await alice.patch(f"/tasks/{task}", {"status": status}, {"If-Match": "1"})
    again = await alice.patch(f"/tasks/{task}", {"status": "running"}, {"If-Match": "2"})

    assert over.json["completed_at"] is not None
    assert (await alice.get(f"/channels/{own.json['id']}")).json["status"] == "closed"
    assert (await alice.get(f"/channels/{other.json['id']}")).json["status"] == "open"
    assert (again.status, again.code) == (409, "bad_transition")


@with_server
async def test_the_log_tells_what_becomes_of_a_task(server: LiveServer) -> None:
    alice = await server.client("alice")
    task = (await alice.post("/tasks", {"intent_id": INTENT, "name": "look"})).json["id"]
    for version, status in enumerate(("claimed", "running", "blocked", "running", "running", "failed"), 1):
        await alice.patch(f"/tasks/{task}", {"status": status}, {"If-Match": str(version)})

    log = (await alice.get(f"/intents/{INTENT}/events")).json

    assert [one["event_type"] for one in log] == [
        "task.created",
        "task.claimed",
        "task.started",
        "task.blocked",
        "task.unblocked",
        "task.progress",
        "task.failed",
    ]
    assert {one["payload"]["task_id"] for one in log} == {task}


@with_server
async def test_tasks_are_listed_by_status_and_page(server: LiveServer) -> None:
    alice = await server.client("alice")
    made = [(await alice.post("/tasks", {"intent_id": INTENT, "name": str(n)})).json["id"] for n in range(3)]
    await alice.patch(f"/tasks/{made[1]}", {"status": "ready"}, {"If-Match": "1"})

    pending = await alice.get(f"/intents/{INTENT}/tasks", status="pending")
    second = await alice.get(f"/intents/{INTENT}/tasks", limit=1, offset=1)
    unknown = await alice.get(f"/intents/{INTENT}/tasks", status="asleep")

    assert [one["id"] for one in pending.json] == [made[0], made[2]]
    assert [one["id"] for one in second.json] == [made[1]]
    assert unknown.status == 422


@with_server
async def test_a_resolved_intent_takes_no_more_tasks(server: LiveServer) -> None:
    alice = await server.client("alice")
    await alice.post(f"/intents/{INTENT}/status", {"status": "abandoned"}, {"If-Match": "1"})

    late = await alice.post("/tasks", {"intent_id": INTENT, "name": "look"})

    assert (late.status, late.code) == (409, "bad_transition")


@with_server
async def test_a_task_of_an_intent_that_one_may_not_see_is_not_there(server: LiveServer) -> None:
    alice, mallory = await server.client("alice"), await server.client("mallory")
    stranger = await server.client("alice", tenant="other")
    task = (await alice.post("/tasks", {"intent_id": INTENT, "name": "look"})).json["id"]
    await server.rig.access(policy=AccessPolicy.CLOSED)

    for client in (mallory, stranger):
        answers = [
            await client.get(f"/tasks/{task}"),
            await client.patch(f"/tasks/{task}", {"status": "failed"}, {"If-Match": "1"}),
            await client.get(f"/intents/{INTENT}/tasks"),
            await client.post("/tasks", {"intent_id": INTENT, "name": "mine"}),
        ]
        assert [answer.status for answer in answers] == [404] * 4
        assert answers[0].body == (await client.get("/tasks/nope")).body
