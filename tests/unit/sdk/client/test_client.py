"""The client: all of the server, and what it knows without being told."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid, ParleyError, Unavailable
from parley.domain.errors.team import Unauthorized
from parley.sdk.client.client import AsyncClient
from parley.sdk.client.fields import NOTHING
from parley.sdk.protocol.flow import target_of
from parley.sdk.transport.port import ClosingAsyncIterator, Request, Response
from parley.surfaces.http.server import all_routes
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.client.recorded import public_methods
from tests.unit.sdk.record_samples import an_approval

URL = "http://127.0.0.1:1"
# Routes that no method calls, and why.
NOT_CALLED = {
    "GET /intents/{intent_id}/subscribe": "the same stream as /subscribe/intents, with names in capitals",
    "GET /agents/{agent_id}/subscribe": "the same stream as /subscribe/agents, with names in capitals",
    "GET /channels/{channel_id}/subscribe": "the same stream as /subscribe/channels",
    "GET /server/config": "says nothing that a client could use",
    "GET /healthz": "for whoever runs the server; readyz says more",
    "GET /metrics": "for Prometheus",
    "GET /status": "for whoever runs the servers, by `parley status`",
    "GET /viewer": "for pages of people who have several agents; a client names the agent that it reads as",
    "GET /openapi.json": "for tools that read OpenAPI",
    "POST /mcp": "for programs that speak the Model Context Protocol, and `parley mcp --url`",
    "GET /": "for people with a browser",
    "GET /docs": "for people with a browser",
    "GET /schemas": "for tools that read JSON Schema",
    "GET /schemas/{name}": "for tools that read JSON Schema",
}


class Seen(Exception):
    """What was about to be sent."""


class Looking:
    """A transport that sends nothing and shows what it was given."""

    def __init__(self) -> None:
        self.closed = 0

    async def send(self, request: Request) -> Response[ClosingAsyncIterator]:
        raise Seen(request)

    async def close(self) -> None:
        self.closed += 1


def verbs() -> dict[str, Any]:
    """Every public method of the client."""
    areas = [*AsyncClient.__bases__, AsyncClient]
    return {name: getattr(AsyncClient, name) for area in areas for name in public_methods(area)}


def test_every_method_is_awaited() -> None:
    blocking = {
        name
        for name, method in verbs().items()
        if not inspect.iscoroutinefunction(method) and not inspect.isasyncgenfunction(method)
    }

    assert blocking == {"url", "agent", "as_agent", "direct", "sign"}


# ---------------------------------------------------------------- routes


GIVEN: dict[str, Any] = {
    "approval": an_approval(),
    "active": True,
    "documents": {},
    "intent_id": "intent_x",  # a title would be looked up first
    "messages": [{}],
    "patches": [{}],
    "payload": NOTHING,
    "position": 1,
    "state": {},
}
MORE: dict[str, list[dict[str, Any]]] = {
    "follow": [{"channel": "x"}, {"intent": "x"}, {"agent": "x"}],
    "search": [{}, {"channel_id": "x"}],
    "follow_up": [],  # asks as `ask` does, after an answer
    "schedule_message": [{"after": 1}],
    "wait_until": [{"state": "acted"}],
    "open_channel": [],  # more than one request
}
AT_ONCE = ("url", "agent", "as_agent", "direct", "sign", "close")


def requests_of(name: str) -> Iterator[Request]:
    """What the method sends first."""
    method = getattr(AsyncClient(URL, key="secret", transport=Looking()), name)
    fields = inspect.signature(method).parameters.values()
    required = [field for field in fields if field.default is field.empty or field.name in ("to", "payload")]
    several = [GIVEN.get(field.name, "x") for field in required if field.kind is field.VAR_POSITIONAL]
    for more in MORE.get(name, [{}]):
        named = {field.name: GIVEN.get(field.name, "x") for field in required if field.kind is not field.VAR_POSITIONAL}
        yield sent(method(*several, **named | more))


def sent(call: Any) -> Request:
    """What a call of a client sends first."""

    async def begun() -> None:
        await (anext(call) if inspect.isasyncgen(call) else call)

    with pytest.raises(Seen) as seen:
        asyncio.run(begun())
    request = seen.value.args[0]
    assert isinstance(request, Request)
    return request


def fitting(request: Request) -> str:
    """The route that a request goes to; the first that fits, as in the server."""
    path = request.target.partition("?")[0]
    for route in all_routes():
        pattern = ("" if route.bare else "/api/v1") + re.sub(r"\{[^}]+\}", "[^/]+", route.path)
        if route.method == request.method and re.fullmatch(pattern, path):
            return f"{route.method} {route.path}"
    raise AssertionError(f"there is no route for {request.method} {path}")


def test_every_route_of_the_server_is_called_by_some_method() -> None:
    methods = [name for name in verbs() if name not in AT_ONCE]

    called = {fitting(request) for name in methods for request in requests_of(name)}

    assert {f"{route.method} {route.path}" for route in all_routes()} - called == set(NOT_CALLED)


# ---------------------------------------------------------------- what a client knows


def test_what_is_not_given_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_URL", "http://127.0.0.1:2/below/")
    monkeypatch.setenv("PARLEY_KEY", "from the environment")
    monkeypatch.setenv("PARLEY_AGENT", "alice")

    client = AsyncClient(transport=Looking())
    other = AsyncClient(URL, key="mine", agent="bob", transport=Looking())

    assert (client.url, client.agent) == ("http://127.0.0.1:2/below", "alice")
    assert sent(client.get_role("reviewer")).headers["x-api-key"] == "from the environment"
    assert (other.url, other.agent) == (URL, "bob")
    assert sent(other.get_role("reviewer")).headers["x-api-key"] == "mine"


def test_a_client_can_speak_for_another_agent_by_the_same_key_and_connections() -> None:
    client = AsyncClient(URL, key="secret", agent="alice", timeout=7, transport=Looking())

    other = client.as_agent("bob")

    assert (client.agent, other.agent, other.url) == ("alice", "bob", URL)
    request = sent(other.get_role("reviewer"))
    assert (request.headers["x-agent-id"], request.headers["x-api-key"], request.timeout) == ("bob", "secret", 7)
    assert other.connection.transport is client.connection.transport


def test_a_client_closes_its_connections_at_the_end_of_a_with() -> None:
    transport = Looking()

    async def used() -> None:
        async with AsyncClient(URL, key="secret", transport=transport) as client:
            assert isinstance(client, AsyncClient)
            assert transport.closed == 0

    asyncio.run(used())

    assert transport.closed == 1


def test_a_key_is_not_shown() -> None:
    client = AsyncClient(URL, key="secret", agent="alice")

    assert repr(client) == f"AsyncClient('{URL}', agent='alice')"
    assert "secret" not in repr(vars(client))


@pytest.mark.parametrize("url", ["nowhere", "ftp://host", "http://", "http://host?query"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(Invalid, match="is no address of a server"):
        AsyncClient(url, key="secret")


def test_where_no_server_is_the_error_says_what_to_do() -> None:
    with pytest.raises(Unavailable, match="parley up") as refused:
        asyncio.run(AsyncClient(URL, key="secret").health())

    assert isinstance(refused.value, ParleyError)


@with_server
async def test_who_gave_no_key_is_told_so(server: LiveServer) -> None:
    async with AsyncClient(f"http://127.0.0.1:{server.listener.port}") as client:
        with pytest.raises(Unauthorized, match=r"log in with: parley login http://\S+, or set PARLEY_KEY"):
            await client.list_agents()


def test_the_address_of_the_api_is_as_good_as_the_servers() -> None:
    assert target_of("http://127.0.0.1:8420/api/v1/") == target_of("http://127.0.0.1:8420")
