"""The agent registry over HTTP, with the requests of the OpenIntent SDK."""

from __future__ import annotations

import pytest

from parley.adapters.outside.outbound import HttpOutbound
from parley.domain.directory.callers import KeyKind
from tests.rigs.team import Client, LiveServer, with_server

HEARTBEAT = {"status": "active", "current_load": 2, "tasks_in_progress": ["task_1"]}


async def fleet_of(server: LiveServer) -> Client:
    """One service key for all agents, as an SDK fleet has it."""
    return await server.client(kind=KeyKind.SERVICE, speaks_as="coordinator")


@with_server
async def test_an_agent_registers_as_the_sdk_does_it(server: LiveServer) -> None:
    fleet = await fleet_of(server)
    body = {
        "agent_id": "a",
        "capabilities": ["search"],
        "role_id": "researcher",
        "name": "Ann",
        "metadata": {"k": 1},
        "endpoint": "https://example.com/a",
        "capacity": {"max_concurrent_tasks": 3, "current_load": 1},
        "heartbeat_config": {"interval_seconds": 10},
        "whatever_the_user_likes": True,
    }

    answer = await fleet.post("/agents/register", body)

    assert answer.status == 200
    assert {
        name: answer.json[name] for name in ("agent_id", "status", "role_id", "name", "metadata", "capabilities")
    } == {
        "agent_id": "a",
        "status": "active",
        "role_id": "researcher",
        "name": "Ann",
        "metadata": {"k": 1},
        "capabilities": ["search"],
    }
    assert answer.json["capacity"] == {"max_concurrent_tasks": 3, "current_load": 1}
    assert answer.json["registered_at"].endswith("+00:00")
    shown = (await fleet.get("/agents/a/record")).json
    assert shown == {**answer.json, "endpoint": "https://example.com"}  # the rest of it is for the agent itself


@with_server
async def test_registering_again_is_200_with_the_updated_record(server: LiveServer) -> None:
    fleet = await fleet_of(server)
    await fleet.post("/agents/register", {"agent_id": "a", "capabilities": []})

    again = await fleet.post("/agents/register", {"agent_id": "a", "capabilities": ["x", "x"]})

    assert (again.status, again.json["capabilities"], again.json["version"]) == (200, ["x"], 2)


@with_server
async def test_agents_are_listed_bare_and_filtered(server: LiveServer) -> None:
    fleet = await fleet_of(server)
    await fleet.post("/agents/register", {"agent_id": "a", "capabilities": ["search"], "role_id": "r"})
    await fleet.post("/agents/register", {"agent_id": "b", "capabilities": ["write"]})

    async def names(query: str = "") -> list[str]:
        return [one["agent_id"] for one in (await fleet.get(f"/agents{query}")).json]

    assert await names() == ["a", "b"]
    assert await names("?capability=write") == ["b"]
    assert await names("?role_id=r&status=active") == ["a"]
    assert await names("?status=dead") == []
    assert (await fleet.get("/agents", status="sleepy")).status == 422


@with_server
async def test_a_heartbeat_is_answered_with_the_next_one(server: LiveServer) -> None:
    fleet = await fleet_of(server)
    await fleet.post("/agents/register", {"agent_id": "a"})

    answer = await fleet.post("/agents/a/heartbeat", HEARTBEAT)

    assert (answer.status, answer.json["status"], answer.json["agent_status"]) == (200, "ok", "active")
    assert answer.json["next_heartbeat_at"] > answer.json["server_timestamp"]
    assert (await fleet.get("/agents/a/record")).json["capacity"]["current_load"] == 2


@with_server
async def test_the_heartbeat_of_a_dead_agent_brings_it_back(server: LiveServer) -> None:
    fleet = await fleet_of(server)
    await fleet.post("/agents/register", {"agent_id": "a"})
    await fleet.post("/agents/a/heartbeat", HEARTBEAT)
    server.rig.clock.pass_by(seconds=300)
    assert (await fleet.get("/agents/a/record")).json["status"] == "dead"

    answer = await fleet.post("/agents/a/heartbeat", HEARTBEAT)

    assert (answer.status, answer.json["agent_status"]) == (200, "active")
    assert (await fleet.get("/agents/a/record")).json["status"] == "active"


@with_server
async def test_the_sdks_way_to_deregister_is_a_status(server: LiveServer) -> None:
    fleet = await fleet_of(server)
    await fleet.post("/agents/register", {"agent_id": "a", "capabilities": []})

    gone = await fleet.patch("/agents/a/status", {"status": "deregistered"})

    assert (gone.status, gone.json["status"]) == (200, "deregistered")
    assert (await fleet.patch("/agents/a/status", {"status": "deregistered"})).status == 200
    assert (await fleet.patch("/agents/a/status", {"status": "active"})).status == 410
    assert (await fleet.post("/agents/a/heartbeat", HEARTBEAT)).status == 410
    assert (await fleet.post("/agents/register", {"agent_id": "a"})).json["status"] == "active"


