"""`parley workflow run` on a real server: what it says, and how it ends."""

from __future__ import annotations

import json
import logging
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from parley.cli.parts.handler_log import logging_to
from parley.sdk.agent.logs import log_event
from tests.surface.cli.team_stage import Team, ended
from tests.surface.stage import Ran
from tests.unit.sdk.workflow.stage import forgetting
from tests.unit.wire.files.test_workflow import RFC

STEPS = """\
version: "1.0"
intent: {title: Report}
channels: {progress: {}}
agents:
  ann: {handler: work}
  bob: {handler: work, on_message: [{channel: progress, handler: log}]}
workflow:
  fetch: {assign: ann}
  check: {assign: bob}
  write: {assign: ann, depends_on: [fetch, check]}
"""
WORK = "async def work(step):\n    return {'by': step.agent.name}\ndef log(message): ...\n"
FAILS = "def work(step):\n    if step.name == 'fetch':\n        raise ValueError('no rows')\ndef log(message): ...\n"
# Says that it is there, and waits for a file.
WAITS = """\
import os, time
def work(step):
    print("waiting", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.02)
    return {"by": step.agent.name}
def log(message): ...
def log_progress(message): ...
def answer_questions(message):
    return {"answer": "v2.3"}
"""
ONE = 'version: "1.0"\nintent: {title: Report}\nagents: {ann: {handler: work}}\nworkflow: {a: {assign: ann}}\n'


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with forgetting():
        yield


def written(team: Team, text: str = STEPS, handlers: str = WORK) -> None:
    (team.stage.here / "workflow.yaml").write_text(text)
    (team.stage.here / "handlers.py").write_text(handlers)


def the_intent(ran: Ran) -> str:
    return ran.out.partition("[")[2].partition("]")[0]


def test_a_workflow_runs_to_its_end_line_by_line(team: Team) -> None:
    written(team)

    ran = team.run("workflow", "run", "workflow.yaml")

    assert (ran.code, ran.err) == (0, "")
    lines, intent = re.sub(r"in \d+\.\ds\b", "in a moment", ran.out).splitlines(), the_intent(ran)
    assert lines[:2] == [f"Report [{intent}]", "agents ready: ann, bob"]
    assert sorted(lines[2:-3]) == [
        "check: completed in a moment",
        "check: started by bob",
        "fetch: completed in a moment",
        "fetch: started by ann",
    ]
    assert lines[-3:-1] == ["write: started by ann", "write: completed in a moment"]
    assert lines[-1].startswith("Completed after ")
    assert team.said("intent", "show", intent)["state"] == {
        "fetch": {"by": "ann"},
        "check": {"by": "bob"},
        "write": {"by": "ann"},
    }


def test_the_intent_is_nobodys_in_particular_whoever_the_environment_speaks_for(team: Team) -> None:
    written(team)
    team.stage.patch.setenv("PARLEY_AGENT", "claude")

    intent = the_intent(team.run("workflow", "run", "workflow.yaml"))

    team.stage.patch.delenv("PARLEY_AGENT")
    assert team.said("intent", "show", intent)["created_by"].startswith("admin:")


def test_as_json_there_is_a_line_for_each_event_and_one_for_the_result(team: Team) -> None:
    written(team, handlers=WORK.replace("return", "print('noise'); return"))

    ran = team.run("workflow", "run", "workflow.yaml", "--json")

    told: list[dict[str, Any]] = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.code, ran.err) == (0, "noise\n" * 3)
    assert [one["event"] for one in told[:2]] == ["intent_created", "agents_ready"]
    assert [one["step"] for one in told if one["event"] == "step_completed"][-1] == "write"
    result = told[-1]
    assert (result["event"], result["outcome"]) == ("result", "completed")
    assert {name: step["status"] for name, step in result["steps"].items()} == dict.fromkeys(
        ("fetch", "check", "write"), "completed"
    )


def test_a_step_that_fails_is_told_with_its_place_and_has_its_exit_code(team: Team) -> None:
    written(team, handlers=FAILS)

    ran = team.run("workflow", "run", "workflow.yaml")

    said = "ValueError: no rows (handlers.py, line 3)"
    assert (ran.code, ran.err) == (10, f"error: fetch: {said} [workflow_failed]\n")
    assert re.search(rf"fetch: failed after \d+\.\ds: {re.escape(said)}", ran.out)
    assert "write: skipped: fetch did not get done" in ran.out
    assert ran.out.splitlines()[-1].endswith("; its intent is abandoned")
    assert team.said("intent", "show", the_intent(ran))["status"] == "abandoned"


def test_verbose_shows_where_in_its_code_a_handler_failed(team: Team) -> None:
    written(team, handlers=FAILS)

    ran = team.run("workflow", "run", "-v", "workflow.yaml")

    assert "Traceback" in ran.err
    assert "raise ValueError('no rows')" in ran.err


def test_a_message_handler_that_fails_is_a_warning(team: Team) -> None:
    handlers = (
        "async def work(step):\n    channel = await step.channels.open('progress')\n"
        "    await channel.broadcast({})\ndef log(message):\n    raise KeyError('x')\n"
    )
    written(
        team, ONE.replace("ann: {handler: work}", "ann: {handler: work}, bob: {on_message: [{handler: log}]}"), handlers
    )

    ran = team.run("workflow", "run", "workflow.yaml")

    assert (ran.code, ran.err) == (0, "warning: bob: log failed: KeyError: 'x' (handlers.py, line 5)\n")


