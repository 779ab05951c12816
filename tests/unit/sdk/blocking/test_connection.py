"""The blocking connection: what is sent, what is sent again, and what comes back when things break."""

from __future__ import annotations

import socket
import subprocess
import sys
from itertools import count
from typing import TypeVar

import pytest

from parley.domain.errors.errors import Forbidden, Invalid, NotFound, Unavailable
from parley.domain.errors.team import AskTimeout, NameTaken, RateLimited, Unauthorized
from parley.sdk.blocking.connection import Connection
from tests.unit.sdk.peer import DROP, Peer, a_peer, answer, nobodys_port, refused, streamed

T = TypeVar("T")


def connected(peer: Peer, **options: object) -> Connection:
    numbers = count(1)
    made: dict[str, object] = {"new_key": lambda: f"key-{next(numbers)}", "pause": lambda _: None, **options}
    return Connection(peer.url, **made)  # type: ignore[arg-type]


# ---------------------------------------------------------------- what is sent


def test_a_request_carries_who_calls() -> None:
    with a_peer(answer([])) as peer, connected(peer, key="secret", agent="claude") as connection:
        assert connection.get("agents") == []

    (got,) = peer.got
    assert got.line == "GET /api/v1/agents HTTP/1.1"
    assert (got.headers["x-api-key"], got.headers["x-agent-id"]) == ("secret", "claude")
    assert "idempotency-key" not in got.headers


def test_nobody_in_particular_sends_no_names() -> None:
    with a_peer(answer([])) as peer, connected(peer) as connection:
        connection.get("agents")

    assert {"x-api-key", "x-agent-id"} & peer.got[0].headers.keys() == set()


def test_a_body_is_compact_json_and_a_query_leaves_out_what_is_not_given() -> None:
    with a_peer(answer({"id": "x"}, "201 Created")) as peer, connected(peer) as connection:
        made = connection.post("intents", body={"title": "Grüße ✓"}, query={"a": 1, "b": None, "c": "", "d": "x y"})

    (got,) = peer.got
    assert made == {"id": "x"}
    assert got.line == "POST /api/v1/intents?a=1&d=x+y HTTP/1.1"
    assert got.body == '{"title":"Grüße ✓"}'.encode()
    assert got.headers["content-type"] == "application/json"


def test_a_part_of_a_path_cannot_become_another_path() -> None:
    with a_peer(answer({})) as peer, connected(peer) as connection:
        connection.get("channels", "../keys?x=1#y z/ü")

    assert peer.got[0].line == "GET /api/v1/channels/..%2Fkeys%3Fx%3D1%23y%20z%2F%C3%BC HTTP/1.1"


def test_a_server_may_live_below_a_path() -> None:
    with a_peer(answer({})) as peer:
        peer.url += "/team/"
        with connected(peer) as connection:
            connection.get("agents")

    assert peer.got[0].line == "GET /team/api/v1/agents HTTP/1.1"


def test_requests_share_one_connection() -> None:
    with a_peer(*[answer({}) for _ in range(5)]) as peer, connected(peer) as connection:
        for _ in range(5):
            connection.get("agents")

    assert (len(peer.got), peer.connections) == (5, 1)


def test_a_connection_that_the_server_closed_is_opened_again_without_a_retry() -> None:
    closing = answer({}, "200 OK", "Connection: close")
    with a_peer(closing, closing) as peer, connected(peer) as connection:
        connection.send("PATCH", "channels", "c", body={})
        connection.send("PATCH", "channels", "c", body={})

    assert (len(peer.got), peer.connections) == (2, 2)


@pytest.mark.parametrize(
    "url", ["", "nowhere", "ftp://x", "http://", "http://x:y", "http://u:p@x", "http://x?y", "//x"]
)
def test_what_is_no_address_is_said_before_anything_is_sent(url: str) -> None:
    with pytest.raises(Invalid, match="no address"):
        Connection(url)


@pytest.mark.parametrize("key", ["a\r\nX-Evil: 1", "ü", " x", "x\n"])
def test_a_key_cannot_become_another_header(key: str) -> None:
    with pytest.raises(Invalid, match="x-api-key"):
        Connection("http://127.0.0.1:1", key=key)


