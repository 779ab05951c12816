"""HTTP/1.1 as a client speaks it, from and to bytes."""

from __future__ import annotations

import pytest

from parley import __version__
from parley.domain.errors.errors import Invalid
from parley.sdk.transport import http_codec
from parley.sdk.transport.http_codec import HEAD_BYTES, ResponseReader, broken_by, encoder
from parley.sdk.transport.port import Broken, Place, Request

PLACE = Place(False, "127.0.0.1", 8420, "")
OK = b"HTTP/1.1 200 OK\r\n"


def encoded(request: Request, place: Place = PLACE) -> bytes:
    return encoder(place)(request)


def read(content: bytes, *, size: int = 0, bodiless: bool = False, streams: bool = False) -> ResponseReader:
    """A reader that was fed this, in pieces of this size."""
    reader = ResponseReader()
    reader.begin(bodiless=bodiless, streams=streams)
    step = size or len(content) or 1
    for at in range(0, len(content), step):
        reader.feed(content[at : at + step])
    return reader


# ---------------------------------------------------------------- requests


def test_a_request_says_to_whom_it_goes_and_who_sends_it() -> None:
    sent = encoded(Request("GET", "/api/v1/agents?x=1", {"accept": "application/json"}))

    assert (
        sent
        == (
            f"GET /api/v1/agents?x=1 HTTP/1.1\r\nhost: 127.0.0.1:8420\r\nuser-agent: parley/{__version__}\r\n"
            "accept: application/json\r\n\r\n"
        ).encode()
    )


@pytest.mark.parametrize("body", [b"", b'{"a":1}'])
def test_a_post_says_how_long_its_body_is(body: bytes) -> None:
    head, _, rest = encoded(Request("POST", "/x", {}, body)).partition(b"\r\n\r\n")

    assert rest == body
    assert f"content-length: {len(body)}".encode() in head.split(b"\r\n")


@pytest.mark.parametrize(
    ("place", "host"),
    [
        (Place(False, "example.com", 80, ""), b"example.com"),
        (Place(True, "example.com", 443, ""), b"example.com"),
        (Place(True, "example.com", 80, ""), b"example.com:80"),
        (Place(False, "::1", 8420, ""), b"[::1]:8420"),
        (Place(False, "fe80::1%eth0", 80, ""), b"[fe80::1]"),
        (Place(False, "bücher.example", 80, ""), b"xn--bcher-kva.example"),
    ],
)
def test_a_host_is_spelled_as_its_header_wants_it(place: Place, host: bytes) -> None:
    assert encoded(Request("GET", "/", {}), place).split(b"\r\n")[1] == b"host: " + host


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "ü", "a\x0bb"])
def test_a_header_cannot_become_another(value: str) -> None:
    with pytest.raises(Invalid):
        encoded(Request("GET", "/", {"x-name": value}))


@pytest.mark.parametrize("target", ["/a b", "/a\r\nHost: evil", "/ü", "/\x00"])
def test_a_target_cannot_become_more_than_one(target: str) -> None:
    with pytest.raises(Invalid):
        encoded(Request("GET", target, {}))


def test_a_host_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(Invalid, match="host"):
        encoder(Place(False, "ü" * 100, 80, ""))


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("size", [0, 1, 2, 3, 17])
def test_an_answer_with_a_length_is_read_however_it_is_cut(size: int) -> None:
    reader = read(OK + b"X-Next-Cursor: Msg_1\r\nContent-Length: 5\r\n\r\nhello", size=size)

    assert (reader.status, reader.head, reader.complete, reader.reusable) == (200, True, True, True)
    assert reader.headers == {"x-next-cursor": "Msg_1", "content-length": "5"}
    assert (reader.take(), reader.take()) == (b"hello", b"")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 17])
def test_an_answer_in_chunks_is_read_however_it_is_cut(size: int) -> None:
    content = b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;why=not\r\nlo\r\n0\r\nX-Trailer: 1\r\n\r\n"
    reader = read(OK + content, size=size)

    assert (reader.complete, reader.reusable, reader.take()) == (True, True, b"hello")
    assert "x-trailer" not in reader.headers