@pytest.mark.slow
def test_out_of_time_has_its_exit_code(team: Team) -> None:
    written(team, ONE, "import asyncio\nasync def work(step):\n    await asyncio.Event().wait()\n")

    ran = team.run("workflow", "run", "workflow.yaml", "--timeout", "2")

    assert (ran.code, ran.err) == (11, "error: it took longer than 2 seconds [workflow_timed_out]\n")
    assert "a: cancelled: it took longer than 2 seconds" in ran.out


def test_a_run_can_be_drawn_with_how_far_it_came(team: Team) -> None:
    written(team, handlers=FAILS)
    intent = the_intent(team.run("workflow", "run", "workflow.yaml"))

    drawn = team.run("workflow", "graph", "workflow.yaml", "--run", intent)

    assert (drawn.code, drawn.err) == (0, "")
    assert "  class step1 failed" in drawn.out
    assert "  class step2 completed" in drawn.out
    assert "  class step3 skipped" in drawn.out
    elsewhere = team.run("workflow", "graph", "workflow.yaml", "--run", team.intent)
    assert (elsewhere.code, elsewhere.error) == (2, "invalid")


def test_on_a_terminal_the_steps_are_a_table_that_is_redrawn(team: Team) -> None:
    written(team, handlers=WORK.replace("return", "print('from', step.name); return"))

    code, shown = team.stage.on_terminal("workflow", "run", "workflow.yaml")

    assert code == 0
    assert "\x1b[4A\x1b[J" in shown  # a head and three steps
    last = shown.rpartition("\x1b[J")[2]
    words = [
        line.replace("\x1b[2m", "").replace("\x1b[32m", "").replace("\x1b[0m", "").split() for line in last.splitlines()
    ]
    assert words[0] == ["STEP", "AGENT", "STATE", "TIME", "NOTE"]
    assert [line[:3] for line in words[1:4]] == [
        ["fetch", "ann", "completed"],
        ["check", "bob", "completed"],
        ["write", "ann", "completed"],
    ]
    assert words[4][0] == "Completed"
    assert all(f"from {step}" in shown for step in ("fetch", "check", "write"))


def test_ctrl_c_ends_it_in_good_order(team: Team) -> None:
    written(team, ONE, WAITS)
    process = team.spawn("workflow", "run", "workflow.yaml")
    assert process.stdout is not None
    first = process.stdout.readline()
    while process.stdout.readline() != "waiting\n":
        pass

    process.send_signal(signal.SIGINT)
    ran = ended(process)

    assert (ran.code, ran.err) == (130, "")
    assert ran.out.splitlines()[:2] == [
        "stopping: cancelling running steps and abandoning the intent (Ctrl-C again to stop at once)",
        "a: cancelled: interrupted",
    ]
    assert team.said("intent", "show", first.partition("[")[2].partition("]")[0])["status"] == "abandoned"


def test_a_workflow_without_steps_ends_with_its_intent(team: Team) -> None:
    written(team, RFC, WAITS)
    process = team.spawn("workflow", "run", "workflow.yaml")
    assert process.stdout is not None
    intent = process.stdout.readline().partition("[")[2].partition("]")[0]
    assert process.stdout.readline() == "agents ready: research-agent, data-agent\n"

    words = ("ask", "data-clarification", "--intent", intent, "--to", "data-agent", "--agent", "research-agent")
    answer = team.said(*words, "--payload", '{"question": "Which?"}')
    team.said("intent", "complete", intent)
    ran = ended(process)

    assert answer["payload"] == {"answer": "v2.3"}
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Completed after ")


def test_an_intent_that_somebody_gives_up_has_its_exit_code(team: Team) -> None:
    written(team, RFC, WAITS)
    process = team.spawn("workflow", "run", "workflow.yaml")
    assert process.stdout is not None
    intent = process.stdout.readline().partition("[")[2].partition("]")[0]

    team.said("intent", "abandon", intent)
    ran = ended(process)

    assert (ran.code, ran.err) == (
        12,
        "error: the intent was abandoned by another client [workflow_abandoned]\n",
    )


def test_it_goes_on_when_the_server_was_killed_and_started_again(lone_team: Team) -> None:
    text = ONE.replace("{a: {assign: ann}}", "{a: {assign: ann}, b: {assign: ann, depends_on: [a]}}")
    written(lone_team, text, WAITS)
    process = lone_team.spawn("workflow", "run", "workflow.yaml", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"

    lone_team.server.kill()
    (lone_team.stage.here / "go").write_text("")
    lone_team.server.start()
    ran = ended(process)

    result = json.loads(ran.out.splitlines()[-1])
    assert (ran.code, result["outcome"]) == (0, "completed"), ran
    assert result["state"] == {"a": {"by": "ann"}, "b": {"by": "ann"}}
    assert [step["attempts"] for step in result["steps"].values()] == [1, 1]


def test_without_a_server_or_a_key_it_is_one_line(team: Team) -> None:
    written(team)

    nowhere = team.run("workflow", "run", "workflow.yaml", "--url", "http://127.0.0.1:1")
    assert (nowhere.code, nowhere.error, nowhere.out) == (7, "unavailable", "")
    unknown = team.run("workflow", "run", "workflow.yaml", "--key", "pk_wrong")
    assert (unknown.code, unknown.error, unknown.out) == (6, "unauthorized", "")


@pytest.mark.parametrize("timeout", ["soon", "0", "-1"])
def test_a_timeout_is_a_time(team: Team, timeout: str) -> None:
    written(team)

    ran = team.run("workflow", "run", "workflow.yaml", f"--timeout={timeout}")

    assert (ran.code, ran.error) == (2, "invalid")


def test_what_an_agent_logs_of_itself_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(verbose=False):
        log_event(logging.getLogger("parley.agent"), "ann", "agent_stream_broke", "its stream broke", "no server")

    assert capsys.readouterr().err == "warning: ann: its stream broke (no server)\n"
