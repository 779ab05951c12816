"""What a client says and what it makes of the answers, without any I/O."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.errors.errors import Invalid, NotFound, Unavailable
from parley.domain.errors.team import RateLimited
from parley.sdk.protocol.asking import OpenQuestion, Question
from parley.sdk.protocol.flow import ApiSession, check_encrypted, encoded, some_seconds, target_of
from parley.sdk.transport.port import Broken, Place, Request, Response
from tests.unit.sdk.playing import GONE, NOBODY, SILENT, Clock, a_session, play, refused, said

# ---------------------------------------------------------------- requests


def test_a_request_carries_who_speaks() -> None:
    request = a_session(key="secret").request("GET", "agents")

    assert request == Request(
        "GET",
        "/api/v1/agents",
        {"accept": "application/json", "x-api-key": "secret", "x-agent-id": "claude"},
    )


def test_a_post_has_a_key_of_its_own_unless_it_is_given_one() -> None:
    session = a_session()

    own = session.request("POST", "x", headers={"idempotency-key": "mine"})
    keys = [session.request("POST", "x").headers["idempotency-key"] for _ in range(2)]

    assert own.headers["idempotency-key"] == "mine"
    assert keys == ["key-1", "key-2"]  # none was made for the request that had one
    assert "idempotency-key" not in session.request("PATCH", "x").headers


def test_a_query_leaves_out_what_is_not_given_and_spells_what_is() -> None:
    query = {"a": 1, "b": None, "c": "", "d": "x y", "e": True, "f": False, "g": 0}

    assert a_session().target(("x",), query) == "/api/v1/x?a=1&d=x+y&e=true&f=false&g=0"
    assert a_session().target(("x",), {"a": None}) == "/api/v1/x"


def test_a_stream_asks_for_events() -> None:
    request = a_session().request("GET", "subscribe", streams=True, timeout=45)

    assert (request.headers["accept"], request.streams, request.timeout) == ("text/event-stream", True, 45)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://h", Place(False, "h", 80, "")),
        ("https://h", Place(True, "h", 443, "")),
        ("http://[::1]:8420/a/b/", Place(False, "::1", 8420, "/a/b")),
        ("http://h/grüße dort/%C3%BC", Place(False, "h", 80, "/gr%C3%BC%C3%9Fe%20dort/%C3%BC")),
    ],
)
def test_an_address_names_a_place(url: str, place: Place) -> None:
    assert target_of(url) == place


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://x", "http://", "http://x:y", "http://x:99999", "http://u:p@x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="no address"):
        target_of(url)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(Invalid, match="no address") as refused_it:
        target_of("http://ann:hunter2@x")

    assert "hunter2" not in str(refused_it.value)


@pytest.mark.parametrize("part", [None, 5, "\ud800"])
def test_what_is_no_text_cannot_stand_in_a_path(part: Any) -> None:
    with pytest.raises(Invalid, match="is a text, not"):
        a_session().target(("channels", part))


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "5", None, True])
def test_what_is_no_length_of_time_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="timeout is a number of seconds above 0"):
        some_seconds("timeout", value)
    with pytest.raises(Invalid, match="timeout"):
        next(OpenQuestion(a_session(), Question("chan_1", "codex", {}, value)).first_answer())


def test_a_request_is_shown_without_its_key() -> None:
    assert repr(Request("GET", "/x", {"x-api-key": "a secret"})) == "Request(GET /x)"


def test_what_is_too_deep_for_json_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(Invalid):
        encoded(deep)
    while deep:
        deep = deep[0]


# ---------------------------------------------------------------- trying again


def test_a_get_is_tried_until_it_is_answered() -> None:
    played = play(a_session().send("GET", "x"), NOBODY, GONE, said(1))

    assert (played.result.document, played.pauses, len(played.requests)) == (1, [0.1, 0.4], 3)


@pytest.mark.parametrize("broken", [NOBODY, GONE], ids=["refused", "broke"])
@pytest.mark.parametrize("stands_still", [True, False])
@pytest.mark.parametrize(
    ("patience", "pauses"),
    [(0, []), (0.3, [0.1, 0.2]), (2, [0.1, 0.4, 1.0, 0.5]), (10, [0.1, 0.4, 1.0, 2.0, 2.0, 2.0, 2.0, 0.5])],
)
def test_a_server_that_is_away_is_tried_until_the_patience_ends(
    broken: Broken, stands_still: bool, patience: float, pauses: list[float]
) -> None:
    clock = Clock()
    flow = a_session(clock, patience=patience).send("GET", "x")

    lost = play(flow, *[broken] * (len(pauses) + 1), clock=None if stands_still else clock)

    assert lost.pauses == pytest.approx(pauses)
    assert isinstance(lost.error, Unavailable)
    assert lost.error.facts == {"arrived": broken.arrived}


def test_the_time_of_a_call_counts_and_not_the_patience() -> None:
    clock = Clock()

    lost = play(a_session(clock, patience=1).send("GET", "x", within=60), *[NOBODY] * 34, clock=clock)

    assert isinstance(lost.error, Unavailable)
    assert sum(lost.pauses) == pytest.approx(60)


def test_a_server_that_never_answered_may_be_given_up_sooner() -> None:
    session = a_session(connect_patience=0.5)

    assert play(session.send("GET", "x"), *[NOBODY] * 3).pauses == [0.1, 0.4]
    play(session.send("GET", "x"), said(1))
    assert sum(play(session.send("GET", "x"), *[NOBODY] * 9).pauses) == pytest.approx(10)


def test_a_connection_that_is_not_opened_in_time_is_tried_again() -> None:
    unopened = Broken("timed out", arrived=False, timed_out=True)

    assert play(a_session().send("DELETE", "x"), unopened, said(1)).result.document == 1


def test_several_addresses_are_several_places() -> None:
    session = ApiSession("http://a:1/, http://b:2/x", new_key=str, monotonic=Clock())

    assert [(place.host, place.port, place.prefix) for place in session.places] == [("a", 1, ""), ("b", 2, "/x")]
    assert session.url == "http://a:1,http://b:2/x"
    with pytest.raises(Invalid, match="'nowhere' is no address"):
        ApiSession("http://a:1,nowhere", new_key=str, monotonic=Clock())


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
def test_a_change_is_sent_again_only_when_it_cannot_have_arrived(method: str) -> None:
    assert play(a_session().send(method, "x"), NOBODY, said(1)).result.document == 1

    lost = play(a_session().send(method, "x"), NOBODY, GONE)
    assert isinstance(lost.error, Unavailable)
    assert lost.error.facts == {"arrived": True}


def test_silence_is_not_asked_again() -> None:
    lost = play(a_session().send("GET", "x"), SILENT)

    assert isinstance(lost.error, Unavailable)
    assert "in time" in lost.error.message


def test_what_is_no_server_is_not_asked_again() -> None:
    lost = play(a_session().send("GET", "x"), Broken("expected HTTP/", arrived=True, malformed=True))

    assert isinstance(lost.error, Unavailable)
    assert "does not answer like a Parley server: expected HTTP/" in lost.error.message


def test_where_nobody_answers_the_hint_says_what_to_do() -> None:
    lost = play(a_session(hints={"unreachable": "start one"}, patience=0).send("GET", "x"), NOBODY)

    assert isinstance(lost.error, Unavailable)
    assert (lost.error.hint, lost.error.facts) == ("start one", {"arrived": False})


# ---------------------------------------------------------------- patience


def test_a_server_that_asks_for_patience_gets_what_it_asked_for() -> None:
    busy = refused(429, "rate_limited", retry_after="3")

    played = play(a_session().send("POST", "x", body={}), busy, busy, busy, said(1))

    assert (played.result.document, played.pauses) == (1, [3.0, 3.0, 3.0])
    assert {one.headers["idempotency-key"] for one in played.requests} == {"key-1"}


def test_patience_has_an_end() -> None:
    busy = refused(429, "rate_limited", retry_after="4")

    played = play(a_session().send("GET", "x"), busy, busy, busy)

    assert isinstance(played.error, RateLimited)
    assert (played.pauses, played.error.facts["retry_after"]) == ([4.0, 4.0], 4)


def test_a_server_that_asks_for_too_much_is_not_waited_for() -> None:
    played = play(a_session(patience=10).send("GET", "x"), refused(503, "unavailable", retry_after="11"))

    assert isinstance(played.error, Unavailable)
    assert played.pauses == []


def test_without_patience_nobody_is_waited_for() -> None:
    played = play(a_session(patience=0).send("GET", "x"), refused(429, "rate_limited", retry_after="0"))

    assert isinstance(played.error, RateLimited)
    assert played.pauses == []


def test_no_time_at_all_is_still_a_pause() -> None:
    busy = refused(429, "rate_limited", retry_after="0")

    assert play(a_session().send("GET", "x"), busy, said(1)).pauses == [0.05]


@pytest.mark.parametrize("after", ["", "soon", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_server_that_does_not_say_how_long_is_not_waited_for(after: str) -> None:
    played = play(a_session().send("GET", "x"), refused(503, "unavailable", retry_after=after))

    assert isinstance(played.error, Unavailable)
    assert played.pauses == []


@pytest.mark.parametrize(("status", "again"), [(429, True), (503, False)])
def test_a_change_is_repeated_after_429_which_says_that_nothing_was_done(status: int, *, again: bool) -> None:
    busy = refused(status, "unavailable", retry_after="1")

    played = play(a_session().send("PATCH", "x"), busy, *([said(1)] if again else []))

    assert (played.error is None) == again


# ---------------------------------------------------------------- answers


def test_a_refusal_is_raised_with_its_hint() -> None:
    played = play(a_session(hints={"not_found": "look"}).send("GET", "x"), refused(404, "not_found"))

    assert isinstance(played.error, NotFound)
    assert played.error.hint == "look"


def test_whoever_reads_the_content_himself_gets_it_unread() -> None:
    answer = play(a_session().send("GET", "x", parsed=False), Response(200, {}, b"not json")).result

    assert (answer.status, answer.document, answer.content) == (200, None, b"not json")


@pytest.mark.parametrize(
    "response",
    [Response(200, {}, b"<html>"), Response(404, {}, b"[]"), Response(302, {}, b""), Response(502, {}, b"x")],
)
def test_what_does_not_talk_like_a_server_of_ours_is_said_to_be_none(response: Response[Any]) -> None:
    played = play(a_session().send("GET", "x"), response)

    assert isinstance(played.error, Unavailable)
    assert "does not answer like a Parley server" in played.error.message


def test_an_empty_refusal_of_a_gateway_is_a_refusal() -> None:
    played = play(a_session().send("GET", "x"), Response(502, {}))

    assert isinstance(played.error, Unavailable)
    assert "502" in played.error.message


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("http://127.0.0.1:8420", False),
        ("http://localhost:8420", False),
        ("http://[::1]:8420", False),
        ("https://parley.example", False),
        ("http://parley.example", True),
        ("http://10.0.0.5:8420", True),
        ("http://127.example.org", True),
    ],
)
def test_a_key_travels_in_the_clear_to_this_machine_only(url: str, refused: bool) -> None:
    place = target_of(url)
    check_encrypted(place, "", plain_http=False)
    check_encrypted(place, "pk_1", plain_http=True)
    if refused:
        with pytest.raises(Invalid, match="in the clear"):
            check_encrypted(place, "pk_1", plain_http=False)
    else:
        check_encrypted(place, "pk_1", plain_http=False)
