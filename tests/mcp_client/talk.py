"""Runs in the .venv of the official client: connects as told on standard input, and prints what it saw."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def talk(told: dict[str, Any]) -> dict[str, Any]:
    """Connect, list the tools and call some."""
    async with httpx2.AsyncClient(headers=told.get("headers", {}), timeout=70) as http:
        if "url" in told:
            transport = streamable_http_client(told["url"], http_client=http)
        else:
            command, *arguments = told["command"]
            environment = {**os.environ, **told.get("environment", {})}
            transport = stdio_client(StdioServerParameters(command=command, args=arguments, env=environment))
        async with Client(transport, mode=told["mode"]) as client:
            listed = await client.list_tools()
            results = [await client.call_tool(name, arguments) for name, arguments in told["calls"]]
            return {
                "version": client.protocol_version,
                "tools": [tool.name for tool in listed.tools],
                "results": [[result.content[0].text, bool(result.is_error)] for result in results],
            }


print(json.dumps(asyncio.run(talk(json.load(sys.stdin)))))
