"""Servers that speak to their database across machines: all of it is encrypted, or the server does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.node_group import Voice, until
from tests.postgres.cluster import Cluster
from tests.postgres.tls import Papers, an_encrypting_cluster
from tests.rigs.process import ROOT, ServerProcess

pytestmark = [pytest.mark.fault, pytest.mark.slow]

CONFIGURATION = 78
_HOW = (
    "SELECT application_name, bool_and(ssl) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)"
    " WHERE datname = $1 AND application_name LIKE 'parley %' GROUP BY 1"
)
Place = tuple[Cluster, Papers]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with an_encrypting_cluster() as made:
        yield made


def test_every_connection_of_a_server_is_encrypted(place: Place, tmp_path: Path) -> None:
    cluster, papers = place
    dsn = f"{cluster.create_database('encrypted')}?sslmode=verify-full&sslrootcert={papers.authority}"
    server = ServerProcess(tmp_path / "data", "--node", "a", store=dsn)
    server.start()
    try:
        voice = Voice(server.port, "alice")
        _, channel = voice.place()
        voice.say(channel, "in private")
        assert voice.texts(channel) == ["in private"]

        def connections() -> dict[str, bool]:
            return {row[0]: row[1] for row in cluster.ask(_HOW, "encrypted")}

        until(lambda: set(connections()) == {"parley a", "parley a listens", "parley a writes"}, "all are there")
        assert set(connections().values()) == {True}
    finally:
        server.kill()


@pytest.mark.parametrize("wrong", ["authority", "host"])
def test_a_server_whose_database_cannot_be_trusted_ends_with_an_error_and_a_hint(
    place: Place, tmp_path: Path, wrong: str
) -> None:
    cluster, papers = place
    authority = papers.other_authority if wrong == "authority" else papers.authority
    dsn = f"{cluster.dsn()}?sslmode=verify-full&sslrootcert={authority}"
    if wrong == "host":
        dsn = dsn.replace("127.0.0.1", "localhost")

    command = [sys.executable, "-m", "parley.cli.main", "up", "--port", "0", "--data", str(tmp_path / "data")]
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "PARLEY_STORE": dsn}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, cwd=ROOT, check=False)

    assert (ended.returncode, ended.stdout) == (CONFIGURATION, "")
    error, hint = ended.stderr.splitlines()
    assert "the certificate of the database cannot be trusted" in error
    assert hint.startswith("hint: ")
    assert "sslrootcert" in hint
