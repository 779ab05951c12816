"""Requests of the Model Context Protocol and their answers, as they travel over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType


class McpRequest(Struct):
    """A JSON-RPC request, or a notification, which has no id."""

    jsonrpc: Literal["2.0"]
    method: Annotated[str, Meta(description="server/discover, initialize, tools/list, tools/call or ping.")]
    id: str | int | UnsetType = UNSET
    params: dict[str, Any] = {}


class McpError(Struct):
    """Why a request cannot be carried out. What a tool refuses is a result with `isError`."""

    code: int
    message: str
    data: dict[str, Any] | UnsetType = UNSET


class McpAnswer(Struct):
    """The answer to a JSON-RPC request."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    result: dict[str, Any] | UnsetType = UNSET
    error: McpError | UnsetType = UNSET
