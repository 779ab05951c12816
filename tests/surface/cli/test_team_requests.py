"""`parley withdraw`, `parley forward`, and Ctrl-C in `parley ask`, against a real server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from tests.surface.cli.team_stage import PATIENCE, Team, ended

# Writes a part, and the next one only when a file says so: what was printed before came before the end.
WRITER = """\
import asyncio, pathlib, sys
import parley

@parley.Agent("writer", start="beginning")
class Writer:
    @parley.on_message()
    async def write(self, message):
        yield parley.progress("reading", percent=10)
        yield {"text": "first"}
        try:
            while not pathlib.Path(sys.argv[1]).exists():
                await asyncio.sleep(0.05)
        finally:
            pathlib.Path(sys.argv[2]).touch()
        yield {"text": "last"}

Writer().run()
"""


@pytest.fixture
def go_on(team: Team, tmp_path: Path) -> Path:
    """The writer is at work; it goes on after its first part when this file is there."""
    script, go_on = tmp_path / "writer.py", tmp_path / "go_on"
    script.write_text(WRITER)
    command = [sys.executable, str(script), str(go_on), str(tmp_path / "ended")]
    team.listeners.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    deadline = monotonic() + PATIENCE
    while not any(agent["agent_id"] == "writer" for agent in team.said("agent", "list", "--server")):
        assert monotonic() < deadline
    return go_on


def request_to(team: Team, agent: str) -> str:
    """The first request to an agent in the channel, as soon as it is there."""
    read = team.said("messages", "questions", "--intent", team.intent, "-a", agent, "--wait", "30s")
    request: str = read[0]["id"]
    return request


def test_a_request_is_withdrawn_by_its_sender_and_by_nobody_else(team: Team) -> None:
    channel = team.channel()
    asked = team.post(channel, "--to", "codex", "--type", "request", "--field", "q=1")

    denied = team.run("withdraw", asked, "--channel", channel, "--agent", "codex")
    done = team.run("withdraw", asked, "--channel", "questions", "--intent", team.intent, "--agent", "claude")
    again = team.said("withdraw", asked, "--channel", channel, "--agent", "claude")
    late = team.run("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")

    assert (denied.code, done.code, late.code) == (6, 0, 4)
    assert done.out == f"Withdrawn: {asked} to codex\n"
    assert (again["id"], again["state"]) == (asked, "withdrawn")
    assert "was withdrawn by claude" in late.err


def test_what_is_answered_cannot_be_withdrawn(team: Team) -> None:
    channel = team.channel()
    asked = team.post(channel, "--to", "codex", "--type", "request", "--field", "q=1")
    team.said("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")

    late = team.run("withdraw", asked, "--channel", channel, "--agent", "claude")

    assert (late.code, late.out) == (4, "")
    assert "is answered already" in late.err


def test_a_request_is_handed_on_and_answered_by_the_next_one(team: Team) -> None:
    channel = team.channel()
    asked = team.post(channel, "--to", "codex", "--type", "request", "--field", "q=1")

    handed = team.said("forward", asked, "--channel", channel, "--to", "gemini", "-a", "codex")
    late = team.run("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")
    back = team.run("forward", handed["id"], "--channel", channel, "--to", "codex", "-a", "gemini")
    answer = team.said("answer", handed["id"], "--channel", channel, "--agent", "gemini", "--field", "a=1")

    assert (handed["payload"], handed["metadata"]["forwarded"]["by"]) == ({"q": "1"}, ["codex"])
    assert (late.code, back.code) == (4, 4)
    assert "claude -> codex -> gemini -> codex: codex had this request before" in back.err
    assert (answer["to"], answer["correlation_id"]) == ("claude", asked)


def test_ctrl_c_in_ask_withdraws_the_question(team: Team) -> None:
    channel = team.channel()
    words = ("ask", channel, "--to", "codex", "--timeout", "60s", "--field", "q=1", "--agent", "claude")
    process = team.spawn(*words, "--wait-for-responders")
    asked = request_to(team, "codex")

    process.send_signal(signal.SIGINT)

    assert ended(process).code == 130
    late = team.run("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")
    assert "was withdrawn by claude" in late.err


def test_a_streamed_answer_is_printed_part_by_part_while_the_agent_works(team: Team, go_on: Path) -> None:
    words = ("ask", team.channel(), "--to", "writer", "--timeout", "60s", "--field", "q=1", "-a", "claude")
    process = team.spawn(*words, "--stream", "--json", "--wait-for-responders")
    assert process.stdout is not None

    before = [json.loads(process.stdout.readline()) for _ in range(2)]
    go_on.touch()
    rest = ended(process)

    last = json.loads(rest.out)
    assert [one["payload"] for one in before] == [{"text": "reading", "percent": 10}, {"text": "first"}]
    assert [one["metadata"]["partial"] for one in (*before, last)] == ["progress", "artifact", "artifact"]
    assert (last["payload"], rest.code) == ({"text": "last"}, 0)
    plain = team.run("ask", last["channel_id"], "--to", "writer", "--field", "q=2", "-a", "claude")
    assert plain.out.splitlines()[1:] == ["text: last"]


def test_ctrl_c_in_a_streamed_ask_ends_the_work_of_the_agent(team: Team, go_on: Path) -> None:
    words = ("ask", team.channel(), "--to", "writer", "--timeout", "60s", "--field", "q=1", "-a", "claude")
    process = team.spawn(*words, "--stream", "--wait-for-responders")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Progress from writer")

    process.send_signal(signal.SIGINT)

    assert ended(process).code == 130
    finished = go_on.with_name("ended")
    waiting = subprocess.run(
        ["sh", "-c", f"until [ -e {finished} ]; do sleep 0.05; done"], timeout=PATIENCE, check=True
    )
    assert waiting.returncode == 0


def test_an_agent_in_place_of_a_channel_is_asked_directly(team: Team, go_on: Path) -> None:
    go_on.touch()

    ran = team.run("ask", "writer", "a report", "--timeout", "60s", "-a", "claude")
    told = team.said("post", "writer", "thanks", "-a", "claude")

    assert ran.out.splitlines()[1:] == ["text: last"], ran
    assert (told["to"], told["payload"], told["message_type"]) == ("writer", {"text": "thanks"}, "notify")
    asked = team.said("messages", told["channel_id"], "-a", "writer")
    assert [one["payload"] for one in asked if one["sender"] == "claude"] == [{"text": "a report"}, {"text": "thanks"}]
    assert team.run("messages", told["channel_id"], "-a", "codex").code == 3


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("ask", "chan_01K", "q"), "needs --to"),
        (("ask", "writer", "q", "--to", "codex"), "--to names another one"),
        (("ask", "wri ter", "q"), "neither the id of a channel nor an agent"),
        (("ask", "writer", "q", "--field", "a=b"), "a text and --payload or --field together"),
        (("ask", "nobody-here", "q"), "nobody-here"),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused_in_one_line(team: Team, words: tuple[str, ...], hint: str) -> None:
    ran = team.run(*words, "-a", "claude")

    assert ran.code != 0
    assert hint in ran.err
    assert len(ran.err.splitlines()) == 1
