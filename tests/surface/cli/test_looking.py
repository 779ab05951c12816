"""inbox, outbox, read, thread and search: looking without touching."""

from __future__ import annotations

import re
import shutil
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
    assert lines[1].split() == ["#", "PRI", "TYPE", "FROM", "AGE", "STATUS", "ID", "SUBJECT"]
    assert lines[2].split() == ["1", "P0", "question", "gemini", lines[2].split()[4], "new", high["id"], "Now"]
    assert lines[3].split() == ["2", "P3", "question", "claude", lines[3].split()[4], "new", low["id"], "Later"]
    assert all(re.fullmatch("[0-9]+s", line.split()[4]) for line in lines[2:])


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


@pytest.mark.requirement("D-INBOX-ALL")
def test_the_inboxes_of_all_agents_are_one_table(stage: Stage) -> None:
    sent = stage.send(to="codex,gemini")

    lines = stage.run("inbox", "--all").out.splitlines()
    as_json = stage.run("inbox", "--all", "--json").json

    assert lines[0] == "2 messages in 3 inboxes"
    assert lines[1].split()[:2] == ["INBOX", "PRI"]
    assert [line.split()[0] for line in lines[2:]] == ["codex", "gemini"]
    assert [(one["project"], one["agent"], one["id"]) for one in as_json] == [
        ("demo", "codex", sent["id"]),
        ("demo", "gemini", sent["id"]),
    ]


@pytest.mark.requirement("D-INBOX-ALL")
def test_the_inboxes_of_all_projects_are_one_table(stage: Stage) -> None:
    stage.run("init", "web", "--agents", "qa")
    assert stage.run("inbox", "--all-projects").out == "4 inboxes, all empty.\n"
    stage.send("-p", "demo")

    assert stage.run("inbox", "--all-projects").out.splitlines()[2].split()[0] == "demo/codex"


def test_an_inbox_that_cannot_be_read_does_not_hide_the_others(stage: Stage) -> None:
    stage.send(to="gemini")
    inbox = stage.inbox("codex")
    shutil.rmtree(inbox)
    inbox.symlink_to(stage.here)

    ran = stage.run("inbox", "--all")

    assert (ran.code, "gemini" in ran.out, "inbox of codex" in ran.err) == (0, True, True)


@pytest.mark.requirement("D-OUTBOX-WAITING")
def test_an_outbox_shows_who_owes_an_answer(stage: Stage) -> None:
    sent = stage.send(to="codex,gemini")
    stage.send("--type", "notification")
    stage.run("reply", sent["id"], "-a", "codex", "--body", "Yes.")

    lines = stage.run("outbox", "--waiting", "-a", "claude").out.splitlines()
    (owed,) = stage.run("outbox", "--waiting", "-a", "claude", "--json").json

    assert lines[0] == "1 answer owed to claude"
    assert lines[1].split() == ["PRI", "TYPE", "OWES", "SINCE", "STATE", "ID", "SUBJECT"]
    assert lines[2].split()[:3] == ["P2", "question", "gemini"]
    assert lines[2].split()[4] == "waiting"
    assert (owed["id"], owed["owes"], owed["late"]) == (sent["id"], "gemini", False)
    assert owed["expects"] == ["notification", "follow_up"]
    assert stage.run("outbox", "--waiting", "-a", "gemini").out == "Nobody owes gemini an answer.\n"


def test_what_is_owed_to_every_agent_is_one_list_with_late_ones_first(stage: Stage) -> None:
    stage.send(to="gemini")
    old = a_file(id="old-a8f3", from_="codex", to="claude", type="question", priority="P0")
    (stage.agent("codex") / "outbox" / "old.yaml").write_bytes(old)

    lines = stage.run("outbox", "--waiting", "--all").out.splitlines()

    assert lines[0] == "2 answers owed to the agents of the project, 1 late"
    assert lines[1].split() == ["PRI", "TYPE", "OWES", "TO", "SINCE", "STATE", "ID", "SUBJECT"]
    assert [line.split()[2:4] for line in lines[2:]] == [["claude", "codex"], ["gemini", "claude"]]


