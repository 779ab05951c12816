"""What people type wrong in their first hour, and what they read: what happened, which thing, what to do."""

from __future__ import annotations

import json
import re

import pytest

from tests.surface.cli.team_stage import Team
from tests.surface.stage import Ran, Stage

NOT_FOUND, INVALID, CONFLICT = 3, 2, 4


def refusal(ran: Ran) -> tuple[int, str, str]:
    """The exit code, the stable code, and the sentence with its hint, which a server says in the message."""
    error = json.loads(ran.err if ran.err.startswith("{") else ran.out)["error"]
    said = sentence(error["message"], error["hint"])
    return ran.code, error["code"], re.sub(r'did you mean "([^"]*)"\?', r"did you mean \1?", said)


def sentence(message: str, hint: str) -> str:
    return f"{message} ({hint})" if hint else message


AGO = "or write 30m, 2h, 7d: so long ago; or a day like 2026-03-13"

ON_A_SERVER = {
    "an intent that is not there": (
        "post questions hi --agent me --intent Lunch",
        (NOT_FOUND, "not_found", 'no intent "Lunch" that you can see', "did you mean Launch?"),
    ),
    "an agent that nobody registered": (
        "ask nobody hi --agent me",
        (
            NOT_FOUND,
            "no_responders",
            'no agent "nobody" is registered',
            "agents: parley agent list --server; --wait-for-responders waits for one that comes later",
        ),
    ),
    "an agent by a misspelt name": (
        "ask planer hi --agent me",
        (NOT_FOUND, "no_responders", 'no agent "planer" is registered', "did you mean planner?"),
    ),
    "an approval by an end that none has": (
        "approvals show 24KK",
        (NOT_FOUND, "not_found", 'no approval "24KK"', "see: parley approvals list"),
    ),
    "an exchange by an end that none has": (
        "exchange show 24KK",
        (NOT_FOUND, "not_found", 'no exchange "24KK"', "see: parley exchange list"),
    ),
    "a message of the audit log by an end that none has": (
        "audit explain 24KK",
        (
            NOT_FOUND,
            "not_found",
            'no message or exchange "24KK"',
            "see: parley audit report 1d.., parley exchange list",
        ),
    ),
    "a key of nobody": (
        "key revoke nobody",
        (NOT_FOUND, "not_found", 'no key "nobody"', "see: parley key list"),
    ),
    "no kind of key": (
        "key create",
        (
            INVALID,
            "invalid",
            "no kind of key given",
            "give --agent NAME, --user NAME, or --kind service, admin or auditor",
        ),
    ),
    "a day that does not exist": (
        "audit report 2026-02-30",
        (INVALID, "invalid", "the period: '2026-02-30' is not a day that exists", ""),
    ),
    "a word that is no time": (
        "audit list --since someday",
        (INVALID, "invalid", "--since: 'someday' is not a time like 2026-03-13T14:30:00Z", AGO),
    ),
    "a period that ends before it begins": (
        "audit report 2026-11-18..2026-11-17",
        (
            INVALID,
            "invalid",
            "the period 2026-11-18..2026-11-17 ends before it begins",
            "write the earlier time first",
        ),
    ),
    "a policy that is not there": (
        "policy show org/nothing",
        (NOT_FOUND, "not_found", "no policy 'org/nothing'", "see: parley policy list"),
    ),
    "approving what was not seen": (
        "approvals approve --yes",
        (
            INVALID,
            "invalid",
            "--yes without an ID approves what you have not seen",
            "add the ID, or leave out --yes",
        ),
    ),
    "an address that is none": (
        "intent list --url nonsense",
        (
            INVALID,
            "invalid",
            "'nonsense' is no address of a server",
            "write http://HOST:PORT; where an agent runs may also be mailbox:PROJECT",
        ),
    ),
}


@pytest.mark.parametrize("mistake", ON_A_SERVER)
def test_a_mistake_on_a_server_is_answered_with_what_to_do(team: Team, mistake: str) -> None:
    line, (code, kind, message, hint) = ON_A_SERVER[mistake]
    if "Launch" in hint:
        team.said("intent", "create", "Launch", "--agent", "me")
    if "planner" in hint:
        team.said("agent", "register", "planner")

    assert refusal(team.run(*line.split(), "--json")) == (code, kind, sentence(message, hint))


