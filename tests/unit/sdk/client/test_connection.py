"""The connection: flows carried out, requests sent again, streams and lines over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import Any, TypeVar

import pytest

from parley.domain.errors.errors import Forbidden, NotFound, Unavailable
from parley.sdk.client.connection import AsyncConnection
from parley.sdk.protocol.flow import Flow, Pause
from tests.unit.sdk.peer import DROP, PATIENCE, Peer, a_peer, answer, event, refused, streamed
from tests.unit.sdk.playing import GONE, ScriptedTransport, a_session, said

T = TypeVar("T")

# ---------------------------------------------------------------- carrying flows out


def carried_out(flow: Flow[T], *answers: Any, pauses: list[float]) -> T:
    """What a flow returns when its requests are answered from a list."""

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    connection = AsyncConnection("http://127.0.0.1:1", pause=pause, transport=ScriptedTransport(*answers))
    return asyncio.run(connection.run(flow))


def test_a_flow_is_answered_thrown_what_broke_and_given_its_pauses() -> None:
    pauses: list[float] = []

    answer = carried_out(a_session().send("GET", "x"), GONE, said(7), pauses=pauses)

    assert (answer.document, pauses) == (7, [0.1])


def test_a_flow_that_is_given_up_can_clean_up() -> None:
    ended: list[str] = []

    def flow() -> Flow[None]:
        try:
            yield Pause(1)
            yield a_session().request("GET", "x")
        finally:
            ended.append("ended")

    with pytest.raises(KeyError):
        carried_out(flow(), KeyError(), pauses=[])

    assert ended == ["ended"]


def test_a_flow_that_asks_for_nothing_ends_at_once() -> None:
    def flow() -> Flow[int]:
        yield from ()
        return 5

    assert carried_out(flow(), pauses=[]) == 5


# ---------------------------------------------------------------- over a socket


@asynccontextmanager
async def awaited(peer: Peer, **options: object) -> AsyncIterator[AsyncConnection]:
    numbers = count(1)

    async def pause(_: float) -> None:
        await asyncio.sleep(0)

    made: dict[str, object] = {"new_key": lambda: f"key-{next(numbers)}", "pause": pause, **options}
    connection = AsyncConnection(peer.url, **made)  # type: ignore[arg-type]
    try:
        yield connection
    finally:
        await connection.close()


def in_loop(wanted: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(wanted, PATIENCE))


def test_a_broken_request_is_sent_again_under_the_same_key() -> None:
    async def asked(peer: Peer) -> object:
        async with awaited(peer) as connection:
            return await connection.post("intents", body={"title": "t"})

    with a_peer(DROP, refused("503 Busy", "unavailable", "Retry-After: 1"), answer({"id": "x"})) as peer:
        assert in_loop(asked(peer)) == {"id": "x"}

    assert [got.headers["idempotency-key"] for got in peer.got] == ["key-1"] * 3


def test_a_refusal_is_raised_as_what_it_is() -> None:
    async def asked(peer: Peer) -> object:
        async with awaited(peer, hints={"not_found": "look elsewhere"}) as connection:
            return await connection.get("x")

    with a_peer(refused("404 Not Found", "not_found")) as peer, pytest.raises(NotFound) as error:
        in_loop(asked(peer))

    assert error.value.hint == "look elsewhere"


def test_a_stream_goes_on_behind_the_last_event() -> None:
    why: list[str] = []

    async def followed(peer: Peer) -> list[str]:
        seen: list[str] = []
        async with awaited(peer) as connection:
            events = connection.follow("subscribe", "channels", "c", broken=why.append)
            async with aclosing(events):
                async for item in events:
                    seen.append(item.id)
                    if len(seen) == 4:
                        break
        return seen

    first, second = streamed(event(1), event(2)), streamed(event(3), ends=True)
    with a_peer(first, second, DROP, streamed(event(4))) as peer:
        assert in_loop(followed(peer)) == ["1", "2", "3", "4"]

    assert [got.headers.get("last-event-id") for got in peer.got] == [None, "2", "3", "3"]
    assert len(why) == 3


def test_a_refused_stream_is_raised() -> None:
    async def followed(peer: Peer) -> None:
        async with awaited(peer) as connection:
            async for _ in connection.follow("subscribe", "channels", "c"):
                pytest.fail("there is nothing to see")

    with a_peer(refused("403 Forbidden", "forbidden")) as peer, pytest.raises(Forbidden):
        in_loop(followed(peer))


def test_lines_come_byte_for_byte() -> None:
    async def read(peer: Peer) -> list[bytes]:
        async with awaited(peer) as connection:
            return [line async for line in connection.lines("audit", "export")]

    with a_peer(streamed('{"a": 1}\n{"b"', ":2}\n\n", "é", ends=True)) as peer:
        assert in_loop(read(peer)) == [b'{"a": 1}\n', b'{"b":2}\n', b"\n", "é".encode()]
    with a_peer(streamed("1\n", "2\n")) as peer, pytest.raises(Unavailable, match="broke"):
        in_loop(read(peer))
    with a_peer(refused("404 Not Found", "not_found")) as peer, pytest.raises(NotFound):
        in_loop(read(peer))


def test_an_asynchronous_connection_may_be_used_in_one_loop_after_the_other() -> None:
    with a_peer(answer(1), answer(2)) as peer:
        connection = AsyncConnection(peer.url)

        async def asked() -> object:
            return await connection.get("x")

        assert [in_loop(asked()), in_loop(asked())] == [1, 2]
