"""The examples run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import parley
from parley.wiring import create_project

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PARLEY_", "OACP_"))}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def told() -> str:
    """The story, told to its end and without colours, because nobody looks."""
    story = run("mailbox_story.py")
    assert (story.returncode, story.stderr) == (0, "")
    assert "\x1b" not in story.stdout
    return story.stdout


def test_the_story_shows_every_part_of_a_mailbox(told: str) -> None:
    parts = ("Signed JWTs", "approved", "The login page is down", "duplicate_key", "Everything is in order.")

    assert [part for part in parts if part not in told] == []


def test_the_approved_review_of_the_story_has_no_blocking_finding_open(told: str) -> None:
    approved = told[told.index(": approved") :]

    assert re.search(r"finding-001 +P1 +blocks +resolved", approved)


def test_the_message_of_the_killed_reader_is_the_next_one_again(told: str) -> None:
    claimed = re.search(r"the reader had claimed (\S+)", told)

    assert claimed is not None
    assert f"id: {claimed[1]}" in told[claimed.end() :]


def test_the_worker_answers_requests_and_finishes_everything(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    create_project(home, "demo", ("claude", "codex"))
    with parley.Mailbox("demo", agent="claude", home=home) as claude:
        asked = claude.send("codex", "question", "Ready?", "Say so.")
        claude.send("codex", "notification", "Green", "The build.")

        worked = run("worker.py", "demo", "--once", PARLEY_HOME=home, PARLEY_AGENT="codex")

        assert (worked.returncode, worked.stderr) == (0, "")
        assert [item.in_reply_to for item in claude.inbox()] == [asked.id]
    with parley.Mailbox("demo", agent="codex", home=home) as codex:
        assert codex.inbox() == []
