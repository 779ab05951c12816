"""Several addresses of one installation: the next one on failure, and nothing sent twice that may have arrived."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid, Unavailable
from parley.sdk.blocking.client import Client
from parley.sdk.blocking.failover import Failover
from parley.sdk.client.client import AsyncClient
from parley.sdk.client.failover import AsyncFailover
from parley.sdk.transport.port import Broken, Place, Request, Response
from tests.unit.sdk.peer import DROP, a_peer, answer, nobodys_port
from tests.unit.sdk.playing import GONE, NOBODY, said

REQUEST = Request("GET", "/one/api/v1/x", {})
PLACES = [Place(False, "a", 1, "/one"), Place(False, "b", 2, ""), Place(False, "c", 3, "/three")]


class Node:
    """Answers from a list, as a blocking transport."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.answers: list[Response[Any] | Broken] = []
        self._name, self._log = name, log

    def send(self, request: Request) -> Response[Any]:
        self._log.append(f"{self._name} {request.target}")
        given = self.answers.pop(0) if self.answers else said(self._name)
        if isinstance(given, Broken):
            raise given
        return given

    def close(self) -> None:
        self._log.append(f"{self._name} closed")


class AsyncNode(Node):
    async def send(self, request: Request) -> Response[Any]:  # type: ignore[override]
        return Node.send(self, request)

    async def close(self) -> None:  # type: ignore[override]
        Node.close(self)


class Rig:
    """Three nodes behind one of the two transports."""

    def __init__(self, asynchronous: bool) -> None:
        self.log: list[str] = []
        self.nodes = [(AsyncNode if asynchronous else Node)(place.host, self.log) for place in PLACES]
        made: Any = AsyncFailover if asynchronous else Failover
        self._transport = made(PLACES, lambda place: self.nodes[PLACES.index(place)])
        self._asynchronous = asynchronous

    def send(self) -> Response[Any]:
        sent = self._transport.send(REQUEST)
        response: Response[Any] = asyncio.run(sent) if self._asynchronous else sent
        return response

    def close(self) -> None:
        closed = self._transport.close()
        if self._asynchronous:
            asyncio.run(closed)


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def rig(request: pytest.FixtureRequest) -> Rig:
    return Rig(request.param)


def test_requests_stay_where_the_last_one_was_answered(rig: Rig) -> None:
    rig.nodes[0].answers = [NOBODY]

    answers = [rig.send().body for _ in range(3)]

    assert answers == [b'"b"'] * 3
    assert rig.log == ["a /one/api/v1/x", "b /api/v1/x", "b /api/v1/x", "b /api/v1/x"]


def test_a_request_that_may_have_arrived_goes_nowhere_else_by_itself(rig: Rig) -> None:
    rig.nodes[0].answers = [GONE]

    with pytest.raises(Broken):
        rig.send()
    assert rig.log == ["a /one/api/v1/x"]

    assert rig.send().body == b'"b"'  # the next one does not ask the node that broke


def test_when_no_address_can_be_reached_each_was_tried_once(rig: Rig) -> None:
    for node in rig.nodes:
        node.answers = [NOBODY]

    with pytest.raises(Broken):
        rig.send()

    assert rig.log == ["a /one/api/v1/x", "b /api/v1/x", "c /three/api/v1/x"]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_after_a_node_that_stops_the_next_one_is_asked(rig: Rig, status: int) -> None:
    rig.nodes[0].answers = [said({}, status)]

    assert [rig.send().status, rig.send().body] == [status, b'"b"']


def test_closing_closes_all(rig: Rig) -> None:
    rig.close()

    assert rig.log == ["a closed", "b closed", "c closed"]


def test_a_client_uses_the_address_that_answers() -> None:
    gone = f"http://127.0.0.1:{nobodys_port()}"
    with a_peer(answer([]), answer([])) as peer:
        for url in (f"{gone},{peer.url}", [gone, peer.url]):
            with Client(url, key="k") as client:
                assert client.list_agents() == []
    assert len(peer.got) == 2


def test_a_post_that_broke_is_sent_to_the_next_address_under_the_same_key() -> None:
    async def post(url: str) -> None:
        async with AsyncClient(url, key="k") as client:
            await client.connection.post("intents", body={})

    with a_peer(DROP) as first, a_peer(answer({})) as second:
        asyncio.run(post(f"{first.url},{second.url}"))

    assert [got.headers["idempotency-key"] for got in first.got] == [
        got.headers["idempotency-key"] for got in second.got
    ]


def test_a_change_without_a_key_that_broke_is_sent_nowhere_else() -> None:
    with (
        a_peer(DROP) as first,
        a_peer(answer({})) as second,
        Client([first.url, second.url], key="k") as client,
        pytest.raises(Unavailable, match="broke"),
    ):
        client.connection.send("PATCH", "x", body={})

    assert (len(first.got), len(second.got)) == (1, 0)


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_key_is_sent_unencrypted_to_none_of_the_addresses(client: Any) -> None:
    with pytest.raises(Invalid, match=r"b\.example"):
        client("https://a.example,http://b.example", key="k")
