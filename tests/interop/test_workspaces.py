"""A workspace is the same whoever made it, and either tool works in the other's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.interop.peer import Ran, ours, require_peer, theirs

PROSE = ("known_debt.md",)
TIMES = ("created_at", "updated_at")


@pytest.fixture(autouse=True)
def _peer() -> None:
    require_peer()


def build(place: Path, tool: object) -> None:
    assert callable(tool)
    (place / "repo/docs").mkdir(parents=True)
    steps = (
        ("init", "p", "--agents", "claude,bob", "--repo", "repo", "--link", "docs:d/e", "--link", "nope:m"),
        ("init", "q", "--agents", "bob,123,no"),
        *(("agent", "add", "p", name, "--runtime", name) for name in ("claude", "codex", "cursor", "gemini")),
        ("agent", "add", "p", "bob", "--runtime", "codex"),
        ("agent", "add", "q", "zoe"),
        ("agent", "add", "q", "zoe"),
    )
    for step in steps:
        ran: Ran = tool(place, *step)
        assert (ran.status, ran.err) == (0, "")


def meaning(path: Path, place: Path) -> object:
    """What a file says, without prose and moments."""
    if path.is_symlink():
        return str(path.readlink()).replace(str(place), "PLACE")
    if path.is_dir():
        return "folder"
    text = path.read_text().replace(str(place), "PLACE")
    if path.suffix == ".json":
        return [(key, key if key in TIMES else value) for key, value in json.loads(text).items()]
    if path.suffix == ".yaml":
        fields = yaml.safe_load(text)
        return [(key, key if key == "updated_at" else value) for key, value in fields.items()]
    return "" if path.name in PROSE else text


@pytest.mark.requirement("S1-LAYOUT-INBOX", "S1-LAYOUT-OUTBOX", "S1-LAYOUT-AGENT-PAIR", "S1-LAYOUT-PATH")
def test_both_tools_make_the_same_workspace(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("theirs", "ours")}
    build(places["theirs"], theirs)
    build(places["ours"], ours)

    real, made = (
        {str(path.relative_to(place)): meaning(path, place) for path in (place / "h").rglob("*")}
        for place in places.values()
    )

    assert made == real


def test_they_work_in_a_workspace_of_ours(tmp_path: Path) -> None:
    ours(tmp_path, "init", "p", "--agents", "alice,bob")

    added = theirs(tmp_path, "agent", "add", "p", "carol", "--runtime", "claude")
    message = ("--from", "alice", "--to", "bob,carol", "--type", "question", "--subject", "s", "--body", "b")
    sent = theirs(tmp_path, "send", "p", *message)
    listed = theirs(tmp_path, "inbox", "p", "--all", "--json")

    assert [ran.status for ran in (added, sent, listed)] == [0, 0, 0]
    counts = {agent["agent"]: agent["message_count"] for agent in json.loads(listed.out)["agents"]}
    assert counts == {"alice": 0, "bob": 1, "carol": 1}


def test_a_marker_leads_both_tools_to_the_same_home(tmp_path: Path) -> None:
    theirs(tmp_path, "init", "p", "--agents", "alice")
    below = tmp_path / "repo/src"
    below.mkdir(parents=True)
    (tmp_path / "repo/.oacp").symlink_to(tmp_path / "h/projects/p/workspace.json")

    real, drop_in = (tool(below, "inbox", "p", "--all", "--json", env={"OACP_HOME": ""}) for tool in (theirs, ours))

    assert drop_in == real
    assert json.loads(drop_in.out)["agents"][0]["inbox_path"] == str(tmp_path / "h/projects/p/agents/alice/inbox")
