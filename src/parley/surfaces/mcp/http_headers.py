"""MCP over HTTP: the headers that repeat what a request says, and the status of its answer."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from typing import TYPE_CHECKING

from parley.surfaces.mcp.protocol import (
    HANDSHAKE,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    STATELESS,
    UNSUPPORTED_VERSION,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from parley.surfaces.mcp.protocol import Document

HEADER_MISMATCH = -32020
VERSION, METHOD, NAME = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
_BASE64_START, _BASE64_END = "=?base64?", "?="
_BAD_REQUEST = frozenset({PARSE_ERROR, INVALID_REQUEST, UNSUPPORTED_VERSION, HEADER_MISMATCH})


def header_problem(request: Any, header: Callable[[str], str]) -> Document | None:  # noqa: ANN401  # what JSON holds
    """The error answer to a request whose headers say something else; None when they fit.

    A stateless request names its version, method and tool in headers, too, by which proxies route it. Before, only the
    version is named, once it is agreed on.
    """
    if not isinstance(request, dict):
        return None
    request_id = request.get("id")
    params = request.get("params")
    version, stated = version_of(params if isinstance(params, dict) else {}), header(VERSION)
    if version is None and stated != STATELESS:
        if stated and stated not in HANDSHAKE and request.get("method") != "initialize":
            data = {"supported": [STATELESS, *HANDSHAKE], "requested": stated[:80]}
            return _error(request_id, UNSUPPORTED_VERSION, "unsupported protocol version", data)
        return None
    if "id" not in request:
        return None  # which headers a notification has is not defined
    expected = {VERSION: version, METHOD: request.get("method")}
    if request.get("method") == "tools/call" and isinstance(params, dict):
        expected[NAME] = params.get("name")
    for name, value in expected.items():
        repeated = _decoded(header(name))
        if repeated != value:
            text = f"header {name} is missing" if not repeated else f"header {name} differs from the request"
            return _error(request_id, HEADER_MISMATCH, text)
    return None


def status_of_answer(answer: Document, *, stateless: bool) -> int:
    """The HTTP status of an answer. In the older era 404 means that a session has ended, so a client gets none."""
    code = answer.get("error", {}).get("code")
    if code in _BAD_REQUEST:
        return 400
    return 404 if code == METHOD_NOT_FOUND and stateless else 200


def _decoded(value: str) -> str:
    """The value of a header; one that headers cannot hold is encoded by its client."""
    if not value.startswith(_BASE64_START) or not value.endswith(_BASE64_END):
        return value
    try:
        return b64decode(value[len(_BASE64_START) : -len(_BASE64_END)], validate=True).decode()
    except (Error, UnicodeDecodeError):
        return ""


def _error(request_id: object, code: int, message: str, data: Document | None = None) -> Document:
    error: Document = {"code": code, "message": message}
    if data:
        error["data"] = data
    answered = request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None
    return {"jsonrpc": "2.0", "id": answered, "error": error}
