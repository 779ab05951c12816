"""The Model Context Protocol over HTTP: one request, one answer, no session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from parley.domain.version import VERSION as PARLEY_VERSION
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import Call, Param, Route, json
from parley.surfaces.mcp.documents import McpAnswer, McpRequest
from parley.surfaces.mcp.http_headers import METHOD, NAME, VERSION, header_problem, status_of_answer
from parley.surfaces.mcp.protocol import ToolServer, handle_async, version_of
from parley.surfaces.mcp.server_tools import ServerTools
from parley.surfaces.mcp.tools import INSTRUCTIONS, TOOLS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from parley.surfaces.mcp.protocol import ToolResult

    CallTool = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]


async def serve(call: Call) -> Response:
    return await _answer(call, ServerTools(call.team, call.caller).call)


async def serve_again(call: Call, created_id: str) -> Response:
    repeat = ServerTools(call.team, call.caller).repeat
    return await _answer(call, partial(_repeated, repeat, created_id))


async def _repeated(repeat: Any, created_id: str, name: str, arguments: Mapping[str, Any]) -> ToolResult:  # noqa: ANN401
    result: ToolResult = await repeat(name, arguments, created_id)
    return result


async def _answer(call: Call, call_tool: CallTool) -> Response:
    request = call.body
    answer = header_problem(request, lambda name: call.request.header(name.lower().encode()))
    if answer is None:
        answer = await handle_async(request, ToolServer(PARLEY_VERSION, INSTRUCTIONS, TOOLS, call_tool))
    if answer is None:
        return Response(202)
    params = request.get("params") if isinstance(request, dict) else None
    stateless = isinstance(params, dict) and version_of(params) is not None
    return json(status_of_answer(answer, stateless=stateless), answer)


ROUTES = (
    Route(
        "POST",
        "/mcp",
        serve,
        "Call the tools of an agent by the Model Context Protocol",
        "mcp",
        {200: McpAnswer, 202: None, 400: McpAnswer, 404: McpAnswer},
        body=McpRequest,
        body_raw=True,
        # A payload stands two levels deeper than in a message.
        documents=2,
        headers=(
            Param(VERSION, "The version of the protocol: 2026-07-28, 2025-11-25 or 2025-06-18."),
            Param(METHOD, "The method, repeated (2026-07-28)."),
            Param(NAME, "The name of the tool, repeated (2026-07-28)."),
        ),
        bare=True,
        again=serve_again,
        unsaved=True,
        ends_with_client=True,
    ),
)
