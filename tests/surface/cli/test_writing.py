"""send and reply: where a body comes from, what is filled in, what is refused."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys

import pytest

from parley.domain.message.message import Kind
from tests.samples.messages import STRUCTURED
from tests.surface.stage import Stage, parley_script

ID = re.compile(r"msg-\d{8}T\d{4}Z-claude-[a-z0-9]{4}\Z")
SEND = ("send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "Hi")


def the_message(stage: Stage, agent: str = "codex") -> dict[str, object]:
    """The one message in an agent's inbox."""
    (item,) = stage.run("inbox", "-a", agent, "--json").json
    read: dict[str, object] = stage.run("read", "-a", agent, item["id"], "--json").json
    return read


def test_send_says_what_was_sent_in_one_line(stage: Stage) -> None:
    ran = stage.run(*SEND, "--body", "Hello")

    assert (ran.code, ran.err, len(stage.files("codex"))) == (0, "", 1)
    assert re.fullmatch(r"Sent msg-\S+ to codex \(question\)\n", ran.out)


def test_send_as_json_gives_the_message_and_its_deliveries(stage: Stage) -> None:
    sent = stage.send("--body", "Hello", "--priority", "P1", "--channel", "deploy", "--related-pr", "#42")

    assert ID.match(sent["id"])
    assert re.fullmatch(r"conv-\d{8}-claude-001", sent["conversation_id"])
    wanted = {"from": "claude", "to": "codex", "type": "question", "priority": "P1", "channel": "deploy"}
    assert {key: sent[key] for key in wanted} == wanted
    assert (sent["related_pr"], sent["body"], sent["subject"]) == ("42", "Hello", "Hello")
    assert sent["deliveries"] == [{"to": "codex", "status": "delivered", "reason": ""}]
    assert stage.files("codex") == stage.files("claude", "outbox") == [sent["file"]]


def test_several_recipients_are_separated_by_commas_or_repeated(stage: Stage) -> None:
    sent = stage.send("--type", "notification", to="codex, gemini")
    again = stage.run(
        "send", "-a", "claude", "--to", "codex", "--to", "gemini", "--type", "notification",
        "--subject", "x", "--body", "y", "--json",
    ).json  # fmt: skip

    assert sent["to"] == again["to"] == ["codex", "gemini"]
    assert len(stage.files("codex")) == len(stage.files("gemini")) == 2


@pytest.mark.parametrize("way", ["argument", "dash", "stdin", "file", "file dash"])
def test_the_body_comes_from_an_argument_a_file_or_standard_input(stage: Stage, way: str) -> None:
    text = "  indented\n\ttab, ümlaut ✓\n\n"
    path = stage.here / "body.md"
    path.write_text(text)
    options = {
        "argument": ["--body", text],
        "dash": ["--body", "-"],
        "stdin": [],
        "file": ["--body-file", str(path)],
        "file dash": ["--body-file", "-"],
    }[way]

    ran = stage.run(*SEND, *options, stdin=text.encode())

    assert ran.code == 0, ran.err
    assert the_message(stage)["body"] == text


def an_editor(stage: Stage, text: str, code: int = 0) -> str:
    """A tiny editor that writes `text` at the end of its file, with an option like a real one."""
    path = stage.here / "editor.py"
    path.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"assert sys.argv[1] == '--wait'\n"
        f"open(sys.argv[2], 'a').write({text!r})\nsys.exit({code})\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"'{path}' --wait"


def edited(stage: Stage, *arguments: str) -> tuple[int, str, str]:
    """Run the real command on a terminal, where an editor opens; its exit code, output and temporary files."""
    folder = stage.here / "tmp"
    folder.mkdir(exist_ok=True)
    stage.patch.setenv("TMPDIR", str(folder))
    code, shown = stage.on_terminal(*arguments)
    return code, shown, "".join(path.read_text() for path in folder.iterdir())


def test_on_a_terminal_the_body_comes_from_the_editor(stage: Stage) -> None:
    stage.patch.setenv("EDITOR", an_editor(stage, "Written by hand.\n"))

    code, shown, kept = edited(stage, *SEND)

    assert (code, kept) == (0, ""), shown
    assert the_message(stage)["body"] == "Written by hand.\n"


