"""The profile that follows an agent through its projects."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from parley.adapters.files.folders import Folder
from parley.adapters.files.profiles import read_profile, register
from parley.domain.errors.errors import BadConfig, NotRegular


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Folder]:
    with Folder.root(str(tmp_path)) as folder:
        yield folder


def given(home: Folder, text: str) -> Path:
    path = Path(home.path) / "agents/dave/profile.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_agent_without_a_profile_has_none(home: Folder) -> None:
    assert read_profile(home, "dave") is None


def test_a_first_project_makes_the_profile(home: Folder) -> None:
    change = register(home, "dave", "p", "codex")

    profile = read_profile(home, "dave") or {}
    assert change == "created"
    assert (profile["name"], profile["runtime"], profile["model"]) == ("dave", "codex", "codex")
    assert profile["projects"] == ["p"]


def test_a_second_project_is_added_and_all_else_kept(home: Folder) -> None:
    path = given(home, "model: mine\nquota: {reset_day: 7, warn: 0.5, none: null}\nprojects: [p]\n")
    path.chmod(0o640)

    changes = [register(home, "dave", "q"), register(home, "dave", "q")]

    assert changes == ["updated", "unchanged"]
    assert yaml.safe_load(path.read_text()) == {
        "model": "mine",
        "quota": {"reset_day": 7, "warn": 0.5, "none": None},
        "projects": ["p", "q"],
        "name": "dave",
        "runtime": "unknown",
        "description": "dave agent",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_profile_that_needs_no_change_keeps_its_comments(home: Folder) -> None:
    text = "# mine\nname: d\nruntime: r\nmodel: m\ndescription: x\nprojects: [p]\n"
    path = given(home, text)

    assert register(home, "dave", "p") == "unchanged"

    assert path.read_text() == text


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n"])
def test_an_empty_profile_is_filled(home: Folder, text: str) -> None:
    path = given(home, text)

    assert register(home, "dave", "p") == "updated"

    assert yaml.safe_load(path.read_text())["projects"] == ["p"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "invalid YAML in"),
        ("- a\n", "top-level YAML must be a mapping"),
        ("projects: x\n", "projects must be a list of strings"),
        ("projects: [1]\n", "projects must be a list of strings"),
        ("a: &x [1]\nb: *x\n", "invalid YAML in"),
        ("name: a\nname: b\n", "invalid YAML in"),
    ],
)
def test_a_profile_that_cannot_be_trusted_is_refused_and_kept(home: Folder, text: str, why: str) -> None:
    path = given(home, text)

    with pytest.raises(BadConfig, match=why):
        register(home, "dave", "p")

    assert path.read_text() == text


def test_a_profile_behind_a_link_is_refused(home: Folder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("name: x\n")
    (tmp_path / "agents/dave").mkdir(parents=True)
    (tmp_path / "agents/dave/profile.yaml").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(NotRegular):
        register(home, "dave", "p")

    assert (tmp_path / "elsewhere").read_text() == "name: x\n"


def test_registrations_at_the_same_time_are_all_kept(home: Folder) -> None:
    names = [f"p{number}" for number in range(8)]
    threads = [threading.Thread(target=register, args=(home, "dave", name)) for name in names]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    profile = read_profile(home, "dave") or {}
    assert sorted(map(str, profile["projects"] if isinstance(profile["projects"], list) else [])) == names
