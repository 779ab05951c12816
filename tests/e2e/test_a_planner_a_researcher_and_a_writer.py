"""Three agents of one file: three commands until the report, and what goes wrong is said where it happened."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.e2e.terminal import Person, wrapped_lines

TEAM = """
import sys

from parley import Agent, BaseAgent, ChannelMessage, on_request, run_agents


@Agent("researcher")
class Researcher(BaseAgent):
    @on_request()
    async def research(self, message: ChannelMessage) -> dict[str, str]:
        return {"fact": f"{message.text} is durable"}


@Agent("writer")
class Writer(BaseAgent):
    @on_request()
    async def write(self, message: ChannelMessage) -> str:
        if "ink" in message["fact"]:
            raise ValueError("no ink")
        return f"Report: {message['fact']}."


@Agent("planner")
class Planner(BaseAgent):
    @on_request()
    async def plan(self, message: ChannelMessage) -> dict[str, str]:
        facts = await self.direct("researcher").ask(message.text)
        report = await self.direct("writer").ask(fact=facts["fact"])
        return {"report": report.text}


crew = {"researcher": Researcher, "writer": Writer, "planner": Planner}
run_agents(*[crew[name]() for name in sys.argv[1:] or crew])
"""
ASKING = """
import parley

with parley.connect(agent="me") as team:
    print(team.direct("planner").ask("Python")["report"])
"""
# `parley up`, `python team.py`, `parley ask`.
COMMANDS_UNTIL_THE_REPORT = 3


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """Somebody with an empty home and the file of their team."""
    (tmp_path / "team.py").write_text(TEAM)
    (tmp_path / "ask.py").write_text(ASKING)
    return Person(tmp_path, PARLEY_PORT=str(free_port()))


def test_the_report_comes_after_three_commands(person: Person) -> None:
    with person.typing("parley up", until="Parley is up"), person.typing("python team.py", until="at work"):
        report = person.type("parley ask planner 'Parley' --agent me --wait-for-responders")

    assert "report: Report: Parley is durable." in report
    assert wrapped_lines(report) == []
    assert len(person.typed) == COMMANDS_UNTIL_THE_REPORT


def test_a_program_asks_without_an_address_or_a_key(person: Person) -> None:
    with person.typing("parley up", until="Parley is up"), person.typing("python team.py", until="at work"):
        person.type("parley ask planner 'Parley' --agent me --wait-for-responders")
        report = person.type("python ask.py")

    assert report == "Report: Python is durable.\n"


def test_a_failure_two_agents_away_is_named_with_its_cause(person: Person) -> None:
    with person.typing("parley up", until="Parley is up"), person.typing("python team.py", until="at work"):
        failed = person.type("parley ask planner 'ink' --agent me --wait-for-responders", code=1)

    said = " ".join(failed.split())
    assert "ValueError: no ink" in said
    assert "writer" in said


def test_a_name_that_nobody_has_is_said_at_once(person: Person) -> None:
    with person.typing("parley up", until="Parley is up"), person.typing("python team.py", until="at work"):
        person.type("parley ask planner 'Parley' --agent me --wait-for-responders")
        refused = person.type("parley ask planer 'Parley' --agent me", code=3)

    assert re.search(r'did you mean "?planner"?\?', " ".join(refused.split()))


def test_one_agent_started_again_does_not_end_the_crew(person: Person) -> None:
    with person.typing("parley up", until="Parley is up"), person.typing("python team.py", until="at work"):
        person.type("parley ask planner 'one' --agent me --wait-for-responders")
        with person.typing("python team.py writer", until="at work"):
            report = person.type("parley ask planner 'two' --agent me --timeout 60")

    assert "Report: two is durable." in report


def test_the_person_has_only_what_it_was_given(person: Person) -> None:
    """Nothing of this machine's user reaches the story."""
    shown = subprocess.run(["ls", "-A", str(person.home)], capture_output=True, text=True, check=True).stdout
    assert shown == "ask.py\nteam.py\n"
