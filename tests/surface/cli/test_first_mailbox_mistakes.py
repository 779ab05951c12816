"""What people type into a mailbox in their first hour, and the sentence that they read."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest

from tests.surface.stage import Ran, Stage, parley_script


def claimed(stage: Stage, subject: str = "RS256 or HS256?") -> str:
    """The end of the id of a message that codex has claimed."""
    sent = stage.send(subject=subject)
    assert stage.run("next", "--agent", "codex").code == 0
    return str(sent["id"]).rpartition("-")[2]


@pytest.mark.parametrize("text", ["RS256.", "yes", "Thanks", "no-op", "Done", "8443!"])
def test_one_word_answers_the_only_claimed_message(stage: Stage, text: str) -> None:
    claimed(stage)

    ran = stage.run("reply", text, "--agent", "codex")

    assert (ran.code, ran.err) == (0, "")
    assert stage.run("next", "--agent", "claude", "--json").json["body"] == text


def test_a_word_in_the_form_of_an_id_is_told_how_to_be_the_answer(stage: Stage) -> None:
    ref = claimed(stage)

    ran = stage.run("reply", "8443", "--agent", "codex")

    assert ran.err == (
        "error: codex has no message '8443' [unknown_message]\n"
        f'hint: to answer "8443": parley reply {ref} 8443 --agent codex\n'
    )
    assert stage.run("reply", ref, "8443", "--agent", "codex").code == 0


def test_the_hint_about_the_answer_names_no_agent_that_was_not_given(stage: Stage) -> None:
    ref = claimed(stage)
    stage.patch.setenv("PARLEY_AGENT", "codex")

    assert stage.run("reply", "8443").err.endswith(f'hint: to answer "8443": parley reply {ref} 8443\n')


def test_with_two_claimed_messages_a_word_in_the_form_of_an_id_is_looked_for(stage: Stage) -> None:
    claimed(stage)
    claimed(stage, "Another?")

    hint = stage.run("reply", "8443", "--agent", "codex").err.splitlines()[1]

    places = "parley inbox --agent codex, parley outbox --agent codex, or parley search TEXT --agent codex"
    assert hint == f"hint: look with: {places}"


@pytest.mark.parametrize("ref", ["nosuch", "msg-20260313T1430Z-claude-zzzz"])
def test_only_a_whole_id_is_told_about_deleted_files(stage: Stage, ref: str) -> None:
    ran = stage.run("reply", ref, "--body", "x", "--agent", "codex")

    assert ran.error == "unknown_message"
    assert ("if its file was deleted" in ran.err) == ref.startswith("msg-")


@pytest.mark.parametrize("words", [("inbox",), ("next",), ("send", "codex", "hi")])
def test_who_is_not_known_learns_the_names_of_the_agents(stage: Stage, words: tuple[str, ...]) -> None:
    assert stage.run(*words).err == (
        "error: cannot tell which agent you are [unknown_sender]\n"
        "hint: add --agent NAME (one of claude, codex, gemini), or set PARLEY_AGENT\n"
    )


@pytest.mark.parametrize("option", ["--agent", "--from"])
def test_the_command_of_a_hint_names_the_agent_that_was_given(stage: Stage, option: str) -> None:
    ran = stage.run("reply", "Yes.", option, "codex")

    assert ran.err == (
        "error: codex has claimed no message [conflict]\n"
        "hint: name a message, or claim one with: parley next --agent codex\n"
    )


def test_a_message_is_named_by_any_end_of_its_id(stage: Stage) -> None:
    sent = stage.send()["id"]
    end = sent.rpartition("-")[2]

    for ref in (end, end.upper(), f"[{end}]", f"claude-{end}", f"claude{end}", f"ude-{end}", sent.upper()):
        assert stage.run("read", ref, "--agent", "codex", "--json").json["id"] == sent, ref
    assert stage.run("read", end[1:], "--agent", "claude").error == "unknown_message"


def test_an_archived_message_is_named_by_any_end_of_its_id(stage: Stage) -> None:
    end = claimed(stage)
    stage.run("done", "--delete", "--agent", "codex")

    assert stage.run("read", f"CLAUDE{end.upper()}", "--agent", "codex", "--json").json["id"].endswith(end)


def test_an_id_with_a_typing_error_is_suggested(stage: Stage) -> None:
    end = stage.send()["id"].rpartition("-")[2]
    wrong = end[:3] + ("x" if end[3] != "x" else "y")

    ran = stage.run("read", wrong, "--agent", "codex")

    assert ran.err == f"error: codex has no message '{wrong}' (did you mean {end}?) [unknown_message]\n"


def offline(stage: Stage, *arguments: str) -> Ran:
    """Run a command in a network of its own, in which no server answers."""
    namespace = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-n"]
    ended = subprocess.run(
        [*namespace, parley_script(), *arguments],
        stdin=subprocess.DEVNULL,
        cwd=stage.here,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("ask", "codex", "mTLS or JWT?"), "parley send codex 'mTLS or JWT?' --wait 5m"),
        (("ask", "codex", "Ready?", "--agent", "claude"), "parley send codex 'Ready?' --wait 5m --from claude"),
        (("post", "codex", "Pushed."), "parley send codex Pushed."),
        (("listen", "--agent", "codex"), "parley next --wait 5m --agent codex"),
        (("answer", "7huq", "Yes.", "--channel", "q", "--agent", "codex"), "parley reply 7huq Yes. --from codex"),
    ],
)
def test_who_has_no_server_but_mailboxes_learns_their_command(
    stage: Stage, words: tuple[str, ...], command: str
) -> None:
    ran = offline(stage, *words)

    assert ran.error == "unavailable"
    hint = "start a server with: parley up; set another address with --url or PARLEY_URL"
    assert ran.err.endswith(f"\nhint: {hint}; for mailboxes: {command}\n")


def test_an_agent_that_no_mailbox_has_and_a_server_of_ones_own_are_told_nothing_of_mailboxes(stage: Stage) -> None:
    assert "mailboxes" not in offline(stage, "ask", "nobody", "Ready?").err
    assert "mailboxes" not in offline(stage, "ask", "codex", "Ready?", "--url", "http://127.0.0.1:1").err


def test_whoami_names_the_agent_and_the_project_of_the_mailboxes(stage: Stage) -> None:
    text, document = (offline(stage, "whoami", "--agent", "codex", *more) for more in ((), ("--json",)))

    assert (text.code, text.out.splitlines()[0].split(maxsplit=1)) == (0, ["mailbox:", "codex, project demo"])
    assert document.json == {"url": None, "mailbox": {"project": "demo", "agent": "codex"}}


def test_an_agent_that_is_named_twice_is_made_once(stage: Stage) -> None:
    assert stage.run("init", "second", "--agents", "claude, claude,codex", "--json").json["agents"] == [
        "claude",
        "codex",
    ]


@pytest.mark.parametrize(("in_a_repository", "command"), [(True, "parley init"), (False, "parley init PROJECT")])
def test_without_a_project_the_hint_is_the_command_that_works_here(
    stage: Stage, in_a_repository: bool, command: str
) -> None:
    stage.patch.setenv("PARLEY_HOME", str(stage.here / "nothing-here"))
    if in_a_repository:
        subprocess.run(["git", "init", "-q", str(stage.here)], check=True)

    assert stage.run("inbox", "--agent", "codex").err.endswith(f"\nhint: create one with: {command}\n")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("inbox", "codex"), "error: unrecognized arguments: codex (did you mean --agent codex?) [invalid]\n"),
        (("next", "codex"), "error: unrecognized arguments: codex (did you mean --agent codex?) [invalid]\n"),
        (
            ("send", "codex", "hi", "there", "you"),
            "error: unrecognized arguments: there you [invalid]\nhint: quote the text: 'hi there you'\n",
        ),
        (("setup", "claud"), 'error: HARNESS cannot be "claud" (did you mean claude?) [invalid]\n'),
        (
            ("send", "codex", "hi", "--type", "quesiton"),
            'error: --type cannot be "quesiton" (did you mean question?) [invalid]\n',
        ),
        (
            ("send", "codex", "hi", "--priority", "high"),
            'error: --priority cannot be "HIGH" [invalid]\nhint: one of P0, P1, P2, P3\n',
        ),
        (("threads",), "error: no command 'threads' (did you mean thread?) [invalid]\n"),
    ],
)
def test_a_word_in_the_wrong_place_is_told_where_it_belongs(stage: Stage, words: tuple[str, ...], lines: str) -> None:
    assert stage.run(*words).err == lines


def test_next_names_the_text_of_the_answer(stage: Stage) -> None:
    end = stage.send()["id"].rpartition("-")[2]

    assert f"answer and finish: parley reply {end} TEXT --agent codex" in stage.run("next", "--agent", "codex").out


def test_a_wait_without_a_time_takes_a_message_that_is_there(stage: Stage) -> None:
    sent = stage.send()

    assert stage.run("next", "--wait", "--agent", "codex", "--json").json["id"] == sent["id"]


def test_thread_alone_lists_the_conversations(stage: Stage) -> None:
    claimed(stage, "RS256 or HS256?")
    stage.run("reply", "RS256.", "--agent", "codex")
    stage.send(subject="Port?")

    text, document = (stage.run("thread", "--agent", "claude", *more) for more in ((), ("--json",)))

    ids = {row["subject"]: row["conversation_id"] for row in document.json}
    heading, *rows = [re.sub(r" +\d+s +", " AGE ", line).split() for line in text.out.splitlines()]
    assert heading == ["CONVERSATION", "PEOPLE", "MESSAGES", "AGE", "SUBJECT"]
    assert sorted(rows, key=lambda row: row[3]) == [
        [ids["Port?"], "claude,", "codex", "1", "AGE", "Port?"],
        [ids["RS256 or HS256?"], "claude,", "codex", "2", "AGE", "RS256", "or", "HS256?"],
    ]
    assert stage.run("thread", ids["RS256 or HS256?"], "--agent", "claude").out.count("RS256.") == 1
    assert stage.run("thread", "--agent", "gemini").out == "gemini has no conversations.\n"


@pytest.mark.parametrize("command", ["hook", "mcp"])
def test_a_command_for_coding_agents_says_so_on_a_terminal(stage: Stage, command: str) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [parley_script(), command, "--for", "codex"], stdin=theirs, stderr=subprocess.PIPE, cwd=stage.here
    ) as process:
        os.close(theirs)
        os.write(ours, b"\x04")  # the end of the input
        assert process.stderr is not None
        shown = process.stderr.read().decode()
    os.close(ours)

    assert shown.startswith(f"note: a coding agent {'runs' if command == 'hook' else 'starts'} parley {command} and ")
    assert shown.endswith("; set it up with: parley setup\n")