def test_the_editor_of_a_structured_kind_starts_with_its_fields(stage: Stage) -> None:
    stage.patch.setenv("VISUAL", an_editor(stage, "nothing: else\n"))

    code, shown, kept = edited(stage, *SEND[:6], "review_request", *SEND[7:])

    assert code == 2
    assert "body.pr: required by review_request" in shown
    assert [line.partition(":")[0] for line in kept.splitlines()] == [
        "pr", "branch", "diff_summary", "# max_turns_reviewer", "# max_runtime_s_reviewer", "nothing",
    ]  # fmt: skip


def test_text_from_the_editor_is_kept_when_it_cannot_be_sent(stage: Stage) -> None:
    stage.patch.setenv("EDITOR", an_editor(stage, "An hour of work.\n"))

    code, shown, kept = edited(stage, *SEND[:4], "nobody", *SEND[5:])

    assert (code, kept) == (3, "An hour of work.\n")
    assert "your text is in" in shown


def test_an_editor_that_fails_or_writes_nothing_sends_nothing(stage: Stage) -> None:
    stage.patch.setenv("EDITOR", an_editor(stage, "", code=3))
    failed = edited(stage, *SEND)
    stage.patch.setenv("EDITOR", an_editor(stage, ""))
    empty = edited(stage, *SEND)

    assert (failed[0], empty[0]) == (2, 2)
    assert "the editor" in failed[1]
    assert "was not changed in the editor" in empty[1]
    assert stage.files("codex") == []


def test_on_a_terminal_without_an_editor_the_ways_to_give_a_body_are_named(stage: Stage) -> None:
    code, shown, _ = edited(stage, *SEND)

    assert code == 2
    assert "use --body, --body-file or standard input, or set EDITOR" in shown


def test_a_structured_body_is_set_field_by_field(stage: Stage) -> None:
    sent = stage.send(
        "--type", "handoff", "--set", "source_agent=claude", "--set", "target_agent=codex", "--set", "intent=a=b",
        "--set", "artifacts_to_review=PR #42", "--set", "artifacts_to_review=b.py", "--set", "definition_of_done=x",
        "--set", "context_bundle.files_touched=a.py", "--set", "context_bundle.decisions_made=none",
        "--set", "context_bundle.blockers_hit=none", "--set", "context_bundle.suggested_next_steps=test",
    )  # fmt: skip

    assert sent["body"]["intent"] == "a=b"
    assert sent["body"]["artifacts_to_review"] == ["PR #42", "b.py"]
    assert sent["body"]["context_bundle"]["files_touched"] == ["a.py"]


def test_set_gives_numbers_and_booleans_their_type(stage: Stage) -> None:
    sent = stage.send("--type", "review_lgtm", "--set", "quality_gate_result=pass", "--set", "merge_ready=true")

    assert sent["body"] == {"quality_gate_result": "pass", "merge_ready": True}


def test_an_empty_list_is_set_without_a_value(stage: Stage) -> None:
    sent = stage.send(
        "--type", "review_addressed", "--set", "commit_sha=abc", "--set", "changes_summary=x", "--set", "round=1",
        "--set", "touched_files=", "--set", "addressed_finding_ids=",
    )  # fmt: skip

    assert (sent["body"]["touched_files"], sent["body"]["round"]) == ([], 1)


@pytest.mark.parametrize(
    ("assignments", "said"),
    [
        (["pr"], "--set 'pr' is not FIELD=VALUE"),
        (["=x"], "is not FIELD=VALUE"),
        (["a..b=x"], "is not FIELD=VALUE"),
        (["pr=1", "pr=2"], "--set pr is given twice"),
        (["pr=1", "pr.number=2"], "pr is already a value"),
        (["pr=1"], "body.branch: required by review_request; body.diff_summary: required by review_request"),
        (["pr=1", "branch=b", "diff_summary=d", "max_turns_reviewer=many"], "body.max_turns_reviewer: must be a whole"),
    ],
)
def test_a_wrong_set_is_named_and_sends_nothing(stage: Stage, assignments: list[str], said: str) -> None:
    options = [word for assignment in assignments for word in ("--set", assignment)]

    ran = stage.run(*SEND[:6], "review_request", *SEND[7:], *options)

    assert (ran.code, ran.error) == (2, "invalid")
    assert said in ran.err
    assert stage.files("codex") == stage.files("claude", "outbox") == []


def test_the_text_of_a_structured_kind_is_read_as_its_fields(stage: Stage) -> None:
    sent = stage.send("--type", "review_request", "--body", "pr: 1\nbranch: b\ndiff_summary: d\n")

    assert sent["body"] == {"pr": "1", "branch": "b", "diff_summary": "d"}


