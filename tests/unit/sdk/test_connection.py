"""The connection: what is sent, what is sent again, and what comes back when things break."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice

import pytest

from parley.domain.errors import Forbidden, Invalid, NotFound, Unavailable
from parley.domain.team_errors import AskTimeout, NameTaken, RateLimited, Unauthorized
from parley.sdk.connection import Connection

DROP = b""  # the connection breaks instead of an answer


@dataclass
class Got:
    """A request as the server read it."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return json.loads(self.body)


@dataclass
class Peer:
    """A server that says what it was told to say, one answer a request, and remembers what it was asked."""

    answers: list[bytes]
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    url: str = ""

    def serve(self, listening: socket.socket) -> None:
        while self.answers:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self.connections += 1
            with connection, connection.makefile("rb") as reader:
                self._talk(connection, reader)

    def _talk(self, connection: socket.socket, reader: object) -> None:
        readline: Callable[[], bytes] = reader.readline  # type: ignore[attr-defined]
        while self.answers and (line := readline()):
            headers = {}
            while (header := readline().strip()) != b"":
                name, _, value = header.decode().partition(": ")
                headers[name.lower()] = value
            body = reader.read(int(headers.get("content-length", "0")))  # type: ignore[attr-defined]
            self.got.append(Got(line.decode().strip(), headers, body))
            answer = self.answers.pop(0)
            connection.sendall(answer)
            if answer == DROP or b"Connection: close" in answer or b"event-stream" in answer:
                return


def answer(document: object, status: str = "200 OK", *more: str) -> bytes:
    content = json.dumps(document).encode()
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(content)}", *more, "", ""]
    return "\r\n".join(head).encode() + content


def refused(status: str, code: str, *more: str, **facts: object) -> bytes:
    return answer({"code": code, "detail": f"it is {code}", "errors": [], **facts}, status, *more)


def streamed(*events: str, ends: bool = False) -> bytes:
    """A stream that breaks off after these events, or ends as it should."""
    chunks = "".join(f"{len(one.encode()):x}\r\n{one}\r\n" for one in events)
    return (
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunks
        + ("0\r\n\r\n" if ends else "")
    ).encode()


@contextmanager
def a_peer(*answers: bytes) -> Iterator[Peer]:
    peer = Peer(list(answers))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=peer.serve, args=(listening,), daemon=True)
        thread.start()
        yield peer
        peer.answers.clear()
        with socket.socket() as knock:
            knock.connect_ex(listening.getsockname())
        thread.join(10)


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
    with pytest.raises(Invalid, match="X-API-Key"):
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
        connected(peer, hints=hints) as connection,
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

    assert (len(peer.got), len(paused)) == (6, 5)
    assert 5 < sum(paused) < 10


def test_where_nobody_listens_any_request_is_tried_again_and_then_refused_with_a_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    paused: list[float] = []
    connection = Connection(url, hints={"unreachable": "start it"}, pause=paused.append)

    with pytest.raises(Unavailable, match="no server answers at") as lost:
        connection.send("DELETE", "x")

    assert (lost.value.hint, lost.value.facts, len(paused)) == ("start it", {"arrived": False}, 2)
    assert sum(paused) < 1


def test_a_server_that_is_silent_is_not_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Connection(url, timeout=0.05) as connection, pytest.raises(Unavailable, match="in time"):
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


# ---------------------------------------------------------------- asking


def said(message_id: str, correlation: str | None = None) -> dict[str, object]:
    return {"id": message_id, "correlation_id": correlation, "payload": {}}


def test_the_answer_to_a_question_comes_back() -> None:
    with a_peer(answer(said("msg_2", "msg_1"))) as peer, connected(peer) as connection:
        assert connection.ask("chan_1", "codex", {"q": 1}, timeout=5)["id"] == "msg_2"

    assert peer.got[0].line == "POST /api/v1/channels/chan_1/ask HTTP/1.1"
    assert peer.got[0].json == {"to": "codex", "payload": {"q": 1}, "timeout": 5}


