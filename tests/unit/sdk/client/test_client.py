"""The two clients: the same verbs, all of the server, and what they know without being told."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid, ParleyError, Unavailable
from parley.domain.errors.team import Unauthorized
from parley.sdk.client.client import AsyncClient, Client
from parley.sdk.client.session import NOTHING
from parley.sdk.protocol.flow import target_of
from parley.sdk.transport.port import ClosingAsyncIterator, ClosingIterator, Request, Response
from parley.surfaces.http.server import all_routes
from tests.team_rig import LiveServer, with_server
from tests.unit.sdk.client.driven import public_methods
from tests.unit.sdk.record_samples import an_approval

URL = "http://127.0.0.1:1"
# As the RFC has them; a default is spelled as it is there.
RFC = {
    "create_channel": "intent_id, name, members=None, member_policy='intent', options=None",
    "list_channels": "intent_id",
    "get_channel": "channel_id",
    "close_channel": "channel_id",
    "send_message": "channel_id, sender, to=None, message_type='notify', payload={}, expires_at=None",
    "reply_to": "channel_id, message_id, sender, payload={}",
    "list_messages": "channel_id, since=None, to=None",
    "get_message": "channel_id, message_id",
    "mark_read": "channel_id, message_id",
    "ask": "channel_id, sender, to, payload, timeout=30",
    "ask_all": "channel_id, sender, to, payload, timeout=30",
}
# Routes that no method calls, and why.
NOT_CALLED = {
    "GET /intents/{intent_id}/subscribe": "the same stream as /subscribe/intents, with names in capitals",
    "GET /agents/{agent_id}/subscribe": "the same stream as /subscribe/agents, with names in capitals",
    "GET /channels/{channel_id}/subscribe": "the same stream as /subscribe/channels",
    "GET /server/config": "says nothing that a client could use",
    "GET /healthz": "for whoever runs the server; readyz says more",
    "GET /metrics": "for Prometheus",
    "GET /status": "for whoever runs the servers, by `parley status`",
    "GET /openapi.json": "for tools that read OpenAPI",
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

    def send(self, request: Request) -> Response[ClosingIterator]:
        raise Seen(request)

    def close(self) -> None:
        self.closed += 1


class LookingAsync:
    def __init__(self) -> None:
        self.closed = 0

    async def send(self, request: Request) -> Response[ClosingAsyncIterator]:
        raise Seen(request)

    async def close(self) -> None:
        self.closed += 1


def verbs(kind: type) -> dict[str, Any]:
    """Every public method of a client, in the order of its areas."""
    areas = [*kind.__bases__, kind]
    return {name: getattr(kind, name) for area in areas for name in public_methods(area)}


# ---------------------------------------------------------------- twins


def test_both_clients_have_the_same_methods_in_the_same_order() -> None:
    assert list(verbs(Client)) == list(verbs(AsyncClient))


@pytest.mark.parametrize("name", [name for name, one in verbs(Client).items() if inspect.isfunction(one)])
def test_a_method_is_the_same_in_both_clients(name: str) -> None:
    one, twin = verbs(Client)[name], verbs(AsyncClient)[name]

    assert inspect.signature(one).parameters == inspect.signature(twin).parameters
    assert str(twin.__annotations__["return"]).replace("Async", "") == one.__annotations__["return"]
    assert inspect.cleandoc(one.__doc__).split("\n")[0] == inspect.cleandoc(twin.__doc__).split("\n")[0]


@pytest.mark.parametrize("name", [name for name in verbs(AsyncClient) if name not in ("url", "agent", "as_agent")])
def test_every_method_of_the_asynchronous_client_is_awaited(name: str) -> None:
    method = verbs(AsyncClient)[name]

    assert inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def test_the_clients_are_made_the_same_way() -> None:
    given, other = (inspect.signature(kind).parameters for kind in (Client, AsyncClient))

    assert {name: one.default for name, one in given.items()} == {name: one.default for name, one in other.items()}


def test_the_methods_of_the_rfc_are_there_in_its_order_with_its_parameters() -> None:
    found = {name: spelled(method) for name, method in verbs(Client).items() if name in RFC}

    assert list(found) == list(RFC)
    assert found == RFC


def spelled(method: Any) -> str:
    """A method's positional parameters as the RFC spells them: it names the sender always."""
    given = [one for one in inspect.signature(method).parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    shown = []
    for one in given[1:]:
        bare = one.default is one.empty or one.name == "sender"
        shown.append(one.name if bare else f"{one.name}={one.default!r}")
    return ", ".join(shown)


# ---------------------------------------------------------------- routes


GIVEN: dict[str, Any] = {
    "approval": an_approval(),
    "active": True,
    "documents": {},
    "messages": [{}],
    "patches": [{}],
    "payload": NOTHING,
    "position": 1,
    "state": {},
}
MORE: dict[str, list[dict[str, Any]]] = {
    "follow": [{"channel": "x"}, {"intent": "x"}, {"agent": "x"}],
    "search": [{}, {"channel_id": "x"}],
    "open_channel": [],  # more than one request
}
AT_ONCE = ("url", "agent", "as_agent", "close")


def requests_of(name: str) -> Iterator[Request]:
    """What the method sends first."""
    method = getattr(Client(URL, key="secret", transport=Looking()), name)
    wanted = [one for one in inspect.signature(method).parameters.values() if one.default is one.empty]
    for more in MORE.get(name, [{}]):
        given = {one.name: GIVEN.get(one.name, "x") for one in wanted} | more
        with pytest.raises(Seen) as seen:
            next(iter(method(**given)))  # an iterator sends when it is asked for something
        yield seen.value.args[0]


def fitting(request: Request) -> str:
    """The route that a request goes to; the first that fits, as in the server."""
    path = request.target.partition("?")[0]
    for route in all_routes():
        pattern = ("" if route.bare else "/api/v1") + re.sub(r"\{[^}]+\}", "[^/]+", route.path)
        if route.method == request.method and re.fullmatch(pattern, path):
            return f"{route.method} {route.path}"
    raise AssertionError(f"there is no route for {request.method} {path}")


def test_every_route_of_the_server_is_called_by_some_method() -> None:
    methods = [name for name in verbs(Client) if name not in AT_ONCE]

    called = {fitting(request) for name in methods for request in requests_of(name)}

    assert {f"{one.method} {one.path}" for one in all_routes()} - called == set(NOT_CALLED)


# ---------------------------------------------------------------- what a client knows


@pytest.mark.parametrize(("kind", "transport"), [(Client, Looking()), (AsyncClient, LookingAsync())])
def test_what_is_not_given_comes_from_the_settings(kind: Any, transport: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_URL", "http://127.0.0.1:2/below/")
    monkeypatch.setenv("PARLEY_KEY", "from the environment")
    monkeypatch.setenv("PARLEY_AGENT", "alice")

    client, other = kind(transport=transport), kind(URL, key="mine", agent="bob", transport=transport)

    assert (client.url, client.agent) == ("http://127.0.0.1:2/below", "alice")
    assert sent(client).headers["x-api-key"] == "from the environment"
    assert (other.url, other.agent) == (URL, "bob")
    assert sent(other).headers["x-api-key"] == "mine"


def sent(client: Any) -> Request:
    """What the client would send to look at a role."""
    with pytest.raises(Seen) as seen:
        asyncio.run(client.get_role("reviewer"))
    request = seen.value.args[0]
    assert isinstance(request, Request)
    return request


@pytest.mark.parametrize(("kind", "transport"), [(Client, Looking()), (AsyncClient, LookingAsync())])
def test_a_client_can_speak_for_another_agent_by_the_same_key_and_connections(kind: Any, transport: Any) -> None:
    client = kind(URL, key="secret", agent="alice", timeout=7, transport=transport)

    other = client.as_agent("bob")

    assert (client.agent, other.agent, other.url) == ("alice", "bob", URL)
    request = sent(other)
    assert (request.headers["x-agent-id"], request.headers["x-api-key"], request.timeout) == ("bob", "secret", 7)
    assert type(other) is kind


def test_a_client_closes_its_connections_at_the_end_of_a_with() -> None:
    transport = Looking()

    with Client(URL, key="secret", transport=transport) as client:
        assert isinstance(client, Client)
        assert transport.closed == 0

    assert transport.closed == 1


def test_an_asynchronous_client_closes_its_connections_at_the_end_of_a_with() -> None:
    transport = LookingAsync()

    async def used() -> None:
        async with AsyncClient(URL, key="secret", transport=transport) as client:
            assert isinstance(client, AsyncClient)

    asyncio.run(used())

    assert transport.closed == 1


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_key_is_not_shown(kind: Any) -> None:
    client = kind(URL, key="secret", agent="alice")

    assert repr(client) == f"{kind.__name__}('{URL}', agent='alice')"
    assert "secret" not in repr(vars(client))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("url", ["nowhere", "ftp://host", "http://", "http://host?query"])
def test_an_address_that_is_none_is_refused_at_once(kind: Any, url: str) -> None:
    with pytest.raises(Invalid, match="is no address of a server"):
        kind(url, key="secret")


def test_where_no_server_is_the_error_says_what_to_do() -> None:
    with Client(URL, key="secret") as client, pytest.raises(Unavailable, match="parley up") as refused:
        client.health()

    assert isinstance(refused.value, ParleyError)


@with_server
async def test_who_gave_no_key_is_told_so(server: LiveServer) -> None:
    async with AsyncClient(f"http://127.0.0.1:{server.listener.port}") as client:
        with pytest.raises(Unauthorized, match="no key was given"):
            await client.list_agents()


def test_the_address_of_the_api_is_as_good_as_the_servers() -> None:
    assert target_of("http://127.0.0.1:8420/api/v1/") == target_of("http://127.0.0.1:8420")
