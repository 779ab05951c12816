"""inbox, outbox, read, thread and search: looking without touching."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.samples.messages import a_file
from tests.surface.stage import Stage

SETTLED = ["--set", "quality_gate_result=pass", "--set", "merge_ready=true"]


def test_an_empty_inbox_says_so(stage: Stage) -> None:
    assert stage.run("inbox", "-a", "codex").out == "The inbox of codex is empty.\n"
    assert stage.run("inbox", "-a", "codex", "--json").json == []


def test_an_inbox_is_a_table_in_processing_order(stage: Stage) -> None:
    low = stage.send("--priority", "P3", subject="Later")
    high = stage.send("--priority", "P0", subject="Now", sender="gemini")

    lines = stage.run("inbox", "-a", "codex").out.splitlines()

    assert lines[0] == "2 messages in the inbox of codex"
    assert lines[1].split() == ["#", "PRI", "TYPE", "FROM", "AGE", "STATUS", "SUBJECT", "[ID]"]
    assert lines[2].split() == ["1", "P0", "question", "gemini", "0m", "new", "Now", f"[{high['id']}]"]
    assert lines[3].split() == ["2", "P3", "question", "claude", "0m", "new", "Later", f"[{low['id']}]"]


def test_an_inbox_as_json_has_the_fields_of_the_specification(stage: Stage) -> None:
    sent = stage.send("--expires", "2h")

    (item,) = stage.run("inbox", "-a", "codex", "--json").json

    same = ("id", "from", "to", "type", "priority", "created_at_utc", "subject", "conversation_id", "expires_at")
    assert {key: item[key] for key in same} == {key: sent[key] for key in same}
    assert (item["status"], item["expired"], item["file"]) == ("new", False, sent["file"])


def test_one_message_is_one_message(stage: Stage) -> None:
    stage.send()

    assert stage.run("inbox", "-a", "codex").out.startswith("1 message in the inbox of codex\n")


def test_an_expired_message_is_flagged(stage: Stage) -> None:
    stage.plant("codex", expires_at='"2020-01-01T00:00:00Z"')

    assert " expired " in stage.run("inbox", "-a", "codex").out
    assert stage.run("inbox", "-a", "codex", "--json").json[0]["expired"] is True


def test_a_claimed_message_is_shown_as_claimed(stage: Stage) -> None:
    stage.send()
    stage.run("next", "-a", "codex")

    assert " claimed " in stage.run("inbox", "-a", "codex").out


@pytest.mark.parametrize(
    "command",
    [
        ["inbox"],
        ["inbox", "--json"],
        ["read", "{id}"],
        ["thread", "{id}"],
        ["search", "hello"],
        ["outbox"],
        ["watch", "--once"],
        ["doctor"],
        ["config"],
        ["agent", "list"],
    ],
)
def test_peeking_never_consumes(stage: Stage, command: list[str]) -> None:
    sent = stage.send()
    before = stage.everything()
    words = [word.format(id=sent["id"]) for word in command]
    agent = [] if command[0] in ("doctor", "agent") else ["-a", "codex"]

    for _ in range(2):
        assert stage.run(*words, *agent).code == 0

    assert stage.everything() == before
    assert stage.run("next", "-a", "codex", "--json").json["id"] == sent["id"]


def test_an_outbox_shows_to_whom_newest_first(stage: Stage) -> None:
    stage.send("--type", "notification", subject="Both", to="codex,gemini")

    lines = stage.run("outbox", "-a", "claude").out.splitlines()

    assert lines[0] == "1 message in the outbox of claude"
    assert lines[1].split()[3] == "TO"
    assert "codex,gemini" in lines[2]
    assert stage.run("outbox", "-a", "claude", "--json").json[0]["status"] == "sent"
    assert stage.run("outbox", "-a", "gemini").out == "The outbox of gemini is empty.\n"


def test_read_shows_the_fields_a_blank_line_and_the_body(stage: Stage) -> None:
    sent = stage.send("--body", "First line\n\n  second\n")

    shown = stage.run("read", sent["id"], "-a", "codex").out

    head, _, body = shown.partition("\n\n")
    assert body == "First line\n\n  second\n"
    assert f"id: {sent['id']}" in head.splitlines()
    assert "place: inbox" in head.splitlines()


def test_read_as_json_has_everything_and_where_it_lies(stage: Stage) -> None:
    sent = stage.send("--body", "Hello")

    read = stage.run("read", sent["id"], "-a", "codex", "--json").json

    assert {key: read[key] for key in ("id", "body", "place", "file", "doubts")} == {
        "id": sent["id"],
        "body": "Hello",
        "place": "inbox",
        "file": sent["file"],
        "doubts": [],
    }


def test_read_raw_gives_the_bytes_as_they_are(stage: Stage) -> None:
    path = stage.plant("codex", x_unknown='"kept"')

    ran = stage.run("read", path.name, "-a", "codex", "--raw")

    assert ran.out.encode() == path.read_bytes()


def test_read_shows_unknown_fields_and_what_is_odd(stage: Stage) -> None:
    stage.plant("codex", without="priority", x_team='"blue"')

    shown = stage.run("read", "a8f3", "-a", "codex").out

    assert "x_team: blue\n" in shown
    assert "note: priority: is missing; P2 is assumed\n" in shown


def test_read_of_a_structured_body_shows_its_fields(stage: Stage) -> None:
    sent = stage.send("--type", "review_lgtm", *SETTLED)

    assert stage.run("read", sent["id"], "-a", "codex").out.endswith(
        '\n\nquality_gate_result: "pass"\nmerge_ready: true\n'
    )


def test_a_thread_is_drawn_as_a_tree(stage: Stage) -> None:
    first = stage.send(subject="mTLS or JWT?")
    second = stage.run("reply", first["id"], "-a", "codex", "--body", "JWT", "--json").json

    for agent in ("claude", "codex"):
        lines = stage.run("thread", first["conversation_id"], "-a", agent).out.splitlines()
        heads = [re.sub(r"\S+Z", "TIME", line) for line in lines[::2]]
        assert heads == ["TIME  claude → codex  question P2", "  └ TIME  codex → claude  notification P2"]
        assert lines[1] == f"mTLS or JWT?  [{first['id']}]"
        assert lines[3] == f"    Re: mTLS or JWT?  [{second['id']}]"
    ids = [one["id"] for one in stage.run("thread", second["id"], "-a", "codex", "--json").json]
    assert ids == [first["id"], second["id"]]


def test_messages_that_name_each_other_as_parents_are_drawn_all_the_same(stage: Stage) -> None:
    stage.plant("codex", "1.yaml", id="one", parent_message_id="two")
    stage.plant("codex", "2.yaml", id="two", parent_message_id="one")

    assert stage.run("thread", "one", "-a", "codex").out.count("[") == 2


def test_a_search_is_a_table_of_what_was_found_and_where(stage: Stage) -> None:
    sent = stage.send("--body", "Where is the Needle?")

    lines = stage.run("search", "needle", "-a", "codex").out.splitlines()

    assert lines[0].split() == ["TIME", "FROM", "TO", "TYPE", "FOLDER", "SUBJECT", "[ID]"]
    assert lines[1].split()[1:] == ["claude", "codex", "question", "inbox", "Hello", f"[{sent['id']}]"]
    assert [one["id"] for one in stage.run("search", "needle", "-a", "codex", "--json").json] == [sent["id"]]


def test_a_search_without_result_says_so(stage: Stage) -> None:
    assert stage.run("search", "hay", "-a", "codex").out == "No message contains 'hay'.\n"
    assert stage.run("search", "hay", "-a", "codex", "--json").json == []


@pytest.mark.parametrize("command", [["read"], ["thread"], ["review", "status"], ["review", "gate"]])
def test_what_nobody_has_is_an_error(stage: Stage, command: list[str]) -> None:
    ran = stage.run(*command, "zzzz", "-a", "codex")

    assert (ran.code, ran.error, ran.out) == (3, "unknown_message", "")


def test_an_ending_that_fits_two_messages_names_the_files(stage: Stage) -> None:
    stage.plant("codex", "one.yaml", id="msg-a8f3")
    stage.plant("codex", "two.yaml", id="other-a8f3")

    ran = stage.run("read", "a8f3", "-a", "codex")

    assert (ran.code, ran.error) == (4, "ambiguous")
    assert "one.yaml, two.yaml" in ran.err


def test_listing_an_inbox_imports_neither_a_yaml_reader_nor_an_event_loop(stage: Stage) -> None:
    stage.send()
    code = (
        "import sys; from parley.cli.main import main; code = main(['inbox', '-a', 'codex']);"
        "print(code, *sorted({'yaml', 'asyncio', 'sqlite3', 'json', 'subprocess', 'shutil'} & set(sys.modules)))"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines()[-1] == "0"


def test_sending_imports_neither_a_yaml_reader_nor_an_event_loop(stage: Stage) -> None:
    words = ["send", "-a", "claude", "--to", "codex", "--type", "question", "--subject", "x", "--body", "y"]
    code = (
        f"import sys; from parley.cli.main import main; code = main({words});"
        "print(code, *sorted({'yaml', 'asyncio', 'subprocess', 'shutil'} & set(sys.modules)))"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines()[-1] == "0"


def test_a_command_does_not_import_gettext_and_leaves_nothing_in_its_place() -> None:
    code = (
        "import os, sys; from parley.cli.main import entry; sys.argv = ['parley', 'inbox', '--agent'];"
        "os._exit = lambda code: print(code, 'gettext' in sys.modules, 'argparse' in sys.modules);"
        "entry(); import gettext; print(gettext.__file__ is not None)"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines() == ["2 False True", "True"]
    assert "argument -a/--agent/--from: expected one argument" in ended.stderr


def test_an_unreadable_file_stands_at_the_end_with_its_reason(stage: Stage) -> None:
    stage.send("--priority", "P3")
    stage.plant("codex", "0.yaml", without="from")

    lines = stage.run("inbox", "-a", "codex").out.splitlines()
    item = stage.run("inbox", "-a", "codex", "--json").json[-1]

    assert lines[-1].split() == ["2", "-", "-", "-", "-", "unreadable", "0.yaml", "invalid:", "from:", "is", "missing"]
    assert item == {"file": "0.yaml", "status": "unreadable", "problem": "invalid: from: is missing"}
    assert (stage.inbox("codex") / "0.yaml").read_bytes() == a_file("from")
