"""Streams that go on after a break, without loss or repeat."""

from __future__ import annotations

from itertools import count, islice
from typing import cast

import pytest

from parley.domain.errors.errors import Forbidden, Invalid, NotFound, Unavailable
from parley.domain.errors.team import RateLimited
from parley.sdk.blocking.connection import Connection
from parley.sdk.protocol.event_stream import StreamEvent
from parley.sdk.protocol.following import Following
from tests.unit.sdk.peer import DROP, Peer, a_peer, event, nobodys_port, refused, streamed
from tests.unit.sdk.playing import GONE, SILENT, a_session
from tests.unit.sdk.playing import refused as refusal
from tests.unit.sdk.playing import said as response


def connected(peer: Peer, **options: object) -> Connection:
    numbers = count(1)
    made: dict[str, object] = {"new_key": lambda: f"key-{next(numbers)}", "pause": lambda _: None, **options}
    return Connection(peer.url, **made)  # type: ignore[arg-type]


def following(after: str = "", told: list[str] | None = None) -> Following:
    session = a_session(hints={"unreachable": "start one", "forbidden": "ask for it"})
    return Following(session, ("subscribe", "channels", "c"), after, told.append if told is not None else None)


def test_a_stream_goes_on_behind_the_last_event_after_a_break() -> None:
    why: list[str] = []
    first, second = streamed(event(1), event(2)), streamed(event(3), ends=True)
    with a_peer(first, second, streamed(event(4))) as peer, connected(peer, key="k") as connection:
        events = connection.follow("subscribe", "channels", "c", broken=why.append)
        seen = [one.id for one in islice(events, 4)]
        events.close()

    assert seen == ["1", "2", "3", "4"]
    assert [got.headers.get("last-event-id") for got in peer.got] == [None, "2", "3"]
    assert {got.headers["x-api-key"] for got in peer.got} == {"k"}
    assert len(why) == 2


def test_a_stream_that_broke_before_its_first_event_goes_on_where_it_began() -> None:
    with a_peer(streamed("retry: 1\nid: 41\n\n"), streamed(event(42))) as peer, connected(peer) as connection:
        events = connection.follow("subscribe", "channels", "c")
        assert next(events).id == "42"
        events.close()

    assert peer.got[1].headers["last-event-id"] == "41"


def test_an_event_that_was_not_dealt_with_is_not_passed_over() -> None:
    with a_peer(streamed(event(1), event(2))) as peer, connected(peer) as connection:
        events = connection.follow("subscribe", "channels", "c", after="0")
        assert next(events).id == "1"
        events.close()

    assert peer.got[0].headers["last-event-id"] == "0"


def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    paused: list[float] = []
    busy = refused("503 Service Unavailable", "unavailable", "Connection: close")
    with (
        a_peer(streamed(event(1)), busy, DROP, busy, streamed(event(2))) as peer,
        connected(peer, pause=paused.append) as connection,
    ):
        events = connection.follow("subscribe", "channels", "c")
        assert [next(events).id, next(events).id] == ["1", "2"]
        events.close()

    assert len(paused) == 4
    assert paused == sorted(paused)
    assert [got.headers.get("last-event-id") for got in peer.got[1:]] == ["1"] * 4


def test_a_stream_that_is_refused_ends_with_the_refusal() -> None:
    gone = refused("404 Not Found", "not_found", "Connection: close")
    with a_peer(streamed(event(1)), gone) as peer, connected(peer) as connection:
        events = connection.follow("subscribe", "channels", "c")
        assert next(events).id == "1"
        with pytest.raises(NotFound):
            next(events)


def test_a_stream_whose_right_was_revoked_says_so() -> None:
    revoked = 'event: revoked\ndata: {"reason":"x"}\n\n'
    with a_peer(streamed(event(1), revoked)) as peer, connected(peer) as connection:
        events = connection.follow("subscribe", "channels", "c")
        assert next(events).id == "1"
        with pytest.raises(Forbidden, match="no longer"):
            next(events)


