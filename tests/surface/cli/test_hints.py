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
_FIELDS = "see parley kinds review_request; give each field with --set FIELD=VALUE"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            (*_SEND, "review_request", "--body", "please"),
            f"error: body: review_request needs the fields pr, branch, diff_summary [invalid]\nhint: {_FIELDS}\n",
        ),
        (
            (*_SEND, "review_request", "--set", "pr=#55", "--set", "branch=x"),
            f"error: body.diff_summary: required by review_request [invalid]\nhint: {_FIELDS}\n",
        ),
        ((*_SEND, "question"), "error: body: is empty [invalid]\nhint: use --body TEXT\n"),
        (
            (*_SEND, "question", "--set", "pr"),
            "error: --set 'pr' is not FIELD=VALUE [invalid]\nhint: for example --set pr=#55\n",
        ),
        (
            ("ask", "chan_1", "--to", "codex", "--field", "question"),
            (
                "error: --field 'question' is not NAME=VALUE [invalid]\n"
                "hint: for example --field question='Which schema?'\n"
            ),
        ),
        (
            ("audit", "verify", "nofile.jsonl"),
            "error: no file 'nofile.jsonl' [not_found]\nhint: export a log with: parley audit export > FILE\n",
        ),
        (
            ("up", "--port", "99999"),
            "error: --port: '99999' is not a port [invalid]\nhint: use a number from 0 to 65535\n",
        ),
        *[
            (
                tuple(words.split()),
                (
                    "error: the following arguments are required: CONVERSATION|MESSAGE [invalid]\n"
                    f"hint: see parley {words} --help\n"
                ),
            )
            for words in ("review gate", "review status", "review findings")
        ],
        (
            ("inbox", "--all", "--agent", "codex"),
            "error: --all and --agent together [invalid]\nhint: leave one of them out\n",
        ),
        (
            ("outbox", "--all"),
            "error: --all needs --waiting [invalid]\nhint: to list what one agent sent: parley outbox --agent NAME\n",
        ),
    ],
)
def test_an_error_on_this_machine_says_what_to_do(stage: Stage, words: tuple[str, ...], lines: str) -> None:
    assert stage.run(*words).err == lines


def test_a_project_that_exists_is_named_with_two_ways_on(stage: Stage) -> None:
    ran = stage.run("init", "demo")

    hint = "use another name, or add agents to it: parley agent add NAME --project demo"
    assert ran.err == f"error: project root already exists: {stage.project} [project_exists]\nhint: {hint}\n"


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

    assert ran.err == 'error: no intent "intent_nope" that you can see [not_found]\nhint: see parley intent list\n'


@pytest.mark.parametrize(
    ("facts", "message"),
    [({"missing": "intent"}, 'no intent "i1" that you can see'), ({"missing": "channel"}, "text"), ({}, "text")],
)
def test_what_was_not_found_is_known_by_its_fact_whatever_the_server_says(facts: dict[str, str], message: str) -> None:
    error = NotFound("text", facts=facts)

    explain_refusal(error, Namespace(intent="i1"))

    assert error.message == message


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("enterprise/defalt", " (did you mean enterprise/default?) [not_found]"),
        ("team/nowhere", " [not_found]\nhint: see parley policy list"),
    ],
)
def test_a_policy_that_is_not_there_is_named(team: Team, name: str, rest: str) -> None:
    assert team.run("policy", "show", name).err == f"error: no policy {name!r}{rest}\n"


@pytest.mark.parametrize("verb", ["ask", "post"])
def test_a_message_without_a_sender_asks_for_the_option(team: Team, verb: str) -> None:
    team.said("agent", "register", "codex")

    ran = team.run(verb, "q", "--intent", team.intent, "--to", "codex", "--field", "a=b")

    assert ran.err == "error: no sending agent [invalid]\nhint: add --agent NAME, or set PARLEY_AGENT\n"


def test_a_denial_between_org_units_names_the_key_of_the_policy(ruled_team: Team) -> None:
    mark = uuid4().hex[:8]
    sender, receiver, here, there = f"sally-{mark}", f"erik-{mark}", f"sales-{mark}", f"engineering-{mark}"
    ruled_team.said("agent", "register", sender, "--user", "ann", "--org-unit", here)
    ruled_team.said("agent", "register", receiver, "--user", "bob", "--org-unit", there)
    intent = ruled_team.said("intent", "create", "Sales", "--access", "open", "--agent", sender)["id"]
    words = ("--intent", intent, "--agent", sender, "--to", receiver, "--field", "a=b")

    ran = ruled_team.run("post", "questions", *words)

    hint = f"cross_org: false in enterprise/default; see: parley policy explain --from {sender} --to {receiver}"
    assert ran.err == f"error: the policy allows nothing from {here} to {there} [policy_denied]\nhint: {hint}\n"


def test_a_denial_of_what_is_too_secret_says_what_was_found(ruled_team: Team) -> None:
    mark = uuid4().hex[:8]
    sender, receiver = f"sally-{mark}", f"erik-{mark}"
    for name in (sender, receiver):
        ruled_team.said("agent", "register", name)

    ran = ruled_team.run(
        "post", receiver, "Card 4111 1111 1111 1111", "--purpose", "information_query", "--agent", sender
    )
    explained = ruled_team.run(
        "policy", "explain", "--from", sender, "--to", receiver, "--text", "Card 4111 1111 1111 1111"
    )

    found = "the message is restricted (it contains a payment card number)"
    hint = f"max_classification of {sender}: internal in the directory"
    see = f"see: parley policy explain --from {sender} --to {receiver}"
    denial = f"{found}; {sender} may share at most internal"
    assert ran.err == f"error: {denial} [classification_exceeded]\nhint: {hint}; {see}\n"
    assert explained.out.splitlines()[-1] == "allow: the policies do not apply; the message is sent unchanged"


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
    assert ran.err == f"error: the key would travel to parley.example in the clear [invalid]\nhint: {hint}\n"


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
