"""The official client of the Model Context Protocol talks to Parley: both eras, over pipes and over HTTP.

`make mcp` fetches it into a .venv of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.surface.cli.team_stage import Server

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-mcp" / "bin" / "python"
PARLEY = (sys.executable, "-m", "parley.cli.main")
TOOLS = ["inbox", "next", "reply", "done", "send", "agents"]
# How the client opens, and the version that both agree on.
ERAS = [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
PATIENCE = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server") / "data").start()
    yield running
    running.stop()


def talk(**told: object) -> dict[str, Any]:
    assert PYTHON.exists(), "the client is not there; run: make mcp"
    command = [str(PYTHON), str(Path(__file__).with_name("talk.py"))]
    ran = subprocess.run(command, input=json.dumps(told), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout)
    return seen


def parley(*words: str) -> str:
    return subprocess.run([*PARLEY, *words], capture_output=True, text=True, check=True).stdout


def key_of(server: Server, agent: str) -> str:
    words = ("key", "create", "--agent", agent, "--url", server.url, "--key", server.key, "--json")
    key: str = json.loads(parley(*words))["key"]
    return key


@pytest.mark.parametrize(("mode", "version"), ERAS)
def test_the_client_is_served_over_http(server: Server, mode: str, version: str) -> None:
    agent = f"http-{mode}"
    headers = {"Authorization": f"Bearer {key_of(server, agent)}"}
    calls = [("send", {"to": agent, "text": "x"}), ("agents", {}), ("next", {}), ("reply", {"text": "x"})]

    seen = talk(url=f"{server.url}/mcp", headers=headers, mode=mode, calls=calls)

    to_itself, agents, nothing, unclaimed = seen["results"]
    assert (seen["version"], seen["tools"]) == (version, TOOLS)
    assert to_itself[1]
    assert agents[0].startswith(f"You are {agent}.")
    assert nothing == [f"No message for {agent}.", False]
    assert unclaimed == ["not_found: you have not taken a message (take one with next)", True]


@pytest.mark.parametrize(("mode", "version"), ERAS)
def test_the_client_is_served_over_pipes_from_a_server(server: Server, mode: str, version: str) -> None:
    agent = f"pipes-{mode}"
    environment = {"PARLEY_KEY": key_of(server, agent)}

    seen = talk(command=[*PARLEY, "mcp", "--url", server.url], environment=environment, mode=mode, calls=[("next", {})])

    assert (seen["version"], seen["tools"]) == (version, TOOLS)
    assert seen["results"] == [[f"No message for {agent}.", False]]


@pytest.mark.parametrize(("mode", "version"), ERAS)
def test_the_client_is_served_over_pipes_from_a_mailbox(tmp_path: Path, mode: str, version: str) -> None:
    place = ("--home", str(tmp_path / "oacp"), "--project", "demo")
    parley("init", "demo", "--home", str(tmp_path / "oacp"), "--agents", "claude,codex")
    parley("send", "codex", "Which schema?", "--from", "claude", *place)

    calls = [("next", {}), ("reply", {"text": "v2.3"})]
    seen = talk(command=[*PARLEY, "mcp", "--for", "codex", *place], mode=mode, calls=calls)

    assert (seen["version"], seen["tools"]) == (version, TOOLS)
    assert "\nWhich schema?\n" in seen["results"][0][0]
    assert seen["results"][1] == ["Sent to claude as notification, and finished the message.", False]
