"""A tool that knows nothing of claims reads a file and deletes it, as OACP allows: nobody trips over it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.shell import agents


def test_a_foreign_tool_deletes_a_file_that_parley_claimed(tmp_path: Path) -> None:
    claude, codex = agents(tmp_path, "claude", "codex")
    first, second = (
        claude.say("send", "--to", "codex", "--type", "notification", "--subject", subject, body="News.\n")
        for subject in ("First", "Second")
    )

    # Given a message that Parley handed out
    taken = codex.say("next")

    # When another tool deletes its file
    (codex.folder("inbox") / taken["file"]).unlink()

    # Then finishing it is no error, it is not handed out again, and the other message is
    codex.say("done", taken["id"])
    other = codex.say("next")
    assert {taken["id"], other["id"]} == {first["id"], second["id"]}
    codex.say("done", other["id"])
    assert codex.say("next") is None
    assert codex.files("dead_letter") == []


def test_a_claim_that_nobody_will_finish_is_closed_when_its_file_is_gone(tmp_path: Path) -> None:
    claude, codex = agents(tmp_path, "claude", "codex")
    claude.say("send", "--to", "codex", "--type", "notification", "--subject", "First", body="News.\n")
    taken = codex.say("next")
    (codex.folder("inbox") / taken["file"]).unlink()

    assert codex.say("next") is None

    assert codex.run("done", taken["id"]).returncode == 0
    assert codex.say("inbox") == []


def test_a_file_that_a_foreign_tool_drops_is_read_like_any_other(tmp_path: Path) -> None:
    claude, codex = agents(tmp_path, "claude", "codex")
    name = "20260313T1430Z_claude_task_request.yaml"
    (codex.folder("inbox") / name).write_text(
        "id: 0d2c3b4a-uuid\nfrom: claude\nto: codex\ntype: task_request\npriority: P1\n"
        "created_at_utc: 2026-03-13T14:30:00Z\nsubject: By hand\nbody: |\n  Please look.\n",
        encoding="utf-8",
    )

    taken = codex.say("next")
    answer = codex.say("reply", taken["id"], body="I did.\n")

    assert (taken["file"], taken["body"]) == (name, "Please look.\n")
    codex.say("done", taken["id"])
    assert codex.files("inbox", "archive") == [name]
    assert claude.say("next")["id"] == answer["id"]
