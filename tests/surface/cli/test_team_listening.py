"""`parley listen`: nothing is missed, nothing comes twice, also over a server's death."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from http.client import HTTPConnection
from queue import Queue
from threading import Thread
from time import monotonic
from typing import Any

import pytest

from tests.surface.cli.team_stage import PATIENCE, Team, ended


class Heard:
    """What a listener prints, line by line, as soon as it is there."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: Queue[str] = Queue()
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # closed, because nobody listens to it any more
            for line in self.process.stdout:
                self._lines.put(line)

    def next(self) -> Any:  # noqa: ANN401  # whatever is said
        return json.loads(self._lines.get(timeout=PATIENCE))

    def end(self) -> tuple[int, str]:
        """Exit code and standard error, when it has ended without another word."""
        code = self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        assert self._lines.empty()
        assert self.process.stderr is not None
        return code, self.process.stderr.read()


def opened(team: Team, *words: str) -> Heard:
    """A listener that is known to listen: it is shown everything from the beginning, and has shown the first one."""
    heard = Heard(team.spawn("listen", *words, "--since", "0", "--json"))
    heard.next()
    return heard


def test_what_is_said_is_printed_as_it_is_said(team: Team) -> None:
    channel = team.channel()
    team.post(channel, "--field", "n:=0")
    listening = opened(team, channel)

    ids = [team.post(channel, "--field", f"n:={number}") for number in (1, 2, 3)]
    heard = [listening.next() for _ in ids]

    assert [one["id"] for one in heard] == ids
    assert [one["payload"] for one in heard] == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize(("option", "count"), [(["--once"], 1), (["--count", "2"], 2)])
def test_it_ends_after_as_many_as_one_wants(team: Team, option: list[str], count: int) -> None:
    channel = team.channel()
    ids = [team.post(channel, "--field", f"n:={number}") for number in range(3)]

    ran = team.run("listen", channel, "--since", "0", "--json", *option)

    assert (ran.code, ran.err) == (0, "")
    assert [json.loads(one)["id"] for one in ran.out.splitlines()] == ids[:count]


def test_in_words_a_message_is_one_line_that_cannot_act_on_a_terminal(team: Team) -> None:
    channel = team.channel()
    message = team.post(channel, "--to", "codex", "--payload", json.dumps({"a": "x\n\x1b[2J\u202e"}))

    ran = team.run("listen", channel, "--since", "0", "--once")

    assert ran.out.count("\n") == 1
    assert not {"\x1b", "\u202e"} & set(ran.out)
    assert ran.out.split("  ")[1:3] == ["notify", "claude -> codex"]
    assert ran.out.endswith(f"[{message}]  (Sent by an AI agent)\n")


def test_an_intents_stream_shows_messages_and_what_happened(team: Team) -> None:
    team.post(team.channel(), "--field", "a=b")
    team.said("intent", "assign", team.intent, "codex")

    ran = team.run("listen", "--intent", team.intent, "--since", "0", "--count", "4", "--json")

    heard = [json.loads(one) for one in ran.out.splitlines()]
    kinds = [one.get("message_type") or one["event_type"] for one in heard]
    assert kinds == ["intent_created", "status_changed", "notify", "agent_assigned"]


def test_an_agents_stream_shows_what_is_for_it(team: Team) -> None:
    channel = team.channel()
    me, asked = f"agent-{team.intent[-6:].lower()}", ("--type", "request", "--field", "q=1")
    team.post(channel, "--to", "gemini", *asked)
    message = team.post(channel, "--to", me, *asked)

    ran = team.run("listen", "--agent", me, "--since", "0", "--type", "request", "--once", "--json")

    assert json.loads(ran.out)["id"] == message