def test_a_body_given_twice_is_refused(stage: Stage) -> None:
    ran = stage.run(*SEND, "--body", "x", "--set", "a=b")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "more than one body" in ran.err


@pytest.mark.parametrize(
    ("options", "stdin", "code", "error"),
    [
        (["--body-file", "missing.md"], b"", 3, "not_found"),
        (["--body-file", "."], b"", 3, "not_found"),
        (["--context-keys-file", "missing.md", "--body", "x"], b"", 3, "not_found"),
        ([], b"\xff\xfe", 2, "invalid"),
        ([], b"", 2, "invalid"),
        (["--body", ""], b"", 2, "invalid"),
        (["--body", " \n"], b"", 2, "invalid"),
        ([], b"x" * (1024 * 1024 + 1), 2, "invalid"),
        (["--body", "x" * 20_001], b"", 2, "invalid"),
        (["--body", "half \udcff"], b"", 2, "invalid"),
        (["--body", "x", "--expires", "someday"], b"", 2, "invalid"),
        (["--body", "x", "--expires", "2020-01-01T00:00:00Z"], b"", 2, "invalid"),
        (["--body", "x", "--expires", "999999999w"], b"", 2, "invalid"),
        (["--body", "x", "--priority", "P4"], b"", 2, "invalid"),
        (["--body", "x", "--related-pr", "forty-two"], b"", 2, "invalid"),
        (["--body", "x", "--channel", "two words"], b"", 2, "invalid"),
        (["--body", "x", "--no-such-option"], b"", 2, "invalid"),
    ],
)
def test_input_that_cannot_be_sent_is_one_clear_line_and_writes_nothing(
    stage: Stage, options: list[str], stdin: bytes, code: int, error: str
) -> None:
    before = stage.everything()

    ran = stage.run(*SEND, *options, stdin=stdin)

    assert (ran.code, ran.error, ran.out) == (code, error, "")
    assert stage.everything() == before


def test_a_body_at_the_limit_is_sent_whole(stage: Stage) -> None:
    stage.run(*SEND, "--body", "x" * 20_000)

    assert the_message(stage)["body"] == "x" * 20_000


def test_every_problem_is_named_at_once_and_as_json_by_field(stage: Stage) -> None:
    ran = stage.run(*SEND[:6], "handoff", "--subject", "", "--to", "gemini", "--body", "x", "--json")

    error = json.loads(ran.err)["error"]
    assert (ran.code, error["code"], ran.out) == (2, "invalid", "")
    assert {problem["code"] for problem in error["problems"]} >= {
        "point_to_point",
        "missing_field",
        "body_not_structured",
    }


def test_context_keys_come_from_an_option_or_a_file_and_too_many_words_are_warned_about(stage: Stage) -> None:
    path = stage.here / "context.md"
    path.write_text("word " * 501)

    short = stage.send("--context-keys", "- src/a.py")
    ran = stage.run(*SEND, "--body", "x", "--context-keys-file", str(path))

    assert short["context_keys"] == "- src/a.py"
    assert ran.code == 0
    assert ran.err.startswith("warning: context_keys: 501 words")


def test_a_dry_run_prints_the_file_and_sends_nothing(stage: Stage) -> None:
    before = stage.everything()

    shown = stage.run(*SEND, "--body", "Hello", "--dry-run")
    as_json = stage.run(*SEND, "--body", "Hello", "--dry-run", "--json").json

    assert (shown.code, as_json["body"]) == (0, "Hello")
    path = stage.here / "preview.yaml"
    path.write_text(shown.out)
    assert stage.run("validate", str(path)).code == 0
    assert stage.everything() == before


def test_a_dry_run_of_an_answer_shows_what_it_inherits(stage: Stage) -> None:
    asked = stage.send("--type", "brainstorm_request", "--priority", "P3", to="codex")
    words = ("--type", "brainstorm_followup", "--body", "More", "--dry-run", "--json")

    answer = stage.run("reply", asked["id"], "-a", "codex", *words).json

    assert (answer["priority"], answer["conversation_id"]) == ("P3", asked["conversation_id"])
    assert stage.files("claude") == []


def test_expiry_is_a_duration_or_a_time(stage: Stage) -> None:
    by_duration = stage.send("--expires", "2h")
    by_time = stage.send("--expires", "2099-01-01T02:00:00+02:00")

    assert by_duration["expires_at"] > by_duration["created_at_utc"]
    assert by_time["expires_at"] == "2099-01-01T00:00:00Z"


