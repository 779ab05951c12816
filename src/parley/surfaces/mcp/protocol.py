"""The Model Context Protocol over JSON-RPC: one pure function from a request to its answer.

Two eras are served. 2026-07-28 is stateless: `server/discover`, and a version in the `_meta` of each request. Before
it, a client opens with `initialize` (2025-11-25, 2025-06-18). Nothing is remembered between two requests.

request ──begin──> answer
              └──> ToolCall ──the tools──> ToolResult ──finish──> answer
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Document = dict[str, Any]

STATELESS = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18")
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
TAKEN_KEY = "parley/taken"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
# The list of tools changes only with a new version of Parley.
_CACHE = {"ttlMs": 3_600_000, "cacheScope": "public"}

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR, UNSUPPORTED_VERSION = -32603, -32022


class ToolResult(NamedTuple):
    """What a tool answers with; an error is for the model, who can do better."""

    text: str
    is_error: bool = False
    # The name of the message that the call took, for a client that gives it back when it ends.
    taken: str = ""


class ToolServer(NamedTuple):
    """What is served: the tools as a client lists them, and the function that calls one."""

    version: str
    instructions: str
    tools: Sequence[Document]
    # Returns a `ToolResult`; for `handle_async` what that can be awaited from.
    call: Callable[[str, Mapping[str, Any]], Any]
    # Gets the `_meta` of a call before it is made: a client names its session there.
    on_call: Callable[[Mapping[str, Any]], None] = lambda _meta: None


class ToolCall(NamedTuple):
    """A call of a tool whose arguments fit its schema; what is left is to carry it out."""

    request_id: str | int
    name: str
    arguments: Document
    stateless: bool


class _Refusal(Exception):
    def __init__(self, code: int, message: str, data: Document | None = None) -> None:
        super().__init__(message)
        self.error: Document = {"code": code, "message": message, **({"data": data} if data else {})}


def handle_line(line: bytes, server: ToolServer) -> Document | None:
    """The answer to one line of input; None for a notification."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested without end
        return _failure(None, PARSE_ERROR, "not JSON")
    return handle(request, server)


def handle(request: object, server: ToolServer) -> Document | None:
    """The answer to one request; None for a notification, and for an answer to a request that nobody made."""
    begun = begin(request, server)
    return finish(begun, server.call(begun.name, begun.arguments)) if isinstance(begun, ToolCall) else begun


async def handle_async(request: object, server: ToolServer) -> Document | None:
    """The same for tools that wait for others."""
    begun = begin(request, server)
    return finish(begun, await server.call(begun.name, begun.arguments)) if isinstance(begun, ToolCall) else begun


def begin(request: object, server: ToolServer) -> Document | ToolCall | None:
    """The answer to a request that calls no tool, or the call."""
    if isinstance(request, list):
        return _failure(None, INVALID_REQUEST, "one request at a time, no batch")
    if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
        return _failure(None, INVALID_REQUEST, "not a JSON-RPC 2.0 request")
    request_id = request.get("id")
    method = request.get("method")
    if not isinstance(method, str):
        return None if "result" in request or "error" in request else _failure(None, INVALID_REQUEST, "no method")
    if "id" not in request:
        return None
    if not isinstance(request_id, str | int) or isinstance(request_id, bool):
        return _failure(None, INVALID_REQUEST, "id must be text or a number")
    params = request.get("params", {})
    if not isinstance(params, dict):
        return _failure(request_id, INVALID_PARAMS, "params must be an object")
    try:
        if method == "tools/call":
            return _checked_call(request_id, params, server)
        return {"jsonrpc": "2.0", "id": request_id, "result": _result(method, params, server)}
    except _Refusal as refusal:
        return {"jsonrpc": "2.0", "id": request_id, "error": refusal.error}


