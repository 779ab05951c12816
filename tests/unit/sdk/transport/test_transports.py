"""What every transport does, whatever it is built on."""

from __future__ import annotations

import gc
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.sdk.transport.port import Broken, Place, Request
from tests.rigs.webhook_receiver import certified
from tests.unit.sdk.peer import (
    PATIENCE,
    STREAM_END,
    STREAM_HEAD,
    Got,
    Talk,
    a_host,
    answer,
    answering,
    chunk,
    echoing,
    nobodys_port,
    refused,
    streamed,
)
from tests.unit.sdk.transport.carriers import LOOPS, Blocking, Carrier, Looping, broken, get, place_of

Carrying = Callable[..., Carrier]


@pytest.fixture(params=["blocking", *LOOPS])
def carrying(request: pytest.FixtureRequest) -> Iterator[Carrying]:
    """Makes a transport to a place; what was made is closed in the end."""
    made: list[Carrier] = []
    loop = LOOPS[request.param]() if request.param in LOOPS else None

    def carrier(place: Place, **options: object) -> Carrier:
        made.append(Looping(loop, place, **options) if loop is not None else Blocking(place, **options))
        return made[-1]

    yield carrier
    for one in made:
        one.close()
    if loop is not None:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    made.clear()
    gc.collect()  # a connection that was left open would be heard of here


# ---------------------------------------------------------------- requests and answers


def test_a_request_is_answered(carrying: Carrying) -> None:
    asked: list[Got | None] = []

    def script(talk: Talk) -> None:
        asked.append(talk.read())
        talk.say(answer({"id": "x"}, "201 Created", "X-Next-Cursor: Msg_1"))

    with a_host(script) as host:
        request = Request("POST", "/api/v1/intents?a=1", {"x-api-key": "k"}, b'{"a":1}')
        response = carrying(place_of(host)).send(request)

    (got,) = asked
    assert got is not None
    assert (got.line, got.body, got.headers["x-api-key"]) == ("POST /api/v1/intents?a=1 HTTP/1.1", b'{"a":1}', "k")
    assert got.headers["host"] == f"127.0.0.1:{host.port}"
    assert (response.status, response.headers["x-next-cursor"], response.body) == (201, "Msg_1", b'{"id": "x"}')
    assert response.pieces is None


def test_a_body_of_any_size_arrives_and_comes_back(carrying: Carrying) -> None:
    body = bytes(range(256)) * 8192

    def script(talk: Talk) -> None:
        got = talk.read()
        assert got is not None
        talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(got.body) + got.body)

    with a_host(script) as host:
        assert carrying(place_of(host)).send(Request("POST", "/x", {}, body)).body == body


def test_a_thousand_requests_use_one_connection(carrying: Carrying) -> None:
    with a_host(echoing) as host:
        carrier = carrying(place_of(host))
        answers = [carrier.send(get(f"/{number}")).body for number in range(1000)]

    assert [json.loads(one) for one in answers] == [f"/{number}" for number in range(1000)]
    assert host.connections == 1


def test_a_hundred_requests_at_once_get_each_its_own_answer(carrying: Carrying) -> None:
    with a_host(echoing) as host:
        carrier = carrying(place_of(host))
        for _ in range(3):
            answers = carrier.send_all([get(f"/{number}") for number in range(100)])
            assert [json.loads(one.body) for one in answers] == [f"/{number}" for number in range(100)]

    assert host.connections <= 300


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable", "404 Not Found", "302 Found"])
def test_a_refusal_is_an_answer_and_is_not_asked_again(carrying: Carrying, status: str) -> None:
    with a_host(answering(refused(status, "no", "Retry-After: 1"), answer({}))) as host:
        response = carrying(place_of(host)).send(get())

    assert (response.status, response.headers["retry-after"]) == (int(status[:3]), "1")


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_what_has_no_body_is_not_waited_for(carrying: Carrying, method: str) -> None:
    empty = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" if method == "HEAD" else b"HTTP/1.1 204 None\r\n\r\n"
    with a_host(answering(empty, answer(1)), answering(answer(1))) as host:
        carrier = carrying(place_of(host))

        assert carrier.send(Request(method, "/x", {})).body == b""
        assert carrier.send(get()).body == b"1"


