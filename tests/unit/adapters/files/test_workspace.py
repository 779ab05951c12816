"""Where a project's folders are, and which project a working directory belongs to."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from parley.adapters.files.workspace import Workspace, projects
from parley.domain.errors.errors import BadAgentName, BadProjectName, NotFound, NotRegular, UnknownAgent, UnknownProject


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for name in ("codex", "claude"):
        (tmp_path / "projects" / "demo" / "agents" / name / "inbox").mkdir(parents=True)
    return Workspace(str(tmp_path), "demo")


def agents_folder(workspace: Workspace) -> Path:
    return Path(workspace.path, "agents")


def test_agents_are_the_folders_with_an_inbox_in_the_order_of_their_names(workspace: Workspace) -> None:
    (agents_folder(workspace) / "half").mkdir()
    (agents_folder(workspace) / ".hidden" / "inbox").mkdir(parents=True)
    (agents_folder(workspace) / "a file").touch()

    assert workspace.agents() == ["claude", "codex"]
    assert workspace.folders() == ["claude", "codex", "half"]


def test_a_project_without_agents_has_none(tmp_path: Path) -> None:
    (tmp_path / "projects" / "empty").mkdir(parents=True)

    assert Workspace(str(tmp_path), "empty").agents() == []


def test_a_project_that_is_not_there_is_named(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path), "demo")

    for ask in (workspace.open, workspace.agents, workspace.agent("codex").open):
        with pytest.raises(UnknownProject, match="demo"):
            ask()


def test_an_agent_that_is_not_there_is_named(workspace: Workspace) -> None:
    with pytest.raises(UnknownAgent, match="nobody"):
        workspace.agent("nobody").open()


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "con", "x\n", "x" * 65])
def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_opened(tmp_path: Path, name: str) -> None:
    """A51"""
    with pytest.raises(BadProjectName):
        Workspace(str(tmp_path), name)
    with pytest.raises(BadAgentName):
        Workspace(str(tmp_path), "demo").agent(name)


def test_a_linked_agent_folder_is_not_entered(workspace: Workspace) -> None:
    (agents_folder(workspace) / "linked").symlink_to("codex")

    with pytest.raises(NotRegular):
        workspace.agent("linked").open()


def test_a_folder_of_an_agent_is_found_or_made(workspace: Workspace) -> None:
    agent = workspace.agent("codex")
    with pytest.raises(NotFound):
        agent.folder("inbox", "archive")

    agent.make_folder("inbox", "archive").close()

    agent.folder("inbox", "archive").close()
    archive = agents_folder(workspace) / "codex" / "inbox" / "archive"
    assert stat.S_IMODE(archive.stat().st_mode) == 0o700


def test_the_ledger_has_a_private_place_that_is_made_on_demand(workspace: Workspace) -> None:
    agent = workspace.agent("codex")

    assert agent.ledger_path(make=False) == f"{agent.path}/.parley/ledger.db"
    assert not (agents_folder(workspace) / "codex" / ".parley").exists()
    assert not agent.has_ledger

    Path(agent.ledger_path(make=True)).touch()
    assert stat.S_IMODE((agents_folder(workspace) / "codex" / ".parley").stat().st_mode) == 0o700
    assert agent.has_ledger


def test_projects_are_the_folders_of_a_home_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("two", "one", ".new"):
        (tmp_path / "projects" / name).mkdir(parents=True)
    (tmp_path / "projects" / "file").touch()

    assert projects(str(tmp_path)) == ["one", "two"]
    assert projects(str(tmp_path / "nowhere")) == []
