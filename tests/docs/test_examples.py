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
        timeout=300,
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
    parts = ("Signed JWTs", "approved", "The login page is down", "duplicate_key", "warn   dead_letter")

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


def lines_of(script: str) -> list[str]:
    """What an example prints, when all goes well."""
    told = run(script)
    assert (told.returncode, told.stderr) == (0, ""), told.stdout
    return told.stdout.splitlines()


def test_an_agent_asks_in_the_middle_of_its_work_and_disturbs_nobody_else() -> None:
    lines = lines_of("handoff_clarification.py")

    assert "data-agent      is asked by research-agent: Which schema?" in lines
    assert lines[-2:] == [
        "coordinator     finds the result: {'revenue': {'EMEA': 1204.5}}",
        "onlooker        was disturbed 0 times",
    ]


def test_every_batch_goes_through_all_three_agents_in_its_order() -> None:
    lines = lines_of("incremental_results.py")

    steps = {name: [line for line in lines if line.startswith(name)] for name in ("loader", "cleaner", "reporter")}
    assert steps["loader"] == [f"loader    has written raw-{number}.csv" for number in (1, 2, 3)]
    assert [line.partition("keeps ")[2] for line in steps["cleaner"]] == [
        "2 of 3 rows of raw-1.csv",
        "2 of 3 rows of raw-2.csv",
        "3 of 3 rows of raw-3.csv",
    ]
    assert [line.rpartition(" ")[2] for line in steps["reporter"]] == ["19.50", "32.50", "38.50"]
    assert lines[-1] == "owner     finds the result: {'total': 38.5}"


def test_an_agent_takes_only_the_section_that_it_was_given() -> None:
    lines = lines_of("negotiation.py")

    assert lines[-3:] == [
        "introduction  is written by anna",
        "method        is written by ben",
        "outlook       is written by anna",
    ]
    assert lines.index("ben   no: I am in the middle of it") < lines.index("ben   yes: I have not begun")


def test_a_person_releases_the_answer_that_commits_and_nothing_else_is_held() -> None:
    lines = lines_of("governed_exchange.py")

    seen = next(number for number, line in enumerate(lines) if line.startswith("bob    sees erik to sally"))
    assert [line for line in lines[:seen] if line.startswith("sally  is told")] == ["sally  is told: It is in review."]
    assert "We commit to ship it by Friday." in lines[seen]
    assert "sally  is told: We commit to ship it by Friday." in lines[seen:]
    assert "erik   hears: approved by bob, 'Friday is fine'" in lines[seen:]
    assert sum(line.startswith("bob    sees") for line in lines) == 1


def test_a_crew_of_twenty_answers_one_question_completely() -> None:
    lines = lines_of("crew_of_twenty.py")

    rows = [line.split() for line in lines if line.startswith("counter-") and line.endswith(" ms") and "," not in line]
    assert [row[0] for row in rows] == [f"counter-{number:02}" for number in range(20)]
    assert sum(int(row[2]) for row in rows) == 2262
    assert any(line.startswith("20 agents found 2262 primes below 20000") for line in lines)
    assert any(line.startswith("counter-07, asked alone, found 107") for line in lines)


def test_a_crew_writes_a_report_on_each_topic() -> None:
    assert lines_of("crew.py") == [
        f"{topic}: " + " ".join(f"The {part} of {topic} is bright." for part in ("history", "present", "outlook"))
        for topic in ("Tea", "Rail", "Ink")
    ]


def test_two_agents_at_mailboxes_go_through_a_whole_review() -> None:
    lines = lines_of("review_loop.py")

    assert "review  is approved in round 1 of 3" in lines
    assert "        finding-001 P1 resolved: The counter is read outside the lock" in lines
    assert [line.strip() for line in lines[-4:]] == [
        "1. review_request from claude",
        "2. review_feedback from codex",
        "3. review_addressed from claude",
        "4. review_lgtm from codex",
    ]
