"""watch: shows what arrives, and forgets nothing before it was shown."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.surface.stage import Stage, parley_script

ONCE = ("watch", "-a", "codex", "--once")


def every_pause(stage: Stage, act: Callable[[int], None]) -> list[float]:
    """Do something in place of each wait; the waits that were asked for."""
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        act(len(waits))

    stage.patch.setattr(time, "sleep", pause)
    return waits


def send_late(stage: Stage, turn: int) -> list[float]:
    """Let a message arrive in place of that wait."""

    def act(now: int) -> None:
        if now == turn:
            stage.send(subject="Late")

    return every_pause(stage, act)


def test_what_is_new_is_one_line_each_and_is_shown_once(stage: Stage) -> None:
    sent = stage.send("--priority", "P1")

    first, second = stage.run(*ONCE), stage.run(*ONCE)

    at = sent["created_at_utc"][11:19]
    assert first.out.endswith(f"{at}  P1  question  claude  Hello  [{sent['id']}]\n")
    assert (second.code, second.out) == (0, "")


def test_as_json_each_message_is_one_line(stage: Stage) -> None:
    ids = {stage.send()["id"], stage.send()["id"]}

    lines = stage.run(*ONCE, "--json").out.splitlines()

    assert {json.loads(line)["id"] for line in lines} == ids


def test_a_message_that_arrives_later_is_shown(stage: Stage) -> None:
    arrived: list[str] = []

    def arrive(turn: int) -> None:
        if turn == 3:
            arrived.append(stage.mailbox("claude").send("codex", "question", "Late", "x").id)

    waits = every_pause(stage, arrive)

    ran = stage.run("watch", "-a", "codex", "--timeout", "2s")

    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert arrived[0] in ran.out
    assert sum(waits) > 1.9


def test_without_news_it_ends_after_the_timeout(stage: Stage) -> None:
    waits = every_pause(stage, lambda _: None)

    ran = stage.run("watch", "-a", "codex", "--timeout", "3s")

    assert (ran.code, ran.out) == (0, "")
    assert 2.9 < sum(waits) < 4.1


def test_an_interrupt_ends_it_without_a_word(stage: Stage) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    every_pause(stage, interrupt)
    sent = stage.send()

    ran = stage.run("watch", "-a", "codex")

    assert (ran.code, ran.err) == (130, "")
    assert sent["id"] in ran.out
    assert stage.run(*ONCE).out == ""


def test_a_closed_pipe_costs_no_message(stage: Stage) -> None:
    sent = stage.send()
    read_end, write_end = os.pipe()
    os.close(read_end)

    ended = subprocess.run(
        [parley_script(), *ONCE], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(write_end)

    assert (ended.returncode, ended.stderr) == (1, "")
    assert sent["id"] in stage.run(*ONCE).out


def test_a_full_disk_under_the_output_costs_no_message(stage: Stage) -> None:
    sent = stage.send()

    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [parley_script(), *ONCE], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )

    assert ended.returncode == 7
    assert ended.stderr == "error: cannot write the output: No space left on device [unavailable]\n"
    assert sent["id"] in stage.run(*ONCE).out


def test_a_bad_file_is_reported_once(stage: Stage) -> None:
    stage.plant("codex", "bad.yaml", without="type")

    first, second = stage.run(*ONCE), stage.run(*ONCE)

    assert (first.out, second.out) == ("unreadable  bad.yaml  invalid: type: is missing\n", "")
    assert stage.files("codex") == ["bad.yaml"]


def test_two_watchers_are_independent(stage: Stage) -> None:
    sent = stage.send()
    stage.run(*ONCE, "--watcher", "one")

    assert stage.run(*ONCE, "--watcher", "one").out == ""
    assert sent["id"] in stage.run(*ONCE, "--watcher", "two").out


def test_a_watcher_needs_a_name(stage: Stage) -> None:
    ran = stage.run(*ONCE, "--watcher", "")

    assert (ran.code, ran.error) == (2, "invalid")


def test_new_only_passes_over_what_lies_there_already(stage: Stage) -> None:
    stage.send()

    assert stage.run(*ONCE, "--new-only").out == ""
    later = stage.send()
    assert later["id"] in stage.run(*ONCE).out


def test_a_command_gets_the_message_in_its_environment_and_on_standard_input(stage: Stage) -> None:
    sent = stage.send("--body", "All of it.\n")
    told = stage.here / "told"
    names = "$PARLEY_MESSAGE_ID $PARLEY_MESSAGE_FILE $PARLEY_MESSAGE_FROM $PARLEY_MESSAGE_TYPE $PARLEY_AGENT"

    ran = stage.run(*ONCE, "--exec", f"cat > '{told}.json'; echo {names} > '{told}.txt'")

    assert (ran.code, ran.out) == (0, "")
    assert (stage.here / "told.txt").read_text().split() == [sent["id"], sent["file"], "claude", "question", "codex"]
    given = json.loads((stage.here / "told.json").read_text())
    assert {key: given[key] for key in ("id", "body", "subject", "file", "status")} == {
        "id": sent["id"],
        "body": "All of it.\n",
        "subject": "Hello",
        "file": sent["file"],
        "status": "new",
    }


def test_a_command_that_succeeded_is_not_run_again(stage: Stage) -> None:
    stage.send()
    run = ("--exec", "echo x >> runs")

    for _ in range(2):
        stage.run(*ONCE, *run)

    assert (stage.here / "runs").read_text() == "x\n"


def test_a_command_that_fails_keeps_the_message_and_the_others_go_on(stage: Stage) -> None:
    bad, good = stage.send("--priority", "P0"), stage.send()
    command = f'echo "$PARLEY_MESSAGE_ID" >> runs; test "$PARLEY_MESSAGE_ID" != {bad["id"]}'

    first = stage.run(*ONCE, "--exec", command)
    second = stage.run(*ONCE, "--exec", command)

    assert (first.code, first.error) == (1, "exec_failed")
    assert f"exited with 1 for {bad['id']}; it will be run again" in first.err
    assert second.code == 1
    assert (stage.here / "runs").read_text().split() == [bad["id"], good["id"], bad["id"]]


def test_a_failing_command_is_tried_again_after_a_longer_and_longer_pause(stage: Stage) -> None:
    stage.send()

    def stop(_: int) -> None:
        if (stage.here / "runs").read_text().count("x") == 4:
            raise KeyboardInterrupt

    waits = every_pause(stage, stop)

    ran = stage.run("watch", "-a", "codex", "--exec", "echo x >> runs; false")

    assert (ran.code, ran.err.count("exec_failed")) == (130, 4)
    assert waits == [1, 2, 4, 8]


def test_a_command_that_does_not_read_its_input_is_no_error(stage: Stage) -> None:
    stage.send("--body", "x" * 20_000)

    assert stage.run(*ONCE, "--exec", "true").code == 0


def test_a_bad_file_is_printed_and_never_given_to_the_command(stage: Stage) -> None:
    stage.plant("codex", "bad.yaml", without="type")

    ran = stage.run(*ONCE, "--exec", "touch ran")

    assert ran.out.startswith("unreadable  bad.yaml")
    assert not (stage.here / "ran").exists()


@pytest.mark.parametrize("text", ["soon", "0s"])
def test_a_timeout_that_is_no_duration_is_refused(stage: Stage, text: str) -> None:
    ran = stage.run("watch", "-a", "codex", "--timeout", text)

    assert (ran.code, ran.error) == (2, "invalid")


def test_what_a_message_says_never_becomes_part_of_the_command(stage: Stage) -> None:
    stage.plant("codex", "x.yaml", id='"$(touch pwned); `touch pwned`"', subject='"; touch pwned #"')

    stage.run(*ONCE, "--exec", 'printf %s "$PARLEY_MESSAGE_ID" > told')

    assert (stage.here / "told").read_text() == "$(touch pwned); `touch pwned`"
    assert not (stage.here / "pwned").exists()


@pytest.mark.requirement("D-INBOX-ALL")
def test_several_agents_and_projects_are_watched_at_once(stage: Stage) -> None:
    stage.run("init", "web", "--agents", "codex,qa")
    one = stage.send("-p", "demo", to="codex,gemini")
    two = stage.run(
        "send", "-p", "web", "--from", "qa", "--to", "codex", "--type", "question", "--subject", "s", "--body", "b",
        "--json",
    ).json  # fmt: skip

    shown = stage.run("watch", "--once", "--all", "--all-projects").out.splitlines()
    chosen = stage.run("watch", "--once", "-p", "demo,web", "-a", "codex", "--watcher", "w", "--json").out.splitlines()

    assert sorted((line.split()[0], line.split("[")[1]) for line in shown) == [
        ("demo/codex", f"{one['id']}]"),
        ("demo/gemini", f"{one['id']}]"),
        ("web/codex", f"{two['id']}]"),
    ]
    assert [(entry["project"], entry["agent"], entry["id"]) for entry in map(json.loads, chosen)] == [
        ("demo", "codex", one["id"]),
        ("web", "codex", two["id"]),
    ]
    assert stage.run("watch", "--once", "--all", "--all-projects").out == ""


def test_a_command_for_several_mailboxes_runs_in_each_ones_name(stage: Stage) -> None:
    stage.send(to="codex,gemini")

    stage.run("watch", "--once", "-p", "demo", "-a", "codex,gemini", "--exec", 'echo "$PARLEY_AGENT" >> told')

    assert (stage.here / "told").read_text().split() == ["codex", "gemini"]


def test_since_passes_over_what_is_older(stage: Stage) -> None:
    stage.plant("codex", created_at_utc='"2020-01-01T00:00:00Z"')
    sent = stage.send()

    ran = stage.run(*ONCE, "--since", "1h", "--json")

    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == [sent["id"]]
    assert (stage.run(*ONCE, "--since", "soon").code, len(stage.run(*ONCE).out.splitlines())) == (2, 1)


def test_an_agent_that_no_project_has_is_an_error(stage: Stage) -> None:
    ran = stage.run("watch", "--once", "--all-projects", "-a", "nobody")

    assert (ran.code, ran.error) == (3, "unknown_agent")


def test_first_ends_with_the_first_message_and_leaves_the_others_for_the_next_call(stage: Stage) -> None:
    stage.send("--priority", "P2", subject="Second")
    stage.send("--priority", "P0", subject="First")
    waits = every_pause(stage, lambda _: None)
    watch = ("watch", "-a", "codex", "--first")

    first, second = stage.run(*watch), stage.run(*watch)

    assert [first.code, second.code, waits] == [0, 0, []]
    assert "First" in first.out
    assert "Second" not in first.out
    assert "Second" in second.out


def test_first_ends_as_soon_as_a_message_has_arrived(stage: Stage) -> None:
    waits = send_late(stage, 3)

    ran = stage.run("watch", "-a", "codex", "--first", "--timeout", "1h")

    assert (ran.code, ran.out.count("\n"), len(waits)) == (0, 1, 3)


@pytest.mark.parametrize("end", [("--once",), ("--timeout", "2s")])
def test_first_without_a_message_has_its_own_exit_code(stage: Stage, end: tuple[str, ...]) -> None:
    every_pause(stage, lambda _: None)

    ran = stage.run("watch", "-a", "codex", "--first", *end)

    assert (ran.code, ran.out, ran.err) == (14, "", "")
