"""`make check` runs every test but those with coding agents; `make run` installs part of what `make test` does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(.+?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def recipe(target: str) -> str:
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None, target
    return found[1]


def prerequisites(target: str) -> list[str]:
    found = re.search(rf"^{target}: ([^:=\n]*) ##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None, target
    return found[1].split()


def pins(lock: str) -> dict[str, set[str]]:
    """Each package of a lock file with its version and hashes."""
    text = (ROOT / "requirements" / lock).read_text()
    return {name: set(re.findall(r"sha256:\w+", rest)) | {rest.split()[0]} for name, rest in PIN.findall(text)}


def project() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        table: dict[str, object] = tomllib.load(file)["project"]
    return table


def inner_folders() -> set[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return set(tomllib.load(file)["tool"]["pytest"]["ini_options"]["testpaths"])


def test_every_folder_of_tests_is_run_by_a_check_or_by_what_fetches_other_programs() -> None:
    folders = {f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in (ROOT / "tests").rglob("test_*.py")}

    assert {"static", "test", "system", "stores", "counts"} <= set(prerequisites("check"))
    assert {"collect", "lint", "types", "imports"} <= set(recipe("static").split())
    assert folders - {"tests/harness", "tests/mcp_client"} <= inner_folders() | set(recipe("system").split())
    assert "tests/harness" in recipe("harness").split()
    assert "tests/mcp_client" in recipe("mcp").split()


def test_a_check_repeats_on_postgresql_what_is_marked_for_both_stores() -> None:
    with_store = re.search(r"^WITH_STORE := (.*?[^\\])$", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    assert with_store is not None
    named = [entry.removesuffix(")") for entry in with_store[1].split() if entry.startswith("tests/")]
    repeated = {path for entry in named for root in ROOT.glob(entry) for path in [root, *root.rglob("test_*.py")]}
    marked = {path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.both_stores" in path.read_text()}

    assert "-m both_stores $(WITH_STORE)" in recipe("stores")
    assert marked - {Path(__file__)} <= repeated


def test_what_runs_is_locked_as_it_is_for_development() -> None:
    runtime, development = pins("run.txt"), pins("dev.txt")

    assert runtime
    assert {name: development[name] for name in runtime} == runtime


def test_what_runs_is_what_the_project_depends_on() -> None:
    wanted = [line for line in (ROOT / "requirements" / "run.in").read_text().splitlines() if line[:1] not in "#"]

    assert set(wanted) == {*project()["dependencies"], "hatchling", "editables"}  # type: ignore[misc]