def test_an_answer_before_the_answer_is_passed_over(carrying: Carrying) -> None:
    with a_host(answering(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(1))) as host:
        assert carrying(place_of(host)).send(get()).body == b"1"


def test_an_answer_may_end_with_its_connection(carrying: Carrying) -> None:
    with a_host(answering(b"HTTP/1.1 200 OK\r\n\r\nhello"), echoing) as host:
        carrier = carrying(place_of(host))

        assert carrier.send(get()).body == b"hello"
        assert carrier.send(get()).body == b'"/x"'


def test_a_server_may_have_an_address_of_the_sixth_version(carrying: Carrying) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no such addresses")
    with a_host(echoing, host="::1") as host:
        assert carrying(place_of(host)).send(get()).status == 200


# ---------------------------------------------------------------- connections that end


def test_a_server_that_closes_is_connected_to_again(carrying: Carrying) -> None:
    with a_host(answering(answer(1, "200 OK", "Connection: close"))) as host:
        carrier = carrying(place_of(host))
        for _ in range(3):
            assert carrier.send(get()).status == 200

    assert host.connections == 3


def test_an_idle_connection_that_the_server_closed_is_not_used(carrying: Carrying) -> None:
    closed = threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(answer(1))
        talk.close()
        closed.set()

    with a_host(script) as host:
        carrier = carrying(place_of(host))
        for _ in range(10):
            closed.clear()
            assert carrier.send(Request("PATCH", "/x", {}, b"{}")).status == 200
            assert closed.wait(PATIENCE)

    assert host.connections == 10


def test_a_connection_on_which_more_came_than_was_asked_for_is_not_used(carrying: Carrying) -> None:
    with a_host(answering(answer(1) + answer("a lie"), answer("a lie")), echoing) as host:
        carrier = carrying(place_of(host))

        assert carrier.send(get()).body == b"1"
        assert carrier.send(get()).body == b'"/x"'


def test_after_closing_a_transport_opens_new_connections(carrying: Carrying) -> None:
    ended = threading.Event()

    def script(talk: Talk) -> None:
        echoing(talk)
        ended.set()

    with a_host(script) as host:
        carrier = carrying(place_of(host))
        carrier.send(get())
        carrier.close()
        assert ended.wait(PATIENCE)
        carrier.close()

        assert carrier.send(get()).status == 200
        assert host.connections == 2


def test_a_server_that_was_started_again_is_found_again(carrying: Carrying) -> None:
    with a_host(echoing) as host:
        carrier = carrying(place_of(host))
        carrier.send_all([get() for _ in range(5)])
    away = broken(carrier, get())
    with a_host(echoing, port=host.port):
        assert carrier.send(get()).status == 200

    assert not away.timed_out


# ---------------------------------------------------------------- what breaks


def test_where_nobody_listens_nothing_can_have_arrived(carrying: Carrying) -> None:
    error = broken(carrying(Place(False, "127.0.0.1", nobodys_port(), "")), get())

    assert (error.reason, error.arrived, error.timed_out) == ("Connection refused", False, False)


def test_a_host_that_cannot_be_looked_up_breaks_the_request(carrying: Carrying) -> None:
    assert not broken(carrying(Place(False, "a..b", 80, "")), get()).arrived


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 O",
        answer({"id": "x"})[:-3],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
    ],
)
def test_half_an_answer_is_none_and_the_next_request_gets_a_whole_one(carrying: Carrying, said: bytes) -> None:
    with a_host(answering(said), echoing) as host:
        carrier = carrying(place_of(host))
        error = broken(carrier, get())

        assert (error.arrived, error.timed_out, error.malformed) == (True, False, False)
        assert carrier.send(get()).body == b'"/x"'


def test_what_is_no_http_is_said_to_be_none(carrying: Carrying) -> None:
    with a_host(answering(b"SSH-2.0-OpenSSH_9.6\r\n"), echoing) as host:
        carrier = carrying(place_of(host))
        error = broken(carrier, get())

        assert (error.arrived, error.malformed) == (True, True)
        assert carrier.send(get()).status == 200