def test_pieces_are_there_before_the_answer_is_complete() -> None:
    reader = read(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", streams=True)

    assert (reader.streaming, reader.complete, reader.held, reader.take()) == (True, False, 3, b"hel")
    assert reader.held == 0
    reader.feed(b"2\r\nlo\r\n0\r\n\r\n")
    assert (reader.complete, reader.take()) == (True, b"lo")


def test_only_a_200_streams() -> None:
    assert not read(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", streams=True).streaming


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    reader = read(OK + b"\r\nhello")

    assert not reader.complete
    reader.end()
    assert (reader.complete, reader.reusable, reader.take()) == (True, False, b"hello")


def test_an_end_that_nobody_announced_ends_no_answer() -> None:
    reader = read(OK + b"\r\nhello")

    with pytest.raises(Broken, match="in the middle"):
        reader.end(announced=False)


def test_headers_of_one_name_are_one() -> None:
    assert read(OK + b"Vary: a\r\nvary: b\r\nContent-Length: 0\r\n\r\n").headers["vary"] == "a, b"


def test_an_answer_before_the_answer_is_passed_over() -> None:
    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    reader = read(hints + OK + b"Content-Length: 2\r\n\r\nok")

    assert (reader.status, reader.headers, reader.take()) == (200, {"content-length": "2"}, b"ok")


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_what_has_no_body_is_complete_with_its_head(status: bytes) -> None:
    reader = read(b"HTTP/1.1 " + status + b"\r\nETag: x\r\n\r\n")

    assert (reader.complete, reader.reusable, reader.take()) == (True, True, b"")


def test_a_length_that_no_body_follows_spoils_the_connection_only() -> None:
    for reader in (
        read(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        read(OK + b"Content-Length: 5\r\n\r\n", bodiless=True),
    ):
        assert (reader.complete, reader.reusable, reader.take()) == (True, False, b"")


@pytest.mark.parametrize(
    "content",
    [
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"Content-Length: 2\r\n\r\nok" + OK + b"Content-Length: 2\r\n\r\nno",
        OK + b"Content-Length: 2\r\n\r\nok" + b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        OK + b"Content-Length: 2\r\n\r\nokay",
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok and more",
    ],
)
def test_a_connection_that_closes_or_says_too_much_is_not_used_again(content: bytes) -> None:
    reader = read(content)

    assert (reader.complete, reader.status, reader.take(), reader.reusable) == (True, 200, b"ok", False)


def test_one_reader_reads_answer_after_answer() -> None:
    reader = ResponseReader()
    for number in range(3):
        reader.begin()
        reader.feed(OK + b"X-N: %d\r\nContent-Length: 1\r\n\r\n%d" % (number, number))

        assert (reader.complete, reader.headers["x-n"], reader.take()) == (True, f"{number}", b"%d" % number)


# ---------------------------------------------------------------- what is no answer


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"HTTP/1.1 20",
        OK + b"Content-Le",
        OK + b"Content-Length: 5\r\n\r\nhell",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_half_an_answer_is_none(content: bytes, *, streams: bool) -> None:
    reader = read(content, streams=streams)

    assert not reader.complete
    with pytest.raises(Broken) as broken:
        reader.end()
    assert (broken.value.arrived, broken.value.timed_out, broken.value.malformed) == (True, False, False)


@pytest.mark.parametrize(
    "content",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46",
        b"<html>",
        b"HTTP/1.1 abc\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"a b: c\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ],
)
def test_what_is_no_http_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(Broken) as broken:
        read(content)

    assert (broken.value.arrived, broken.value.malformed) == (True, True)
    assert broken.value.reason


def test_a_head_has_an_end() -> None:
    field = b"x-filler: " + b"x" * 1012 + b"\r\n"
    fits = HEAD_BYTES // len(field) - 1

    assert read(OK + field * fits + b"Content-Length: 0\r\n\r\n", size=4096).complete
    with pytest.raises(Broken, match="no end"):
        read(OK + field * (fits + 8) + b"Content-Length: 0\r\n\r\n", size=4096)


def test_trailers_have_an_end() -> None:
    with pytest.raises(Broken, match="no end"):
        read(
            OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx: " + b"x" * 2 * HEAD_BYTES,
            size=4096,
            streams=True,
        )


def test_a_stream_may_be_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_codec, "BODY_BYTES", 10)
    reader = read(OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * HEAD_BYTES, size=4096, streams=True)

    assert len(reader.take()) == HEAD_BYTES


@pytest.mark.parametrize(
    "content", [b"Content-Length: 11\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n"]
)
def test_a_body_that_is_read_whole_has_a_largest_size(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(http_codec, "BODY_BYTES", 10)
    with pytest.raises(Broken, match="too large"):
        read(OK + content)
    monkeypatch.setattr(http_codec, "BODY_BYTES", 11)
    read(OK + content)


# ---------------------------------------------------------------- errors of the network


def test_an_error_of_the_network_is_said_in_the_systems_words() -> None:
    refused = broken_by(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)"), arrived=False)

    assert (refused.reason, refused.arrived, refused.timed_out) == ("Connection refused", False, False)
    assert broken_by(TimeoutError(), arrived=True).timed_out
    assert broken_by(ValueError(), arrived=True).reason == "ValueError"
