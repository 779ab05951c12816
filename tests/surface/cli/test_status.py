"""`parley status`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from parley.cli.server import status
from tests.postgres.cluster import a_cluster, drop, shared_cluster, until
from tests.postgres.store import fresh_database
from tests.rigs.process import ADMIN_KEY, running
from tests.surface.cli.team_stage import Team
from tests.surface.stage import Stage


@pytest.mark.sqlite_only
def test_a_lone_server_is_well(team: Team) -> None:
    ran = team.run("status")

    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[0].split() == [*("NODE", "STATE", "VERSION", "UP", "STREAMS", "QUEUE", "LAG", "URL")]
    assert "answers" in lines[1]
    assert team.server.url in lines[1]
    assert re.search(r"^store +sqlite 3\.\S+, [\d.]+ [KM]iB, \d+ tenants?$", ran.out, re.MULTILINE)
    assert lines[-1] == "No problems."


def test_the_status_as_json_is_what_the_server_says(team: Team) -> None:
    found = team.said("status")

    assert set(found) == {"ok", "concerns", "nodes", "store"}
    assert found["nodes"][0]["url"] == team.server.url


def test_one_server_is_asked_by_its_address_and_a_key(team: Team) -> None:
    url, key = team.server.url, team.server.key
    for name in ("PARLEY_URL", "PARLEY_KEY"):
        team.stage.patch.delenv(name)

    assert team.run("status", "--url", url, "--key", key).code == 0


def test_where_there_is_no_server_it_says_so(stage: Stage) -> None:
    ran = stage.run("status", "--url", "http://127.0.0.1:1", "--key", "k")

    assert (ran.code, ran.error) == (7, "unavailable")


def test_a_key_of_another_kind_is_told_which_one_it_takes(team: Team) -> None:
    key = team.said("key", "create", "--agent", "nobody-special")["key"]

    ran = team.run("status", "--key", key)

    assert (ran.code, ran.error) == (6, "scope_required")


def test_a_silent_server_needs_a_person(stage: Stage, tmp_path: Path) -> None:
    dsn = fresh_database()
    name = dsn.rpartition("/")[2]
    try:
        with running(tmp_path / "a", "--node", "a", store=dsn) as first:
            with running(tmp_path / "b", "--node", "b", store=dsn) as second:
                until(lambda: len(shared_cluster().ask("SELECT 1 FROM node", database=name)) == 2)
                both = stage.run("status", "--url", second.url, "--key", ADMIN_KEY)
            ago = "clock_timestamp() - interval '1 minute'"
            shared_cluster().ask(f"UPDATE node SET seen = {ago} WHERE name = 'b'", database=name)

            ran = stage.run("status", "--url", first.url, "--key", ADMIN_KEY)
    finally:
        drop(dsn)

    assert (both.code, both.out.splitlines()[-1]) == (0, "No problems.")
    assert re.search(r"^row security +on$", both.out, re.MULTILINE)
    assert re.search(r"^connections +\d+ of \d+ used; at most \d+ if every node", both.out, re.MULTILINE)
    assert ran.code == 1
    assert re.search(r"^b +no heartbeat for 1m ", ran.out, re.MULTILINE)
    told = re.fullmatch(r"node_silent: b was last heard of (\d+) s ago", ran.out.splitlines()[-1])
    assert told is not None
    assert 60 <= int(told[1]) < 120


# ---------------------------------------------------------------- without a database


@pytest.mark.slow
def test_a_server_without_its_database_is_told_of_as_alive_until_it_is_back(stage: Stage, tmp_path: Path) -> None:
    with (
        a_cluster(fsync="on") as cluster,
        running(tmp_path / "a", "--node", "a", store=cluster.create_database("parley")) as server,
    ):
        question = ("status", "--url", server.url, "--key", ADMIN_KEY)
        before = stage.run(*question)
        cluster.stop()
        known, unknown = stage.run(*question), stage.run("status", "--url", server.url, "--key", "wrong")
        document = stage.run(*question, "--json")
        cluster.start()
        until(lambda: stage.run(*question).code == 0)

    said = f"the server at {server.url} runs, but its database does not answer"
    assert before.code == 0
    assert [(ran.code, ran.error, ran.out) for ran in (known, unknown)] == [(7, "unavailable", "")] * 2
    # Who has no key learns no more than who has one
    assert known.err == unknown.err
    assert said in known.err
    error = json.loads(document.err)["error"]
    assert (document.code, document.out, error["code"], error["message"]) == (7, "", "unavailable", said)
    assert "the server's log" in error["hint"]


class Refusing(BaseHTTPRequestHandler):
    """Says what it was told to say, and remembers what it was asked."""

    answers: ClassVar[dict[str, tuple[int, bytes]]]
    asked: ClassVar[list[str]]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        status, body = self.answers[self.path]
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "3")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(name="refusing")
def a_server_that_refuses() -> Iterator[tuple[str, type[Refusing]]]:
    handler = type("Told", (Refusing,), {"answers": {}, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()
        thread.join()


AWAY = json.dumps({"code": "unavailable", "detail": "The storage cannot do this now."}).encode()
PATHS = ["/api/v1/status", "/healthz"]


@pytest.mark.parametrize(
    ("status", "health", "said", "asked"),
    [
        ((503, AWAY), (200, b"{}"), "runs, but its database does not answer", PATHS),
        # No server is left behind a balancer; or it is no server of ours.
        ((503, b'{"message": "no upstream"}'), (503, b""), "no upstream", PATHS),
        ((503, AWAY), (0, b"hangs up"), "The storage cannot do this now", PATHS),
        ((503, b"<html>"), (503, b""), "does not answer like a Parley server (status 503)", PATHS[:1]),
        ((200, b"<html>"), (200, b"<html>"), "does not answer like a Parley server (status 200)", PATHS[:1]),
    ],
)
def test_a_server_that_asks_for_patience_is_not_waited_for(
    stage: Stage,
    refusing: tuple[str, type[Refusing]],
    status: tuple[int, bytes],
    health: tuple[int, bytes],
    said: str,
    asked: list[str],
) -> None:
    url, server = refusing
    server.answers.update(zip(PATHS, (status, health), strict=True))

    ran = stage.run("status", "--url", url, "--key", "k")

    assert (ran.code, ran.error) == (7, "unavailable")
    assert said in ran.err
    assert server.asked == asked


def test_a_store_that_could_not_be_asked_is_shown_without_what_is_not_known() -> None:
    assert list(status._store_lines({"kind": "postgresql", "version": ""})) == [
        ("store", "postgresql, does not answer")
    ]


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 * 1024**3, "5.0 GiB"), (2**52, "4096.0 TiB")],
)
def test_sizes_are_shown_as_people_read_them(number: int, shown: str) -> None:
    assert status._size(number) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(0.2, "0s"), (59, "59s"), (60, "1m"), (7200, "2h"), (259_200, "3d")])
def test_times_are_shown_in_their_largest_unit(seconds: float, shown: str) -> None:
    assert status._duration(seconds) == shown


def test_what_the_database_knows_of_locks_and_replicas_is_shown() -> None:
    store = {
        "kind": "postgresql",
        "version": "17.2",
        "bytes": 10_000_000,
        "tenants": 2,
        "journal": 1,
        "waiting": 2,
        "longest_wait": 1.26,
        "oldest_transaction": 3.0,
        "connections": 31,
        "most_connections": 97,
        "wanted_connections": 40,
        "synchronous_standby_names": "s1",
        "replicas": [
            {"name": "s1", "state": "sync", "lag_bytes": 0},
            {"name": "s2", "state": None, "lag_bytes": 2048},
        ],
        "row_security": False,
    }

    assert list(status._store_lines(store)) == [
        ("store", "postgresql 17.2, 9.5 MiB, 2 tenants"),
        ("journal", "about 1 row"),
        ("locks", "2 transactions waiting, the longest for 1.3 s; the oldest open transaction is 3.0 s old"),
        ("connections", "31 of 97 used; at most 40 if every node uses its whole pool"),
        ("commits", "wait for s1"),
        ("replica", "s1: sync, 0 bytes behind"),
        ("replica", "s2: state unknown: GRANT pg_read_all_stats to the role, 2.0 KiB behind"),
        ("row security", "off: the role is a superuser"),
    ]