def test_a_question_that_waits_for_a_person_comes_back_as_it_is_held() -> None:
    held = {"status": "held", "approval": "appr_1", "reason": "it commits"}
    with a_peer(answer(held, "202 Accepted")) as peer, connected(peer) as connection:
        metadata = {"exchange_type": "information_query"}
        assert connection.ask("chan_1", "codex", {}, timeout=60, metadata=metadata) == held

    body = {"to": "codex", "payload": {}, "timeout": 60, "metadata": metadata}
    assert [got.json for got in peer.got] == [body]


def test_a_question_that_the_server_has_already_is_not_asked_twice() -> None:
    question, noise, answered = said("msg_1"), said("msg_2"), said("msg_3", "msg_1")
    pages = (answer([noise]), answer([]), answer([answered]))
    with a_peer(DROP, answer(question, "201 Created"), *pages) as peer, connected(peer) as connection:
        assert connection.ask("chan_1", "codex", {}, timeout=60)["id"] == "msg_3"

    posts = [got for got in peer.got if got.line.startswith("POST")]
    assert [got.headers["idempotency-key"] for got in posts] == ["key-1", "key-1"]
    reads = [got.line for got in peer.got if got.line.startswith("GET")]
    assert ["since=msg_1" in reads[0], "since=msg_2" in reads[1], "since=msg_2" in reads[2]] == [True] * 3


def test_a_question_without_an_answer_times_out() -> None:
    with (
        a_peer(answer(said("msg_1"), "201 Created")) as peer,
        connected(peer) as connection,
        pytest.raises(AskTimeout, match="codex did not answer within"),
    ):
        connection.ask("chan_1", "codex", {}, timeout=0.0001)


# ---------------------------------------------------------------- streams


def event(number: int, name: str = "channel_message") -> str:
    return f'id: {number}\nevent: {name}\ndata: {{"n":{number}}}\n\n'


def test_a_stream_goes_on_behind_the_last_event_after_a_break() -> None:
    why: list[str] = []
    first, second = streamed(event(1), event(2)), streamed(event(3), ends=True)
    with a_peer(first, second, streamed(event(4))) as peer, connected(peer, key="k") as connection:
        events = connection.follow("subscribe", "channels", "c", broken=why.append)
        seen = [one.id for one in islice(events, 4)]
        events.close()  # type: ignore[attr-defined]

    assert seen == ["1", "2", "3", "4"]
    assert [got.headers.get("last-event-id") for got in peer.got] == [None, "2", "3"]
    assert {got.headers["x-api-key"] for got in peer.got} == {"k"}
    assert len(why) == 2


def test_a_stream_that_broke_before_its_first_event_goes_on_where_it_began() -> None:
    with a_peer(streamed("retry: 1\nid: 41\n\n"), streamed(event(42))) as peer, connected(peer) as connection:
        events = connection.follow("subscribe", "channels", "c")
        assert next(events).id == "42"
        events.close()  # type: ignore[attr-defined]

    assert peer.got[1].headers["last-event-id"] == "41"


def test_an_event_that_was_not_dealt_with_is_not_passed_over() -> None:
    with a_peer(streamed(event(1), event(2))) as peer, connected(peer) as connection:
        events = connection.follow("subscribe", "channels", "c", after="0")
        assert next(events).id == "1"
        events.close()  # type: ignore[attr-defined]

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
        events.close()  # type: ignore[attr-defined]

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


def test_where_there_is_no_server_a_stream_does_not_wait_for_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

    with pytest.raises(Unavailable, match="no server answers"):
        next(Connection(url, pause=lambda _: pytest.fail("it waits")).follow("subscribe", "channels", "c"))


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
    connection = Connection("http://127.0.0.1:1", hints={"unreachable": "start one"})

    with pytest.raises(Unavailable, match="no server answers") as refusal:
        list(connection.lines("audit", "export"))

    assert refusal.value.hint == "start one"
