"""Servers go on while their store is copied: the copy says so, and a last one brings the rest."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.postgres.cluster import shared_cluster, until
from tests.surface.cli.store_copy.installation import (
    BEHIND,
    PATIENCE,
    Node,
    Talk,
    copying,
    serving,
    written,
)
from tests.surface.stage import Ran, Stage

CONNECTED = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'parley a%'"


@pytest.mark.slow
def test_while_servers_go_on_writing_a_copy_brings_what_there_is_and_a_last_one_the_rest(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with serving(data) as node:
        talk = Talk(stage, node)
        stop = threading.Event()
        sent: list[str] = []

        def write() -> None:
            with node.connection("claude") as claude:
                while not stop.is_set():
                    body = {"payload": {"n": len(sent)}, "message_type": "notify"}
                    sent.append(claude.post("channels", talk.channel, "messages", body=body)["id"])

        writers = [threading.Thread(target=write) for _ in range(3)]
        for one in writers:
            one.start()
        try:
            until(lambda: len(sent) >= len(writers))  # they are at it
            first = stage.run(*copying(data, dsn, "--json"))
            second = stage.run(*copying(data, dsn))
        finally:
            stop.set()
            for one in writers:
                one.join()
        refused = stage.script("up", "--port", "0", "--data", str(tmp_path / "early"), "--store", dsn)
        everything = {one["id"] for one in whole(talk)}

    assert (first.code, first.json["finished"], first.json["moved_on"]) == (BEHIND, False, True)
    assert first.json["behind"] > 0
    assert second.code == BEHIND
    assert "new messages and events meanwhile. Stop the servers on FROM and run the same command" in second.out
    assert (refused.code, "has not ended" in refused.err) == (4, True)
    last = stage.run(*copying(data, dsn, "--json"))
    assert (last.code, last.json["finished"], last.json["moved_on"]) == (0, True, False)
    assert 0 < written(last)["post"][0] < last.json["tables"][3]["rows"]
    assert stage.run(*copying(data, dsn, "--verify-only")).code == 0
    assert set(sent) <= everything


def whole(talk: Talk) -> list[dict[str, Any]]:
    """All that was said, however much the writers came to."""
    found: list[dict[str, Any]] = []
    while page := talk.said("messages", talk.channel, "--limit", "1000", "--since", found[-1]["id"] if found else "0"):
        found += page
    return found


def test_a_trial_copy_is_finished_though_a_server_goes_on(stage: Stage, tmp_path: Path) -> None:
    with serving(tmp_path / "data"):
        ran = stage.run(*copying(tmp_path / "data", tmp_path / "trial", "--though-behind"))

    assert ran.code == 0
    assert (tmp_path / "trial" / "parley.db").exists()


@pytest.mark.slow
def test_while_idle_nodes_are_there_a_copy_is_not_finished_and_what_they_take_comes_with_the_next_one(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    back = tmp_path / "back"
    with (
        serving(tmp_path / "a", "--store", dsn, "--node", "a") as a,
        serving(tmp_path / "b", "--store", dsn, "--node", "b", key=a.key) as b,
    ):
        channel = a_channel(a)
        told = settled(stage, dsn, back)
        shown = stage.run(*copying(dsn, back))
        acknowledged = say(b, channel)
    assert (told.json["finished"], told.json["moved_on"], told.json["running"]) == (False, False, ["a", "b"])
    assert shown.code == BEHIND
    assert "Servers still use FROM: a, b. The copy will lack what they write from now on.\n" in shown.out
    assert "Stop the servers on FROM and run the same command again; it copies only what is new.\n" in shown.out
    assert "Start a server on it" not in shown.out
    assert not (back / "parley.db").exists()

    last = stage.run(*copying(dsn, back, "--json"))

    assert (last.code, last.json["finished"], last.json["running"]) == (0, True, [])
    assert written(last)["post"] == (1, 0, 0)
    with serving(back, key=a.key) as home, home.connection() as reader:
        assert [one["id"] for one in reader.get("channels", channel, "messages")] == [acknowledged]


def settled(stage: Stage, source: str, target: Path) -> Ran:
    """A copy in whose time nothing was written: nodes that have just started still do."""
    end = time.monotonic() + PATIENCE
    while True:
        ran = stage.run(*copying(source, target, "--json"))
        assert ran.code == BEHIND, ran
        if not ran.json["moved_on"] or time.monotonic() > end:
            return ran


def a_channel(node: Node) -> str:
    with node.connection("claude") as claude:
        intent = claude.post("intents", body={"title": "To move"})["id"]
        made: str = claude.post("intents", intent, "channels", body={"name": "talk"})["id"]
        return made


def say(node: Node, channel: str) -> str:
    with node.connection("claude") as claude:
        body = {"payload": {"text": "late"}, "message_type": "notify"}
        made: str = claude.post("channels", channel, "messages", body=body)["id"]
        return made


@pytest.mark.slow
def test_a_node_that_has_taken_its_leave_and_still_serves_is_not_overlooked(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    with serving(tmp_path / "a", "--store", dsn, "--node", "a", "--linger", "600") as a:
        channel = a_channel(a)
        a.process.send_signal(signal.SIGTERM)
        try:
            until(lambda: not asked(dsn, "SELECT 1 FROM node"))

            ran = stage.run(*copying(dsn, tmp_path / "back", "--json"))

            assert say(a, channel)
        finally:
            a.process.kill()  # it would take its time
    assert (ran.code, ran.json["finished"], ran.json["running"]) == (BEHIND, False, ["a"])


@pytest.mark.slow
def test_a_frozen_node_is_running_and_one_that_died_is_named(stage: Stage, dsn: str, tmp_path: Path) -> None:
    with serving(tmp_path / "a", "--store", dsn, "--node", "a") as a:
        until(lambda: bool(asked(dsn, "SELECT 1 FROM node")))
        a.process.send_signal(signal.SIGSTOP)
        asked(dsn, "UPDATE node SET seen = seen - interval '11 s'")

        frozen = stage.run(*copying(dsn, tmp_path / "back", "--json"))

        a.process.kill()
    assert (frozen.code, frozen.json["finished"], frozen.json["running"]) == (BEHIND, False, ["a"])

    until(lambda: not asked(dsn, CONNECTED))
    asked(dsn, "UPDATE node SET seen = clock_timestamp() - interval '11 s'")
    dead = stage.run(*copying(dsn, tmp_path / "back"))
    assert dead.code == 0
    assert "not shut down: a. Make sure that they do not use FROM again.\n" in dead.out


def asked(dsn: str, query: str) -> list[asyncpg.Record]:
    return shared_cluster().ask(query, database=dsn.rpartition("/")[2])


@pytest.mark.slow
def test_an_idle_server_on_a_file_is_seen_by_the_lock_that_it_holds(stage: Stage, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as node:
        channel = a_channel(node)
        ran = stage.run(*copying(data, tmp_path / "back", "--json"))
        by_file = stage.run(*copying(data / "parley.db", tmp_path / "back", "--json"))
        say(node, channel)

    for one in (ran, by_file):
        assert (one.code, one.json["finished"], len(one.json["running"])) == (BEHIND, False, 1)
    last = stage.run(*copying(data, tmp_path / "back", "--json"))
    assert (last.code, written(last)["post"]) == (0, (1, 0, 0))
