"""A program of agents that cannot begin, or go on, ends with one line and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from parley.domain.errors import errors
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.exits import exit_code
from parley.sdk.agent import uncaught
from tests.unit.sdk.peer import a_peer, refused

AGENT = """
from parley import Agent, BaseAgent, on_message, run_agents

@Agent("data-agent")
class DataAgent(BaseAgent):
    @on_message(channel="questions")
    async def answer(self, message):
        return {}

@Agent("idle")
class Idle(BaseAgent):
    pass

"""
ON_THE_CLASS = (
    "error: DataAgent is a class, not an agent [invalid]\nhint: write DataAgent().run(...) with the parentheses\n"
)
RUN, RUN_ALL = AGENT + "DataAgent().run()\n", AGENT + "run_agents(DataAgent())\n"


def run(program: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("program", [RUN, RUN_ALL])
def test_without_a_key_it_says_so_in_one_line(program: str) -> None:
    refusal = refused("401 Unauthorized", "unauthorized")
    with a_peer(refusal, refusal) as peer:  # whether it is there, and then the first request
        code, text = run(program, PARLEY_URL=peer.url)

    assert (code, len(text.splitlines())) == (6, 2)
    assert text.splitlines()[0].startswith("error: ")
    assert text.splitlines()[0].endswith(" [unauthorized]")
    hint = f"log in with: parley login {peer.url}, or set PARLEY_KEY; start a server of your own with: parley up"
    assert text.endswith(f"\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("program", "url", "code", "line"),
    [
        (RUN, "mailbox:nowhere", 3, " [unknown_project]\n"),
        (RUN, "http://[::1", 2, " [invalid]\n"),
        (
            AGENT + "Idle().run()\n",
            "",
            2,
            "error: Idle has no handlers [invalid]\nhint: put @on_message() above a method\n",
        ),
        (
            AGENT + "run_agents(DataAgent)\n",
            "",
            2,
            "error: DataAgent is no agent [invalid]\nhint: write DataAgent() with its parentheses\n",
        ),
        (
            AGENT + "DataAgent.run()\n",
            "",
            2,
            ON_THE_CLASS,
        ),
        (
            AGENT + "DataAgent.run('http://127.0.0.1:1')\n",
            "",
            2,
            ON_THE_CLASS,
        ),
        (AGENT + "run_agents(DataAgent(), DataAgent())\n", "", 2, "error: two agents are called data-agent"),
    ],
)
def test_whatever_it_cannot_begin_with_is_an_error_and_a_hint(
    program: str, url: str, code: int, line: str, tmp_path: Path
) -> None:
    done, text = run(program, PARLEY_URL=url, HOME=str(tmp_path))

    assert done == code, text
    assert [each.partition(": ")[0] for each in text.splitlines()] in (["error"], ["error", "hint"]), text
    assert line in text


def test_a_program_that_catches_it_goes_on() -> None:
    program = "import parley\n" + AGENT + "try:\n    Idle().run()\nexcept parley.ParleyError:\n    pass\n1 / 0\n"

    code, text = run(program)

    assert code == 1
    assert text.endswith("ZeroDivisionError: division by zero\n")


def test_at_a_prompt_the_line_is_printed_and_the_prompt_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    error = errors.NotFound("no\x1b[2Jsuch\nthing")

    uncaught.print_if_uncaught(error)
    sys.excepthook(type(error), error, None)

    assert capsys.readouterr().err == "error: no\\x1b[2Jsuch\\nthing [not_found]\n"


@pytest.mark.parametrize("kind", [errors.Invalid, errors.NotFound, errors.Forbidden, errors.Unavailable, ParleyError])
def test_its_exit_code_is_that_of_the_table(kind: type[ParleyError], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    error = kind("x")
    uncaught.print_if_uncaught(error)

    with pytest.raises(SystemExit) as ended:
        sys.excepthook(kind, error, None)

    assert ended.value.code == exit_code(error)