@pytest.mark.requirement("D-OUTBOX-WAITING")
def test_a_late_answer_is_marked(stage: Stage) -> None:
    old = a_file(id="old-a8f3", from_="claude", to="codex", type="question", priority="P0")
    (stage.agent("claude") / "outbox" / "old.yaml").write_bytes(old)

    lines = stage.run("outbox", "--waiting", "-a", "claude").out.splitlines()

    assert lines[0] == "1 answer owed to claude, 1 late"
    assert lines[2].split()[4] == "late"


def test_read_of_ones_own_message_names_the_outbox(stage: Stage) -> None:
    sent = stage.send()

    read = stage.run("read", sent["id"], "-a", "claude", "--json").json

    assert (read["place"], read["file"]) == ("outbox", sent["file"])


def test_read_says_how_long_ago_and_whether_it_has_expired(stage: Stage) -> None:
    stage.plant("codex", expires_at='"2020-01-01T00:00:00Z"')

    shown = stage.run("read", "a8f3", "-a", "codex").out

    assert re.search(r"\ncreated: 2026-03-13 14:30:00Z \(\d+d ago\)\n", shown)
    assert "\nexpires: 2020-01-01 00:00:00Z (expired)\n" in shown


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


@pytest.mark.requirement("D-THREAD-WORDS")
def test_a_thread_shows_who_said_what(stage: Stage) -> None:
    first = stage.send("--body", "Internal calls.\nWe decide today.", subject="mTLS or JWT?")
    second = stage.run("reply", first["id"], "-a", "codex", "--body", "JWT", "--json").json

    for agent in ("claude", "codex"):
        lines = stage.run("thread", first["conversation_id"], "-a", agent).out.splitlines()
        assert [re.sub(r"\d+s ago", "AGO", line) for line in lines] == [
            "claude → codex  question P2  AGO",
            "mTLS or JWT?",
            f"[{first['id']}]",
            "  Internal calls.",
            "  We decide today.",
            "  └ codex → claude  notification P2  AGO",
            "    Re: mTLS or JWT?",
            f"    [{second['id']}]",
            "      JWT",
        ]
    ids = [one["id"] for one in stage.run("thread", second["id"], "-a", "codex", "--json").json]
    assert ids == [first["id"], second["id"]]


def test_a_thread_shows_the_beginning_all_or_nothing_of_a_body(stage: Stage) -> None:
    sent = stage.send("--body", "\n".join(f"line {number}" for number in range(20)))

    brief, full, headings = (
        stage.run("thread", sent["id"], "-a", "codex", *more).out for more in ([], ["--full"], ["--headings"])
    )

    assert ("line 11\n" in brief, "line 12\n" in brief, "  … 8 more lines (--full)\n" in brief) == (True, False, True)
    assert "line 19\n" in full
    assert headings.splitlines()[1:] == ["Hello", f"[{sent['id']}]"]


def test_a_thread_may_be_limited_to_the_newest(stage: Stage) -> None:
    first = stage.send()
    second = stage.run("reply", first["id"], "-a", "codex", "--body", "JWT", "--json").json

    shown = stage.run("thread", first["id"], "-a", "codex", "--limit", "1")

    assert shown.out.startswith("1 earlier message not shown\n")
    assert (first["id"] in shown.out, second["id"] in shown.out) == (False, True)
    as_json = stage.run("thread", first["id"], "-a", "codex", "--limit", "1", "--json").json
    assert [one["id"] for one in as_json] == [second["id"]]
    assert stage.run("thread", first["id"], "-a", "codex", "--limit", "-1").code == 2


@pytest.mark.parametrize("command", [["thread", "{id}"], ["search", "needle"], ["watch", "--once"], ["next"]])
def test_nothing_wraps_inside_an_id_at_80_columns(stage: Stage, command: list[str]) -> None:
    stage.patch.setenv("NO_COLOR", "1")
    body = f"{'needle ' * 30}\nsee src/{'a' * 40}/file.py"
    sent = stage.send(
        "--body", body, subject="A subject that is a good deal longer than a terminal of 80 columns is wide"
    )
    stage.run("reply", sent["id"], "-a", "gemini", "--body", body)

    _, shown = stage.on_terminal(*[word.format(id=sent["id"]) for word in command], "-a", "codex", columns=80)

    named = [line for line in shown.splitlines() if sent["id"][-4:] in line]
    assert named
    assert [line for line in named if len(line) > 80] == []
    if command[0] != "next":
        assert max(map(len, shown.splitlines())) <= 80