@pytest.mark.parametrize(("patience", "pauses"), [(0.5, []), (10, [1.0, 2.0, 4.0])])
def test_where_there_is_no_server_a_stream_waits_for_one_within_the_patience(
    patience: float, pauses: list[float]
) -> None:
    url, paused = f"http://127.0.0.1:{nobodys_port()}", list[float]()

    with pytest.raises(Unavailable, match="no server answers"):
        next(Connection(url, pause=paused.append, patience=patience).follow("subscribe", "channels", "c"))
    assert paused == pauses


# ---------------------------------------------------------------- without a network


def test_what_opens_a_stream_says_where_it_stands() -> None:
    stream = following("41")
    stream.opened(response(None))

    first = stream.request()
    assert [one.id for one in stream.events(event(42).encode() + event(43).encode())] == ["42", "43"]
    again = stream.request()

    assert (first.method, first.target, first.streams) == ("GET", "/api/v1/subscribe/channels/c", True)
    assert (first.headers["last-event-id"], again.headers["last-event-id"]) == ("41", "43")
    assert first.timeout > 15  # an idle stream says every 15 seconds that it is there


def test_an_event_counts_as_dealt_with_when_the_next_is_asked_for() -> None:
    stream = following("0")
    events = stream.events((event(1) + event(2)).encode())

    next(events)
    assert stream.after == "0"
    next(events)
    assert stream.after == "1"
    assert list(events) == []
    assert stream.after == "2"


def test_half_an_event_is_forgotten_with_its_connection() -> None:
    stream = following()
    stream.request()
    assert list(stream.events(b"id: 5\nevent: lost\ndata: half")) == []

    stream.request()

    assert list(stream.events(b"data: whole\n\n")) == [StreamEvent("", "message", "whole")]
    assert stream.after == ""


def test_an_id_alone_moves_the_stream_on_without_an_event() -> None:
    stream = following()

    assert list(stream.events(b"id: 7\n\n")) == []
    assert stream.after == "7"


def test_the_pauses_grow_and_are_short_again_after_an_event() -> None:
    told: list[str] = []
    stream = following(told=told)
    stream.opened(response(None))

    assert [
        stream.disconnected(GONE),
        stream.disconnected(SILENT),
        stream.disconnected(None),
        stream.disconnected(GONE),
    ] == [1.0, 2.0, 4.0, 5.0]
    list(stream.events(event(1).encode()))
    assert stream.disconnected(GONE) == 1.0
    assert told[:3] == [
        "the connection to http://127.0.0.1:8420 broke: it closed the connection",
        "http://127.0.0.1:8420 did not answer in time",
        "the server ended the stream",
    ]


def test_a_server_that_asks_for_patience_gets_it_within_reason() -> None:
    stream = following()
    stream.opened(response(None))

    for seconds, pause in (("30", 30.0), ("3600", 60.0), ("0", 4.0)):
        with pytest.raises(RateLimited) as limited:
            stream.opened(refusal(429, "rate_limited", retry_after=seconds))
        assert stream.disconnected(limited.value) == pause


def test_who_followed_is_told_that_the_stream_is_back() -> None:
    said: list[str] = []
    session = a_session()
    stream = Following(session, ("x",), "", said.append, back=lambda: said.append("back"))

    stream.opened(response(None))
    stream.disconnected(None)
    stream.disconnected(GONE)
    stream.opened(response(None))
    stream.opened(response(None))

    assert [text.split(" ")[0] for text in said] == ["the", "the", "back"]


def test_until_it_was_open_once_what_the_server_refuses_is_raised() -> None:

    with pytest.raises(Forbidden) as forbidden:
        following().opened(refusal(403, "forbidden"))
    with pytest.raises(Forbidden):
        following().disconnected(forbidden.value)
    assert forbidden.value.hint == "ask for it"


def test_a_place_that_cannot_be_in_a_header_is_refused() -> None:
    with pytest.raises(Invalid, match="last-event-id"):
        following("a\r\nb").request()
    with pytest.raises(Invalid, match="last-event-id is a text, not int"):
        following(cast("str", 7)).request()


def test_a_server_that_is_known_to_be_there_is_waited_for_before_the_stream_was_open_once() -> None:
    known = Following(a_session(), ("subscribe", "agents", "a"), begun=True)

    assert known.disconnected(GONE) > 0
    with pytest.raises(NotFound):
        known.disconnected(NotFound("no such agent"))
