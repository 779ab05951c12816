"""Nodes that start at the same moment on an empty database: all of them come up, and one shows the operator's key."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.node_group import Voice
from tests.postgres.cluster import Cluster
from tests.rigs.process import ROOT

pytestmark = [pytest.mark.fault, pytest.mark.slow]

NAMES = "abc"
# Within this time a node that nothing holds up has begun to work with the database.
_EARLY = 1.5


class Starting:
    """A node of which nobody knows yet whether it comes up."""

    def __init__(self, folder: Path, name: str, dsn: str) -> None:
        self._command = [sys.executable, "-m", "parley.cli.main", "up", "--json", "--port", "0", "--node", name]
        self._command += ["--data", str(folder / name), "--store", dsn]
        self._environment = {"PATH": os.defpath, "HOME": str(folder)}
        self.keys: list[str] = []
        self.port = 0
        self._begin()

    def _begin(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, env=self._environment, cwd=ROOT)

    def again(self) -> None:
        """Kill it, whatever it does, and start it again; what it has shown counts."""
        self.end(signal.SIGKILL)
        self._begin()

    def ready(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"a node ended with {self._process.wait()}"
        self._shown(line)

    def end(self, number: int) -> int:
        if self._process.returncode is None:
            self._process.send_signal(number)
        rest, _ = self._process.communicate(timeout=60)
        self._shown(rest)
        return self._process.returncode

    def _shown(self, line: bytes) -> None:
        if line:
            told = json.loads(line)
            self.port = int(told["url"].rsplit(":", 1)[1])
            self.keys += [told["admin_key"]] if told["admin_key"] else []


@contextmanager
def starting(folder: Path, dsn: str) -> Iterator[list[Starting]]:
    nodes = [Starting(folder, name, dsn) for name in NAMES]
    try:
        yield nodes
    finally:
        for node in nodes:
            node.end(signal.SIGKILL)


def rounds(cluster: Cluster, folder: Path, kind: str, number: int) -> Iterator[list[Starting]]:
    """So many times, each on an empty database."""
    for n in range(number):
        dsn = cluster.create_database(f"{kind}_{n}")
        with starting(folder / str(n), dsn) as nodes:
            yield nodes
        cluster.drop_database(dsn.rpartition("/")[2])


def test_all_come_up_and_one_shows_a_key_that_all_of_them_know(
    tmp_path: Path, durable_cluster: Cluster, full: bool
) -> None:
    for nodes in rounds(durable_cluster, tmp_path, "together", 60 if full else 2):
        for node in nodes:
            node.ready()

        (key,) = [key for node in nodes for key in node.keys]
        for node in nodes:
            assert Voice(node.port, key=key).get("/keys").status == 200
        assert [node.end(signal.SIGTERM) for node in nodes] == [0] * len(nodes)


def test_they_come_up_though_one_is_killed_on_the_way(tmp_path: Path, durable_cluster: Cluster, full: bool) -> None:
    chance = random.SystemRandom()
    for nodes in rounds(durable_cluster, tmp_path, "killed", 60 if full else 2):
        time.sleep(chance.uniform(0.0, _EARLY))
        chance.choice(nodes).again()
        for node in nodes:
            node.ready()

        keys = [key for node in nodes for key in node.keys]
        # One that is killed between making the key and showing it takes it along: a given one is the way out.
        assert len(keys) <= 1
        for key in keys:
            assert {Voice(node.port, key=key).get("/keys").status for node in nodes} == {200}