def test_messages_that_name_each_other_as_parents_are_drawn_all_the_same(stage: Stage) -> None:
    stage.plant("codex", "1.yaml", id="one", parent_message_id="two")
    stage.plant("codex", "2.yaml", id="two", parent_message_id="one")

    assert stage.run("thread", "one", "-a", "codex", "--headings").out.count("[") == 2


def test_a_search_shows_who_said_what_where_and_a_snippet(stage: Stage) -> None:
    sent = stage.send("--body", "First line.\nWhere is the Needle?")

    lines = stage.run("search", "needle", "-a", "codex").out.splitlines()
    (found,) = stage.run("search", "needle", "-a", "codex", "--json").json

    assert re.sub(r"\d+s ago", "AGO", lines[0]) == "claude → codex  question P2  AGO  inbox"
    assert lines[1:] == [f"  Hello  [{sent['id']}]", "  Where is the Needle?"]
    assert (found["id"], found["snippet"]) == (sent["id"], "Where is the Needle?")


def test_a_search_may_be_limited(stage: Stage) -> None:
    ids = [stage.send("--body", "needle")["id"] for _ in range(3)]

    shown = stage.run("search", "needle", "-a", "codex", "--limit", "2").out

    assert shown.endswith("1 more match (--limit)\n")
    assert sum(one in shown for one in ids) == 2
    assert len(stage.run("search", "needle", "-a", "codex", "--limit", "1", "--json").json) == 1


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


COLD = (
    ["inbox", "-a", "codex"],
    ["send", "-a", "claude", "--to", "codex", "--type", "question", "--subject", "x", "--body", "y"],
    ["next", "-a", "codex"],
    ["done", "-a", "codex"],
    ["hook", "--for", "claude", "-a", "claude"],
    ["mcp", "-a", "codex"],
)


def test_commands_that_coding_agents_run_all_day_do_not_load_typing(stage: Stage) -> None:
    stage.send()
    loads = {}
    for words in COLD:
        code = (
            f"import os, sys; from parley.cli.main import entry; sys.argv = ['parley', *{words}];"
            "os._exit = lambda code: print(code, sys.modules['typing'].__spec__ is not None, file=sys.stderr); entry()"
        )
        event = '{"hook_event_name": "Stop", "session_id": "1"}\n'
        ended = subprocess.run([sys.executable, "-c", code], input=event, capture_output=True, text=True, check=True)
        loads[words[0]] = ended.stderr.splitlines()[-1]

    assert loads == dict.fromkeys(("inbox", "send", "next", "done", "hook", "mcp"), "0 False")


def test_a_command_does_not_import_gettext_and_leaves_nothing_in_its_place() -> None:
    code = (
        "import os, sys; from parley.cli.main import entry; sys.argv = ['parley', 'inbox', '--agent'];"
        "os._exit = lambda code: print(code, 'gettext' in sys.modules, 'argparse' in sys.modules);"
        "entry(); import gettext; print(gettext.__file__ is not None)"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines() == ["2 False True", "True"]
    assert "argument -a/--agent/--from: expected one argument" in ended.stderr


def test_a_doubtful_message_is_marked_in_the_list(stage: Stage) -> None:
    stage.plant("codex", from_="stranger")

    shown = stage.run("inbox", "-a", "codex").out
    [item] = stage.run("inbox", "-a", "codex", "--json").json

    assert " doubtful " in shown
    assert shown.endswith(f"note: [{item['id']}] from: stranger is no agent of this project\n")
    assert item["doubts"] == ["from: stranger is no agent of this project"]


def test_an_unreadable_file_stands_at_the_end_with_its_reason(stage: Stage) -> None:
    stage.send("--priority", "P3")
    stage.plant("codex", "0.yaml", without="from")

    lines = stage.run("inbox", "-a", "codex").out.splitlines()
    item = stage.run("inbox", "-a", "codex", "--json").json[-1]

    assert lines[-1].split(None, 7) == ["2", "-", "-", "-", "-", "unreadable", "-", "0.yaml  invalid: from: is missing"]
    assert item == {"file": "0.yaml", "status": "unreadable", "problem": "invalid: from: is missing"}
    assert (stage.inbox("codex") / "0.yaml").read_bytes() == a_file("from")