def finish(call: ToolCall, result: ToolResult) -> Document:
    """The answer to a call, from what its tool returned."""
    answer: Document = {"content": [{"type": "text", "text": result.text}]}
    if result.is_error:
        answer["isError"] = True
    if result.taken:
        answer["_meta"] = {TAKEN_KEY: result.taken}
    if call.stateless:
        answer["resultType"] = "complete"
    return {"jsonrpc": "2.0", "id": call.request_id, "result": answer}


def stateless_call(name: str, arguments: Mapping[str, Any]) -> Document:
    """The request that calls a tool, as a client of the stateless era sends it."""
    meta = {_VERSION_KEY: STATELESS, "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": name, "arguments": {**arguments}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def failure_of(line: bytes) -> Document:
    """The answer to a line whose handling failed by a bug of ours."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    return _failure(request.get("id") if isinstance(request, dict) else None, INTERNAL_ERROR, "internal error")


def _failure(request_id: object, code: int, message: str) -> Document:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _result(method: str, params: Document, server: ToolServer) -> Document:
    if method == "initialize":
        return _initialized(params, server)
    stateless = _is_stateless(params)
    if method == "server/discover":
        versions = [STATELESS, *HANDSHAKE]
        discovered = {"supportedVersions": versions, "capabilities": {"tools": {}}, "instructions": server.instructions}
        return {**discovered, **_CACHE, "resultType": "complete", "_meta": {_SERVER_KEY: _server_info(server)}}
    if method == "tools/list":
        listed: Document = {"tools": [*server.tools]}
        return {**listed, **_CACHE, "resultType": "complete"} if stateless else listed
    if method == "ping" and not stateless:
        return {}
    raise _Refusal(METHOD_NOT_FOUND, f"no method {method[:80]!r}")


def _initialized(params: Document, server: ToolServer) -> Document:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": version if version in HANDSHAKE else HANDSHAKE[0],
        "capabilities": {"tools": {}},
        "serverInfo": _server_info(server),
        "instructions": server.instructions,
    }


def _server_info(server: ToolServer) -> Document:
    return {"name": "parley", "version": server.version}


def version_of(params: Document) -> object | None:
    """The version that a request names, which makes it one of the stateless era; None for the older one."""
    meta = params.get("_meta")
    return meta.get(_VERSION_KEY) if isinstance(meta, dict) else None


def _is_stateless(params: Document) -> bool:
    version = version_of(params)
    if version not in (None, STATELESS):
        data = {"supported": [STATELESS, *HANDSHAKE], "requested": str(version)[:80]}
        raise _Refusal(UNSUPPORTED_VERSION, "unsupported protocol version", data)
    return version is not None


def _checked_call(request_id: str | int, params: Document, server: ToolServer) -> Document | ToolCall:
    stateless = _is_stateless(params)
    name, arguments = params.get("name"), params.get("arguments", {})
    tool = next((tool for tool in server.tools if tool["name"] == name), None)
    if tool is None or not isinstance(name, str):
        raise _Refusal(INVALID_PARAMS, f"no tool {str(name)[:80]!r}")
    if not isinstance(arguments, dict):
        raise _Refusal(INVALID_PARAMS, "arguments must be an object")
    meta = params.get("_meta")
    server.on_call(meta if isinstance(meta, dict) else {})
    call = ToolCall(request_id, name, arguments, stateless)
    problem = _problem_of(arguments, tool)
    return finish(call, ToolResult(problem, True)) if problem else call


_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "object": dict}


def _problem_of(arguments: Document, tool: Document) -> str:
    """What is wrong with the arguments, for the model to do better; "" when nothing is."""
    schema = tool["inputSchema"]
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"{tool['name']} needs {name}"
    for name, value in arguments.items():
        if name not in schema["properties"]:
            names = ", ".join(schema["properties"]) or "no arguments"
            return f"{tool['name']} takes {names}, not {name[:80]!r}"
        wanted = schema["properties"][name]["type"]
        if not isinstance(value, _TYPES[wanted]) or (wanted == "integer" and isinstance(value, bool)):
            return f"{name} must be of type {wanted}"
    return ""
