"""next, extend, release and done."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.surface.cli.test_watching import every_pause, send_late
from tests.surface.stage import Stage


def claim(stage: Stage, *options: str) -> dict[str, Any]:
    ran = stage.run("next", "-a", "codex", "--json", *options)
    assert ran.code == 0, ran.err
    claimed: dict[str, Any] = ran.json
    return claimed


def test_next_on_an_empty_inbox_has_its_own_exit_code(stage: Stage) -> None:
    ran, as_json = stage.run("next", "-a", "codex"), stage.run("next", "-a", "codex", "--json")

    assert (ran.code, ran.out, ran.err) == (14, "No message for codex.\n", "")
    assert (as_json.code, as_json.out, as_json.err) == (14, "null\n", "")


def test_next_shows_the_message_and_how_to_finish_it(stage: Stage) -> None:
    sent = stage.send("--body", "Please.")

    shown = stage.run("next", "-a", "codex").out

    assert f"id: {sent['id']}\n" in shown
    # With its day and its zone where that is tomorrow.
    assert re.search(r"\nnote: claimed until (\S+ )?\d\d:\d\d:\d\d\S*\n", shown)
    assert f"note: answer and finish: parley reply {sent['id'][-4:]} TEXT --agent codex\n" in shown
    assert f"note: finish without an answer: parley done {sent['id'][-4:]} --agent codex\n" in shown
    assert shown.endswith("\n\nPlease.\n")


@pytest.mark.requirement("S1-EXPECTED-RESPONSE-SHOWN")
@pytest.mark.requirement("D-NEXT-EXPECTED")
def test_next_names_the_expected_answer_with_its_fields(stage: Stage) -> None:
    fields = ["--set", "pr=1", "--set", "branch=b", "--set", "diff_summary=d"]
    review = stage.send("--type", "review_request", *fields)

    notes = [line for line in stage.run("next", "-a", "codex").out.splitlines() if line.startswith("note: ")]

    assert notes[1:] == [
        "note: expects review_feedback (findings_packet, round, blocking_count)",
        "note:   or review_lgtm (quality_gate_result, merge_ready, [nits])",
        f"note: answer and finish: parley reply {review['id'][-4:]} --agent codex",
        "note: fields: parley kinds review_feedback",
        f"note: review: parley review status {review['id'][-4:]} --agent codex",
        f"note: finish without an answer: parley done {review['id'][-4:]} --agent codex",
    ]
    assert max(map(len, notes)) <= 80


def test_next_says_that_a_notification_expects_no_answer(stage: Stage) -> None:
    stage.send("--type", "notification")

    assert "note: expects no answer\n" in stage.run("next", "-a", "codex").out


def test_next_as_json_has_the_expected_answers(stage: Stage) -> None:
    stage.send("--type", "review_lgtm", "--set", "quality_gate_result=pass", "--set", "merge_ready=true")
    stage.send("--type", "handoff_complete", *[f"--set={name}=x" for name in ("issue", "pr", "branch", "next_owner")],
               "--set", "tests_run=true")  # fmt: skip
    stage.send("--type", "question")

    claims = [claim(stage) for _ in range(3)]

    assert {one["type"]: [kind["type"] for kind in one["expects"]] for one in claims} == {
        "review_lgtm": [],
        "handoff_complete": [],
        "question": ["notification", "follow_up"],
    }
    assert all(one["answered_by"] == [] for one in claims)


def test_a_message_that_comes_again_says_by_what_it_was_answered(stage: Stage) -> None:
    sent = stage.send()
    claim(stage)
    answer = stage.run("reply", sent["id"], "-a", "codex", "--body", "Yes.", "--keep-open", "--json").json
    stage.run("release", sent["id"], "-a", "codex")

    shown = stage.run("next", "-a", "codex").out
    stage.run("release", sent["id"], "-a", "codex")

    assert f"note: already answered by {answer['id']}\n" in shown
    assert "note: expects" not in shown
    assert claim(stage)["answered_by"] == [answer["id"]]


def test_next_hands_out_in_processing_order_and_nothing_twice(stage: Stage) -> None:
    question = stage.send(subject="A question")
    work = stage.send("--type", "task_request", subject="Work")
    urgent = stage.send("--priority", "P0", subject="Urgent")

    handed = [claim(stage)["id"] for _ in range(3)]

    assert handed == [urgent["id"], work["id"], question["id"]]
    assert stage.run("next", "-a", "codex", "--json").json is None


def test_next_as_json_has_the_whole_message_and_the_lease(stage: Stage) -> None:
    sent = stage.send("--body", "Please.")

    claimed = claim(stage, "--lease", "10m")

    assert (claimed["id"], claimed["body"], claimed["file"]) == (sent["id"], "Please.", sent["file"])
    assert (claimed["tries"], claimed["doubts"]) == (1, [])
    until = datetime.fromisoformat(claimed["lease"]["until"])
    created = datetime.fromisoformat(sent["created_at_utc"])
    assert timedelta(minutes=10) <= until - created < timedelta(minutes=12)


@pytest.mark.parametrize("lease", ["0m", "ten minutes", "10", "-5m"])
def test_a_lease_that_is_no_duration_is_refused_before_anything_is_claimed(stage: Stage, lease: str) -> None:
    stage.send()

    ran = stage.run("next", "-a", "codex", f"--lease={lease}")

    assert (ran.code, ran.error) == (2, "invalid")
    assert claim(stage)["tries"] == 1


def test_done_archives_and_says_so(stage: Stage) -> None:
    sent = stage.send()
    claim(stage)

    ran = stage.run("done", sent["id"], "-a", "codex")

    assert (ran.code, ran.out) == (0, f"Finished {sent['id']} (archived).\n")
    assert (stage.files("codex"), stage.files("codex", "inbox/archive")) == ([], [sent["file"]])


def test_done_with_delete_leaves_no_file(stage: Stage) -> None:
    sent = stage.send()
    claim(stage)

    done = stage.run("done", sent["id"], "-a", "codex", "--delete", "--json").json

    assert done == {"id": sent["id"], "file": sent["file"], "how": "deleted", "content_changed": False}
    assert (stage.files("codex"), stage.files("codex", "inbox/archive")) == ([], [])


def test_done_is_idempotent(stage: Stage) -> None:
    sent = stage.send()
    claim(stage)

    answers = [stage.run("done", sent["id"], "-a", "codex") for _ in range(3)]

    assert {(ran.code, ran.out) for ran in answers} == {(0, f"Finished {sent['id']} (archived).\n")}


def test_done_by_the_end_of_an_id_or_by_file_name(stage: Stage) -> None:
    first, second = stage.send(subject="one"), stage.send(subject="two")
    claim(stage)

    assert stage.run("done", first["id"].rpartition("-")[2], "-a", "codex").code == 0
    assert stage.run("done", second["file"], "-a", "codex").code == 0
    assert stage.files("codex") == []


def test_done_says_when_the_file_was_changed_after_it_was_claimed(stage: Stage) -> None:
    sent = stage.send()
    claim(stage)
    path = stage.inbox("codex") / sent["file"]
    path.write_bytes(path.read_bytes().replace(b"Hello", b"Other"))

    ran = stage.run("done", sent["id"], "-a", "codex")

    assert "the file was changed after it was claimed; the new content is in dead_letter/" in ran.out
    assert b"Hello" in (stage.inbox("codex") / "archive" / sent["file"]).read_bytes()
    assert b"Other" in (stage.agent("codex") / "dead_letter" / sent["file"]).read_bytes()


def test_release_gives_the_message_back(stage: Stage) -> None:
    sent = stage.send()
    claim(stage)

    ran = stage.run("release", sent["id"], "-a", "codex")

    assert (ran.code, ran.out) == (0, f"Released {sent['id']}; it is back in the inbox.\n")
    assert claim(stage)["tries"] == 1
    released = stage.run("release", sent["id"], "-a", "codex", "--json").json
    assert released == {"id": sent["id"], "status": "new"}


def test_extend_holds_the_message_for_longer(stage: Stage) -> None:
    sent = stage.send()
    claimed = claim(stage, "--lease", "1m")
    ending = sent["id"].rpartition("-")[2]

    shown = stage.run("extend", ending, "-a", "codex", "--lease", "2h")
    extended = stage.run("extend", ending, "-a", "codex", "--lease", "2h", "--json").json

    assert shown.out.startswith(f"Claim on {sent['id']} extended until ")
    assert extended["id"] == sent["id"]
    assert extended["lease"]["token"] == claimed["lease"]["token"]
    assert extended["lease"]["until"] > claimed["lease"]["until"]


@pytest.mark.parametrize("verb", ["extend", "release", "done"])
def test_a_token_that_is_not_the_claims_is_refused(stage: Stage, verb: str) -> None:
    sent = stage.send()
    claimed = claim(stage)

    ran = stage.run(verb, sent["id"], "-a", "codex", "--token", "another")

    assert (ran.code, ran.error) == (4, "lease_lost")
    assert stage.files("codex") == [sent["file"]]
    assert stage.run(verb, sent["id"], "-a", "codex", "--token", claimed["lease"]["token"]).code == 0


@pytest.mark.parametrize("verb", ["extend", "release"])
def test_what_nobody_claimed_cannot_be_extended_or_released(stage: Stage, verb: str) -> None:
    sent = stage.send()

    ran = stage.run(verb, sent["id"], "-a", "codex")

    assert (ran.code, ran.error) == (4, "conflict")
    assert "parley next" in ran.err


@pytest.mark.parametrize("verb", ["extend", "release", "done"])
def test_what_nobody_has_cannot_be_worked_on(stage: Stage, verb: str) -> None:
    ran = stage.run(verb, "zzzz", "-a", "codex")

    assert (ran.code, ran.error) == (3, "unknown_message")


def test_an_expired_message_is_skipped_and_never_deleted(stage: Stage) -> None:
    path = stage.plant("codex", expires_at='"2020-01-01T00:00:00Z"')

    assert stage.run("next", "-a", "codex").out == "No message for codex; 1 expired message in the inbox.\n"
    as_json = stage.run("next", "-a", "codex", "--json")
    assert (as_json.out, as_json.err) == (
        "null\n",
        "note: no message for codex; 1 expired message in the inbox\n",
    )
    assert path.exists()


@pytest.mark.requirement("D-READ-SEEN")
def test_a_bad_file_is_named_beside_the_message_that_is_handed_out(stage: Stage) -> None:
    stage.plant("codex", "bad.yaml", without="type")
    sent = stage.send()

    ran = stage.run("next", "-a", "codex", "--json")

    assert ran.json["id"] == sent["id"]
    problem = "invalid: type: is missing"
    assert ran.json["refused"] == [{"file": "bad.yaml", "place": "dead_letter", "problem": problem}]
    assert ran.err == f"warning: moved 1 file to dead_letter/: bad.yaml ({problem})\n"


@pytest.mark.requirement("D-READ-SEEN")
def test_a_file_that_is_being_written_is_named_and_left(stage: Stage) -> None:
    path = stage.inbox("codex") / "slow.yaml"
    with path.open("wb") as writer:
        writer.write(b"id: x\n")
        writer.flush()

        ran = stage.run("next", "-a", "codex")
        doctor = stage.run("doctor")

    assert ran.out == "No message for codex.\n"
    assert ran.err.startswith("warning: left 1 file in the inbox: slow.yaml (unfinished: ")
    assert "warn   unfinished     codex: slow.yaml: " in doctor.out
    assert path.exists()


def test_reading_says_that_a_message_has_expired(stage: Stage) -> None:
    path = stage.plant("codex", expires_at='"2020-01-01T00:00:00Z"')

    assert "note: expired\n" in stage.run("read", path.name, "-a", "codex").out
    assert stage.run("read", path.name, "-a", "codex", "--json").json["expired"] is True


def test_a_message_from_a_stranger_is_handed_out_with_a_note(stage: Stage) -> None:
    stage.plant("codex", from_="stranger")

    shown = stage.run("next", "-a", "codex").out

    assert "note: from: stranger is no agent of this project" in shown


def test_where_it_is_enforced_a_message_from_another_user_goes_to_the_dead_letters(stage: Stage) -> None:
    path = stage.plant("codex", from_="stranger")
    stage.patch.setenv("PARLEY_SENDER_CHECK", "enforce")

    assert stage.run("next", "-a", "codex", "--json").json is None

    reason = json.loads((stage.agent("codex") / "dead_letter" / f"{path.name}.reason.json").read_text())
    assert reason["code"] == "from_uid_mismatch"


def test_the_real_script_hands_out_and_finishes(stage: Stage) -> None:
    sent = stage.send()

    claimed = stage.script("next", "-a", "codex", "--json")
    done = stage.script("done", claimed.json["id"], "-a", "codex", "--token", claimed.json["lease"]["token"])

    assert (claimed.json["id"], done.code, done.err) == (sent["id"], 0, "")
    assert stage.files("codex", "inbox/archive") == [sent["file"]]


def test_next_names_the_whole_id_where_its_end_is_not_enough(stage: Stage) -> None:
    stage.plant("codex", id="msg-20260313T1430Z-claude-same")
    stage.plant("codex", "other.yaml", id="msg-20260313T1431Z-claude-same")

    shown = stage.run("next", "-a", "codex").out

    assert re.search(r"note: finish without an answer: parley done msg-\S+-same --agent codex\n", shown)


@pytest.mark.parametrize("options", [(), ("--delete",)])
def test_a_message_can_be_finished_twice_under_each_of_its_names(stage: Stage, options: tuple[str, ...]) -> None:
    sent = stage.send()
    file = claim(stage)["file"]

    for name in (sent["id"][-4:], sent["id"][-4:], sent["id"], file):
        ran = stage.run("done", name, "-a", "codex", *options)
        assert (ran.code, ran.err) == (0, ""), name
        assert sent["id"] in ran.out


def test_the_end_of_the_id_of_a_message_of_ones_own_finishes_nothing(stage: Stage) -> None:
    sent = stage.send()

    ran = stage.run("done", sent["id"][-4:], "-a", "claude")

    assert (ran.code, ran.error) == (3, "unknown_message")


def test_reply_and_done_without_a_message_mean_the_only_claimed_one(stage: Stage) -> None:
    sent = stage.send()
    stage.send(subject="Another")
    claimed = claim(stage)

    replied = stage.run("reply", "-a", "codex", "--body", "Signed JWTs.", "--keep-open", "--json")
    done = stage.run("done", "-a", "codex", "--json")

    assert replied.json["parent_message_id"] == done.json["id"] == claimed["id"]
    assert claimed["id"] == sent["id"]


@pytest.mark.parametrize("command", ["reply", "done", "release", "extend"])
@pytest.mark.parametrize(
    ("claims", "code", "error", "hint"),
    [(0, 4, "conflict", "parley next"), (2, 4, "ambiguous", "name one: msg-")],
)
def test_without_a_message_there_must_be_exactly_one_claimed(
    stage: Stage, command: str, claims: int, code: int, error: str, hint: str
) -> None:
    for _ in range(claims):
        stage.send()
        claim(stage)

    ran = stage.run(command, "-a", "codex", *(["--body", "x"] if command == "reply" else []))

    assert (ran.code, ran.error) == (code, error)
    assert hint in ran.err


def test_next_waits_until_a_message_arrives(stage: Stage) -> None:
    waits = send_late(stage, 3)

    claimed = claim(stage, "--wait", "5m")

    assert (claimed["subject"], len(waits)) == ("Late", 3)


def test_next_that_waited_in_vain_says_so_with_its_own_exit_code(stage: Stage) -> None:
    ran = stage.run("next", "-a", "codex", "--wait", "1s")

    assert (ran.code, ran.out, ran.err) == (14, "No message for codex.\n", "")


def test_a_wait_ends_on_an_interrupt_with_130(stage: Stage) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    every_pause(stage, interrupt)

    assert stage.run("next", "-a", "codex", "--wait", "5m").code == 130
    assert stage.run("send", "codex", "Why?", "-a", "claude", "--wait", "5m").code == 130


@pytest.mark.parametrize("text", ["0s", "soon", "-1m"])
def test_a_wait_that_is_no_duration_is_refused(stage: Stage, text: str) -> None:
    ran = stage.run("next", "-a", "codex", f"--wait={text}")

    assert (ran.code, ran.error) == (2, "invalid")


def test_a_text_of_several_words_answers_the_only_claimed_message(stage: Stage) -> None:
    stage.send()
    claim(stage)

    ran = stage.run("reply", "Signed JWTs.", "-a", "codex", "--json")
    like_an_id = stage.run("reply", "jwts", "-a", "codex")

    assert (ran.code, stage.run("next", "-a", "claude", "--json").json["body"]) == (0, "Signed JWTs.")
    assert like_an_id.code == 3
    assert "codex has no message 'jwts'" in like_an_id.err


def test_a_reply_finishes_the_message_that_it_answers(stage: Stage) -> None:
    sent = stage.send()
    claim(stage)

    replied = stage.run("reply", "-a", "codex", "--body", "Signed JWTs.")

    assert replied.out.endswith(f"\nFinished {sent['id']} (archived).\n")
    assert stage.run("inbox", "-a", "codex", "--json").json == []
    assert stage.run("next", "-a", "codex").code == 14


def test_a_reply_as_json_names_what_it_finished(stage: Stage) -> None:
    first, second = stage.send(), stage.send()

    closed = stage.run("reply", first["id"], "-a", "codex", "--body", "Yes.", "--json").json
    kept = stage.run("reply", second["id"], "-a", "codex", "--body", "Soon.", "--keep-open", "--json").json

    assert closed["finished"] == first["id"]
    assert "finished" not in kept
    assert [item["id"] for item in stage.run("inbox", "-a", "codex", "--json").json] == [second["id"]]


AS_AN_AGENT = ("CODEX_CI", "1")


def test_a_coding_agent_gets_the_compact_form(stage: Stage) -> None:
    stage.patch.setenv(*AS_AN_AGENT)
    sent = stage.send("--body", "Internal calls.", subject="mTLS or JWT?")
    ref = sent["id"][-4:]

    outputs = (stage.run("inbox", "-a", "codex").out, stage.run("next", "-a", "codex").out)
    listed, claimed = (re.sub(r"\d+s ago", "0s ago", output) for output in outputs)

    assert listed == (
        "1 message for codex, subjects written by their senders, not by your user.\n"
        f"[{ref}] P2 question from claude, 0s ago: mTLS or JWT?\n"
    )
    heading, frame, *content, end, until, steps = claimed.splitlines()
    assert heading == f"[{ref}] P2 question from claude, 0s ago. Written by claude, not by your user."
    assert (content, frame) == (["mTLS or JWT?", "Internal calls."], end)
    assert until.startswith("Note: claimed until ")
    assert steps == (
        f"To answer and finish it: parley reply {ref} --agent codex TEXT."
        f" To finish it without an answer: parley done {ref} --agent codex."
    )
    assert sent["file"] not in claimed


def test_a_coding_agent_gets_everything_with_full_and_with_json(stage: Stage) -> None:
    stage.patch.setenv(*AS_AN_AGENT)
    sent = stage.send()

    assert f"{sent['id']}  Hello\n" in stage.run("inbox", "-a", "codex", "--full").out
    assert stage.run("inbox", "-a", "codex", "--json").json[0]["file"] == sent["file"]
    assert f"id: {sent['id']}\n" in stage.run("next", "-a", "codex", "--full").out


def test_a_budget_shows_headings_first_and_then_bodies(stage: Stage) -> None:
    stage.send("--body", "The short body.", subject="Short")
    stage.send("--body", "word " * 2_000, subject="Long")

    shown = stage.run("inbox", "-a", "codex", "--budget", "300").out

    assert "The short body." in shown
    assert "word word" not in shown
    assert shown.index(": Long") < shown.index("The short body.")
    assert shown.endswith("\nNot shown: 1 body.\n")


def test_a_budget_cuts_a_body_and_names_the_way_to_the_rest(stage: Stage) -> None:
    sent = stage.send("--body", "\n".join(f"line {number}" for number in range(1, 501)))

    shown = stage.run("next", "-a", "codex", "--budget", "400").out

    assert re.search(rf"\nline \d+\n\.\.\. \d+ more lines: parley read {sent['id'][-4:]} --agent codex\n---", shown)


@pytest.mark.parametrize("budget", ["-1", "199"])
def test_a_budget_that_nothing_fits_into_is_refused(stage: Stage, budget: str) -> None:
    for command in ("inbox", "next"):
        assert stage.run(command, "-a", "codex", "--budget", budget).code == 2
