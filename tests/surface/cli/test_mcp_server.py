"""`parley mcp` on a server: the same tools, called through pipes, as the agent of a key."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.surface.cli.team_stage import PATIENCE, Team
from tests.surface.cli.test_mcp import PARLEY, Client
from tests.surface.stage import PROJECT, Stage

Start = Callable[..., Client]


@pytest.fixture
def start(team: Team) -> Iterator[Start]:
    """Starts `parley mcp` with a new key of an agent."""
    clients: list[Client] = []
    team.stage.patch.delenv("PARLEY_KEY")

    def started(agent: str, *options: str) -> Client:
        key = team.said("key", "create", "--agent", agent, "--key", team.server.key)["key"]
        clients.append(Client(*options, PARLEY_KEY=key))
        return clients[-1]

    yield started
    for client in clients:
        assert client.process.poll() == 0 or client.close() == 0


def text_and_flag(client: Client, name: str, **arguments: object) -> tuple[str, bool]:
    result: dict[str, Any] = client.ask("tools/call", name=name, arguments=arguments)["result"]
    return result["content"][0]["text"], result.get("isError", False)


def test_two_models_talk_over_a_server(start: Start) -> None:
    asker, answerer = start("mcp-asker"), start("mcp-answerer")
    answerer.call("agents")

    asker.request("tools/call", name="send", arguments={"to": "mcp-answerer", "text": "mTLS or JWT?", "wait": 50})
    taken = answerer.call("next", wait=50)
    replied = answerer.call("reply", text="Signed JWTs.")
    answered = asker.read()["result"]["content"][0]["text"]

    assert "P2 question from mcp-asker, " in taken
    assert "\nmTLS or JWT?\n---" in taken
    assert replied == "Sent to mcp-asker as notification, and finished the message."
    assert "\nSigned JWTs.\n" in answered
    assert "mcp-answerer (online)" in asker.call("agents")


def test_a_message_is_acknowledged_when_its_result_was_written(start: Start, team: Team) -> None:
    asker, answerer = start("mcp-anna"), start("mcp-otto")
    answerer.call("agents")
    asker.call("send", to="mcp-otto", text="mTLS or JWT?")
    answerer.call("next", wait=50)
    answerer.call("agents")  # it confirms what it wrote before it reads on
    (message,) = team.said("messages", "mcp-otto", "--agent", "mcp-anna", "--key", team.server.key)

    status = team.said("status", message["id"], "--agent", "mcp-anna", "--key", team.server.key)
    assert [step["evidence"] for step in status["receipts"][0]["steps"]] == ["claim"]
    assert status["state"] == "acknowledged"


def test_a_question_back_to_an_agent_that_waits_is_sent_and_not_waited_for(start: Start, team: Team) -> None:
    answerer = start("mcp-sally")
    answerer.call("agents")
    key = team.said("key", "create", "--agent", "mcp-erik", "--key", team.server.key)["key"]
    words = [*PARLEY, "ask", "mcp-sally", "Ready?", "--timeout", "50s"]
    asking = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "PARLEY_KEY": key}, text=True)
    assert "\nReady?\n" in answerer.call("next", wait=50)

    back, is_error = text_and_flag(answerer, "send", to="mcp-erik", text="For what?", wait=50)
    answerer.call("reply", text="Yes, I am.")

    assert not is_error
    assert "\nNot waiting: mcp-sally -> mcp-erik -> mcp-sally: these agents would wait for each other. " in back
    assert "Yes, I am." in asking.communicate(timeout=PATIENCE)[0]
    assert asking.returncode == 0


def test_a_key_of_several_agents_names_one(start: Start, team: Team) -> None:
    start("mcp-named").call("agents")
    unnamed = Client("--key", team.server.key)
    named = Client("--key", team.server.key, "--agent", "mcp-named")
    try:
        text, is_error = text_and_flag(unnamed, "inbox")
        assert is_error
        assert "parley mcp --agent NAME, or PARLEY_AGENT" in text
        assert named.call("inbox") == "No message for mcp-named."
    finally:
        for client in (unnamed, named):
            assert client.close() == 0


def test_a_wait_ends_when_the_client_sends_something_else_and_takes_nothing(start: Start) -> None:
    waiter, sender = start("mcp-waiter"), start("mcp-sender")
    waiter.call("agents")
    waiter.request("tools/call", name="next", arguments={"wait": 50})
    waiter.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}')

    interrupted = waiter.read()["result"]["content"][0]["text"]
    sender.call("send", to="mcp-waiter", text="Are you there?")

    assert interrupted in ("No message yet.", "No message for mcp-waiter.")
    assert "Are you there?" in waiter.call("next", wait=50)


def test_what_a_model_has_not_finished_is_put_back_when_its_client_ends(start: Start) -> None:
    first, second, sender = start("mcp-ending"), start("mcp-ending"), start("mcp-other")
    second.call("agents")
    for text in ("One?", "Two?"):
        sender.call("send", to="mcp-ending", text=text)
    done = first.call("next")
    assert "One?" in done
    first.call("reply", text="Yes.")
    assert "Two?" in first.call("next")
    assert second.call("next") == "No message for mcp-ending."

    first.close()

    assert "Two?" in second.call("next")
    assert second.call("next") == "No message for mcp-ending."


def test_a_server_that_was_named_by_a_saved_login_is_used(team: Team) -> None:
    key = team.said("key", "create", "--agent", "mcp-saved")["key"]
    team.stage.patch.delenv("PARLEY_KEY")
    team.stage.patch.delenv("PARLEY_URL")
    team.run("login", team.server.url, "--context", "work", stdin=key.encode() + b"\n")
    clients = [Client("--context", "work"), Client("--server")]
    try:
        assert [client.call("agents").partition(".")[0] for client in clients] == ["You are mcp-saved"] * 2
    finally:
        for client in clients:
            client.close()


def test_a_mailbox_that_is_named_goes_before_the_variable(team: Team) -> None:
    client = Client("--for", "codex", "--project", PROJECT)
    try:
        assert client.call("agents").startswith("You are codex.")
    finally:
        client.close()


def test_what_the_server_refuses_is_a_result_with_a_hint(start: Start, team: Team) -> None:
    client = start("mcp-refused")
    wrong = Client("--url", team.server.url, "--key", "pk_wrong")
    nowhere = Client("--url", "http://127.0.0.1:1")
    unsafe = Client("--url", "http://198.51.100.7:8420", "--key", "pk_x")
    no_address = Client("--url", "nonsense")
    try:
        assert text_and_flag(client, "send", to="nobody-here", text="x")[1]
        text, is_error = text_and_flag(wrong, "next")
        assert is_error
        assert text.startswith("unauthorized: ")
        assert text.endswith(")")
        assert text_and_flag(nowhere, "next")[0].startswith("unavailable: no server answers at http://127.0.0.1:1")
        assert text_and_flag(unsafe, "next")[0].startswith("invalid: the key would travel to 198.51.100.7 in the clear")
        assert text_and_flag(no_address, "next")[0].startswith("invalid: ")
    finally:
        for other in (wrong, nowhere, unsafe, no_address):
            assert other.close() == 0


def test_the_first_answer_needs_no_server(stage: Stage) -> None:
    del stage
    client = Client("--url", "http://127.0.0.1:1")
    try:
        names = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]
        assert names == ["inbox", "next", "reply", "done", "send", "agents"]
    finally:
        client.close()


def test_a_call_outlasts_a_restart_of_the_server(lone_team: Team) -> None:
    server = lone_team.server
    client = Client(PARLEY_AGENT="mcp-steady")
    try:
        assert client.call("agents").startswith("You are mcp-steady.")
        server.kill()
        server.start()
        assert client.call("agents").startswith("You are mcp-steady.")
    finally:
        client.close()
