"""An error says which thing is wrong, in the words of the command line, and what to do."""

from __future__ import annotations

import socket
from argparse import Namespace
from pathlib import Path
from uuid import uuid4

import pytest

from parley.cli.parts.refusals import explain_refusal
from parley.domain.errors.errors import NotFound
from tests.surface.cli.team_stage import Team
from tests.surface.stage import Stage

_SEND = ("send", "--from", "claude", "--to", "codex", "--subject", "Hi", "--type")
_FIELDS = "see: parley kinds review_request; give each field with --set FIELD=VALUE"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            (*_SEND, "review_request", "--body", "please"),
            f"invalid: body: review_request needs the fields pr, branch, diff_summary ({_FIELDS})",
        ),
        (
            (*_SEND, "review_request", "--set", "pr=#55", "--set", "branch=x"),
            f"invalid: body.diff_summary: required by review_request ({_FIELDS})",
        ),
        ((*_SEND, "question"), "invalid: body: is empty (use --body TEXT)"),
        (
            (*_SEND, "question", "--set", "pr"),
            "invalid: --set 'pr' is not FIELD=VALUE (for example --set pr=#55)",
        ),
        (
            ("ask", "chan_1", "--to", "codex", "--field", "question"),
            "invalid: --field 'question' is not NAME=VALUE (for example --field question='Which schema?')",
        ),
        (
            ("audit", "verify", "nofile.jsonl"),
            "not_found: no file 'nofile.jsonl' (export a log with: parley audit export > FILE)",
        ),
        (("up", "--port", "99999"), "invalid: --port: '99999' is not a port (use a number from 0 to 65535)"),
        *[
            (
                tuple(words.split()),
                f"invalid: the following arguments are required: CONVERSATION|MESSAGE (see: parley {words} --help)",
            )
            for words in ("review gate", "review status", "review findings", "thread")
        ],
        (
            ("inbox", "--all", "--agent", "codex"),
            "invalid: --all and --agent together (leave one of them out)",
        ),
        (
            ("outbox", "--all"),
            "invalid: --all needs --waiting (to list what one agent sent: parley outbox --agent NAME)",
        ),
    ],
)
def test_an_error_on_this_machine_says_what_to_do(stage: Stage, words: tuple[str, ...], line: str) -> None:
    assert stage.run(*words).err == f"parley: {line}\n"


def test_a_project_that_exists_is_named_with_two_ways_on(stage: Stage) -> None:
    ran = stage.run("init", "demo")

    hint = "use another name, or add agents to it: parley agent add NAME --project demo"
    assert ran.err == f"parley: project_exists: project root already exists: {stage.project} ({hint})\n"


def test_settings_outside_of_the_top_key_are_told_where_they_belong(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("cross_org: true\n")

    assert stage.run("policy", "check", str(file)).out.splitlines() == [
        f"{file}:1: cross_org: is not known (put the settings under agent-to-agent:)",
        f"{file}:1: agent-to-agent: is not there",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "q", "--intent", "intent_nope", "--agent", "claude", "--to", "codex", "--field", "a=b"),
        ("post", "q", "--intent", "intent_nope", "--agent", "claude", "--field", "a=b"),
        ("intent", "show", "intent_nope"),
        ("channel", "list", "intent_nope"),
    ],
)
def test_an_intent_that_is_not_there_is_named(team: Team, words: tuple[str, ...]) -> None:
    ran = team.run(*words)

    assert ran.err == "parley: not_found: no intent 'intent_nope' that you can see (see: parley intent list)\n"


@pytest.mark.parametrize(
    ("facts", "message"),
    [({"missing": "intent"}, "no intent 'i1' that you can see"), ({"missing": "channel"}, "text"), ({}, "text")],
)
def test_what_was_not_found_is_known_by_its_fact_whatever_the_server_says(facts: dict[str, str], message: str) -> None:
    error = NotFound("text", facts=facts)

    explain_refusal(error, Namespace(intent="i1"))

    assert error.message == message


@pytest.mark.parametrize(
    ("name", "hint"),
    [("enterprise/defalt", "did you mean enterprise/default?"), ("team/nowhere", "see: parley policy list")],
)
def test_a_policy_that_is_not_there_is_named(team: Team, name: str, hint: str) -> None:
    assert team.run("policy", "show", name).err == f"parley: not_found: no policy {name!r} ({hint})\n"


@pytest.mark.parametrize("verb", ["ask", "post"])
def test_a_message_without_a_sender_asks_for_the_option(team: Team, verb: str) -> None:
    ran = team.run(verb, "q", "--intent", team.intent, "--to", "codex", "--field", "a=b")

    assert ran.err == "parley: invalid: no sending agent (add --agent NAME, or set PARLEY_AGENT)\n"


def test_a_denial_between_org_units_names_the_key_of_the_policy(ruled_team: Team) -> None:
    mark = uuid4().hex[:8]
    sender, receiver, here, there = f"sally-{mark}", f"erik-{mark}", f"sales-{mark}", f"engineering-{mark}"
    ruled_team.said("agent", "register", sender, "--user", "ann", "--org-unit", here)
    ruled_team.said("agent", "register", receiver, "--user", "bob", "--org-unit", there)
    intent = ruled_team.said("intent", "create", "Sales", "--access", "open", "--agent", sender)["id"]
    words = ("--intent", intent, "--agent", sender, "--to", receiver, "--field", "a=b")

    ran = ruled_team.run("post", "questions", *words)

    hint = "cross_org is false in the policy; see: parley policy show enterprise/default"
    assert ran.err == f"parley: policy_denied: the policy allows nothing from {here} to {there} ({hint})\n"


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("intent", "list"),
        ("key", "list"),
        ("agent", "list", "--url", "http://parley.example"),
        ("post", "chan_1", "--field", "a=b"),
        ("ask", "chan_1", "--to", "codex", "--field", "a=b"),
        ("messages", "chan_1"),
        ("listen", "--agent", "codex"),
        ("approvals", "list"),
        ("exchange", "list"),
        ("suspensions",),
        ("policy", "list"),
        ("audit", "list"),
    ],
)
def test_no_command_sends_a_key_to_another_machine_in_the_clear(stage: Stage, words: tuple[str, ...]) -> None:
    def connect(*address: object, **_: object) -> None:
        pytest.fail(f"{words} looks for {address}")

    for name in ("getaddrinfo", "create_connection"):
        stage.patch.setattr(socket, name, connect)
    stage.patch.setenv("PARLEY_URL", "http://parley.example")
    stage.patch.setenv("PARLEY_KEY", "pk_secret")

    ran = stage.run(*words)

    hint = "use https://, or set PARLEY_PLAIN_HTTP=any where nobody else can listen"
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"parley: invalid: the key would travel to parley.example in the clear ({hint})\n"


def test_a_key_is_sent_in_the_clear_where_that_is_allowed(stage: Stage) -> None:
    class Connecting(Exception):  # not an error
        pass

    def connect(*_: object, **__: object) -> None:
        raise Connecting

    for name in ("getaddrinfo", "create_connection"):
        stage.patch.setattr(socket, name, connect)
    stage.patch.setenv("PARLEY_URL", "http://parley.example")
    stage.patch.setenv("PARLEY_KEY", "pk_secret")
    stage.patch.setenv("PARLEY_PLAIN_HTTP", "any")

    assert "Connecting" in stage.run("intent", "list").err
