"""For commands on a server: one for all tests that leave its rules alone, one for those that change them, and one for
each test that breaks it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rigs.chosen_store import a_database
from tests.surface.cli.team_stage import Server, Team
from tests.surface.stage import Stage


@contextmanager
def _server(folder: Path) -> Iterator[Server]:
    with a_database(folder) as store:
        server = Server(folder / "data", store).start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with _server(tmp_path_factory.mktemp("team")) as server:
        yield server


def _team(stage: Stage, server: Server) -> Team:
    stage.patch.setenv("PARLEY_URL", server.url)
    stage.patch.setenv("PARLEY_KEY", server.key)
    team = Team(stage, server)
    team.intent = team.said("intent", "create", "A test's own", "--access", "open")["id"]
    return team


@pytest.fixture
def team(stage: Stage, shared_server: Server) -> Iterator[Team]:
    """A server that others use, too; the environment names it and its admin key."""
    made = _team(stage, shared_server)
    yield made
    made.close()


@pytest.fixture(scope="session")
def ruled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with _server(tmp_path_factory.mktemp("ruled")) as server:
        yield server


@pytest.fixture
def ruled_team(stage: Stage, ruled_server: Server) -> Iterator[Team]:
    """A server whose org units, policies and suspensions others change, too."""
    made = _team(stage, ruled_server)
    yield made
    made.close()


@pytest.fixture
def lone_team(stage: Stage, tmp_path: Path) -> Iterator[Team]:
    """A server of one's own, that may be killed, filled and tampered with."""
    with _server(tmp_path) as server:
        made = _team(stage, server)
        yield made
        made.close()