def test_a_silent_server_is_waited_for_as_long_as_the_request_says(carrying: Carrying) -> None:
    def script(talk: Talk) -> None:
        talk.read()
        talk.read()

    with a_host(script) as host:
        error = broken(carrying(place_of(host)), get(timeout=0.3))

    assert (error.arrived, error.timed_out) == (True, True)


def test_a_head_that_comes_in_drops_does_not_get_more_time(carrying: Carrying) -> None:
    ended = threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(b"HTTP/1.1 200 OK\r\n")
        while talk.say(b"x: y\r\n") and not ended.wait(0.001):
            pass

    with a_host(script) as host:
        error = broken(carrying(place_of(host)), get(timeout=0.1))
        ended.set()

    assert (error.timed_out, error.malformed) == (True, False)


def test_a_body_that_stops_is_not_waited_for_for_ever(carrying: Carrying) -> None:
    def script(talk: Talk) -> None:
        talk.read()
        talk.say(answer("hello")[:-3])
        talk.read()

    with a_host(script) as host:
        assert broken(carrying(place_of(host)), get(timeout=0.05)).timed_out


@pytest.mark.slow
def test_a_body_that_comes_in_pieces_gets_the_time_for_each(carrying: Carrying) -> None:
    said = threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
        for _ in range(12):
            said.wait(0.15)
            talk.say(b"x")

    with a_host(script) as host:
        assert carrying(place_of(host)).send(get(timeout=1.5)).body == b"x" * 12


def test_an_answer_that_came_before_all_was_sent_is_the_answer(carrying: Carrying) -> None:
    def script(talk: Talk) -> None:
        talk.read_over(10)
        talk.say(refused("413 Content Too Large", "too_large", "Connection: close"))
        talk.read_over()

    with a_host(script) as host:
        assert carrying(place_of(host)).send(Request("POST", "/x", {}, b"x" * 4_000_000)).status == 413


def test_an_answer_is_not_lost_when_the_server_closes_without_reading(carrying: Carrying) -> None:
    def script(talk: Talk) -> None:
        talk.read_over(10)
        talk.say(refused("413 Content Too Large", "too_large", "Connection: close"))

    with a_host(script) as host:
        assert carrying(place_of(host)).send(Request("POST", "/x", {}, b"x" * 16_000_000)).status == 413


# ---------------------------------------------------------------- streams


def test_a_stream_comes_piece_by_piece_while_the_server_still_speaks(carrying: Carrying) -> None:
    heard = threading.Semaphore(0)

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(STREAM_HEAD)
        for number in range(3):
            talk.say(chunk(f"piece {number}"))
            assert heard.acquire(timeout=PATIENCE)
        talk.say(STREAM_END)

    with a_host(script) as host:
        response = carrying(place_of(host)).send(get(streams=True))
        assert (response.status, response.body) == (200, b"")
        assert response.pieces is not None
        pieces = []
        for piece in response.pieces:
            pieces.append(piece)
            heard.release()
        assert next(response.pieces, None) is None
        response.pieces.close()

    assert pieces == [b"piece 0", b"piece 1", b"piece 2"]


def test_a_stream_that_came_at_once_is_a_stream(carrying: Carrying) -> None:
    with a_host(answering(streamed("a", "b", ends=True)), answering(answer(1))) as host:
        carrier = carrying(place_of(host))
        response = carrier.send(get(streams=True))

        assert response.pieces is not None
        assert b"".join(response.pieces) == b"ab"
        assert carrier.send(get()).body == b"1"


@pytest.mark.parametrize("said", [streamed("a", "b"), streamed("a", "b") + b"5\r\nhel"])
def test_a_stream_that_broke_off_gives_what_came_and_then_breaks(carrying: Carrying, said: bytes) -> None:
    with a_host(answering(said)) as host:
        pieces = carrying(place_of(host)).send(get(streams=True)).pieces
        assert pieces is not None
        came = [next(pieces)]
        while came[-1] and b"".join(came) not in (b"ab", b"abhel"):
            came.append(next(pieces))
        with pytest.raises(Broken, match="in the middle") as error:
            b"".join(pieces)
        pieces.close()

    assert error.value.arrived


