"""Requests from bytes, strictly; responses to bytes, exactly."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley.surfaces.http.http1.chunks import ChunkReader
from parley.surfaces.http.http1.message import (
    CLOSE,
    NO_BODY,
    Framing,
    HeadReader,
    HttpLimits,
    Refused,
    Request,
    Response,
    check_partial_head,
    common_fields,
    render,
)
from tests.samples.messages import PROPERTY

LIMITS = HttpLimits()
COMMON = common_fields(0)
LINE = b"GET / HTTP/1.1\r\n"


def read(head: bytes, limits: HttpLimits = LIMITS) -> tuple[Request, Framing]:
    return HeadReader(limits, "10.0.0.1").read(head)


def with_fields(*fields: bytes) -> bytes:
    return LINE + b"".join(field + b"\r\n" for field in (b"Host: h", *fields)) + b"\r\n"


def refusal(head: bytes, limits: HttpLimits = LIMITS) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        read(head, limits)
    return refused.value.status, refused.value.code


# ---------------------------------------------------------------- the request


def test_a_request_is_taken_apart() -> None:
    head = b"POST /a/b?x=%20&y HTTP/1.1\r\nHost: h:80\r\nX-Thing:  a b \t\r\nx-thing: c\r\nContent-Length: 7\r\n\r\n"

    request, framing = read(head)

    assert (request.method, request.path, request.raw_path, request.query) == ("POST", "/a/b", b"/a/b", "x=%20&y")
    assert request.headers == {b"host": b"h:80", b"x-thing": b"a b, c", b"content-length": b"7"}
    assert (request.body, request.peer) == (b"", "10.0.0.1")
    assert framing == Framing(length=7)


def test_a_header_is_text_and_empty_when_absent() -> None:
    request, _ = read(with_fields(b"X-Name: caf\xe9"))

    assert request.header(b"x-name") == "caf\xe9"
    assert request.header(b"x-other") == ""


def test_the_same_head_again_has_what_the_handler_found_in_it_and_a_body_of_its_own() -> None:
    reader = HeadReader(HttpLimits(), "10.0.0.1")
    first, _ = reader.read(with_fields(b"X-API-Key: one"))
    first.resolved, first.body, first.known = "route and key", b"{}", True

    again, _ = reader.read(with_fields(b"X-API-Key: one"))
    other, _ = reader.read(with_fields(b"X-API-Key: two"))

    assert (again.resolved, again.body, again.known) == ("route and key", b"", False)
    assert (again.method, again.path, again.headers, again.peer) == (
        first.method,
        first.path,
        first.headers,
        "10.0.0.1",
    )
    assert other.resolved is None


def test_a_request_can_be_made_by_hand() -> None:
    request = Request("GET", "/")

    assert (request.raw_path, request.query, request.headers, request.body, request.peer) == (b"", "", {}, b"", "")


@pytest.mark.parametrize(
    ("target", "path", "raw_path", "query"),
    [
        (b"/", "/", b"/", ""),
        (b"/caf%C3%A9", "/caf\xe9", b"/caf%C3%A9", ""),
        (b"/a%2Fb?q=%zz", "/a/b", b"/a%2Fb", "q=%zz"),
        (b"/?a?b", "/", b"/", "a?b"),
        (b"http://h/x?y", "/x", b"/x", "y"),
        (b"HTTP://H:80", "/", b"/", ""),
        (b"https://h:443?y", "/", b"/", "y"),
    ],
)
def test_the_path_is_decoded_and_the_query_is_not(target: bytes, path: str, raw_path: bytes, query: str) -> None:
    request, _ = read(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n")

    assert (request.path, request.raw_path, request.query) == (path, raw_path, query)


def test_the_server_as_a_whole_can_be_asked_for_its_options() -> None:
    request, _ = read(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")

    assert (request.method, request.path) == ("OPTIONS", "*")


@pytest.mark.parametrize(
    "target",
    [
        *(b"/%ff", b"/%zz", b"/%2", b"/%00", b"/a%0d%0ab", b"/#part", b"/\xc3\xa9", b"//\x7f"),
        *(b"a", b"ftp://h/", b"http:///", b"http://user@h/"),
    ],
)
def test_a_target_that_is_not_a_path_is_refused(target: bytes) -> None:
    assert refusal(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n") == (400, "bad_request")


# ---------------------------------------------------------------- what could be read in two ways


@pytest.mark.parametrize(
    "field", [b"Host", b"Content-Length", b"Authorization", b"X-API-Key", b"Transfer-Encoding", b"Idempotency-Key"]
)
def test_a_field_that_decides_is_there_once(field: bytes) -> None:
    value = b"chunked" if field == b"Transfer-Encoding" else b"1"

    assert refusal(with_fields(field + b": " + value, field.lower() + b": " + value)) == (400, "bad_request")


@pytest.mark.parametrize(
    "field",
    [
        *(b"Content-Length: " + value for value in (b"", b"+1", b"-1", b"1 1", b"1,1", b"0x1", b"1e1", b"\xb2")),
        b"Content-Length : 1",
        b" Content-Length: 1",
        b"Content-Length: 1\r\n 1",
        b"Content-Length: 1\nX: y",
        b"Content-Length: 1\rX: y",
        b"X: a\x00b",
        b"X: a\r\n\tb",
        b"X\xff: y",
        b"X y: z",
        b": y",
        b"X",
        b"Transfer-Encoding: chunked\r\nContent-Length: 1",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked",
        b"Content-Length: 0\r\nTransfer-Encoding: chunked",
    ],
)
def test_fields_that_another_reader_could_take_otherwise_are_refused(field: bytes) -> None:
    assert refusal(with_fields(field)) == (400, "bad_request")


@pytest.mark.parametrize(
    "coding", [b"gzip", b"gzip, chunked", b"chunked, gzip", b"xchunked", b"identity", b"chunked;q=1", b"\x0bchunked"]
)
def test_a_transfer_coding_other_than_chunked_is_never_guessed(coding: bytes) -> None:
    assert refusal(with_fields(b"Transfer-Encoding: " + coding))[0] in (400, 501)


def test_an_unknown_transfer_coding_is_not_implemented() -> None:
    assert refusal(with_fields(b"Transfer-Encoding: gzip")) == (501, "not_implemented")
    assert refusal(with_fields(b"Transfer-Encoding: gzip, chunked")) == (501, "not_implemented")


def test_chunks_are_known_in_any_case_and_only_from_http_1_1_on() -> None:
    _, framing = read(with_fields(b"Transfer-Encoding: Chunked"))

    assert framing.chunked
    assert refusal(b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == (400, "bad_request")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400),
        (b" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET  HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"\x16\x03\x01 x y\r\n\r\n", 400),
        (b"GET / RTSP/1.0\r\nHost: h\r\n\r\n", 400),
        (b"GET / http/1.1\r\nHost: h\r\n\r\n", 400),
        (b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        (b"GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505),
        (b"GET / HTTP/0.9\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\n", 505),
    ],
)
def test_a_request_line_is_exact(head: bytes, status: int) -> None:
    assert refusal(head)[0] == status


@pytest.mark.parametrize("host", [b"", b"a b", b"a,b", b"a/b", b"user@a", b"a:b", b"[::1", b"a?", b"a:123456"])
def test_a_host_is_a_host(host: bytes) -> None:
    assert refusal(LINE + b"Host: " + host + b"\r\n\r\n") == (400, "bad_request")


@pytest.mark.parametrize("host", [b"a", b"a.b-c_d:8000", b"127.0.0.1", b"[::1]:80", b"a:"])
def test_a_good_host_is_taken(host: bytes) -> None:
    request, _ = read(LINE + b"Host: " + host + b"\r\n\r\n")

    assert request.headers[b"host"] == host


def test_only_http_1_0_does_without_a_host() -> None:
    assert refusal(LINE + b"\r\n") == (400, "bad_request")
    assert read(b"GET / HTTP/1.0\r\n\r\n")[1].old


def test_a_reader_forgets_the_request_before() -> None:
    reader = HeadReader(LIMITS, "")
    reader.read(with_fields(b"X: 1"))
    reader.read(with_fields(b"Content-Length: 5"))

    request, framing = reader.read(with_fields(b"Y: 2"))

    assert request.headers == {b"host": b"h", b"y": b"2"}
    assert framing is NO_BODY


def test_an_offer_to_change_the_protocol_is_declined() -> None:
    reader = HeadReader(LIMITS, "")

    request, framing = reader.read(with_fields(b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: 3"))

    assert (request.method, framing.length, framing.keep_alive) == ("GET", 3, True)
    assert reader.read(with_fields())[1] is NO_BODY


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: keep-alive\r\n", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: x, CLOSE\r\n", False),
        (b"1.1", b"Connection: x\r\nConnection: close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
        (b"1.0", b"Connection: keep-alive, close\r\n", False),
    ],
)
def test_who_may_go_on_after_an_answer(version: bytes, connection: bytes, keep_alive: bool) -> None:
    _, framing = read(b"GET / HTTP/" + version + b"\r\nHost: h\r\n" + connection + b"\r\n")

    assert framing.keep_alive is keep_alive


@PROPERTY
@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 8))
@example(b"\r\n", 16, 0)
def test_no_head_does_anything_but_be_read_or_refused(noise: bytes, at: int, cut: int) -> None:
    good = with_fields(b"Content-Length: 1", b"X: y")
    head = good[: len(good) - 2][:at] + noise + good[: len(good) - 2][at + cut :]
    head = head.replace(b"\r\n\r\n", b"") + b"\r\n\r\n"

    outcome: object
    try:
        outcome = read(head)[0].path[:1]
    except Refused as refused:
        outcome = refused.status

    assert outcome in ("/", 400, 413, 414, 431, 501, 505)


# ---------------------------------------------------------------- limits, at n and at n + 1


def test_a_url_may_have_n_bytes_and_not_one_more() -> None:
    limits = LIMITS._replace(url_bytes=20)

    assert read(b"GET /" + b"a" * 19 + b" HTTP/1.1\r\nHost: h\r\n\r\n", limits)
    assert refusal(b"GET /" + b"a" * 20 + b" HTTP/1.1\r\nHost: h\r\n\r\n", limits) == (414, "uri_too_long")


def test_the_fields_may_have_n_bytes_and_not_one_more() -> None:
    limits = LIMITS._replace(header_bytes=len(b"Host: h\r\nX: 12345\r\n"))

    assert read(with_fields(b"X: 12345"), limits)
    assert refusal(with_fields(b"X: 123456"), limits) == (431, "headers_too_large")


def test_there_may_be_n_fields_and_not_one_more() -> None:
    assert read(with_fields(*[b"a: b"] * 99))
    assert refusal(with_fields(*[b"a: b"] * 100)) == (431, "headers_too_large")


def test_a_body_may_announce_n_bytes_and_not_one_more() -> None:
    assert read(with_fields(b"Content-Length: %d" % LIMITS.body_bytes))[1].length == LIMITS.body_bytes
    assert refusal(with_fields(b"Content-Length: %d" % (LIMITS.body_bytes + 1))) == (413, "too_large")
    assert refusal(with_fields(b"Content-Length: 1" + b"0" * 18)) == (413, "too_large")


def partial_refusal(received: bytes, limits: HttpLimits, seen: int = 0) -> int:
    try:
        check_partial_head(received, seen, limits)
    except Refused as refused:
        return refused.status
    return 0


def test_an_unfinished_head_is_refused_as_soon_as_it_is_too_long() -> None:
    limits = LIMITS._replace(url_bytes=100, header_bytes=50)

    # Room for the longest method and the version around the target.
    assert partial_refusal(b"a" * (32 + 100 + 10), limits) == 0
    assert partial_refusal(b"a" * (32 + 100 + 11), limits) == 414
    # The first half of the line's end.
    assert partial_refusal(b"a" * (32 + 100 + 10) + b"\r", limits) == 0
    assert partial_refusal(b"a" * (32 + 100 + 11) + b"\r", limits) == 414
    assert partial_refusal(b"a" * (32 + 100 + 11) + b"\r\n", limits) == 414
    # Fields of n bytes, and the first half of the empty line's end.
    assert partial_refusal(LINE + b"b" * 48 + b"\r\n\r", limits) == 0
    assert partial_refusal(LINE + b"b" * 49 + b"\r\n\r", limits) == 431


def test_a_bare_line_feed_is_refused_at_once_even_between_two_packets() -> None:
    assert partial_refusal(b"GET / HTTP/1.1\nHost: h\n\n", LIMITS) == 400
    assert partial_refusal(LINE, LIMITS, seen=len(LINE) - 1) == 0
    assert partial_refusal(b"GET / HTTP/1.1\n", LIMITS, seen=14) == 400


# ---------------------------------------------------------------- a body in chunks


def dechunk(*packets: bytes, limits: HttpLimits = LIMITS) -> tuple[bytes | None, bytes]:
    chunks = ChunkReader(limits)
    body = None
    for packet in packets:
        assert body is None
        body = chunks.take(packet)
    return body, chunks.rest()


def chunk_refusal(*packets: bytes, limits: HttpLimits = LIMITS) -> int:
    with pytest.raises(Refused) as refused:
        dechunk(*packets, limits=limits)
    return refused.value.status


CHUNKS = b"5;name=value\r\nhello\r\n0001 ;x\r\n!\r\n0\r\nX-Sum: x\r\n\r\n"


def test_chunks_are_one_body_however_they_are_cut() -> None:
    assert dechunk(CHUNKS + b"GET") == (b"hello!", b"GET")
    assert dechunk(*[bytes([byte]) for byte in CHUNKS]) == (b"hello!", b"")
    for at in range(1, len(CHUNKS)):
        assert dechunk(CHUNKS[:at], CHUNKS[at:] + b"GET") == (b"hello!", b"GET")


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"1_0\r\n",
        b"1\nab",
        b"1\r\nab\r\n",
        b"1\r\na\n",
        b"1\r\na\rb",
        b"5\r\nhello0\r\n\r\n",
        b"1;a\x00\r\n",
        b"1;a\rb\r\n",
        b"123456789\r\n",
        b"1;" + b"a" * 300,
    ],
)
def test_a_chunk_that_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    assert chunk_refusal(data) == 400
    assert chunk_refusal(*[bytes([byte]) for byte in data]) == 400


def test_chunks_may_add_up_to_n_bytes_and_not_one_more() -> None:
    limits = LIMITS._replace(body_bytes=10)

    assert dechunk(b"4\r\n1234\r\n6\r\n567890\r\n0\r\n\r\n", limits=limits)[0] == b"1234567890"
    # Known from the size alone: none of the last chunk has to come.
    assert chunk_refusal(b"4\r\n1234\r\n7\r\n", limits=limits) == 413
    assert chunk_refusal(b"ffffffff\r\n", limits=limits) == 413


def test_trailers_may_have_n_bytes_and_not_one_more() -> None:
    limits = LIMITS._replace(header_bytes=10)

    assert dechunk(b"0\r\nA: 12345\r\n\r\n", limits=limits)[0] == b""
    assert chunk_refusal(b"0\r\nA: 12345678", limits=limits) == 431
    assert chunk_refusal(b"0\r\nA: 1\r\nB: 12\r\n\r\n", limits=limits) == 431


@PROPERTY
@given(st.binary(max_size=40), st.lists(st.integers(0, 60), max_size=4))
def test_where_packets_end_never_changes_what_chunks_mean(noise: bytes, cuts: list[int]) -> None:
    data = CHUNKS[:9] + noise + CHUNKS[9:]
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    packets = [data[start:end] for start, end in pairwise(places)]

    def outcome(pieces: list[bytes]) -> object:
        chunks = ChunkReader(LIMITS)
        whole: bytes | None = None
        rest = b""
        try:
            for piece in pieces:
                if whole is None:
                    whole = chunks.take(piece)
                    rest = chunks.rest()
                else:
                    rest += piece
        except Refused as refused:
            return refused.status
        return whole, rest if whole is not None else None

    assert outcome(packets) == outcome([data])


# ---------------------------------------------------------------- the response


def test_a_response_is_one_run_of_bytes() -> None:
    data = render(Response(201, b"{}", headers=((b"Location", b"/x"),)), COMMON, b"", headers_only=False)

    assert data == (
        b"HTTP/1.1 201 Created\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Content-Type-Options: nosniff\r\n"
        b"Cache-Control: no-store\r\nContent-Type: application/json\r\nContent-Length: 2\r\nLocation: /x\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    ("seconds", "date"),
    [
        (784111777.9, b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (951782400.0, b"Tue, 29 Feb 2000 00:00:00 GMT"),
        (4102444799.0, b"Thu, 31 Dec 2099 23:59:59 GMT"),
    ],
)
def test_a_date_is_in_the_form_of_http(seconds: float, date: bytes) -> None:
    assert common_fields(seconds).startswith(b"Date: " + date + b"\r\n")


def test_an_answer_to_head_tells_the_length_and_has_no_body() -> None:
    data = render(Response(200, b"hello"), COMMON, CLOSE, headers_only=True)

    assert b"Content-Length: 5\r\n" in data
    assert data.endswith(b"Connection: close\r\n\r\n")


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_none(status: int) -> None:
    data = render(Response(status, b"hello"), COMMON, b"", headers_only=False)

    assert data.endswith(b"Cache-Control: no-store\r\n\r\n")
    assert b"Content-" not in data.replace(b"X-Content-Type-Options", b"")


@pytest.mark.parametrize("bad", [b"a\r\nSet-Cookie: x", b"a\n", b"\r", b"\x00", b"\x7f"])
def test_nothing_can_be_injected_into_a_head(bad: bytes) -> None:
    for response in (
        Response(200, headers=((b"X", bad),)),
        Response(200, headers=((b"X" + bad, b"y"),)),
        Response(200, content_type=bad),
    ):
        with pytest.raises(ValueError, match="not one line"):
            render(response, COMMON, b"", headers_only=False)


@pytest.mark.parametrize("name", [b"", b"a b", b"a:", b"\xe9"])
def test_the_name_of_a_header_is_a_token(name: bytes) -> None:
    with pytest.raises(ValueError, match="not one line"):
        render(Response(200, headers=((name, b"y"),)), COMMON, b"", headers_only=False)


@pytest.mark.parametrize("name", [b"Content-Length", b"transfer-encoding", b"Connection", b"Date", b"Cache-Control"])
def test_a_handler_does_not_set_what_belongs_to_the_connection(name: bytes) -> None:
    with pytest.raises(ValueError, match="belongs to the connection"):
        render(Response(200, headers=((name, b"1"),)), COMMON, b"", headers_only=False)


@pytest.mark.parametrize("status", [0, 100, 101, 199, 299, 600])
def test_a_status_that_does_not_end_a_request_is_no_answer(status: int) -> None:
    with pytest.raises(ValueError, match="status"):
        render(Response(status), COMMON, b"", headers_only=False)


def test_a_head_that_is_repeated_is_a_request_of_its_own() -> None:
    reader = HeadReader(HttpLimits(), "127.0.0.1")
    head = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"

    first, framing = reader.read(head)
    first.body = b"ab"
    again, framed = reader.read(head)
    other, _ = reader.read(head.replace(b"/a", b"/z"))

    assert again is not first
    assert (again.method, again.path, again.query, again.headers, again.body) == (
        "POST",
        "/a",
        "b=c",
        first.headers,
        b"",
    )
    assert framed == framing
    assert other.path == "/z"


def test_a_head_that_was_refused_is_refused_again() -> None:
    reader = HeadReader(HttpLimits(), "127.0.0.1")
    head = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: two\r\n\r\n"

    for _ in range(2):
        with pytest.raises(Refused):
            reader.read(head)


@pytest.mark.parametrize("method", [b"\nGET", b"\r\nGET"[1:], b"get", b"", b"G\x00T", b"G@T", b"GET:", b"\xc3\x84"])
def test_every_method_is_checked(method: bytes) -> None:
    assert refusal(method + b" / HTTP/1.1\r\nHost: h\r\n\r\n") == (400, "bad_request")


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://evil.example/healthz", b"h"),
        (b"http://h:81/", b"h"),
        (b"http://h:443/", b"h"),
        (b"https://h:80/", b"h"),
        (b"http://h/", b"h:81"),
        (b"http://h.evil.example/", b"h"),
        (b"http://[::1]:1/", b"[::1]:2"),
    ],
)
def test_a_target_that_names_another_host_than_host_is_refused(target: bytes, host: bytes) -> None:
    assert refusal(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n") == (400, "bad_request")


def test_a_whole_url_without_host_is_refused() -> None:
    assert refusal(b"GET http://h/ HTTP/1.0\r\n\r\n") == (400, "bad_request")


TRAILERS = {
    "bare line feed": b"X: 1\nY: 2\r\n\r\n",
    "two bare line feeds": b"X: 1\n\nGET /x HTTP/1.1\r\n\r\n",
    "a request line": b"GET /x HTTP/1.1\r\n\r\n",
    "no colon": b"X\r\n\r\n",
    "no name": b": 1\r\n\r\n",
    "a space before the colon": b"X : 1\r\n\r\n",
    "folded": b"X: 1\r\n Y\r\n\r\n",
    "a control character": b"X: \x001\r\n\r\n",
    "a carriage return": b"X: 1\r2\r\n\r\n",
    "length": b"Content-Length: 5\r\n\r\n",
    "coding": b"transfer-encoding: chunked\r\n\r\n",
    "host": b"Host: other\r\n\r\n",
    "key": b"X-API-Key: k\r\n\r\n",
    "speaker": b"X-Agent-ID: eve\r\n\r\n",
}


@pytest.mark.parametrize("trailer", TRAILERS.values(), ids=TRAILERS)
def test_a_trailer_that_is_no_field_or_comes_too_late_is_refused_however_it_is_cut(trailer: bytes) -> None:
    data = b"1\r\nx\r\n0\r\n" + trailer

    assert chunk_refusal(data) == 400
    assert chunk_refusal(*[bytes([byte]) for byte in data]) == 400


def test_a_line_feed_that_would_end_the_trailers_elsewhere_is_refused_at_once() -> None:
    assert chunk_refusal(b"0\r\nX: 1\n") == 400
