"""What binds a folder to a project."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from parley.adapters.files.binding import bound_projects, marker_in, own_home_in, repo_path


def a_project(home: Path, name: str = "demo", text: str = "{}") -> Path:
    project = home / "projects" / name
    project.mkdir(parents=True)
    (project / "workspace.json").write_text(text, encoding="utf-8")
    return project


@pytest.mark.parametrize("marker", [".oacp", "workspace.json"])
def test_a_marker_leads_to_its_project(tmp_path: Path, marker: str) -> None:
    project = a_project(tmp_path / "home")
    (tmp_path / marker).symlink_to(project / "workspace.json")

    assert marker_in(str(tmp_path)) == (str(tmp_path / "home"), "demo", str(tmp_path / marker))


def test_a_project_is_its_own_marker(tmp_path: Path) -> None:
    project = a_project(tmp_path)

    assert marker_in(str(project)) == (str(tmp_path), "demo", str(project / "workspace.json"))


def test_a_marker_that_leads_to_no_project_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".oacp").symlink_to("nowhere")
    (tmp_path / "workspace.json").write_text("{}")

    assert marker_in(str(tmp_path)) is None


def test_a_home_inside_a_repository_has_projects(tmp_path: Path) -> None:
    (tmp_path / ".parley").mkdir()  # as in the folder of an agent, for its ledger
    assert own_home_in(str(tmp_path)) is None

    a_project(tmp_path / ".parley")
    assert own_home_in(str(tmp_path)) == (str(tmp_path / ".parley"), "", str(tmp_path / ".parley"))


@pytest.mark.parametrize(
    "path", ["/home/me/repo", "/with space", '/quote"s', "/back\\slash", "/ümlaut", "/new\nline", "/repo_path"]
)
@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("indent", [None, 2])
def test_the_repository_of_a_project_is_read_as_json_has_it(
    tmp_path: Path, path: str, escaped: bool, indent: int | None
) -> None:
    fields = {"project_name": "demo", "repo_path": path, "other": 1}
    a_project(tmp_path, text=json.dumps(fields, indent=indent, ensure_ascii=escaped))

    assert repo_path(str(tmp_path), "demo") == path


@pytest.mark.parametrize(
    "text", ["", "{}", '{"repo_path": null}', '{"repo_path": 7}', '{"repo_path": ', '["repo_path", "\\x"]', "\0"]
)
def test_a_workspace_without_a_repository_names_none(tmp_path: Path, text: str) -> None:
    a_project(tmp_path, text=text)

    assert repo_path(str(tmp_path), "demo") == ""
    assert repo_path(str(tmp_path), "missing") == ""


def test_a_key_of_the_same_name_deeper_inside_does_not_count(tmp_path: Path) -> None:
    a_project(tmp_path, text=json.dumps({"more": {"repo_path": "/wrong"}, "repo_path": "/right"}))

    assert repo_path(str(tmp_path), "demo") == "/right"


def test_an_ordinary_workspace_is_read_without_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_project(tmp_path, text=json.dumps({"project_name": "demo", "repo_path": "/repo"}, indent=2))
    monkeypatch.setitem(sys.modules, "json", None)

    assert repo_path(str(tmp_path), "demo") == "/repo"


def test_the_nearest_folder_that_a_project_is_bound_to_wins(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "outer")
    for name, folder in (("app", "link"), ("inner", "outer/inner"), ("twin", "outer/inner"), ("other", "elsewhere")):
        (tmp_path / "outer" / "inner").mkdir(parents=True, exist_ok=True)
        a_project(tmp_path, name, json.dumps({"repo_path": str(tmp_path / folder)}))
    outer, inner = str(tmp_path / "outer"), str(tmp_path / "outer" / "inner")

    assert bound_projects(str(tmp_path), [f"{inner}/src", inner, outer]) == (["inner", "twin"], inner)
    assert bound_projects(str(tmp_path), [f"{outer}/src", outer]) == (["app"], outer)
    assert bound_projects(str(tmp_path), [str(tmp_path)]) == ([], "")