def test_a_stream_that_falls_silent_breaks(carrying: Carrying) -> None:
    def script(talk: Talk) -> None:
        talk.read()
        talk.say(streamed("a"))
        talk.read()

    with a_host(script) as host:
        pieces = carrying(place_of(host)).send(get(timeout=1.0, streams=True)).pieces
        assert pieces is not None
        assert next(pieces) == b"a"
        with pytest.raises(Broken) as error:
            next(pieces)
        pieces.close()

    assert error.value.timed_out


def test_a_stream_that_is_refused_is_an_answer(carrying: Carrying) -> None:
    with a_host(answering(refused("404 Not Found", "not_found"), answer(1))) as host:
        carrier = carrying(place_of(host))
        response = carrier.send(get(streams=True))

        assert (response.status, response.pieces) == (404, None)
        assert json.loads(response.body)["code"] == "not_found"
        assert carrier.send(get()).body == b"1"

    assert host.connections == 1


def test_a_stream_that_is_closed_ends_its_connection_and_no_other(carrying: Carrying) -> None:
    ended = threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(streamed("a"))
        if talk.read() is None:
            ended.set()

    with a_host(script, echoing) as host:
        carrier = carrying(place_of(host))
        pieces = carrier.send(get(streams=True)).pieces
        assert pieces is not None
        assert next(pieces) == b"a"
        assert carrier.send(get()).status == 200
        pieces.close()
        pieces.close()

        assert ended.wait(PATIENCE)
        with pytest.raises(Broken, match="closed here"):
            next(pieces)
        assert carrier.send(get()).status == 200
    assert host.connections == 2


# ---------------------------------------------------------------- encryption


def test_an_encrypted_server_that_is_trusted_is_spoken_to(carrying: Carrying, tmp_path: Path) -> None:
    serves, trusts = certified(tmp_path, "localhost")
    with a_host(echoing, tls=serves) as host:
        carrier = carrying(place_of(host, "localhost", secure=True), tls=trusts)
        answers = [carrier.send(get(f"/{number}")).body for number in range(20)]

    assert answers == [b'"/%d"' % number for number in range(20)]
    assert host.connections == 1


def test_an_encrypted_stream_can_be_closed(carrying: Carrying, tmp_path: Path) -> None:
    serves, trusts = certified(tmp_path, "localhost")
    with a_host(answering(streamed("a"), b""), tls=serves) as host:
        carrier = carrying(place_of(host, "localhost", secure=True), tls=trusts)
        pieces = carrier.send(get(streams=True)).pieces
        assert pieces is not None
        assert next(pieces) == b"a"
        pieces.close()


def test_an_encrypted_answer_that_ends_unannounced_may_have_been_cut(carrying: Carrying, tmp_path: Path) -> None:
    serves, trusts = certified(tmp_path, "localhost")
    with a_host(answering(b"HTTP/1.1 200 OK\r\n\r\nhello"), tls=serves) as host:
        assert broken(carrying(place_of(host, "localhost", secure=True), tls=trusts), get()).arrived


@pytest.mark.parametrize("trusted", [True, False])
def test_a_server_that_is_not_who_it_should_be_gets_no_request(
    carrying: Carrying, tmp_path: Path, *, trusted: bool
) -> None:
    serves, trusts = certified(tmp_path, "another.example" if trusted else "localhost")
    with a_host(echoing, tls=serves) as host:
        options = {"tls": trusts} if trusted else {}
        error = broken(carrying(place_of(host, "localhost", secure=True), **options), get())

    assert (error.arrived, host.connections) == (False, 0)
    assert "not trusted" in error.reason


def test_a_server_that_does_not_encrypt_gets_no_request(carrying: Carrying) -> None:
    asked: list[bytes] = []

    def script(talk: Talk) -> None:
        asked.append(talk.read_over(3))
        talk.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with a_host(script) as host:
        assert not broken(carrying(place_of(host, secure=True)), get()).arrived

    assert asked[0].startswith(b"\x16\x03")