@with_server
async def test_an_agent_drains(server: LiveServer) -> None:
    alice = await server.client("alice")
    await alice.post("/agents/register", {"agent_id": "alice"})

    draining = await alice.patch("/agents/alice/status", {"status": "draining"})

    assert draining.json["status"] == "draining"
    assert (await alice.post("/agents/alice/heartbeat", HEARTBEAT)).json["agent_status"] == "draining"


@with_server
async def test_nobody_declares_an_agent_dead(server: LiveServer) -> None:
    alice = await server.client("alice")
    await alice.post("/agents/register", {"agent_id": "alice"})

    for status in ("dead", "unhealthy", "registering", "", 3):
        assert (await alice.patch("/agents/alice/status", {"status": status})).status == 422


@with_server
async def test_an_agent_changes_itself_and_nobody_else(server: LiveServer) -> None:
    alice, mallory = await server.client("alice"), await server.client("mallory")
    await alice.post("/agents/register", {"agent_id": "alice"})

    for answer in (
        await mallory.post("/agents/register", {"agent_id": "alice"}),
        await mallory.post("/agents/alice/heartbeat", HEARTBEAT),
        await mallory.patch("/agents/alice/status", {"status": "deregistered"}),
        await mallory.delete("/agents/alice"),
        await mallory.delete("/agents/nobody"),
    ):
        assert (answer.status, answer.code) == (403, "sender_mismatch")
    assert (await alice.delete("/agents/alice")).json["status"] == "deregistered"


@with_server
async def test_what_does_not_exist_is_404(server: LiveServer) -> None:
    fleet = await fleet_of(server)

    for answer in (
        await fleet.get("/agents/nobody/record"),
        await fleet.post("/agents/nobody/heartbeat", HEARTBEAT),
        await fleet.patch("/agents/nobody/status", {"status": "active"}),
        await fleet.delete("/agents/nobody"),
    ):
        assert answer.status == 404


@with_server
async def test_an_agent_has_a_name_that_may_be_addressed(server: LiveServer) -> None:
    fleet = await fleet_of(server)

    for name in ("system", "role:x", "*", "a b", "", "a" * 65, "../etc"):
        assert (await fleet.post("/agents/register", {"agent_id": name})).status == 422, name


@with_server
async def test_too_much_metadata_is_refused(server: LiveServer) -> None:
    fleet = await fleet_of(server)

    answer = await fleet.post("/agents/register", {"agent_id": "a", "metadata": {"k": "x" * 17_000}})

    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "metadata")


@with_server
async def test_a_departure_is_heard_in_the_channel_as_it_happens(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob"})
    await bob.post("/channels/chan_1/messages", {"payload": {"n": 1}})

    async with alice.events("/subscribe/channels/chan_1") as events:
        await bob.delete("/agents/bob")
        heard = await events.next()

    assert (heard.json["sender"], heard.json["to"]) == ("system", "*")
    assert heard.json["payload"] == {"event": "agent_departed", "agent_id": "bob"}
    listed = (await alice.get("/channels/chan_1/messages")).json
    assert [one["sender"] for one in listed] == ["bob", "system"]


@with_server
async def test_another_tenant_sees_none_of_it(server: LiveServer) -> None:
    fleet = await fleet_of(server)
    await fleet.post("/agents/register", {"agent_id": "a", "role_id": "r"})
    stranger = await server.client(kind=KeyKind.SERVICE, tenant="acme")

    assert (await stranger.get("/agents")).json == []
    assert (await stranger.get("/agents/a/record")).status == 404
    assert (await stranger.get("/roles")).json == []


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "ftp://hook.example/",
        "http://hook.example/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/",
        "https://10.0.0.1/",
        "https://user:pw@hook.example/",
        "https://hook.example/\r\nX: y",
        "here",
    ],
)
@with_server
async def test_an_endpoint_that_nothing_would_be_pushed_to_is_refused(server: LiveServer, url: str) -> None:
    """A53."""
    server.rig.team.outbound = HttpOutbound()
    bob = await server.client("bob")

    answer = await bob.post("/agents/register", {"agent_id": "bob", "endpoint": url})

    assert (answer.status, answer.code) == (422, "target_forbidden")
    assert answer.json["errors"][0]["field"] == "endpoint"


@with_server
async def test_other_agents_see_the_host_of_an_endpoint_and_nothing_of_its_secrets(server: LiveServer) -> None:
    bob, alice, admin = await server.client("bob"), await server.client("alice"), await server.client("", KeyKind.ADMIN)
    whole = "https://hook.example:8443/token?key=secret"
    await bob.post("/agents/register", {"agent_id": "bob", "endpoint": whole})

    shown = [(await one.get("/agents/bob/record")).json["endpoint"] for one in (bob, admin, alice)]

    assert shown == [whole, whole, "https://hook.example:8443"]
    assert (await alice.get("/agents")).json[0]["endpoint"] == "https://hook.example:8443"
