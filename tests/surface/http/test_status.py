"""How the servers are and their store, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import ParleyError
from parley.sdk.blocking.connection import Connection
from tests.postgres.cluster import drop, shared_cluster, until
from tests.postgres.store import fresh_database
from tests.rigs.process import ADMIN_KEY, ServerProcess, running
from tests.rigs.team import LiveServer, with_server

pytestmark = pytest.mark.both_stores

PATH = "/api/v1/status"
HISTORY = "/api/v1/status/history"


@with_server
async def test_the_status_is_for_admins_of_the_operators_tenant(server: LiveServer) -> None:
    keys = {
        "the operator's": await server.rig.key("", KeyKind.ADMIN),
        "another tenant's": await server.rig.key("", KeyKind.ADMIN, "acme"),
        "a service's": await server.rig.key("", KeyKind.SERVICE),
        "an agent's": await server.rig.key("alice"),
        "nobody's": "",
    }

    answers = {whose: (await server.with_key(key).get(PATH)).status for whose, key in keys.items()}

    assert answers == {
        "the operator's": 200,
        "another tenant's": 403,
        "a service's": 403,
        "an agent's": 403,
        "nobody's": 401,
    }


@with_server
async def test_what_goes_up_and_down_is_measured_for_prometheus(server: LiveServer) -> None:
    secret = await server.rig.key("", KeyKind.ADMIN)

    before = (await server.with_key(secret).get("/metrics")).body.decode()
    client = await server.client("alice")
    async with client.events("/subscribe/channels/chan_1"):
        during = (await server.with_key(secret).get("/metrics")).body.decode()

    assert "parley_node_streams 0\n" in before
    assert "# TYPE parley_node_streams gauge\nparley_node_streams 1\n" in during
    assert {name for name in ("queue", "lag", "connections", "pool") if f"parley_node_{name} " in during} == {
        "queue",
        "lag",
        "connections",
        "pool",
    }


# ---------------------------------------------------------------- real servers


@pytest.mark.sqlite_only
def test_a_server_with_a_file_of_its_own_tells_of_the_file(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--node", "lone") as server:
        found = Connection(server.url, key=ADMIN_KEY).get("status")

    (node,) = found["nodes"]
    assert (found["ok"], found["concerns"]) == (True, [])
    assert (node["name"], node["here"], node["silent"], node["url"]) == ("lone", True, False, server.url)
    assert node["leads"] == ["checkpoints", "retention", "sweep", "webhooks"]
    store = found["store"]
    assert (store["kind"], store["tenants"], store["row_security"], store["replicas"]) == ("sqlite", 1, None, [])
    assert store["bytes"] > 0
    assert store["log_bytes"] > 0


@pytest.fixture(name="dsn")
def a_database() -> Iterator[str]:
    dsn = fresh_database()
    yield dsn
    drop(dsn)


@pytest.fixture(name="pair")
def a_pair(tmp_path: Path, dsn: str) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers on one database."""
    with (
        running(tmp_path / "a", "--node", "a", store=dsn) as first,
        running(tmp_path / "b", "--node", "b", store=dsn) as second,
    ):
        heard_of(dsn, 2)
        yield first, second


def heard_of(dsn: str, number: int) -> None:
    """So many nodes have told the others of themselves."""
    name = dsn.rpartition("/")[2]
    until(lambda: len(shared_cluster().ask("SELECT 1 FROM node", database=name)) == number)


@pytest.mark.slow
def test_each_server_tells_of_both_and_of_the_database(pair: tuple[ServerProcess, ServerProcess]) -> None:
    first, second = pair

    tellings = [Connection(server.url, key=ADMIN_KEY).get("status") for server in pair]

    assert [[(node["name"], node["here"]) for node in found["nodes"]] for found in tellings] == [
        [("a", True), ("b", False)],
        [("a", False), ("b", True)],
    ]
    assert [node["url"] for node in tellings[0]["nodes"]] == [first.url, second.url]
    store = tellings[0]["store"]
    assert (store["kind"], store["tenants"], store["row_security"]) == ("postgresql", 1, True)
    assert 0 < store["connections"] <= store["most_connections"]
    assert (tellings[0]["ok"], tellings[0]["concerns"]) == (True, [])


@pytest.mark.slow
def test_each_work_is_led_by_one_of_them_and_all_of_them_say_by_whom(pair: tuple[ServerProcess, ServerProcess]) -> None:
    connections = [Connection(server.url, key=ADMIN_KEY) for server in pair]

    def led() -> list[list[str]]:
        tellings = [connection.get("status") for connection in connections]
        return [sorted(work for node in found["nodes"] for work in node["leads"]) for found in tellings]

    until(lambda: led() == [["checkpoints", "retention", "sweep", "webhooks"]] * 2)


