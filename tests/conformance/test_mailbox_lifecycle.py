"""What the specification says about files: a message's life, polling, broadcast, order, expiry, bad files."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.domain.message.message import Kind
from tests.rigs.settled_files import settle
from tests.samples.messages import a_body, a_file
from tests.surface.stage import Stage, a_home, a_stage

COMPACT = r"\d{8}T\d{4}Z"


@pytest.fixture(scope="module")
def home_to_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def stage(tmp_path: Path, home_to_copy: Path) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        yield a_stage(tmp_path, patch, home_to_copy)


@pytest.mark.requirement("S1-LAYOUT-INBOX", "S1-LAYOUT-OUTBOX", "S1-LAYOUT-AGENT-PAIR", "S1-LAYOUT-PATH")
def test_every_agent_of_a_project_has_an_inbox_and_an_outbox(stage: Stage) -> None:
    stage.run("init", "other", "--agents", "ann")
    stage.run("agent", "add", "ben", "--project", "other")

    for agent in ("ann", "ben"):
        folder = stage.home / "projects" / "other" / "agents" / agent
        assert (folder / "inbox").is_dir()
        assert (folder / "outbox").is_dir()


@pytest.mark.requirement("S1-LAYOUT-YAML-FILES", "S1-LAYOUT-ANY-TOOL", "S1-LIFECYCLE-READ")
def test_any_tool_that_writes_a_file_takes_part(stage: Stage) -> None:
    (stage.inbox("codex") / "by-hand.yaml").write_bytes(a_file(subject='"By hand"'))

    assert stage.run("read", "by-hand.yaml", "-a", "codex", "--json").json["subject"] == "By hand"
    assert stage.run("next", "-a", "codex", "--json").json["subject"] == "By hand"


@pytest.mark.requirement("S1-LIFECYCLE-CREATE", "S1-LIFECYCLE-DELIVER", "S1-LIFECYCLE-ARCHIVE")
@pytest.mark.requirement("S2-FILE-PATH-INBOX", "S2-FILE-PATH-OUTBOX")
def test_a_message_is_created_with_its_own_id_delivered_and_copied_to_the_outbox(stage: Stage) -> None:
    first = stage.send("--type", "task_request", sender="codex", to="claude")
    second = stage.send("--type", "task_request", sender="codex", to="claude")

    assert first["id"] != second["id"]
    assert re.fullmatch(rf"{COMPACT}_codex_task_request\.yaml", first["file"])
    delivered = stage.project / "agents" / "claude" / "inbox" / first["file"]
    copied = stage.project / "agents" / "codex" / "outbox" / first["file"]
    assert delivered.read_bytes() == copied.read_bytes()


@pytest.mark.requirement("D-FILE-NAME-EMIT")
def test_a_file_name_is_created_exclusively_and_gets_the_random_part_of_the_id_when_it_is_taken(stage: Stage) -> None:
    files, ids = [], []
    for _ in range(3):
        sent = stage.send()
        files.append(sent["file"])
        ids.append(sent["id"])

    names = [re.fullmatch(rf"{COMPACT}_claude_question(?:_([a-z0-9]+))?\.yaml", file) for file in files]
    assert len(set(files)) == 3
    for name, message_id in zip(names, ids, strict=True):
        assert name is not None
        assert name[1] is None or message_id.endswith(f"-{name[1]}")


@pytest.mark.requirement("S1-LIFECYCLE-DELETE", "D-PROCESSED-DELETE")
def test_after_processing_the_recipient_can_remove_the_message(stage: Stage) -> None:
    sent = stage.send()
    stage.run("next", "-a", "codex")

    assert stage.run("done", sent["id"], "-a", "codex", "--delete").code == 0

    assert stage.files("codex") == stage.files("codex", "inbox/archive") == []


@pytest.mark.requirement("D-PROCESSED-ARCHIVE")
def test_after_processing_the_message_moves_to_the_archive_after_its_answer_has_gone(stage: Stage) -> None:
    sent = stage.send()
    content = (stage.inbox("codex") / sent["file"]).read_bytes()
    stage.run("next", "-a", "codex")
    stage.run("reply", sent["id"], "-a", "codex", "--body", "Soon.", "--keep-open")
    assert stage.files("codex") == [sent["file"]]

    stage.run("reply", sent["id"], "-a", "codex", "--body", "Done.")

    assert (stage.inbox("codex") / "archive" / sent["file"]).read_bytes() == content
    assert (stage.files("codex"), len(stage.files("claude"))) == ([], 2)


@pytest.mark.requirement("D-PROCESSED-ACCEPT")
@pytest.mark.parametrize("how", ["deleted", "archived"])
def test_what_another_tool_deleted_or_archived_is_done(stage: Stage, how: str) -> None:
    sent = stage.send()
    stage.run("next", "-a", "codex")
    path = stage.inbox("codex") / sent["file"]
    path.unlink() if how == "deleted" else path.rename(path.parent / "archive" / path.name)

    assert stage.run("next", "-a", "codex", "--json").json is None
    assert stage.run("done", sent["id"], "-a", "codex").code == 0
    assert stage.run("read", sent["id"], "-a", "codex").code == 0


@pytest.mark.requirement("S1-LIFECYCLE-REPLY", "S1-LIFECYCLE-REPLY-IS-NEW", "S1-LIFECYCLE-IMMUTABLE")
@pytest.mark.requirement("S1-THREAD-CONTINUE-CONVERSATION", "S1-THREAD-CONTINUE-PARENT")
def test_a_reply_is_a_new_message_in_the_senders_inbox_and_changes_no_file(stage: Stage) -> None:
    sent = stage.send()
    before = stage.everything()

    answer = stage.run("reply", sent["id"], "-a", "codex", "--body", "Yes.", "--keep-open", "--json").json

    after = stage.everything()
    assert {path: after[path] for path in before} == before
    assert answer["id"] != sent["id"]
    assert (answer["parent_message_id"], answer["conversation_id"]) == (sent["id"], sent["conversation_id"])
    assert stage.files("claude") == [answer["file"]]


@pytest.mark.requirement("S1-LIFECYCLE-IMMUTABLE", "D-UNKNOWN-FIELDS-ACCEPT", "D-AUTH-KEPT")
def test_unknown_fields_and_a_signature_survive_from_inbox_to_archive_untouched(stage: Stage) -> None:
    trailer = b'auth: "eyJzaWduYXR1cmVzIjpbeyJwcm90ZWN0ZWQiOiJhIiwic2lnbmF0dXJlIjoiYiJ9XX0"\n'
    content = b"# a comment\n" + a_file(x_team="[a,   b]", subject="'single quotes'") + trailer
    path = stage.inbox("codex") / "signed.yaml"
    path.write_bytes(content)

    shown = stage.run("read", "signed.yaml", "-a", "codex", "--json").json
    raw = stage.run("read", "signed.yaml", "-a", "codex", "--raw").out
    claimed = stage.run("next", "-a", "codex", "--json").json
    stage.run("done", claimed["id"], "-a", "codex")

    assert shown["x_team"] == claimed["x_team"] == ["a", "b"]
    assert raw.encode() == content
    assert (stage.inbox("codex") / "archive" / "signed.yaml").read_bytes() == content


@pytest.mark.requirement("S1-POLLING-NO-PUSH", "S1-POLLING-BATCH", "S1-POLLING-SESSION-START", "S1-POLLING-AFTER-TASK")
def test_a_batch_job_asks_at_its_start_and_after_each_task_and_nothing_runs_meanwhile(stage: Stage) -> None:
    stage.send(subject="one")
    stage.send(subject="two")
    done = []

    while (claimed := stage.run("next", "-a", "codex", "--json").json) is not None:
        done.append(claimed["subject"])
        if claimed["subject"] == "two":
            stage.send(subject="three")
        stage.run("done", claimed["id"], "-a", "codex")

    assert sorted(done) == ["one", "three", "two"]


@pytest.mark.requirement("S1-POLLING-INTERVAL")
def test_a_running_agent_asks_again_at_a_regular_interval(stage: Stage) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            with stage.mailbox("claude") as claude:
                claude.send("codex", "question", "While you watched", "x")

    stage.patch.setattr(time, "sleep", pause)

    ran = stage.run("watch", "-a", "codex", "--timeout", "2s")

    assert "While you watched" in ran.out
    assert max(pauses) <= 1


@pytest.mark.requirement("S1-BROADCAST-INBOX-COPIES", "S1-BROADCAST-OUTBOX-COPY", "S1-BROADCAST-LIST")
def test_a_broadcast_is_one_copy_in_each_inbox_and_one_in_the_outbox(stage: Stage) -> None:
    sent = stage.send("--type", "notification", to="codex,gemini")

    copies = [stage.inbox("codex"), stage.inbox("gemini"), stage.agent("claude") / "outbox"]
    assert [[path.name for path in folder.glob("*.yaml")] for folder in copies] == [[sent["file"]]] * 3
    assert len({(folder / sent["file"]).read_bytes() for folder in copies}) == 1
    assert stage.files("claude") == []


@pytest.mark.requirement("S1-BROADCAST-NO-HANDOFF", "S1-BROADCAST-NO-HANDOFF-COMPLETE", "S1-BROADCAST-MAX-10")
@pytest.mark.parametrize("kind", [Kind.HANDOFF, Kind.HANDOFF_COMPLETE])
def test_a_broadcast_that_is_not_allowed_writes_no_copy(stage: Stage, kind: Kind) -> None:
    before = stage.everything()
    body = json.dumps(a_body(kind))

    two = stage.run("send", "-a", "claude", "--to", "codex,gemini", "--type", kind, "--subject", "x", "--body", body)
    names = ",".join(f"agent{n}" for n in range(11))
    many = stage.run("send", "-a", "claude", "--to", names, "--type", "notification", "--subject", "x", "--body", "y")

    assert (two.code, many.code) == (2, 2)
    assert "exactly one agent" in two.err
    assert "at most 10" in many.err
    assert stage.everything() == before


@pytest.mark.requirement("S1-ORDER-PRIORITY", "S1-ORDER-TYPE", "S1-ORDER-AGE", "D-ORDER")
def test_messages_are_handed_out_by_priority_then_type_then_age_then_id(stage: Stage) -> None:
    expected = [
        ("p0", "P0", "notification", "12"),
        ("p1-review", "P1", "review_request", "12"),
        ("p1-task-new", "P1", "task_request", "13"),
        ("p1-old", "P1", "question", "10"),
        ("p2-a", "P2", "question", "11"),
        ("p2-b", "P2", "question", "11"),
        ("p3", "P3", "task_request", "10"),
    ]
    for number, (name, priority, kind, hour) in enumerate(sorted(expected, key=lambda row: row[2])):
        created = f'"2026-03-13T{hour}:00:00Z"'
        content = a_file(id=name, priority=priority, type=kind, created_at_utc=created)
        (stage.inbox("codex") / f"{number}.yaml").write_bytes(content)

    handed = [stage.run("next", "-a", "codex", "--json").json["id"] for _ in expected]

    assert handed == [row[0] for row in expected]


@pytest.mark.requirement("D-EXPIRY-ADVISORY", "S2-FIELD-EXPIRES-AT")
def test_an_expired_message_is_flagged_skipped_and_never_deleted(stage: Stage) -> None:
    path = stage.plant("codex", priority="P0", expires_at='"2026-03-13T15:00:00Z"')
    good = stage.send("--priority", "P3")

    flags = {item["id"]: item["expired"] for item in stage.run("inbox", "-a", "codex", "--json").json}
    handed = [stage.run("next", "-a", "codex", "--json").json for _ in range(2)]
    stage.run("doctor", "--fix")

    assert flags == {"msg-20260313T1430Z-claude-a8f3": True, good["id"]: False}
    assert [one and one["id"] for one in handed] == [good["id"], None]
    assert path.exists()


@pytest.mark.requirement("D-UNKNOWN-RECIPIENT", "D-UNKNOWN-PROJECT")
def test_an_unknown_recipient_or_project_is_an_error_and_nothing_is_written(stage: Stage) -> None:
    before = sorted(str(path) for path in stage.home.rglob("*"))
    words = ["send", "-a", "claude", "--type", "question", "--subject", "x", "--body", "y"]

    recipient = stage.run(*words, "--to", "nobody", "--json")
    project = stage.run(*words, "--to", "codex", "--project", "nowhere", "--json")

    assert [json.loads(ran.err)["error"]["code"] for ran in (recipient, project)] == [
        "unknown_agent",
        "unknown_project",
    ]
    after = [str(path) for path in stage.home.rglob("*") if ".parley" not in path.parts]
    assert sorted(after) == before


@pytest.mark.requirement("D-READ-DEAD-LETTER", "D-READ-CONTINUES")
@pytest.mark.parametrize("content", [b"a: &x [1]\nb: *x\n", b"\xff", b"x: " + b"[" * 5_000, b"", b"type: shout\n"])
def test_a_bad_file_goes_to_the_dead_letters_with_a_reason_and_the_reader_goes_on(stage: Stage, content: bytes) -> None:
    bad = stage.inbox("codex") / "bad.yaml"
    bad.write_bytes(content)
    settle(bad)
    good = stage.send()

    handed = [stage.run("next", "-a", "codex", "--json").json for _ in range(2)]

    assert [one and one["id"] for one in handed] == [good["id"], None]
    dead = stage.agent("codex") / "dead_letter"
    assert (dead / "bad.yaml").read_bytes() == content
    assert set(json.loads((dead / "bad.yaml.reason.json").read_text())) == {"file", "code", "detail", "at"}
    assert not os.path.exists(stage.inbox("codex") / "bad.yaml")


@pytest.mark.requirement("D-REVIEW-STATUS")
def test_the_status_of_a_review_tells_state_round_open_findings_and_whose_turn_it_is(stage: Stage) -> None:
    asked = stage.send("--type", "review_request", "--body", "pr: 5\nbranch: b\ndiff_summary: d\n")
    (stage.project / "packets" / "findings" / "1.yaml").write_text("findings: [{id: f1, severity: P1}]\n")
    body = "findings_packet: packets/findings/1.yaml\nround: 1\nblocking_count: 1\n"
    stage.run("reply", asked["id"], "-a", "codex", "--body", body)

    status = stage.run("review", "status", asked["conversation_id"], "-a", "claude", "--json").json

    assert (status["state"], status["round"], status["open_findings"]) == ("feedback", 1, ["f1"])
    assert (status["expected"], status["waiting_for"]) == (["review_addressed"], "claude")
