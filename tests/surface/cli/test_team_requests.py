"""`parley withdraw`, `parley forward`, and Ctrl-C in `parley ask`, against a real server."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from time import monotonic

import pytest

import parley
from tests.surface.cli.team_stage import PATIENCE, Team, ended, typed_on_terminal
from tests.surface.stage import Ran

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

    misspelt = team.run("forward", asked, "--channel", channel, "--to", "gemnii", "-a", "codex")
    for agent in ("codex", "gemini"):
        team.said("agent", "register", agent)
    named = team.run("forward", asked, "--channel", channel, "--to", "gemnii", "-a", "codex")
    role = team.run("forward", asked, "--channel", channel, "--to", "role:none-holds-it", "-a", "codex")
    handed = team.said("forward", asked, "--channel", channel, "--to", "gemini", "-a", "codex")
    assert [(one.code, one.error) for one in (misspelt, named, role)] == [(3, "no_responders")] * 3
    assert named.err.endswith('no agent "gemnii" is registered (did you mean "gemini"?) [no_responders]\n')
    late = team.run("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")
    back = team.run("forward", handed["id"], "--channel", channel, "--to", "codex", "-a", "gemini")
    answer = team.said("answer", handed["id"], "--channel", channel, "--agent", "gemini", "--field", "a=1")

    assert (handed["payload"], handed["metadata"]["forwarded"]["by"]) == ({"q": "1"}, ["codex"])
    assert (late.code, back.code) == (4, 4)
    assert "claude -> codex -> gemini -> codex: codex had this request before" in back.err
    assert (answer["to"], answer["correlation_id"]) == ("claude", asked)


def test_a_shell_answers_in_parts_with_a_question_and_with_an_error(team: Team) -> None:
    channel = team.channel()

    def request(**metadata: bool) -> str:
        words = ("--type", "request", "--to", "codex", "--field", "q=1", "--metadata", json.dumps(metadata))
        return team.post(channel, *words)

    def answer(message: str, *words: str) -> Ran:
        return team.run("answer", message, "--channel", channel, "--agent", "codex", *words)

    parted = request(accepts_partial=True)
    assert answer(parted, "--progress", "reading").out.startswith("Told the progress with msg_")
    assert answer(parted, "--partial", "--field", "rows:=3").out.startswith("Answered in part with msg_")
    assert answer(parted, "All of it").code == 0
    late = answer(parted, "--partial", "too late")
    assert (late.code, late.error) == (4, "already_answered")
    whole = answer(request(), "--partial", "a part")
    assert (whole.code, whole.error) == (4, "partial_not_accepted")
    assert answer(request(), "--question", "Which city?").out.startswith("Asked back with msg_")
    assert answer(request(), "--error", "not before Friday").out.startswith("Answered with an error, msg_")
    for option in ("--question", "--error"):
        assert f"{option} needs a text" in answer(parted, option, "--field", "a=1").err
    assert answer(parted, "--partial", "--error", "x").code == 2

    answers = [sent for sent in team.said("messages", channel) if sent["message_type"] == "response"]
    assert [sent["metadata"].get("partial") for sent in answers] == ["progress", "artifact", None, None, None]
    assert (answers[3]["metadata"]["kind"], answers[3]["payload"]) == ("question", {"question": "Which city?"})
    failed = {"code": "agent_failed", "message": "not before Friday", "agent": "codex"}
    assert (answers[4]["metadata"]["error"], answers[4]["payload"]["error"]) == ("agent_failed", failed)


def test_ctrl_c_in_ask_withdraws_the_question(team: Team) -> None:
    channel = team.channel()
    words = ("ask", channel, "--to", "codex", "--timeout", "60s", "--field", "q=1", "--agent", "claude")
    process = team.spawn(*words, "--wait-for-responders")
    asked = request_to(team, "codex")

    process.send_signal(signal.SIGINT)

    ran = ended(process)
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == f"interrupted: {asked} to codex was withdrawn\n"
    late = team.run("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")
    assert "was withdrawn by claude" in late.err


def test_ctrl_c_says_so_when_the_question_could_not_be_withdrawn(lone_team: Team) -> None:
    team = lone_team
    channel = team.channel()
    words = ("ask", channel, "--to", "codex", "--timeout", "60s", "--field", "q=1", "--agent", "claude")
    process = team.spawn(*words, "--wait-for-responders")
    request_to(team, "codex")
    team.server.kill()

    process.send_signal(signal.SIGINT)

    ran = ended(process)
    assert (ran.code, ran.out) == (130, "")
    # One sentence, wrapped to the width.
    assert " ".join(ran.err.split()) == (
        "interrupted: the question to codex was not withdrawn:"
        f" no server answers at {team.server.url}: Connection refused"
    )


def asking_back(team: Team, channel: str) -> Thread:
    """Somebody who answers the first question with one in return, and the next one with what it was told."""
    team.said("agent", "register", "guide")

    def answer() -> None:
        with parley.Client(team.server.url, key=team.server.key, agent="guide") as guide:
            (asked,) = guide.list_messages(channel, wait=PATIENCE / 2)
            guide.reply_to(channel, asked.id, payload={"text": "Which city?"}, metadata={"kind": "question"})
            told = asked
            while told.id == asked.id or told.message_type != "request":
                told = guide.list_messages(channel, told.id, wait=PATIENCE / 2)[-1]
            guide.reply_to(channel, told.id, payload={"sun": told.payload["text"], "on": told.metadata["follows"]})

    thread = Thread(target=answer)
    thread.start()
    return thread


def test_a_question_in_return_is_printed_as_one_with_the_command_that_replies(team: Team) -> None:
    channel = team.channel()
    answering = asking_back(team, channel)

    ran = team.run("ask", channel, "Will it rain?", "--to", "guide", "--agent", "claude", "--timeout", f"{PATIENCE}s")

    title, text, reply = ran.out.splitlines()
    question = title.removeprefix("Question from guide [").removesuffix("]")
    assert text == "text: Which city?"
    assert reply == f"Reply with: parley ask {channel} --follow-up {question} --agent claude 'YOUR REPLY'"
    words = [word.replace("YOUR REPLY", "Rome") for word in shlex.split(reply.partition(" parley ")[2])]
    ran = team.run(*words, "--timeout", f"{PATIENCE}s")
    answering.join(PATIENCE)
    assert ran.out.splitlines()[1:] == ["sun: Rome", f"on: {question}"]


def test_a_question_in_return_is_answered_on_the_terminal(team: Team) -> None:
    channel = team.channel()
    answering = asking_back(team, channel)
    words = ("ask", channel, "Will it rain?", "--to", "guide", "--agent", "claude", "--timeout", f"{PATIENCE}s")

    code, shown = typed_on_terminal("Rome\n", *words)

    answering.join(PATIENCE)
    assert code == 0
    assert "Question from guide" in shown
    assert "Your reply (Enter to stop): " in shown
    assert "sun: Rome" in shown.replace("\x1b[36m", "").replace("\x1b[0m", "")


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

    ran = ended(process)
    assert ran.code == 130
    assert re.fullmatch(r"interrupted: msg_\w+ to writer was withdrawn\n", ran.err)
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
        (("ask", "wri ter", "q"), '"wri ter" is neither a channel nor an agent'),
        (("ask", "writer", "q", "--field", "a=b"), "a text and --payload or --field together"),
        (("ask", "nobody-here", "q"), "nobody-here"),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused_with_what_to_do(team: Team, words: tuple[str, ...], hint: str) -> None:
    ran = team.run(*words, "-a", "claude")

    assert ran.code != 0
    assert hint in ran.err
    assert [line.partition(": ")[0] for line in ran.err.splitlines()] == ["error", "hint"]


def test_asks_lists_who_waits_for_whose_answer(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = team.channel()
    here = ("--channel", channel)  # the server is shared with other tests
    assert team.run("asks", *here).out == "No request waits for an answer.\n"
    asked = team.post(channel, "--to", "codex", "--type", "request", "--field", "text=Is it done?", "--expires", "10m")
    team.post(channel, "--to", "gemini", "--type", "request", "--field", "text=Which port?")

    of_codex = team.said("asks", "codex", "--channel", "questions", "--intent", team.intent)
    none_late = team.run("asks", *here, "--state", "late", "--since", "24h")
    monkeypatch.setenv("COLUMNS", "80")
    shown = team.run("asks", *here)
    wrong = team.run("asks", "--since", "soon")

    assert [(ask["message_id"], ask["sender"], ask["to"]) for ask in of_codex] == [(asked, "claude", "codex")]
    assert none_late.out == "No matching requests.\n"
    lines = shown.out.splitlines()
    assert lines[0].split() == ["MESSAGE", "FROM", "TO", "ASKED", "LEFT", "ABOUT"]
    assert "claude" in lines[1]
    assert lines[1].endswith("Is it done?")
    assert all(len(line) <= 80 for line in lines)
    assert wrong.code == 2
    team.said("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")
    assert [ask["to"] for ask in team.said("asks", *here, "--newest")] == ["gemini"]
