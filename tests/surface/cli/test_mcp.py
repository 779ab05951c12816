"""`parley mcp` as a process: a client talks to it through pipes, as a coding agent does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.samples.recorded_agents import RECORDED_AGENTS, load
from tests.surface.stage import Stage

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
PARLEY = (sys.executable, "-m", "parley.cli.main")


class Client:
    """The other end of the pipes."""

    def __init__(self, *options: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [*PARLEY, "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **variables}
        )
        self._count = 0

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def request(self, method: str, **params: object) -> None:
        self._count += 1
        self.write(json.dumps({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}).encode())

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        self.request(method, **params)
        answer = self.read()
        assert answer["id"] == self._count
        return answer

    def call(self, name: str, **arguments: object) -> str:
        result = self.ask("tools/call", name=name, arguments=arguments, _meta=META)["result"]
        text: str = result["content"][0]["text"]
        return text

    def close(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        return code


@pytest.fixture
def client(stage: Stage) -> Iterator[Client]:
    del stage  # its environment names the home
    made = Client("--for", "codex")
    yield made
    assert made.close() == 0


def test_a_model_takes_answers_and_finishes_a_message(stage: Stage, client: Client) -> None:
    stage.send("--body", "Internal calls.", subject="mTLS or JWT?")

    assert client.ask("server/discover", _meta=META)["result"]["resultType"] == "complete"
    assert "\nmTLS or JWT?\nInternal calls.\n---" in client.call("next")
    assert client.call("reply", text="Signed JWTs.") == "Sent to claude as notification, and finished the message."

    assert stage.run("inbox", "-a", "codex", "--json").json == []
    assert stage.run("next", "-a", "claude", "--json").json["body"] == "Signed JWTs."


def test_a_client_with_a_handshake_is_served_too(stage: Stage, client: Client) -> None:
    del stage
    opened = client.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "gemini"})
    client.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    names = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]

    assert opened["result"]["protocolVersion"] == "2025-06-18"
    assert names == ["inbox", "next", "reply", "done", "send", "agents"]


@pytest.mark.parametrize("harness", RECORDED_AGENTS)
def test_what_a_real_client_sent_is_answered_line_by_line(stage: Stage, harness: str) -> None:
    stage.run("agent", "add", "opencode")
    sender = "gemini" if harness != "gemini" else "claude"
    stage.send("--from", sender, "--to", harness, "--body", "Which one?", subject="Colour")
    client = Client("--for", harness)

    answers: list[dict[str, Any]] = []
    for request in load(harness)["mcp"]:
        arguments = request.get("params", {}).get("arguments", {})
        if "id" in arguments:  # the message is another one than when it was recorded
            arguments["id"] = re.findall(r"^\[(\w+)\]", answers[-1]["content"][0]["text"])[0]
        client.write(json.dumps(request).encode())
        if "id" in request:
            answer = client.read()
            assert answer["id"] == request["id"]
            answers.append(answer["result"])

    opened, listed, taken, replied = answers[:4]
    assert opened["instructions"]
    assert len(listed["tools"]) == 6
    assert "\nColour\nWhich one?\n---" in taken["content"][0]["text"]
    assert replied["content"][0]["text"] == f"Sent to {sender} as notification, and finished the message."
    assert client.close() == 0
    assert stage.run("inbox", "-a", harness, "--json").json == []


def test_both_eras_of_the_protocol_are_among_what_is_recorded() -> None:
    opened = {harness: load(harness)["mcp"][0] for harness in RECORDED_AGENTS}

    methods = {harness: request["method"] for harness, request in opened.items()}
    versions = {harness: request["params"].get("protocolVersion") for harness, request in opened.items()}
    assert methods == {
        "claude": "server/discover",
        "codex": "initialize",
        "gemini": "initialize",
        "opencode": "initialize",
    }
    assert (versions["codex"], versions["opencode"]) == ("2025-06-18", "2025-11-25")


def test_bad_lines_are_answered_and_the_next_one_works(client: Client) -> None:
    client.write(b"\xff\x00 no JSON")
    client.write(b"")
    client.write(b"[" * 100_000)
    client.write(b"x" * (5 * 1024 * 1024))

    codes = [client.read()["error"]["code"] for _ in range(3)]

    assert codes == [-32700, -32700, -32600]
    assert client.call("agents") == "You are codex. Others: claude (does not notice), gemini (does not notice)."


def test_a_wait_ends_when_the_client_sends_something_else(client: Client) -> None:
    client.request("tools/call", name="next", arguments={"wait": 50}, _meta=META)
    client.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')

    assert client.read()["result"]["content"][0]["text"] == "No message for codex yet."


def test_a_message_that_comes_ends_the_wait(stage: Stage, client: Client) -> None:
    client.request("tools/call", name="next", arguments={"wait": 50}, _meta=META)
    stage.send(subject="Now")

    assert "\nNow\n" in client.read()["result"]["content"][0]["text"]


def test_a_claim_ends_with_the_process_that_took_it(stage: Stage) -> None:
    sent = stage.send()
    first = Client("--for", "codex")
    first.call("next")
    assert stage.run("next", "-a", "codex").code == 14

    first.process.kill()
    first.close()

    assert stage.run("next", "-a", "codex", "--json").json["id"] == sent["id"]


def test_a_project_that_is_not_there_is_an_error_of_the_call(stage: Stage) -> None:
    del stage
    client = Client("--for", "codex", "--project", "nowhere")

    text = client.call("next")

    assert text.startswith("unknown_project: ")
    assert client.close() == 0


def test_the_first_answer_needs_neither_the_ledger_nor_anything_of_a_server(stage: Stage) -> None:
    del stage
    code = (
        "import sys; from parley.cli.main import main; code = main(['mcp', '--for', 'codex']);"
        "sys.stderr.write(' '.join(sys.modules)); sys.exit(code)"
    )
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}})

    ran = subprocess.run([sys.executable, "-c", code], input=line, capture_output=True, text=True, check=True)

    assert json.loads(ran.stdout)["id"] == 1
    loaded = {"sqlite3", "asyncio", "msgspec", "http", "ssl", "parley.surfaces.mcp.mailbox_tools"}
    assert loaded & set(ran.stderr.split()) == set()


def test_the_tools_are_those_of_the_coding_agent_in_a_terminal_that_names_another(stage: Stage) -> None:
    stage.send("--body", "Internal calls.", subject="mTLS or JWT?")
    client = Client("--for", "codex", PARLEY_AGENT="claude")

    assert "mTLS or JWT?" in client.call("next")
    assert "You are codex" in client.call("agents")
    assert client.close() == 0


def test_an_option_names_the_agent_of_the_tools_whatever_its_runtime(stage: Stage) -> None:
    del stage
    client = Client("--for", "codex", "--agent", "claude", PARLEY_AGENT="codex")

    assert "You are claude" in client.call("agents")
    assert client.close() == 0


def test_the_tools_of_the_named_agent_are_served_with_one_warning_where_none_has_the_runtime(stage: Stage) -> None:
    del stage  # its project has no agent opencode
    command = [*PARLEY, "mcp", "--for", "opencode"]
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "agents", "arguments": {}, "_meta": META}}
    lines = "".join(json.dumps({**call, "id": number}) + "\n" for number in (1, 2))
    env = {**os.environ, "PARLEY_AGENT": "claude"}

    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, env=env)

    assert ran.stdout.count("You are claude") == 2
    what = "$PARLEY_AGENT names claude, and the project has no agent of the runtime opencode"
    assert ran.stderr == f"warning: {what}: acting as claude; add --agent NAME to choose another\n"