def test_only_messages_of_one_type(team: Team) -> None:
    channel = team.channel()
    team.post(channel, "--field", "a=b")
    request = team.post(channel, "--type", "request", "--to", "codex", "--field", "a=b")

    ran = team.run("listen", channel, "--since", "0", "--type", "request", "--once", "--json")

    assert json.loads(ran.out)["id"] == request


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["listen"], 3, "unknown_sender"),
        (["listen", "chan_x", "--for-agent", "codex"], 2, "invalid"),
        (["listen", "chan_x", "--since", "yesterday"], 2, "invalid"),
        (["listen", "chan_x", "--once", "--count", "3"], 2, "invalid"),
        (["listen", "chan_x", "--count=-1"], 2, "invalid"),
        (["listen", "chan_x"], 3, "not_found"),
        (["listen", "--intent", "intent_x"], 3, "not_found"),
        (["listen", "chan_x", "--url", "http://127.0.0.1:9"], 7, "unavailable"),
    ],
)
def test_what_cannot_be_listened_to_is_said_at_once(team: Team, words: list[str], code: int, error: str) -> None:
    ran = team.run(*words)

    assert (ran.code, ran.error, ran.out) == (code, error, "")


# ---------------------------------------------------------------- over a server's death


@pytest.mark.slow
def test_nothing_is_missed_and_nothing_comes_twice_when_the_server_is_killed(lone_team: Team) -> None:
    team = lone_team
    channel = team.channel()
    team.post(channel, "--field", "n:=0")
    listening = opened(team, channel)
    ids = [team.post(channel, "--field", f"n:={number}") for number in range(3)]
    heard = [listening.next()["id"]]

    team.server.kill()
    team.server.start()
    ids += [team.post(channel, "--field", f"n:={number}") for number in range(3, 6)]
    heard += [listening.next()["id"] for _ in range(5)]

    assert heard == ids


@pytest.mark.slow
def test_a_listener_that_heard_nothing_yet_misses_nothing_either(lone_team: Team) -> None:
    team = lone_team
    channel = team.channel()
    listening = team.spawn("listen", channel, "--json", "--once")
    wait_for_stream(team)

    team.server.kill()
    team.server.start()
    message = team.post(channel, "--field", "said=while it was away")

    ran = ended(listening)
    assert (ran.code, json.loads(ran.out)["id"]) == (0, message)
    assert "reconnecting" in ran.err


def wait_for_stream(team: Team) -> None:
    """Until the server has opened the stream."""
    opened = 'route="/subscribe/channels/{channel_id}",status="200"} 1'
    seen = 0
    for _ in range(PATIENCE * 100):
        connection = HTTPConnection("127.0.0.1", team.server.port, timeout=PATIENCE)
        connection.request("GET", "/metrics", headers={"X-API-Key": team.server.key})
        text = connection.getresponse().read().decode()
        connection.close()
        seen += opened in text
        if seen == 5:  # by then what it was told is on its way, whatever becomes of the server
            return
    pytest.fail("the stream was never opened")


@pytest.mark.slow
def test_a_listener_whose_key_is_revoked_ends_and_says_so(team: Team) -> None:
    channel = team.channel()
    made = team.said("key", "create", "--agent", "codex")
    team.post(channel, "--field", "n:=0")
    listening = opened(team, channel, "--key", made["key"])

    team.said("key", "revoke", made["id"])
    team.post(channel, "--field", "n:=1")

    code, said = listening.end()
    assert (code, json.loads(said)["error"]["code"]) == (6, "forbidden")


# ---------------------------------------------------------------- answering by a command


def test_a_command_answers_requests_with_what_it_prints(team: Team) -> None:
    channel = team.channel()
    command = (
        """printf '{"was": "%s", "from": "%s"}' "$(sed 's/.*"q": "\\([a-z]*\\)".*/\\1/')" "$PARLEY_MESSAGE_FROM" """
    )
    team.post(channel, "--field", "noise=x")
    request = team.post(channel, "--type", "request", "--to", "codex", "--field", "q=why")

    ran = team.run("listen", channel, "-a", "codex", "--since", "0", "--count", "2", "--answer-with", command)

    answer = team.said("messages", channel, "-a", "claude")[-1]
    assert (ran.code, ran.err) == (0, "")
    assert (answer["correlation_id"], answer["sender"]) == (request, "codex")
    assert answer["payload"] == {"was": "why", "from": "claude"}