@pytest.mark.slow
def test_a_server_that_was_killed_is_silent_and_one_that_left_is_not_missed(
    pair: tuple[ServerProcess, ServerProcess], dsn: str, tmp_path: Path
) -> None:
    first, second = pair
    with running(tmp_path / "c", "--node", "c", store=dsn) as third:
        third.stop()
    second.kill()
    # The database's clock does not wait for tests.
    shared_cluster().ask(
        "UPDATE node SET seen = seen - interval '1 minute' WHERE name = 'b'", database=dsn.rpartition("/")[2]
    )

    found = Connection(first.url, key=ADMIN_KEY).get("status")

    assert [(node["name"], node["silent"]) for node in found["nodes"]] == [("a", False), ("b", True)]
    assert not found["ok"]
    assert [one["code"] for one in found["concerns"]] == ["node_silent"]


@pytest.mark.slow
def test_two_servers_of_one_name_both_say_so(tmp_path: Path, dsn: str) -> None:
    with (
        running(tmp_path / "a", "--node", "same", store=dsn) as first,
        running(tmp_path / "b", "--node", "same", store=dsn) as second,
    ):
        pair = (first, second)

        def concerns() -> list[list[tuple[str, str]]]:
            tellings = [Connection(server.url, key=ADMIN_KEY).get("status")["concerns"] for server in pair]
            return [[(one["code"], one["detail"]) for one in found] for found in tellings]

        until(
            lambda: (
                concerns()
                == [
                    [("name_shared", f"two servers are called same: {here.url} and {there.url}")]
                    for here, there in (pair, pair[::-1])
                ]
            )
        )


@pytest.mark.slow
def test_a_server_that_is_killed_and_started_again_shares_its_name_with_nobody(tmp_path: Path, dsn: str) -> None:
    with running(tmp_path / "a", "--node", "a", store=dsn) as server:
        heard_of(dsn, 1)
        name = dsn.rpartition("/")[2]
        beats = "SELECT document FROM node"
        (killed,) = shared_cluster().ask(beats, database=name)
        server.kill()
        server.start()

        # It has found what the other left, and then its own
        told = {bytes(killed["document"])}

        def beaten() -> int:
            told.add(bytes(shared_cluster().ask(beats, database=name)[0]["document"]))
            return len(told)

        until(lambda: beaten() > 3)
        found = Connection(server.url, key=ADMIN_KEY).get("status")

    assert "name_shared" not in [one["code"] for one in found["concerns"]]


def test_a_server_whose_database_does_not_say_how_it_is_tells_of_itself(
    pair: tuple[ServerProcess, ServerProcess], dsn: str
) -> None:
    shared_cluster().ask("REVOKE SELECT ON pg_locks FROM PUBLIC", database=dsn.rpartition("/")[2])

    found = Connection(pair[1].url, key=ADMIN_KEY).get("status")

    assert not found["ok"]
    assert [one["code"] for one in found["concerns"]] == ["database_unreachable"]
    assert "permission denied" in found["concerns"][0]["detail"]
    assert [(node["name"], node["here"]) for node in found["nodes"]] == [("b", True)]


def test_who_may_not_ask_is_told_so_by_its_code(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        key = Connection(server.url, key=ADMIN_KEY).post("keys", body={"kind": "agent", "agent_id": "alice"})["key"]

        with pytest.raises(ParleyError) as refused:
            Connection(server.url, key=key).get("status")

    assert refused.value.code == "scope_required"


@with_server
async def test_the_history_counts_requests_and_refusals_by_code_for_the_operator(server: LiveServer) -> None:
    admin = await server.client("", KeyKind.ADMIN)
    alice = await server.client("alice")
    assert (await alice.get("/channels/chan_unknown")).status == 404
    assert (await alice.get(HISTORY)).status == 403

    found = (await admin.get(HISTORY)).json

    assert found["step_seconds"] == 10
    (node,) = found["nodes"]
    assert node["here"]
    counts = [sum(one["refusals"].get(code, 0) for one in node["samples"]) for code in ("not_found", "scope_required")]
    assert counts == [1, 1]
    assert sum(one["requests"] for one in node["samples"]) >= 2
    assert (await (await server.client("", KeyKind.ADMIN, "acme")).get(HISTORY)).status == 403
    assert [(await admin.get(f"{HISTORY}?seconds={seconds}")).status for seconds in ("0", "601", "x", "60")] == [
        422,
        422,
        422,
        200,
    ]