@pytest.mark.parametrize("body", [{"x": "\ud800"}, {"x": float("nan")}, {"x": object()}])
def test_what_is_no_json_is_not_sent(body: object) -> None:
    with a_peer(answer({})) as peer, connected(peer) as connection, pytest.raises(Invalid):
        connection.post("intents", body=body)

    assert peer.got == []


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        ("401 Unauthorized", "unauthorized", Unauthorized),
        ("403 Forbidden", "forbidden", Forbidden),
        ("404 Not Found", "not_found", NotFound),
        ("409 Conflict", "name_taken", NameTaken),
        ("422 Unprocessable Entity", "invalid", Invalid),
        ("503 Service Unavailable", "unavailable", Unavailable),
        ("504 Gateway Timeout", "ask_timeout", AskTimeout),
    ],
)
def test_a_refusal_is_raised_as_what_it_is(status: str, code: str, kind: type[Exception]) -> None:
    with (
        a_peer(refused(status, code)) as peer,
        connected(peer) as connection,
        pytest.raises(kind, match=f"it is {code}"),
    ):
        connection.get("agents")

    assert len(peer.got) == 1


def test_a_refusal_comes_with_what_to_do() -> None:
    hints = {"rate_limited": "wait", "required sender": "say who"}
    lacking = refused("422 Unprocessable Entity", "invalid", errors=[{"code": "required", "field": "sender"}])
    with (
        a_peer(refused("429 Too Many Requests", "rate_limited", "Retry-After: 3"), lacking) as peer,
        connected(peer, hints=hints, patience=2) as connection,
    ):
        with pytest.raises(RateLimited) as limited:
            connection.get("agents")
        with pytest.raises(Invalid) as unnamed:
            connection.get("agents")

    assert (limited.value.hint, limited.value.facts["retry_after"]) == ("wait", 3)
    assert unnamed.value.hint == "say who"


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "404 Not Found"])
def test_what_is_no_parley_server_is_said(status: str) -> None:
    page = f"HTTP/1.1 {status}\r\nContent-Length: 9\r\n\r\n<html>hi!".encode()
    with (
        a_peer(page) as peer,
        connected(peer) as connection,
        pytest.raises(Unavailable, match="does not answer like a Parley server"),
    ):
        connection.get("agents")


def test_no_content_is_nothing() -> None:
    with a_peer(b"HTTP/1.1 204 No Content\r\n\r\n") as peer, connected(peer) as connection:
        assert connection.send("DELETE", "x").document is None


def test_headers_are_found_whatever_their_case() -> None:
    with a_peer(answer([], "200 OK", "X-Next-Cursor: msg_1")) as peer, connected(peer) as connection:
        assert connection.send("GET", "x").headers["x-next-cursor"] == "msg_1"


# ---------------------------------------------------------------- what is sent again


def test_a_get_whose_connection_broke_is_sent_again() -> None:
    with a_peer(DROP, DROP, answer([1])) as peer, connected(peer) as connection:
        assert connection.get("agents") == [1]

    assert len(peer.got) == 3


def test_a_post_is_sent_again_under_the_same_key() -> None:
    with a_peer(DROP, answer({"id": "x"}), answer({"id": "y"})) as peer, connected(peer) as connection:
        connection.post("intents", body={"title": "t"})
        connection.post("intents", body={"title": "t"})

    assert [got.headers["idempotency-key"] for got in peer.got] == ["key-1", "key-1", "key-2"]
    assert peer.got[0].body == peer.got[1].body


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
def test_a_change_that_may_have_arrived_is_not_repeated(method: str) -> None:
    with (
        a_peer(DROP, answer({})) as peer,
        connected(peer) as connection,
        pytest.raises(Unavailable, match="broke") as lost,
    ):
        connection.send(method, "channels", "c", body={})

    assert len(peer.got) == 1
    assert lost.value.facts == {"arrived": True}


