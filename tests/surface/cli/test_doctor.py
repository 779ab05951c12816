"""doctor: finds what is wrong with a workspace, and mends what can be mended."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from typing import Any

import pytest

from parley.adapters.files import abilities
from parley.app.mailbox import sending as post
from parley.app.mailbox.kernel import drive
from tests.samples.messages import a_draft
from tests.surface.stage import Stage


def findings(stage: Stage, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stage.run("doctor", "--json", *options).json
    return found


def codes(stage: Stage) -> list[tuple[str, str]]:
    return [(one["agent"], one["code"]) for one in findings(stage)]


def mended(stage: Stage) -> None:
    """--fix mends everything that was found, says so, and a second look finds nothing."""
    ran = stage.run("doctor", "--fix")
    assert (ran.code, ran.err) == (0, "")
    assert "fixed" in ran.out
    assert stage.run("doctor").code == 0


def test_a_healthy_workspace_is_in_order(stage: Stage) -> None:
    ran = stage.run("doctor")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"Project demo in {stage.home}: 3 agents\nNo problems.\n"
    assert findings(stage) == []


def test_a_project_without_agents_is_noted(stage: Stage) -> None:
    stage.run("init", "empty")

    assert [one["code"] for one in findings(stage, "--project", "empty")] == ["no_agents"]
    assert stage.run("doctor", "--project", "empty").code == 0


def test_an_unknown_project_is_an_error(stage: Stage) -> None:
    ran = stage.run("doctor", "--project", "nowhere")

    assert (ran.code, ran.error) == (3, "unknown_project")


@pytest.mark.parametrize(("folder", "mode"), [("inbox", 0o3777), ("outbox", 0o755), ("dead_letter", 0o770)])
def test_folders_open_to_others_are_found_and_closed(stage: Stage, folder: str, mode: int) -> None:
    path = stage.agent("codex") / folder
    path.chmod(mode)

    (finding,) = findings(stage)

    assert (finding["level"], finding["code"], finding["can_fix"]) == ("warn", "open_mode", True)
    assert f"{mode:04o}" in finding["detail"]
    assert stage.run("doctor").code == 1
    mended(stage)
    assert stat.S_IMODE(path.stat().st_mode) == (0o3730 if folder == "inbox" else 0o700)


def test_a_stray_temporary_file_is_found_and_removed_once_it_is_old(stage: Stage) -> None:
    stray = stage.inbox("codex") / ".message.yaml.123-0.tmp"
    stray.write_bytes(b"half")
    assert findings(stage) == []
    os.utime(stray, (0, 0))

    assert codes(stage) == [("codex", "stray_file")]
    mended(stage)
    assert not stray.exists()


def test_a_stale_claim_is_found_and_released(stage: Stage) -> None:
    sent = stage.send()
    stage.run("next", "-a", "codex", "--lease", "1s")
    ledger = stage.agent("codex") / ".parley" / "ledger.db"
    expire_leases(str(ledger))

    (finding,) = findings(stage)

    assert (finding["agent"], finding["code"]) == ("codex", "stale_claim")
    assert sent["id"] in finding["detail"]
    mended(stage)
    assert stage.run("next", "-a", "codex", "--json").json["tries"] == 1


def expire_leases(ledger: str) -> None:
    """Move every lease into an earlier life of this machine, in which nobody waits for it to run out."""
    db = sqlite3.connect(ledger)
    for number, lease in db.execute("SELECT number, lease FROM delivery WHERE lease IS NOT NULL").fetchall():
        token, until, _, uptime = json.loads(lease)
        earlier = json.dumps([token, until, "an-earlier-boot", uptime])
        db.execute("UPDATE delivery SET lease = ? WHERE number = ?", (earlier, number))
    db.commit()
    db.close()


def test_an_interrupted_send_is_found_and_carried(stage: Stage) -> None:
    with stage.mailbox("claude") as mailbox:
        drive(post._commit(mailbox.kernel, a_draft(), post.Parents(), "", free_form=False))

    assert codes(stage) == [("claude", "pending_send")]
    mended(stage)
    assert len(stage.files("codex")) == len(stage.files("claude", "outbox")) == 1


def test_a_missing_inbox_is_found_and_made(stage: Stage) -> None:
    shutil.rmtree(stage.inbox("codex"))

    (finding,) = findings(stage)

    assert (finding["level"], finding["agent"], finding["code"]) == ("fail", "codex", "no_inbox")
    mended(stage)
    assert stat.S_IMODE(stage.inbox("codex").stat().st_mode) == 0o3730
    stage.send()
    assert len(stage.files("codex")) == 1


def test_an_unreadable_file_is_named_and_left_alone(stage: Stage) -> None:
    path = stage.plant("codex", "bad.yaml", without="type")
    stage.send(to="gemini", sender="codex")

    ran = stage.run("doctor", "--fix")

    assert ran.code == 1
    assert (
        "warn   unreadable     codex: bad.yaml: invalid: type: is missing; `parley next` moves it to dead_letter/"
        in ran.out
    )
    assert path.exists()


@pytest.mark.requirement("D-READ-SEEN")
def test_a_dead_letter_is_named_with_its_reason(stage: Stage) -> None:
    stage.plant("codex", "bad.yaml", without="type")
    ran = stage.run("next", "-a", "codex", "--json")
    assert (ran.out, ran.err) == (
        "null\n",
        "warning: moved 1 file to dead_letter/: bad.yaml (invalid: type: is missing)\n",
    )

    doctor = stage.run("doctor")
    listed = stage.run("inbox", "-a", "codex")
    as_json = stage.run("inbox", "-a", "codex", "--json").json

    assert doctor.code == 1
    assert "warn   dead_letter    codex: bad.yaml: invalid: type: is missing; correct it" in doctor.out
    assert "note: 1 file in dead_letter/: bad.yaml (invalid: type: is missing)" in listed.out
    problem = "invalid: type: is missing"
    assert as_json == [{"file": "bad.yaml", "place": "dead_letter", "problem": problem, "status": "dead"}]
    assert (
        stage.run("search", "rate limiting", "-a", "codex").out == f"dead_letter/bad.yaml is no message ({problem})\n"
    )
    everywhere = stage.run("inbox", "--all")
    assert "note: codex: 1 file in dead_letter/: bad.yaml (invalid: type: is missing)" in everywhere.out
    with stage.mailbox("codex") as mailbox:
        assert [one.file for one in mailbox.dead_letters()] == ["bad.yaml"]


def test_files_that_no_reader_takes_for_messages_are_named(stage: Stage) -> None:
    stage.plant("codex", "SHOUT.YAML")
    stage.plant("codex", "fine.yml")
    (stage.inbox("codex") / "later").mkdir()
    stage.plant("codex", "later/inner.yaml")
    (stage.inbox("codex") / "later" / "notes.txt").write_text("")

    ran = stage.run("doctor", "--json")

    assert ran.code == 1
    assert [one["detail"] for one in ran.json if one["code"] == "not_read"] == [
        "inbox/SHOUT.YAML is not read; rename it, so that it ends in .yaml",
        "inbox/later/inner.yaml is not read; move it to inbox/",
    ]


def test_many_bad_files_are_counted(stage: Stage) -> None:
    for number in range(23):
        stage.plant("codex", f"{number:02d}.yaml", without="type")

    findings = [one for one in stage.run("doctor", "--json").json if one["code"] == "unreadable"]

    assert len(findings) == 21
    assert findings[-1]["detail"] == "and 3 more files"


def test_expired_messages_are_noted(stage: Stage) -> None:
    stage.plant("codex", expires_at='"2020-01-01T00:00:00Z"')
    stage.send(to="gemini", sender="codex")

    assert ("codex", "expired") in codes(stage)
    assert stage.run("doctor").code == 0


def test_an_agent_that_nobody_reads_for_is_noted(stage: Stage) -> None:
    stage.send()

    (finding,) = findings(stage)

    assert (finding["level"], finding["agent"], finding["code"]) == ("note", "codex", "no_reader")
    stage.run("next", "-a", "codex")
    assert findings(stage) == []


@pytest.mark.parametrize("name", ["inbox", "outbox", "."])
def test_a_symbolic_link_in_place_of_a_folder_is_a_finding_not_a_crash(stage: Stage, name: str) -> None:
    path = stage.agent("codex") if name == "." else stage.agent("codex") / name
    path.rename(stage.here / "moved")
    path.symlink_to(stage.here / "moved")

    ran = stage.run("doctor", "--json")

    assert ran.code == 1
    assert [(one["agent"], one["level"], one["code"]) for one in ran.json] == [("codex", "fail", "not_regular")]


def test_a_ledger_that_cannot_be_read_is_a_finding(stage: Stage) -> None:
    stage.send()
    for file in (stage.agent("claude") / ".parley").glob("ledger.db*"):
        file.write_bytes(b"not a database" * 1000)

    found = [one for one in findings(stage) if one["agent"] == "claude"]

    assert [(one["level"], one["code"]) for one in found] == [("fail", "unavailable")]


def test_what_the_file_system_cannot_do_is_said(stage: Stage) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    stage.patch.setattr(abilities, "_lock", refuse)
    stage.patch.setattr(abilities, "_unnamed", refuse)

    found = [one for one in findings(stage) if one["agent"] == "codex"]

    assert [(one["level"], one["code"]) for one in found] == [("fail", "file_system"), ("note", "file_system")]
    assert "two readers could claim one message" in found[0]["detail"]
    assert "a temporary name is used instead" in found[1]["detail"]
    assert stage.run("doctor").code == 1


def test_looking_leaves_nothing_behind(stage: Stage) -> None:
    before = stage.everything()

    stage.run("doctor")

    assert stage.everything() == before
    assert not list(stage.home.rglob(".parley"))