_NAME = "must be letters, digits, '.', '_' or '-', at most 64, and begin with a letter or digit"
# What only the server can refuse: it is said in the words of the command line, not of the API.
IN_AN_OPTION = {
    "post questions --to me --expires 2020-01-01 hi": "--expires '2020-01-01' is in the past",
    "post questions --to me --expires 100d hi": "--expires '100d' is more than 30 days away",
    "post questions --to me --at 2020-01-01 hi": "--at '2020-01-01' is in the past",
    "post questions --to me --in 900d hi": "--in '900d' is more than 365 days away",
    "post questions --type response hi": "--correlation: a response names the request that it answers",
    "post questions --to me --type broadcast hi": "--to: a broadcast goes to everyone; leave it out or write *",
    "post questions --to role: hi": "--to: the role is not a valid name",
    "messages questions --limit 0": "--limit must be a number from 1 to 1000",
    "messages questions --since foo": "--since 'foo' is no message of this channel, no number and no time",
    "intent list --offset -1": "--offset must be a number from 0 to 1000000",
    "channel create --intent INTENT x --max-messages 0": "--max-messages must be at least 1",
    "channel create INTENT x --member a/b": f"--member {_NAME}",
    "channel create INTENT a/b": f"NAME 'a/b' {_NAME}",
    "key create --agent a/b": f"--agent 'a/b' {_NAME}",
    "agent register a/b": f"NAME 'a/b' {_NAME}",
    "agent register x --role a/b": f"--role 'a/b' {_NAME}",
    "tenant create a/b": f"TENANT 'a/b' {_NAME}",
}


@pytest.mark.parametrize("line", IN_AN_OPTION)
def test_what_a_server_refuses_is_named_by_the_option_that_it_came_from(team: Team, line: str) -> None:
    team.channel()
    team.stage.patch.setenv("PARLEY_INTENT", team.intent)
    words = [team.intent if word == "INTENT" else word for word in line.split()]
    team.stage.patch.setenv("PARLEY_AGENT", "me")

    ran = team.run(*words)

    codes = "bad_cursor" if "foo" in line else "invalid"
    assert (ran.code, ran.err) == (INVALID, f"error: {IN_AN_OPTION[line]} [{codes}]\n")


def test_an_empty_title_and_a_question_to_oneself_are_refused_in_plain_words(team: Team) -> None:
    channel = team.channel()

    assert team.run("intent", "create", "").err == "error: TITLE must not be empty [invalid]\n"
    own = team.run("ask", channel, "--to", "me", "--agent", "me", "hi")
    assert own.err.startswith("error: me asks itself, and would wait for its own answer [circular_wait]\n")
    both = team.run("channel", "list", team.intent, "--intent", team.intent)
    assert (both.code, both.error) == (INVALID, "invalid")


def test_two_intents_of_one_title_are_both_named(lone_team: Team) -> None:
    ends = [lone_team.said("intent", "create", "Lunch", "--agent", "me")["id"][-4:] for _ in range(2)]

    ran = lone_team.run("channel", "list", "Lunch", "--json")

    both = ", ".join(f"Lunch [{end}] (active, by me)" for end in ends)
    said = sentence(f'"Lunch" fits 2 intents: {both}', "use the end of its id, in square brackets")
    assert refusal(ran) == (CONFLICT, "ambiguous", said)


def test_an_agent_that_wants_a_role_learns_the_command_that_grants_it(lone_team: Team) -> None:
    key = lone_team.said("key", "create", "--agent", "writer")["key"]

    ran = lone_team.run("agent", "register", "writer", "--role", "author", "--key", key, "--json")

    command = "parley agent register writer --role author"
    said = sentence("an agent does not take a role by itself", f"an admin grants it: {command}")
    assert refusal(ran) == (6, "forbidden", said)


IN_A_MAILBOX = {
    "an agent by a misspelt name": (
        ("send", "codx", "hi", "--from", "claude"),
        (NOT_FOUND, "unknown_agent", "no agent 'codx' in project 'demo'", "did you mean codex?"),
    ),
    "no recipient": (
        ("send",),
        (INVALID, "invalid", "no recipient given", "for example: parley send codex 'mTLS or JWT?'"),
    ),
    "nothing to say": (
        ("send", "codex", "--from", "claude"),
        (INVALID, "invalid", "subject: is empty; body: is empty", "use --body TEXT"),
    ),
    "a wait without a unit": (
        ("next", "--wait", "5", "--agent", "codex"),
        (INVALID, "invalid", "'5' is not a duration", "write 30s, 5m, 2h, 7d or 1w"),
    ),
    "a day that does not exist": (
        ("send", "codex", "hi", "--from", "claude", "--expires", "2026-13-45"),
        (INVALID, "invalid", "'2026-13-45' is not a day that exists", ""),
    ),
    "a message that is not there": (
        ("read", "nosuch", "--agent", "codex"),
        (
            NOT_FOUND,
            "unknown_message",
            "codex has no message 'nosuch'",
            "look with: parley inbox --agent codex, parley outbox --agent codex, or parley search TEXT --agent codex",
        ),
    ),
}


@pytest.mark.parametrize("mistake", IN_A_MAILBOX)
def test_a_mistake_in_a_mailbox_is_answered_with_what_to_do(stage: Stage, mistake: str) -> None:
    words, (code, kind, message, hint) = IN_A_MAILBOX[mistake]

    assert refusal(stage.run(*words, "--json")) == (code, kind, sentence(message, hint))
