"""A request of either era gets the answer of its era, and nothing that a client sends ends the server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.surfaces.mcp.protocol import ToolResult, ToolServer, failure_of, handle, handle_line
from parley.surfaces.mcp.tools import INSTRUCTIONS, TOOLS

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
# JSON as clients send it takes a token for 2.5 bytes or more: measured over two tokenizers.
WORST_BYTES_PER_TOKEN = 2.5


def call(name: str, arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(f"{name} {json.dumps(dict(arguments))}", is_error=name == "done")


SERVER = ToolServer("0.7.0", INSTRUCTIONS, TOOLS, call)


def answer(method: str, **params: object) -> dict[str, Any]:
    answered = handle({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, SERVER)
    assert answered is not None
    assert (answered["jsonrpc"], answered["id"]) == ("2.0", 1)
    return answered


def test_a_stateless_client_discovers_lists_and_calls() -> None:
    discovered = answer("server/discover", _meta=META)["result"]
    listed = answer("tools/list", _meta=META)["result"]
    called = answer("tools/call", name="next", arguments={"wait": 5}, _meta=META)["result"]

    assert discovered == {
        "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18"],
        "capabilities": {"tools": {}},
        "instructions": INSTRUCTIONS,
        "ttlMs": 3_600_000,
        "cacheScope": "public",
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "parley", "version": "0.7.0"}},
    }
    assert listed == {"tools": [*TOOLS], "ttlMs": 3_600_000, "cacheScope": "public", "resultType": "complete"}
    assert called == {"content": [{"type": "text", "text": 'next {"wait": 5}'}], "resultType": "complete"}


@pytest.mark.parametrize(
    ("asked", "version"),
    [("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"), ("2024-11-05", "2025-11-25"), (7, "2025-11-25")],
)
def test_a_client_that_opens_with_a_handshake_gets_answers_without_the_new_fields(asked: object, version: str) -> None:
    opened = answer("initialize", protocolVersion=asked, capabilities={}, clientInfo={"name": "codex"})["result"]
    initialized = handle({"jsonrpc": "2.0", "method": "notifications/initialized"}, SERVER)
    listed = answer("tools/list")["result"]
    called = answer("tools/call", name="agents")["result"]

    assert opened == {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "parley", "version": "0.7.0"},
        "instructions": INSTRUCTIONS,
    }
    assert initialized is None
    assert listed == {"tools": [*TOOLS]}
    assert called == {"content": [{"type": "text", "text": "agents {}"}]}
    assert answer("ping")["result"] == {}


def test_another_version_is_refused_with_those_that_are_supported() -> None:
    error = answer("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2099-01-01"})["error"]

    supported = ["2026-07-28", "2025-11-25", "2025-06-18"]
    assert (error["code"], error["data"]) == (-32022, {"supported": supported, "requested": "2099-01-01"})


def test_a_stateless_client_has_no_ping() -> None:
    assert answer("ping", _meta=META)["error"]["code"] == -32601


def test_an_error_of_a_tool_is_for_the_model() -> None:
    assert answer("tools/call", name="done")["result"]["isError"] is True


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("send", {"text": "x"}, "send needs to"),
        ("done", {"message": "x"}, "done takes id, release, not 'message'"),
        ("agents", {"x": 1}, "agents takes no arguments, not 'x'"),
        ("next", {"wait": "5"}, "wait must be of type integer"),
        ("next", {"wait": True}, "wait must be of type integer"),
    ],
)
def test_a_model_is_told_what_is_wrong_with_its_arguments(name: str, arguments: object, problem: str) -> None:
    result = answer("tools/call", name=name, arguments=arguments)["result"]

    assert (result["isError"], result["content"][0]["text"]) == (True, problem)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ([], -32600),
        ({"id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": [], "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "next", "arguments": 1}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, -32601),
    ],
)
def test_what_is_no_request_is_refused_with_the_code_for_it(request_: object, code: int) -> None:
    answered = handle(request_, SERVER)

    assert answered is not None
    assert answered["error"]["code"] == code


def test_an_answer_that_nobody_waits_for_is_passed_over() -> None:
    assert handle({"jsonrpc": "2.0", "id": 4, "result": {}}, SERVER) is None


@given(st.binary())
def test_any_bytes_get_an_answer_or_none_and_no_error(line: bytes) -> None:
    handle_line(line, SERVER)
    assert failure_of(line)["error"]["code"] == -32603


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(["initialize", "server/discover", "tools/list", "tools/call", "ping", "x"]), documents)
def test_any_params_get_a_result_or_an_error(method: str, params: object) -> None:
    answered = handle({"jsonrpc": "2.0", "id": "a", "method": method, "params": params}, SERVER)

    assert answered is not None
    assert ("result" in answered) != ("error" in answered)


@given(st.dictionaries(st.sampled_from(["id", "text", "wait", "budget", "to", "fields"]), documents))
def test_a_tool_is_called_only_with_arguments_of_its_types(arguments: dict[str, object]) -> None:
    for tool in TOOLS:
        result = answer("tools/call", name=tool["name"], arguments=arguments)["result"]
        if "isError" not in result:
            types = {"string": str, "integer": int, "boolean": bool, "object": dict}
            properties = tool["inputSchema"]["properties"]
            assert all(isinstance(value, types[properties[name]["type"]]) for name, value in arguments.items())


def test_the_list_of_tools_takes_fewer_than_700_tokens() -> None:
    listed = json.dumps(answer("tools/list")["result"]["tools"], separators=(",", ":"))

    assert len(listed.encode()) / WORST_BYTES_PER_TOKEN < 700