def test_text_that_is_no_json_becomes_an_answers_text(team: Team) -> None:
    channel = team.channel()
    team.post(channel, "--type", "request", "--to", "codex", "--field", "q=why")

    team.run("listen", channel, "-a", "codex", "--since", "0", "--once", "--answer-with", "echo because")

    assert team.said("messages", channel, "-a", "claude")[-1]["payload"] == {"text": "because"}


def test_a_command_that_fails_answers_with_an_error_and_is_a_problem_found(team: Team) -> None:
    channel = team.channel()
    listening = team.spawn("listen", channel, "-a", "lisa", "--once", "--answer-with", "echo secret; exit 3")
    wait_until_online(team, "lisa")

    asked = team.run("ask", channel, "--to", "lisa", "--agent", "claude", "--timeout", "60s", "Why?")

    ran = ended(listening)
    assert (asked.code, asked.error) == (1, "handler_failed")
    assert asked.err.startswith("error: lisa: the command that answers exited with 3 [handler_failed]")
    assert (ran.code, ran.error) == (1, "exec_failed")
    assert "command exited with 3 for msg_" in ran.err
    assert "secret" not in json.dumps(team.said("messages", channel))


def presence_of(team: Team, agent: str) -> str:
    agents = {record["agent_id"]: record for record in team.said("agent", "list", "--server")}
    if agent not in agents or (agents[agent]["status"] == "active" and not agents[agent]["last_heartbeat_at"]):
        return ""
    return str(agents[agent]["status"])


def wait_until_online(team: Team, agent: str) -> None:
    deadline = monotonic() + PATIENCE
    while presence_of(team, agent) != "active":
        assert monotonic() < deadline


def test_who_answers_with_a_command_is_online_and_offline_when_it_ends(team: Team) -> None:
    channel = team.channel()
    listening = team.spawn("listen", channel, "-a", "gemini", "--once", "--answer-with", "echo yes")
    wait_until_online(team, "gemini")

    team.said("ask", channel, "--to", "gemini", "--agent", "claude", "--timeout", "60s", "Ready?")

    assert ended(listening).code == 0
    assert presence_of(team, "gemini") == "dead"


def test_a_command_can_use_parley_on_the_same_server(team: Team) -> None:
    channel = team.channel()
    team.post(channel, "--type", "request", "--to", "codex", "--field", "q=why")
    for name in ("PARLEY_URL", "PARLEY_KEY"):
        team.stage.patch.delenv(name)
    flags = ("--url", team.server.url, "--key", team.server.key, "-a", "codex")

    command = 'parley messages "$PARLEY_MESSAGE_CHANNEL" --json | grep -c msg_'
    team.run("listen", channel, *flags, "--since", "0", "--once", "--answer-with", in_path(command))

    assert team.run("messages", channel, *flags, "--json").json[-1]["payload"] == {"text": "1"}


def in_path(command: str) -> str:
    from tests.surface.stage import parley_script

    return command.replace("parley ", f"'{parley_script()}' ", 1)


def test_ones_own_questions_and_those_to_others_are_not_answered(team: Team) -> None:
    channel = team.channel()
    team.post(channel, "--type", "request", "--to", "gemini", "--field", "q=1", sender="codex")
    team.post(channel, "--type", "request", "--to", "codex", "--field", "q=2")

    ran = team.run("listen", channel, "-a", "codex", "--since", "0", "--count", "2", "--answer-with", "echo mine")

    assert (ran.code, ran.err) == (0, "")
    answers = [one for one in team.said("messages", channel) if one["message_type"] == "response"]
    assert [one["to"] for one in answers] == ["claude"]
