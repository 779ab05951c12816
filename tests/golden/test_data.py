"""What version 0.5.0 has written is opened, read, verified and continued by the present code."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.golden import data_opening, stories
from tests.golden.data_files import DATA, STORIES, known, unpacked
from tests.postgres.cluster import drop, new_database
from tests.rigs.team import in_loop
from tests.surface.cli.team_stage import Server
from tests.surface.stage import Ran, a_stage


@pytest.mark.sqlite_only
@in_loop
async def test_a_server_goes_on_with_the_file_that_0_5_0_wrote(tmp_path: Path) -> None:
    answers = await data_opening.answers_on_the_file(tmp_path)

    _compare("server_opening", answers)


def test_a_server_goes_on_with_the_database_that_0_5_0_wrote(tmp_path: Path) -> None:
    @in_loop
    async def restore_and_open(dsn: str) -> None:
        _compare("server_opening", await data_opening.answers_on_the_database(tmp_path, dsn))

    dsn = new_database()
    try:
        restore_and_open(dsn)
    finally:
        drop(dsn)


@pytest.mark.sqlite_only
def test_parley_up_starts_on_the_data_directory_that_0_5_0_wrote(tmp_path: Path) -> None:
    server = Server(unpacked("server", tmp_path)).start()
    try:
        intents = _get(f"{server.url}/api/v1/intents", known("server")["alice"])
        audit = _get(f"{server.url}/api/v1/audit/checkpoints", known("server")["admin"])
    finally:
        server.stop()

    assert {intent["title"] for intent in intents["intents"]} == {"Launch", "Private"}
    assert audit["checkpoints"]


def test_commands_go_on_with_the_workspace_that_0_5_0_wrote(tmp_path: Path) -> None:
    outputs = data_opening.outputs_on_the_workspace(tmp_path)

    _compare("workspace_opening", outputs)


@pytest.mark.parametrize(
    "what",
    [
        ["{data}/audit.jsonl"],
        ["{data}/audit.jsonl", "--public-key", "{data}/audit.pub"],
        ["--proof", "{data}/proof.json", "--public-key", "{data}/audit.pub"],
        ["--data", "{directory}"],
    ],
)
def test_an_audit_log_of_0_5_0_is_verified_without_its_server(what: list[str], tmp_path: Path) -> None:
    ran = _verify(tmp_path, [word.format(data=DATA, directory=unpacked("server", tmp_path)) for word in what])

    assert (ran.code, ran.err) == (0, "")


def test_an_audit_log_of_0_5_0_with_one_other_byte_is_not_valid(tmp_path: Path) -> None:
    text = (DATA / "audit.jsonl").read_text(encoding="utf-8")
    changed = tmp_path / "changed.jsonl"
    changed.write_text(text.replace('"outcome":"denied"', '"outcome":"denies"', 1), encoding="utf-8")

    assert changed.read_text(encoding="utf-8") != text
    assert _verify(tmp_path, [str(changed)]).code == 13


def _verify(folder: Path, words: list[str]) -> Ran:
    (folder / "stage").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        empty = folder / "empty"
        empty.mkdir()
        return a_stage(folder / "stage", patch, empty).run("audit", "verify", *words)


def _compare(name: str, answers: list[dict[str, Any]]) -> None:
    changed = stories.differences(stories.load(STORIES, name), answers)
    assert not changed, f"\n{changed}"


def _get(url: str, key: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"X-API-Key": key})
    with urllib.request.urlopen(request, timeout=30) as answer:
        document: dict[str, Any] = json.load(answer)
    return document