def test_a_message_that_answers_another_names_it(stage: Stage) -> None:
    first = stage.send()
    second = stage.send("--reply-to", first["id"], sender="codex", to="claude")

    assert second["parent_message_id"] == first["id"]
    assert second["conversation_id"] == first["conversation_id"]


def test_a_conversation_is_continued_by_its_id(stage: Stage) -> None:
    assert stage.send("--conversation", "our-thread")["conversation_id"] == "our-thread"


def test_reply_fills_in_recipient_type_subject_conversation_and_parent(stage: Stage) -> None:
    asked = stage.send(subject="mTLS or JWT?")

    answer = stage.run("reply", asked["id"][-4:], "-a", "codex", "--body", "JWT", "--json").json

    assert (answer["to"], answer["type"], answer["subject"]) == ("claude", "notification", "Re: mTLS or JWT?")
    assert (answer["conversation_id"], answer["parent_message_id"]) == (asked["conversation_id"], asked["id"])
    assert stage.files("claude") == [answer["file"]]


def test_reply_says_in_one_line_what_it_sent(stage: Stage) -> None:
    asked = stage.send()

    ran = stage.run("reply", asked["id"], "-a", "codex", stdin=b"From a pipe.\n")

    assert ran.out.startswith("Sent msg-")
    assert " to claude (notification)\n" in ran.out
    assert the_message(stage, "claude")["body"] == "From a pipe.\n"


def test_what_a_reply_is_told_wins(stage: Stage) -> None:
    asked = stage.send("--type", "review_request", *set_options(Kind.REVIEW_REQUEST))

    answer = stage.run(
        "reply", asked["file"], "-a", "codex", "--type", "review_lgtm", "--set", "quality_gate_result=pass",
        "--set", "merge_ready=yes", "--subject", "Fine", "--to", "gemini", "--priority", "P0", "--json",
    ).json  # fmt: skip

    assert (answer["to"], answer["type"], answer["subject"], answer["priority"]) == (
        "gemini",
        "review_lgtm",
        "Fine",
        "P0",
    )


def set_options(kind: Kind) -> list[str]:
    body = STRUCTURED[kind]
    return [word for name, value in body.items() for word in ("--set", f"{name}={value}")]


def test_a_reply_to_what_nobody_has_is_an_error(stage: Stage) -> None:
    ran = stage.run("reply", "zzzz", "-a", "codex", "--body", "x")

    assert (ran.code, ran.error) == (3, "unknown_message")


def test_a_full_inbox_is_its_own_exit_code_and_names_who_has_it(stage: Stage) -> None:
    stage.send()
    stage.patch.setenv("PARLEY_INBOX_MESSAGES", "1")
    words = ("send", "-a", "claude", "--to", "codex,gemini", "--type", "notification", "--subject", "x", "--body", "y")

    ran = stage.run(*words)
    as_json = stage.run(*words, "--json")
    alone = stage.run(*words[:4], "codex", *words[5:])

    assert (ran.code, ran.error, ran.out) == (5, "undelivered", "")
    assert "codex: inbox_full" in ran.err
    assert "gemini have it" in ran.err
    assert (as_json.code, as_json.json["deliveries"][0]["status"]) == (5, "failed")
    assert json.loads(as_json.err)["error"]["code"] == "undelivered"
    assert (alone.code, alone.error) == (7, "inbox_full")
    assert [len(stage.files("codex")), len(stage.files("gemini"))] == [1, 1]


def test_a_closed_standard_input_is_no_body(stage: Stage) -> None:
    command = ["/bin/sh", "-c", '"$0" "$@" <&-', parley_script(), *SEND]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert ended.stderr.startswith("error: no body")


def test_bodies_that_are_awkward_in_yaml_arrive_as_they_were_sent(stage: Stage) -> None:
    bodies = [
        "!important x",
        "\tindented",
        "- a\n- b",
        "a: b",
        "\x1b[31mred",
        "x\u2028y",
        "a\r\nb\r\n",
        "end\n\n\n",
        "🎉",
    ]
    for body in bodies:
        stage.run(*SEND, stdin=body.encode())

    read = [stage.run("read", "-a", "codex", name, "--json").json["body"] for name in stage.files("codex")]

    assert sorted(read) == sorted(bodies)


def test_a_careless_umask_opens_no_file_to_others(stage: Stage) -> None:
    before = os.umask(0)
    try:
        sent = stage.send()
    finally:
        os.umask(before)

    paths = [stage.inbox("codex") / sent["file"], stage.agent("claude") / ".parley", stage.agent("claude") / "outbox"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o640, 0o700, 0o700]