def test_an_answer_that_was_cut_off_counts_as_none() -> None:
    cut = answer({"id": "x"})[:-3]
    with a_peer(cut + b"", answer({"id": "x"})) as peer:
        # The peer keeps the first connection open, so the cut is only seen when it is closed.
        peer.answers[0] = cut.replace(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n")
        with connected(peer) as connection:
            assert connection.post("intents", body={}) == {"id": "x"}

    assert len(peer.got) == 2


def test_a_server_that_may_be_restarting_is_waited_for_some_seconds_and_no_longer() -> None:
    paused: list[float] = []
    with a_peer(*[DROP] * 9) as peer, connected(peer, pause=paused.append) as connection, pytest.raises(Unavailable):
        connection.get("agents")

    assert (len(peer.got), len(paused)) == (9, 8)
    assert 9 < sum(paused) <= 10


def test_where_nobody_listens_any_request_is_tried_again_and_then_refused_with_a_hint() -> None:
    url = f"http://127.0.0.1:{nobodys_port()}"
    paused: list[float] = []
    connection = Connection(url, hints={"unreachable": "start it"}, pause=paused.append, connect_patience=0.5)

    with pytest.raises(Unavailable, match="no server answers at") as lost:
        connection.send("DELETE", "x")

    assert (lost.value.hint, lost.value.facts, len(paused)) == ("start it", {"arrived": False}, 2)
    assert sum(paused) < 1


def test_a_server_that_is_silent_is_not_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Connection(url, timeout=0.3) as connection, pytest.raises(Unavailable, match="in time"):
            connection.get("agents")

        silent.settimeout(0.05)
        silent.accept()[0].close()
        with pytest.raises(TimeoutError):
            silent.accept()


def test_a_refusal_is_no_break() -> None:
    with a_peer(refused("503 Service Unavailable", "unavailable")) as peer, connected(peer) as connection:
        with pytest.raises(Unavailable):
            connection.post("intents", body={})

        assert len(peer.got) == 1


# ---------------------------------------------------------------- lines


def test_an_answer_in_lines_comes_byte_for_byte() -> None:
    said = streamed('{"a": 1}\n{"b"', ":2}\n\n", "é\n", ends=True)
    with a_peer(said) as peer, connected(peer, key="k") as connection:
        lines = list(connection.lines("audit", "export", query={"side": "alice", "other": ""}))

    assert lines == [b'{"a": 1}\n', b'{"b":2}\n', b"\n", "é\n".encode()]
    assert peer.got[0].line == "GET /api/v1/audit/export?side=alice HTTP/1.1"
    assert peer.got[0].headers["x-api-key"] == "k"


def test_lines_that_broke_off_are_no_end() -> None:
    with a_peer(streamed("1\n", "2\n")) as peer, connected(peer) as connection:
        lines = connection.lines("audit", "export")
        with pytest.raises(Unavailable, match="broke"):
            list(lines)


def test_refused_lines_are_the_error_that_they_are() -> None:
    with a_peer(refused("404 Not Found", "not_found")) as peer, connected(peer) as connection, pytest.raises(NotFound):
        list(connection.lines("audit", "proof", "x"))


def test_lines_of_nobody_are_refused_with_a_hint() -> None:
    connection = Connection("http://127.0.0.1:1", hints={"unreachable": "start one"}, patience=0)

    with pytest.raises(Unavailable, match="no server answers") as refusal:
        list(connection.lines("audit", "export"))

    assert refusal.value.hint == "start one"


# ---------------------------------------------------------------- servers that want to be left alone, or are no servers


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_server_that_asks_for_patience_is_asked_again_under_the_same_key(status: str) -> None:
    paused: list[float] = []
    busy = refused(status, "unavailable", "Retry-After: 2")
    with a_peer(busy, busy, answer({"id": "x"})) as peer, connected(peer, pause=paused.append) as connection:
        assert connection.post("intents", body={}) == {"id": "x"}

    assert paused == [2.0, 2.0]
    assert [got.headers["idempotency-key"] for got in peer.got] == ["key-1"] * 3


def test_a_server_that_answers_in_another_language_is_not_asked_again() -> None:
    with (
        a_peer(b"SSH-2.0-OpenSSH_9.6\r\n", answer([])) as peer,
        connected(peer) as connection,
        pytest.raises(Unavailable, match="does not answer like a Parley server"),
    ):
        connection.get("agents")

    assert len(peer.got) == 1


def test_whoever_has_answered_once_is_waited_for_when_nobody_answers() -> None:
    paused: list[float] = []
    with a_peer(answer([], "200 OK", "Connection: close")) as peer:
        connection = connected(peer, pause=paused.append)
        connection.get("agents")
    with connection, pytest.raises(Unavailable, match="no server answers") as lost:
        connection.send("DELETE", "x")

    assert (len(paused), lost.value.facts) == (8, {"arrived": False})


# ---------------------------------------------------------------- what it costs to begin


def test_a_connection_loads_no_more_than_it_needs() -> None:
    code = (
        "import sys; from parley.sdk.blocking.connection import Connection; Connection('http://127.0.0.1:1');"
        "print(*sorted({'asyncio', 'email', 'http.client', 'msgspec', 'ssl', 'uvloop'} & set(sys.modules)))"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == ""
