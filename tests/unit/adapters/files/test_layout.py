"""Projects and agents on disk: complete or not there, private by default, never through a link."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parley.adapters.files import layout
from parley.adapters.files.layout import Action, add_agent, create_project, plan_project, read_card
from parley.adapters.files.workspace import INBOX_MODE, PASSAGE, Workspace
from parley.domain.errors.errors import (
    BadAgentName,
    BadConfig,
    BadProjectName,
    DiskFull,
    Invalid,
    NotRegular,
    ProjectExists,
    UnknownProject,
)

AT = datetime(2026, 3, 13, 14, 30, 5, 123456, tzinfo=UTC)
AGENT_FILES = (
    "inbox/.gitkeep",
    "inbox/archive/.gitkeep",
    "outbox/.gitkeep",
    "dead_letter/.gitkeep",
    "audit/autonomy_decisions/.gitkeep",
    "config.yaml",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def everything(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_a_new_project_holds_what_was_planned_and_nothing_else(home: Path) -> None:
    plan = plan_project(str(home), "p", ["alice", "bob"])

    create_project(str(home), "p", ["alice", "bob"], at=AT)

    planned = {action.path for action in plan}
    parents = {str(above) for path in planned for above in Path(path).parents}
    made = {str(home / path) for path in everything(home)}
    assert made - parents == planned - parents
    assert made - {str(home)} <= planned | parents


def test_planning_writes_nothing(home: Path) -> None:
    plan_project(str(home), "p", ["alice"])

    assert not home.exists()


def test_the_workspace_file_says_what_other_tools_look_for(home: Path, tmp_path: Path) -> None:
    create_project(str(home), "p", [], at=AT, repo=str(tmp_path))

    described = json.loads((home / "projects/p/workspace.json").read_text())
    assert described == {
        "project_name": "p",
        "repo_path": str(tmp_path.resolve()),
        "created_at": "2026-03-13T14:30:05.123456+00:00",
        "updated_at": "2026-03-13T14:30:05.123456+00:00",
        "spec_version": "0.5.3",
    }


def test_a_project_without_agents_has_no_agents_folder(home: Path) -> None:
    create_project(str(home), "p", [], at=AT)

    assert not (home / "projects/p/agents").exists()
    assert not (home / "agents").exists()


def test_a_project_is_private_whatever_the_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        create_project(str(home), "p", ["alice"], at=AT)
        add_agent(str(home), "p", "bob", at=AT, runtime="codex")
    finally:
        os.umask(before)

    modes = {path: mode(path) for path in [home, *home.rglob("*")]}
    inboxes = {home / f"projects/p/agents/{name}/inbox" for name in ("alice", "bob")}
    assert {modes.pop(inbox) for inbox in inboxes} == {INBOX_MODE}
    assert {modes[path] for path in modes if path.is_dir()} == {0o700}
    assert {modes[path] for path in modes if path.is_file()} == {0o600}


def test_in_a_shared_project_the_group_can_pass_through_to_the_inboxes(home: Path) -> None:
    create_project(str(home), "p", ["alice"], at=AT, shared=True)
    add_agent(str(home), "p", "bob", at=AT, shared=True)

    passages = [home, *(home / path for path in ("projects", "projects/p", "projects/p/agents"))]
    passages += [home / f"projects/p/agents/{name}" for name in ("alice", "bob")]
    assert {mode(path) for path in passages} == {PASSAGE}
    assert mode(home / "projects/p/agents/bob/outbox") == 0o700
    assert mode(home / "agents") == 0o700


def test_what_exists_is_never_opened_wider(home: Path) -> None:
    create_project(str(home), "p", ["alice"], at=AT)
    os.chmod(home / "projects/p/agents/alice/inbox", 0o700)

    add_agent(str(home), "p", "alice", at=AT, shared=True)
    create_project(str(home), "q", [], at=AT, shared=True)

    assert mode(home / "projects/p/agents/alice/inbox") == 0o700
    assert {mode(home), mode(home / "projects")} == {0o700}


def test_an_existing_project_is_refused_and_left_as_it_is(home: Path) -> None:
    create_project(str(home), "p", ["alice"], at=AT)
    before = everything(home)

    for attempt in (
        lambda: create_project(str(home), "p", ["bob"], at=AT),
        lambda: plan_project(str(home), "p", ["bob"]),
    ):
        with pytest.raises(ProjectExists) as refusal:
            attempt()
        assert refusal.value.code == "project_exists"

    assert everything(home) == before


@pytest.mark.parametrize("kind", ["a file", "a dangling link", "a link to a folder"])
def test_whatever_has_the_projects_name_is_in_the_way(home: Path, tmp_path: Path, kind: str) -> None:
    (home / "projects").mkdir(parents=True)
    place = home / "projects/p"
    if kind == "a file":
        place.touch()
    else:
        place.symlink_to(tmp_path if kind == "a link to a folder" else tmp_path / "nowhere")

    with pytest.raises(ProjectExists):
        create_project(str(home), "p", [], at=AT)


def test_a_failure_half_way_leaves_no_half_of_a_project(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(layout, "_write", fail)
        with pytest.raises(DiskFull, match="No space"):
            create_project(str(home), "p", ["alice"], at=AT)

    assert everything(home) == {"projects"}
    create_project(str(home), "p", ["alice"], at=AT)


def test_what_a_crash_left_aside_is_swept_by_the_next_attempt(home: Path) -> None:
    (home / "projects/.p.new/agents").mkdir(parents=True)
    (home / "projects/.p.new/workspace.json").write_text("half")

    create_project(str(home), "p", ["alice"], at=AT)

    assert os.listdir(home / "projects") == ["p"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "x\n", "-dash", "con", "x" * 65])
def test_a_name_that_could_lead_elsewhere_is_refused(home: Path, name: str) -> None:
    with pytest.raises(BadProjectName):
        create_project(str(home), name, [], at=AT)
    with pytest.raises(BadAgentName):
        create_project(str(home), "p", [name], at=AT)

    assert not home.exists()


@pytest.mark.parametrize("part", ["projects", "projects/p", "projects/p/agents", "projects/p/agents/eve", "agents"])
def test_no_link_below_the_home_is_followed(home: Path, tmp_path: Path, part: str) -> None:
    create_project(str(home), "p", ["alice"], at=AT)
    elsewhere = tmp_path / "elsewhere"
    if (home / part).exists():
        (home / part).rename(elsewhere)
    else:
        elsewhere.mkdir()
    (home / part).symlink_to(elsewhere)
    before = everything(elsewhere)

    with pytest.raises(NotRegular):
        add_agent(str(home), "p", "eve", at=AT)

    assert everything(elsewhere) == before


def test_the_home_itself_may_be_a_link(home: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    home.symlink_to(tmp_path / "real")

    create_project(str(home), "p", [], at=AT)

    assert (tmp_path / "real/projects/p/workspace.json").exists()


class TestLinks:
    @pytest.fixture
    def repo(self, tmp_path: Path) -> Path:
        (tmp_path / "repo/docs").mkdir(parents=True)
        return tmp_path / "repo"

    def test_links_are_made_and_missing_sources_named(self, home: Path, repo: Path) -> None:
        links = [("docs", "d/e"), ("nope", "m")]

        created = create_project(str(home), "p", [], at=AT, repo=str(repo), links=links)

        assert created.links == [("d/e", f"{repo}/docs")]
        assert created.skipped == [("m", f"{repo}/nope")]
        assert os.readlink(home / "projects/p/artifacts/d/e") == f"{repo}/docs"

    def test_a_plan_names_links_in_the_order_given(self, home: Path, repo: Path) -> None:
        plan = plan_project(str(home), "p", [], str(repo), [("nope", "m"), ("docs", "d")])

        root = f"{home}/projects/p/artifacts"
        assert plan[-2:] == [
            Action(f"{root}/m", "skip_missing_source", f"{repo}/nope"),
            Action(f"{root}/d", "create_symlink", f"{repo}/docs"),
        ]

    @pytest.mark.parametrize(
        ("destinations", "why"),
        [
            (["/abs"], "must be a relative path"),
            (["a/../b"], "must be a relative path"),
            (["."], "must be a relative path"),
            ([".gitkeep"], "collides"),
            (["a", "./a"], "duplicate"),
            (["a", "a/b"], "must not contain each other"),
            (["a/b", "a"], "must not contain each other"),
        ],
    )
    def test_a_destination_stays_inside_artifacts(
        self, home: Path, repo: Path, destinations: list[str], why: str
    ) -> None:
        links = [("docs", destination) for destination in destinations]

        with pytest.raises(Invalid, match=why):
            create_project(str(home), "p", [], at=AT, repo=str(repo), links=links)

        assert not home.exists()

    def test_links_need_a_repository(self, home: Path) -> None:
        with pytest.raises(Invalid, match="requires --repo"):
            create_project(str(home), "p", [], at=AT, links=[("a", "b")])


class TestAddAgent:
    @pytest.fixture(autouse=True)
    def project(self, home: Path) -> None:
        create_project(str(home), "p", [], at=AT)

    def test_an_agent_gets_its_folders_and_a_profile(self, home: Path) -> None:
        added = add_agent(str(home), "p", "dave", at=AT)

        assert added.created == [f"agents/dave/{path}" for path in AGENT_FILES]
        assert (added.existing, added.profile_change) == ([], "created")
        assert Workspace(str(home), "p").agents() == ["dave"]

    def test_adding_it_again_changes_nothing(self, home: Path) -> None:
        add_agent(str(home), "p", "dave", at=AT)
        (home / "projects/p/agents/dave/config.yaml").write_text("mine: true\n")

        added = add_agent(str(home), "p", "dave", at=AT)

        assert (added.created, added.profile_change) == ([], "unchanged")
        assert (home / "projects/p/agents/dave/config.yaml").read_text() == "mine: true\n"

    def test_what_is_missing_is_completed(self, home: Path) -> None:
        (home / "projects/p/agents/dave/inbox").mkdir(parents=True)

        added = add_agent(str(home), "p", "dave", at=AT, runtime="claude")

        assert [path for path in added.created if path.endswith("y/.gitkeep")] == []
        assert added.created[-2:] == ["agents/dave/status.yaml", "agents/dave/agent_card.yaml"]

    def test_a_project_that_is_not_there_is_refused(self, home: Path) -> None:
        with pytest.raises(UnknownProject):
            add_agent(str(home), "nope", "dave", at=AT)

        assert not (home / "projects/nope").exists()

    def test_a_runtime_nobody_knows_is_refused(self, home: Path) -> None:
        with pytest.raises(Invalid, match="runtime must be one of"):
            add_agent(str(home), "p", "dave", at=AT, runtime="abacus")

    def test_an_unusable_profile_stops_it_before_anything_is_made(self, home: Path) -> None:
        (home / "agents/dave").mkdir(parents=True)
        (home / "agents/dave/profile.yaml").write_text("a: &x [*x]\n")

        with pytest.raises(BadConfig, match="invalid YAML"):
            add_agent(str(home), "p", "dave", at=AT)

        assert not (home / "projects/p/agents/dave").exists()

    def test_a_card_is_read_back(self, home: Path) -> None:
        add_agent(str(home), "p", "dave", at=AT, runtime="codex")

        card = read_card(Workspace(str(home), "p").agent("dave"))

        assert card == {"name": "dave", "runtime": "codex", "description": "dave agent (codex runtime)"}

    @pytest.mark.parametrize(
        "text", ["[", "- a", "a: &x 1\nb: *x", "name: [a]\nruntime: {b: c}", "\xff", "x" * 300_000]
    )
    def test_a_card_that_cannot_be_trusted_says_nothing(self, home: Path, text: str) -> None:
        add_agent(str(home), "p", "dave", at=AT)
        (home / "projects/p/agents/dave/agent_card.yaml").write_text(text, encoding="latin-1")

        assert read_card(Workspace(str(home), "p").agent("dave")) == {}

    def test_a_card_behind_a_link_says_nothing(self, home: Path, tmp_path: Path) -> None:
        add_agent(str(home), "p", "dave", at=AT)
        (tmp_path / "card").write_text("name: x\n")
        (home / "projects/p/agents/dave/agent_card.yaml").symlink_to(tmp_path / "card")

        assert read_card(Workspace(str(home), "p").agent("dave")) == {}
