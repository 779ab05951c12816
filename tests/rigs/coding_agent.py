"""A small program that stands for a coding agent: the Agent Client Protocol, or Claude Code's lines of JSON.

At a prompt it works through its inbox with the MCP server that it was given, as a model would. Its behaviour follows
from a file, whose name is its first argument: one word a start, `work` when there is none left.

work      answer every message
one       answer one message a turn
idle      read nothing, and end each turn
die       end with exit code 3 at the first prompt
hang      never end the turn
ask       ask for permission to run a command and to use a tool of Parley, write down the answers, then work
broken    end before it has answered anything
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def next_behaviour(path: Path) -> str:
    words = path.read_text().split() if path.exists() else []
    path.write_text(" ".join(words[1:]))
    return words[0] if words else "work"


class Tools:
    """The MCP server of the agent."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, name: str, **arguments: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        params = {"name": name, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        text: str = json.loads(self._process.stdout.readline())["result"]["content"][0]["text"]
        return text


class Agent:
    """What both protocols share."""

    def __init__(self, behaviour: str, journal: Path) -> None:
        self.behaviour = behaviour
        self.journal = journal
        self.tools: Tools | None = None

    def note(self, **facts: object) -> None:
        with self.journal.open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), **facts}) + "\n")

    def take_turn(self, text: str) -> None:
        self.note(prompt=text)
        if self.behaviour == "die":
            sys.exit(3)
        if self.behaviour == "hang":
            while True:
                sys.stdin.readline()
        if self.behaviour == "idle":
            return
        assert self.tools is not None
        while not self.tools.call("next").startswith("No message"):
            self.tools.call("reply", text="Done.")
            if self.behaviour == "one":
                return


def write(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    document: dict[str, Any] = json.loads(line)
    return document


def serve_acp(agent: Agent) -> None:
    sys.stdout.write("Loaded cached credentials.\n")  # programs print such things
    while True:
        request = read()
        method, params = request.get("method"), request.get("params", {})
        result: dict[str, Any] = {}
        if method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "agentCapabilities": {}}
        elif method == "session/new":
            (server,) = params["mcpServers"]
            agent.tools = Tools([server["command"], *server["args"]])
            agent.note(cwd=params["cwd"])
            result = {"sessionId": "ses-1"}
        elif method == "session/prompt":
            if agent.behaviour == "ask":
                ask_permissions(agent)
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "..."}}
            write({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "ses-1", "update": update}})
            agent.take_turn(params["prompt"][0]["text"])
            result = {"stopReason": "end_turn"}
        if "id" in request:
            write({"jsonrpc": "2.0", "id": request["id"], "result": result})


def ask_permissions(agent: Agent) -> None:
    options = [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]
    calls = (
        {"title": "rm -r / # parley next", "kind": "execute"},
        {"title": "next (parley MCP Server)", "kind": "other"},
    )
    for number, call in enumerate(calls):
        params = {"sessionId": "ses-1", "toolCall": {"toolCallId": "c", **call}, "options": options}
        write({"jsonrpc": "2.0", "id": f"p{number}", "method": "session/request_permission", "params": params})
        agent.note(permission=read()["result"]["outcome"])
    write({"jsonrpc": "2.0", "id": "f", "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
    agent.note(file=read()["error"]["code"])


def serve_lines(agent: Agent, arguments: list[str]) -> None:
    servers = json.loads(arguments[arguments.index("--mcp-config") + 1])["mcpServers"]
    agent.tools = Tools([servers["parley"]["command"], *servers["parley"]["args"]])
    agent.note(arguments=arguments)
    while True:
        document = read()
        write({"type": "system", "subtype": "init", "session_id": "s"})
        agent.take_turn(document["message"]["content"][0]["text"])
        write({"type": "result", "subtype": "success", "is_error": False})


def main() -> None:
    behaviours, journal, *arguments = sys.argv[1:]
    behaviour = next_behaviour(Path(behaviours))
    if behaviour == "broken":
        sys.exit(5)
    agent = Agent(behaviour, Path(journal))
    if "-p" in arguments:
        serve_lines(agent, arguments)
    else:
        serve_acp(agent)


if __name__ == "__main__":
    main()
