"""`parley post`, `ask`, `answer` and `messages` against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from threading import Thread
from uuid import uuid4

import pytest

import parley
from tests.surface.cli.team_stage import PATIENCE, Team, ended
from tests.surface.stage import Stage


def test_a_message_is_posted_to_a_channel_by_its_id_and_read_back(team: Team) -> None:
    channel = team.channel()

    posted = team.said("post", channel, "--agent", "claude", "--field", "status=starting")

    (read,) = team.said("messages", channel)
    assert (read["id"], read["sender"], read["payload"]) == (posted["id"], "claude", {"status": "starting"})
    assert (read["message_type"], read["to"], read["seq"]) == ("notify", None, 1)


@pytest.mark.parametrize("verb", ["post", "ask"])
def test_a_misspelt_channel_is_refused_with_what_was_meant_and_not_created(team: Team, verb: str) -> None:
    team.channel("goals")
    team.said("agent", "register", "codex")
    words = ("--intent", team.intent, "-a", "claude", "--to", "codex", "--field", "n:=1")

    ran = team.run(verb, "gaols", *words)

    assert (ran.code, ran.error) == (3, "not_found")
    assert 'no channel "gaols"' in ran.err
    assert ran.err.endswith('(did you mean "goals"?) [not_found]\nhint: to create it, add --create\n')
    assert [one["name"] for one in team.said("channel", "list", team.intent)] == ["goals"]
    assert team.run("post", "gaols", *words, "--create").code == 0


def test_a_message_to_a_name_makes_the_channel(team: Team) -> None:
    first = team.said("post", "progress", "--intent", team.intent, "-a", "claude", "--field", "n:=1")
    second = team.said("post", "progress", "--intent", team.intent, "-a", "codex", "--field", "n:=2")

    assert first["channel_id"] == second["channel_id"]
    read = team.said("messages", "progress", "--intent", team.intent)
    assert [one["payload"] for one in read] == [{"n": 1}, {"n": 2}]


def test_in_words_a_message_is_one_line(team: Team) -> None:
    channel = team.channel()
    team.said("agent", "register", "codex")

    ran = team.run("post", channel, "-a", "claude", "--to", "codex", "--field", "a=b")

    posted = team.said("messages", channel)[0]["id"]
    assert ran.out == f"Posted {posted} to codex (notify, number 1)\n"


def test_a_message_to_a_role_that_nobody_holds_says_so(team: Team) -> None:
    words = ("post", team.channel(), "-a", "claude", "--to", "role:nobody", "--field", "a=b")

    assert "to role:nobody, which has no receiver yet" in team.run(*words, "--wait-for-responders").out


@pytest.mark.parametrize("prefix", ["", "role:", "any:"])
def test_a_message_to_nobody_is_refused_with_what_was_meant_and_exit_code_3(team: Team, prefix: str) -> None:
    team.said("agent", "register", "librarian", "--role", "librarian")
    channel = team.channel()

    ran = team.run("post", channel, "-a", "claude", "--to", f"{prefix}libarian", "--field", "a=b")

    assert (ran.code, ran.error, ran.out) == (3, "no_responders", "")
    assert ran.err.endswith(f'(did you mean "{prefix}librarian"?) [no_responders]\n')
    assert team.said("messages", channel) == []


@pytest.mark.parametrize(
    ("words", "stdin", "payload"),
    [
        (["--payload", '{"a": [1, {"b": null}]}'], b"", {"a": [1, {"b": None}]}),
        (["--payload", "{}"], b"ignored", {}),
        (["--payload", "-"], b'{"from": "stdin"}', {"from": "stdin"}),
        ([], b'{"from": "stdin"}\n', {"from": "stdin"}),
        (["--field", "text=a=b", "--field", "n:=1.5", "--field", "l:=[1]"], b"", {"text": "a=b", "n": 1.5, "l": [1]}),
        (["--field", "a.b=x", "--field", "a.c:=true"], b"", {"a": {"b": "x", "c": True}}),
        (["--field", "empty="], b"", {"empty": ""}),
        (["--field", "umlaut=Grüße ✓"], b"", {"umlaut": "Grüße ✓"}),
    ],
)
def test_a_payload_comes_from_json_from_fields_or_from_standard_input(
    team: Team, words: list[str], stdin: bytes, payload: object
) -> None:
    posted = team.said("post", "payloads", "--intent", team.intent, "-a", "claude", *words, stdin=stdin)

    assert posted["payload"] == payload


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (["--payload", "{"], b"", "--payload is not JSON"),
        (["--payload", "[1]"], b"", "must be a JSON object"),
        (["--payload", '{"a": NaN}'], b"", "NaN is not a number"),
        (["--payload", "[" * 100_000], b"", "not JSON"),
        (["--payload", "{}", "--field", "a=b"], b"", "--payload and --field together"),
        (["--field", "a"], b"", "is not NAME=VALUE"),
        (["--field", "=b"], b"", "is not NAME=VALUE"),
        (["--field", "a..b=c"], b"", "is not NAME=VALUE"),
        (["--field", "a:=x"], b"", "the value after := is not JSON"),
        (["--field", "a=1", "--field", "a=2"], b"", "given twice"),
        (["--field", "a=1", "--field", "a.b=2"], b"", "already a value"),
        ([], b"", "standard input is empty"),
        ([], b"just text", "standard input is not JSON"),
        ([], b"\xff{}", "not UTF-8"),
        ([], b" " * (1024 * 1024 + 1), "larger than the largest message"),
    ],
)
def test_what_is_no_payload_is_said_before_anything_is_sent(
    team: Team, words: list[str], stdin: bytes, said: str
) -> None:
    ran = team.run("post", "chan_x", "-a", "claude", *words, stdin=stdin)

    assert (ran.code, ran.error, ran.out) == (2, "invalid", "")
    assert said in ran.err


def test_a_request_without_addressee_is_refused_at_once(team: Team) -> None:
    ran = team.run("post", "chan_x", "--type", "request", "--field", "a=b")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "needs --to" in ran.err


def test_expiry_and_metadata_go_along(team: Team) -> None:
    words = ("--expires", "5m", "--metadata", '{"trace": "x"}')

    posted = team.said("post", team.channel(), "-a", "claude", "--field", "a=b", *words)

    assert posted["metadata"] == {"trace": "x"}
    assert posted["expires_at"] > posted["created_at"]


def test_a_key_for_all_agents_has_to_say_who_speaks(team: Team) -> None:
    ran = team.run("post", team.channel(), "--field", "a=b")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "add --agent NAME, or set PARLEY_AGENT" in ran.err


def test_who_speaks_may_stand_in_the_environment(team: Team) -> None:
    channel = team.channel()
    team.stage.patch.setenv("PARLEY_AGENT", "gemini")

    assert team.said("post", channel, "--field", "a=b")["sender"] == "gemini"


def test_a_message_is_posted_later_listed_and_cancelled(team: Team) -> None:
    channel = team.channel("reminders")
    words = ("post", "reminders", "--intent", team.intent, "-a", "claude", "--to", "codex", "--field", "text=Ready?")

    made = team.said(*words, "--in", "1h")
    said = team.run(*words, "--at", "2099-01-01T00:00:00Z")
    shown = team.run("timer", "list", "-a", "claude")

    assert (made["status"], made["channel_id"], made["payload"]) == ("scheduled", channel, {"text": "Ready?"})
    assert (said.code, said.error) == (2, "invalid")  # more than a year away
    assert [line.split()[2:6] for line in shown.out.splitlines()[1:]] == [["scheduled", "claude", "codex", "notify"]]
    assert team.run("timer", "cancel", made["id"], "-a", "claude").out == f"Cancelled {made['id']}\n"
    assert team.run("timer", "list", "-a", "claude").out.startswith("No timers")
    again = team.run("timer", "cancel", made["id"], "-a", "claude")
    assert (again.code, again.error) == (3, "not_found")


def test_a_message_that_is_due_soon_comes_by_itself(team: Team) -> None:
    channel = team.channel()

    line = team.run("post", channel, "-a", "claude", "--to", "codex", "--in", "1s", "--field", "text=Now").out
    (message,) = team.said("messages", channel, "-a", "codex", "--wait", "30s")

    assert message["payload"] == {"text": "Now"}
    assert line.startswith(f"Scheduled {message['id']} to codex at ")


# ---------------------------------------------------------------- ask and answer

# For a command that has to start first; less than a script is given to end.
_WAIT = PATIENCE - 10


def answer_next(team: Team, channel: str, *, agent: str = "codex") -> Thread:
    """Somebody who waits for a request and answers it, in a process of its own."""

    def work() -> None:
        waiting = team.stage.script("messages", channel, "-a", agent, "--wait", f"{_WAIT}s", "--json")
        (request,) = [one for one in waiting.json if one["message_type"] == "request"]
        words = ("answer", request["id"], "--channel", channel, "-a", agent, "--field", "answer=v2.3")
        assert team.stage.script(*words).code == 0

    assert team.run("agent", "register", agent).code == 0
    thread = Thread(target=work)
    thread.start()
    return thread


def test_a_question_is_answered(team: Team) -> None:
    channel = team.channel()
    answering = answer_next(team, channel)

    ran = team.run(
        "ask", channel, "-a", "claude", "--to", "codex", "--field", "question=Which?", "--timeout", f"{PATIENCE}s"
    )

    answering.join(PATIENCE)
    assert (ran.code, ran.err) == (0, "")
    first, second = ran.out.splitlines()
    assert first.startswith("Answer from codex [msg_")
    assert second == "answer: v2.3"


def test_a_question_to_a_name_gives_the_whole_answer_as_json(team: Team) -> None:
    answering = answer_next(team, team.channel("asked"))

    words = ("--intent", team.intent, "-a", "claude", "--to", "codex", "--timeout", f"{PATIENCE}s")
    answer = team.said("ask", "asked", *words, "--field", "q=1")

    answering.join(PATIENCE)
    assert (answer["sender"], answer["message_type"], answer["payload"]) == ("codex", "response", {"answer": "v2.3"})


@pytest.mark.parametrize(
    ("payload", "metadata", "line"),
    [
        (
            {"error": {"code": "handler_failed", "message": "no\nrows"}},
            {"error": "handler_failed"},
            "error: codex: no\\nrows [handler_failed]\n",
        ),
        (
            {"error": {"message": "ValueError: no ink", "chain": ["codex", "writer"]}},
            {"error": "handler_failed"},
            "error: codex <- writer: ValueError: no ink [handler_failed]\n",
        ),
        ({"error": 0.02, "mean": 4.1}, {}, ""),
        ({"answer": "v2.3"}, {"error": "handler_failed"}, ""),
    ],
    ids=["an error", "an error of another agent", "a field of that name", "a mark without a reason"],
)
def test_that_it_could_not_be_answered_is_one_line_with_its_chain_and_exit_code_1(
    team: Team, payload: dict[str, object], metadata: dict[str, object], line: str
) -> None:
    channel = team.channel()
    assert team.run("agent", "register", "codex").code == 0

    def answer() -> None:
        with parley.Client(team.server.url, key=team.server.key, agent="codex") as codex:
            (asked,) = codex.list_messages(channel, wait=_WAIT)
            codex.reply_to(channel, asked.id, payload=payload, metadata=metadata)

    answering = Thread(target=answer)
    answering.start()

    ran = team.run("ask", channel, "-a", "claude", "--to", "codex", "--field", "q=1", "--timeout", f"{PATIENCE}s")

    answering.join(PATIENCE)
    assert (ran.code, ran.err) == (1 if line else 0, line)
    if not line:
        assert ran.out.startswith("Answer from codex [msg_")
        assert all(f"{name}: " in ran.out for name in payload)


def test_a_question_to_nobody_is_refused_at_once_with_what_was_meant_and_exit_code_3(team: Team) -> None:
    team.run("agent", "register", "librarian")
    channel = team.channel()
    words = ("ask", channel, "-a", "claude", "--field", "q=1", "--timeout", f"{PATIENCE}s")

    misspelt, role = team.run(*words, "--to", "libarian"), team.run(*words, "--to", "role:nobody-holds-this")

    assert (misspelt.code, misspelt.error, misspelt.out) == (3, "no_responders", "")
    assert misspelt.err.endswith('no agent "libarian" is registered (did you mean "librarian"?) [no_responders]\n')
    assert (role.code, role.error) == (3, "no_responders")
    assert role.err.endswith(
        "(give it to an agent: parley agent register NAME --role nobody-holds-this) [no_responders]\n"
    )
    assert team.said("messages", channel) == []


def test_a_question_to_nobody_creates_no_channel(team: Team) -> None:
    intent = team.said("intent", "create", f"Empty {uuid4().hex[:8]}", "-a", "claude")["id"]
    words = ("ask", "newroom", "--intent", intent, "-a", "claude", "--field", "q=1", "--timeout", f"{PATIENCE}s")

    refused = [
        team.run(*words, "--to", to) for to in ("nobody-at-all", "role:nobody-holds-this", "any:nobody-holds-this")
    ]

    assert [(ran.code, ran.error) for ran in refused] == [(3, "no_responders")] * 3
    assert 'no agent "nobody-at-all" is registered' in refused[0].err
    assert team.said("channel", "list", intent, "-a", "claude") == []
    assert "newroom" not in team.run("audit", "export", intent).out


def test_without_an_answer_in_time_the_exit_code_is_8_and_the_question_expires(team: Team) -> None:
    ran = team.run(
        "ask",
        "quiet",
        "--intent",
        team.intent,
        "-a",
        "claude",
        "--to",
        "codex",
        "--field",
        "q=1",
        "--timeout",
        "1",
        "--wait-for-responders",
    )

    assert (ran.code, ran.error, ran.out) == (8, "ask_timeout", "")
    assert team.said("messages", "quiet", "--intent", team.intent) == []


@pytest.mark.both_stores
@pytest.mark.slow
def test_a_question_survives_the_death_of_the_server(lone_team: Team) -> None:
    team = lone_team
    channel = team.channel()
    team.run("agent", "register", "codex")
    asking = team.spawn("ask", channel, "-a", "claude", "--to", "codex", "--field", "q=1", "--timeout", "10m", "--json")
    (request,) = team.said("messages", channel, "-a", "codex", "--wait", f"{_WAIT}s")

    team.server.kill()
    team.server.start()
    team.said("answer", request["id"], "--channel", channel, "-a", "codex", "--field", "answer=late")

    ran = ended(asking)
    assert (ran.code, ran.err, ran.json["payload"]) == (0, "", {"answer": "late"})
    assert [one["message_type"] for one in team.said("messages", channel)] == ["request", "response"]


@pytest.mark.parametrize("timeout", ["0", "2h", "soon", "-1"])
def test_a_timeout_is_a_time_of_at_most_an_hour(team: Team, timeout: str) -> None:
    ran = team.run("ask", "chan_x", "--to", "codex", "--field", "q=1", f"--timeout={timeout}")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "--timeout" in ran.err


def test_a_text_is_given_to_post_and_answer_as_to_send(team: Team) -> None:
    channel = team.channel()
    asked = team.said(
        "post",
        channel,
        "--type",
        "request",
        "--to",
        "codex",
        "--wait-for-responders",
        "--body",
        "Which?",
        "-a",
        "claude",
    )
    answered = team.said("answer", asked["id"], "v2.3", "--channel", channel, "-a", "codex")
    both = team.run("post", channel, "One", "--body", "Two", "-a", "claude")

    assert (asked["payload"], answered["payload"]) == ({"text": "Which?"}, {"text": "v2.3"})
    assert (both.code, both.err) == (2, "error: TEXT and --body together [invalid]\nhint: leave one of them out\n")


def test_only_who_was_asked_may_answer(team: Team) -> None:
    channel = team.channel()
    request = team.post(channel, "--type", "request", "--to", "codex", "--field", "q=1")

    ran = team.run("answer", request, "--channel", channel, "-a", "gemini", "--field", "a=b")

    assert (ran.code, ran.error) == (6, "not_addressee")


def test_only_a_request_can_be_answered(team: Team) -> None:
    channel = team.channel()
    notice = team.post(channel, "--field", "q=1")

    ran = team.run("answer", notice, "--channel", channel, "-a", "codex", "--field", "a=b")

    assert (ran.code, ran.error) == (4, "not_a_request")


def test_an_answer_may_name_the_channel_on_its_intent(team: Team) -> None:
    channel = team.channel("named")
    request = team.post(channel, "--type", "request", "--to", "codex", "--field", "q=1")

    words = ("--channel", "named", "--intent", team.intent, "-a", "codex", "--field", "a=b")
    answered = team.said("answer", request, *words)

    assert (answered["correlation_id"], answered["to"]) == (request, "claude")


# ---------------------------------------------------------------- messages


def test_messages_are_a_table_in_their_order(team: Team) -> None:
    channel = team.channel()
    ids = [team.post(channel, "--field", f"n:={number}") for number in (1, 2)]

    head, *rows = team.run("messages", channel).out.splitlines()

    assert head.split() == ["#", "AGE", "TYPE", "FROM", "TO", "STATUS", "ID", "DISCLOSURE", "PAYLOAD"]
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert all("  Sent by an AI agent  " in row for row in rows)
    assert [message_id in row for message_id, row in zip(ids, rows, strict=True)] == [True, True]
    assert rows[1].endswith('{"n": 2}')


def test_messages_after_a_cursor_and_at_most_so_many(team: Team) -> None:
    channel = team.channel()
    ids = [team.post(channel, "--field", f"n:={number}") for number in range(4)]

    after = team.said("messages", channel, "--since", ids[0], "--limit", "2")
    by_number = team.said("messages", channel, "--since", "3")

    assert [one["id"] for one in after] == ids[1:3]
    assert [one["id"] for one in by_number] == ids[3:]


def test_only_what_one_agent_may_see(team: Team) -> None:
    channel = team.channel()
    for addressee in ("codex", "gemini"):
        team.post(channel, "--to", addressee, "--field", "a=b")

    assert [one["to"] for one in team.said("messages", channel, "--to", "codex")] == ["codex"]
    assert [one["to"] for one in team.said("messages", channel, "-a", "gemini")] == ["gemini"]


@pytest.mark.both_stores
def test_a_cursor_that_was_evicted_goes_on_with_a_warning(team: Team) -> None:
    channel = team.channel("small", "--max-messages", "2")
    ids = [team.post(channel, "--field", f"n:={number}") for number in range(4)]

    ran = team.run("messages", channel, "--since", ids[0], "--json")

    assert (ran.code, [one["id"] for one in ran.json]) == (0, ids[2:])
    assert "warning: older messages were evicted; the oldest one is number 3\n" in ran.err


def test_an_empty_channel_says_so(team: Team) -> None:
    assert team.run("messages", team.channel()).out == "No messages.\n"


@pytest.mark.parametrize("words", [["messages", "questions"], ["listen", "x y"], ["channel", "list"]])
def test_of_several_intents_none_is_chosen(team: Team, words: list[str]) -> None:
    team.said("intent", "create", "Another")

    ran = team.run(*words)

    assert (ran.code, ran.error) == (4, "ambiguous")
    assert "no intent given, and you can see" in ran.err
    assert "add --intent TITLE, or set PARLEY_INTENT" in ran.err


def test_a_name_without_a_sender_may_be_an_agent_or_a_channel(team: Team) -> None:
    ran = team.run("post", "questions", "--field", "a=b")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "for the channel questions, add --intent INTENT" in ran.err


@pytest.mark.parametrize("words", [["messages", "nothing"], ["channel", "show", "nothing"], ["listen", "nothing"]])
def test_a_name_that_is_not_there_is_said_with_where_to_look(team: Team, words: list[str]) -> None:
    ran = team.run(*words, "--intent", team.intent)

    assert (ran.code, ran.error) == (3, "not_found")
    assert f"see parley channel list {team.intent}" in ran.err


# ---------------------------------------------------------------- what goes wrong on the way


def test_where_no_server_is_the_line_says_what_to_do(team: Team) -> None:
    ran = team.run("messages", "chan_x", "--url", "http://127.0.0.1:9")

    assert (ran.code, ran.error, ran.out) == (7, "unavailable", "")
    assert "start a server with: parley up" in ran.err


def test_a_wrong_key_is_said_without_the_key(team: Team) -> None:
    ran = team.run("messages", "chan_x", "--key", "pk_secret")

    assert (ran.code, ran.error) == (6, "unauthorized")
    assert (
        "the key from --key is not valid there; set another, or leave it out and log in with: parley login" in ran.err
    )
    assert "pk_secret" not in ran.err


@pytest.mark.parametrize("url", ["nowhere", "ftp://x", "http://"])
def test_what_is_no_address_is_wrong_usage(team: Team, url: str) -> None:
    ran = team.run("messages", "chan_x", "--url", url)

    assert (ran.code, ran.error) == (2, "invalid")


def test_an_error_as_json_is_one_object_with_the_servers_problems(team: Team) -> None:
    ran = team.run("post", team.channel(), "--field", "a=b", "--json")

    error = json.loads(ran.err)["error"]
    assert (ran.code, error["code"]) == (2, "invalid")
    assert [problem["field"] for problem in error["problems"]] == ["sender"]


def test_what_a_message_says_cannot_act_on_a_terminal(team: Team) -> None:
    payload = json.dumps({"\x1b[2J": "\x1b[31m\u202e\x9b\r", "n\n": 1})
    channel = team.channel()
    team.said("post", channel, "-a", "claude", "--payload", payload)

    shown = team.run("messages", channel).out

    assert not {"\x1b", "\u202e", "\x9b", "\r"} & set(shown)
    assert len(shown.splitlines()) == 2


def test_a_mailbox_command_loads_nothing_of_a_server(stage: Stage) -> None:
    code = (
        "import sys; from parley.cli.main import main; code = main(['inbox', '-a', 'codex']);"
        "slow = {'http.client', 'msgspec', 'asyncio', 'ssl', 'parley.sdk.blocking.connection'};"
        "slow |= {'parley.domain.errors.team'};"
        "print(code, *sorted(slow & set(sys.modules)))"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (stage.files("codex"), ended.stdout.splitlines()[-1]) == ([], "0")


def test_the_newest_messages_are_listed_with_last_and_the_oldest_with_limit(team: Team) -> None:
    channel = team.channel("newest")
    for number in range(3):
        team.post(channel, "--field", f"n:={number}")

    assert [message["payload"]["n"] for message in team.said("messages", channel, "--last", "2")] == [1, 2]
    assert [message["payload"]["n"] for message in team.said("messages", channel, "--limit", "2")] == [0, 1]
    assert team.run("messages", channel, "--last", "0").err == (
        "error: --last is a number of messages, at least 1 [invalid]\n"
    )


def test_a_failure_is_listed_as_its_error(team: Team) -> None:
    channel = team.channel("failures")
    failure = '{"error": {"code": "handler_failed", "message": "ValueError: bad job", "agent": "codex"}}'
    team.run("post", channel, "-a", "codex", "--payload", failure, "--metadata", '{"error": "handler_failed"}')

    assert "error: ValueError: bad job" in team.run("messages", channel).out


@pytest.mark.parametrize(("word", "command"), [("history", "messages"), ("cancel", "withdraw")])
def test_words_of_other_tools_lead_to_the_command(team: Team, word: str, command: str) -> None:
    assert team.run(word).err == f"error: no command '{word}' (did you mean {command}?) [invalid]\n"


def test_a_question_with_a_timeout_waits_for_a_server_that_restarts(lone_team: Team) -> None:
    lone_team.server.stop()

    at_once = lone_team.run("ask", "codex", "Ready?", "-a", "claude")
    asking = lone_team.spawn("ask", "nobody", "Ready?", "-a", "claude", "--timeout", "40s")
    lone_team.server.start()

    assert at_once.err.startswith("error: no server answers at")
    assert 'no agent "nobody" is registered' in ended(asking).err
