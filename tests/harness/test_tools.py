"""The tools as each coding agent passes them on: what they cost, and which era of the protocol it speaks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parley.surfaces.mcp.tools import INSTRUCTIONS, TOOLS
from tests.harness.conftest import Stages
from tests.harness.model_apis import ModelRequest
from tests.harness.programs import AGENTS
from tests.harness.scripted_model import Script, use_tool
from tests.harness.tokens import count_tokens

LIST_TOKENS, REWRITTEN_TOKENS = 700, 1_000


def tools_as_sent(request: ModelRequest) -> list[dict[str, Any]]:
    """The entries of a request that are tools of Parley."""
    entries = request.body["tools"]
    if request.api == "gemini":
        entries = [function for entry in entries for function in entry.get("functionDeclarations", ())]
    return [entry for entry in entries if "parley" in str(entry.get("name") or entry.get("function", {}).get("name"))]


def test_the_list_of_tools_costs_fewer_than_700_tokens() -> None:
    tokens = count_tokens([json.dumps([*TOOLS], separators=(",", ":")), INSTRUCTIONS])

    assert sum(tokens) < LIST_TOKENS


@pytest.mark.parametrize("name", AGENTS)
def test_the_list_of_tools_as_it_is_sent_costs_fewer_than_1000_tokens(stages: Stages, name: str) -> None:
    stage = stages(name, Script([]))
    stage.place.set_up()

    stage.place.print_mode("Hello.")

    sent = tools_as_sent(stage.model.requests[0])
    assert len(sent) in (1, len(TOOLS))  # Codex has one entry with all of them
    assert sum(count_tokens([json.dumps(sent, separators=(",", ":"))])) < REWRITTEN_TOKENS
    assert INSTRUCTIONS[:60] in stage.model.received[0].text + stage.model.received[-1].text


@pytest.mark.parametrize(
    ("name", "method", "version"),
    [
        ("claude", "server/discover", "2026-07-28"),
        ("codex", "initialize", "2025-06-18"),
        ("gemini", "initialize", "2025-06-18"),
        ("opencode", "initialize", "2025-11-25"),
    ],
)
def test_the_real_clients_are_served_in_both_eras(stages: Stages, name: str, method: str, version: str) -> None:
    stage = stages(name, Script([use_tool("agents")]), record=True)
    stage.place.set_up()

    stage.place.print_mode("Hello.")

    opening, *_ = sorted(stage.record.glob("mcp-*"))
    request = json.loads(opening.read_text().splitlines()[0])
    assert request["method"] == method
    assert version in json.dumps(request["params"])
    assert f"You are {name}." in stage.model.requests[1].news
