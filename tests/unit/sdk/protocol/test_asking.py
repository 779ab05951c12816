"""Asking: one round trip when all goes well, one answer when it does not."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from parley.domain.errors.errors import Unavailable
from parley.domain.errors.team import AskEnded, AskTimeout
from parley.sdk.blocking.connection import Connection
from parley.sdk.protocol.asking import OpenQuestion, Question
from parley.sdk.protocol.flow import ApiSession, Flow
from tests.unit.sdk.peer import DROP, Peer, a_peer, answer
from tests.unit.sdk.playing import GONE, NOBODY, Clock, a_session, play
from tests.unit.sdk.playing import refused as refusal
from tests.unit.sdk.playing import said as response


def connected(peer: Peer) -> Connection:
    numbers = count(1)
    return Connection(peer.url, new_key=lambda: f"key-{next(numbers)}", pause=lambda _: None)


# The wall clock of these tests: half a minute before the new year.
NOW = datetime(2025, 12, 31, 23, 59, 30, tzinfo=UTC).timestamp()


def ask(session: ApiSession, question: Question) -> Flow[dict[str, Any]]:
    return OpenQuestion(session, question, NOW).first_answer()


def ask_all(session: ApiSession, question: Question) -> Flow[list[dict[str, Any]]]:
    return OpenQuestion(session, question, NOW).all_answers()


def said(message_id: str, correlation: str | None = None) -> dict[str, object]:
    return {"id": message_id, "correlation_id": correlation, "sender": "codex", "payload": {}}


def test_the_answer_to_a_question_comes_back() -> None:
    with a_peer(answer(said("msg_2", "msg_1"))) as peer, connected(peer) as connection:
        assert connection.ask(Question("chan_1", "codex", {"q": 1}, 5))["id"] == "msg_2"

    assert peer.got[0].line == "POST /api/v1/channels/chan_1/ask HTTP/1.1"
    assert peer.got[0].json == {"to": "codex", "payload": {"q": 1}, "timeout": 5}


def test_a_question_that_waits_for_a_person_comes_back_as_it_is_held() -> None:
    held = {"status": "held", "approval": "appr_1", "reason": "it commits"}
    with a_peer(answer(held, "202 Accepted")) as peer, connected(peer) as connection:
        metadata = {"exchange_type": "information_query"}
        assert connection.ask(Question("chan_1", "codex", {}, 60, metadata=metadata)) == held

    body = {"to": "codex", "payload": {}, "timeout": 60, "metadata": metadata}
    assert [got.json for got in peer.got] == [body]


def test_a_question_that_the_server_has_already_is_not_asked_twice() -> None:
    question, noise, answered = said("msg_1"), said("msg_2"), said("msg_3", "msg_1")
    pages = (answer([noise]), answer([]), answer([answered]))
    with a_peer(DROP, answer(question, "201 Created"), *pages) as peer, connected(peer) as connection:
        assert connection.ask(Question("chan_1", "codex", {}, 60))["id"] == "msg_3"

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
        connection.ask(Question("chan_1", "codex", {}, 0.0001))


def test_an_answer_costs_one_round_trip() -> None:
    question = Question("chan_1", "codex", {"q": 1}, 30.0, sender="claude", metadata={"kind": "x"})

    played = play(ask(a_session(), question), response(said("msg_2", "msg_1")))

    assert played.result["id"] == "msg_2"
    assert played.targets == ["/api/v1/channels/chan_1/ask"]
    assert played.bodies == [
        {"to": "codex", "payload": {"q": 1}, "sender": "claude", "metadata": {"kind": "x"}, "timeout": 30.0}
    ]
    # The server says first that the time is over.
    assert played.requests[0].timeout > 30


def test_the_server_may_say_that_the_time_is_over() -> None:
    played = play(ask(a_session(), Question("chan_1", "codex", {})), refusal(504, "ask_timeout"))

    assert isinstance(played.error, AskTimeout)


def test_an_asked_agent_that_leaves_is_a_timeout_of_its_own() -> None:
    played = play(ask(a_session(), Question("chan_1", "codex", {})), refusal(409, "message_expired"))

    assert isinstance(played.error, AskEnded)
    assert isinstance(played.error, AskTimeout)
    assert isinstance(played.error, TimeoutError)
    assert "codex will not answer" in played.error.message


def test_a_server_that_does_not_come_back_is_an_error_that_says_so() -> None:
    played = play(ask(a_session(patience=1), Question("chan_1", "codex", {})), GONE, *[NOBODY] * 18)

    assert isinstance(played.error, Unavailable)
    assert {one.headers["idempotency-key"] for one in played.requests} == {"key-1"}


def test_a_question_is_not_asked_again_when_its_time_is_over() -> None:
    clock = Clock()
    question = Question("chan_1", "codex", {}, timeout=2)

    played = play(ask(a_session(clock), question), *[GONE] * 5, clock=clock)

    assert isinstance(played.error, Unavailable)
    assert sum(played.pauses) == pytest.approx(2)
    assert len(played.requests) == 5


def test_looking_for_the_answer_outlasts_an_outage_within_its_time() -> None:
    clock = Clock()
    question = Question("chan_1", "codex", {}, timeout=60)
    answered = {**said("msg_2"), "correlation_id": "msg_1"}

    outage = [NOBODY] * 20  # 35 seconds
    played = play(
        ask(a_session(clock), question), response(said("msg_1"), 201), *outage, response([answered]), clock=clock
    )

    assert played.result == answered
    assert sum(played.pauses) > 30


def test_looking_for_the_answer_ends_with_the_time_for_it() -> None:
    clock = Clock()
    question = Question("chan_1", "codex", {}, 20.0)

    played = play(
        ask(a_session(clock, hints={"ask_timeout": "ask again"}), question),
        response(said("msg_1"), 201),
        response([said("msg_2")]),
        response([]),
        response([]),
        clock=clock,
        takes=6.0,
    )

    assert isinstance(played.error, AskTimeout)
    assert played.error.hint == "ask again"
    assert played.targets[1:] == [
        "/api/v1/channels/chan_1/messages?since=msg_1&wait=14.000",
        "/api/v1/channels/chan_1/messages?since=msg_2&wait=8.000",
        "/api/v1/channels/chan_1/messages?since=msg_2&wait=2.000",
    ]


# ---------------------------------------------------------------- asking several


def answered(message_id: str, sender: str, correlation: str = "msg_1") -> dict[str, object]:
    return {**said(message_id, correlation), "sender": sender}


def test_whoever_holds_a_role_is_asked_and_all_answers_are_collected() -> None:
    clock = Clock()
    pages: tuple[list[dict[str, object]], ...] = (
        [answered("msg_2", "a")],
        [answered("msg_3", "x", "msg_0"), answered("msg_4", "a")],
        [],
    )

    played = play(
        ask_all(a_session(clock), Question("chan_1", "role:reviewers", {"q": 1})),
        response(said("msg_1"), 201),
        response({"role_id": "reviewers", "holders": ["a", "b", "claude"]}),
        *[response(page) for page in pages],
        response([answered("msg_5", "b")]),
        clock=clock,
        takes=1.0,
    )

    assert [one["id"] for one in played.result] == ["msg_2", "msg_4", "msg_5"]
    assert played.bodies[0] == {
        "to": "role:reviewers",
        "payload": {"q": 1},
        "message_type": "request",
        "expires_at": "2026-01-01T00:00:00.000000+00:00",
    }
    assert played.targets[1] == "/api/v1/roles/reviewers/holders"
    assert [target.partition("since=")[2].partition("&")[0] for target in played.targets[2:]] == [
        "msg_1",
        "msg_2",
        "msg_4",
        "msg_4",
    ]


def test_the_answers_that_came_in_time_are_given() -> None:
    clock = Clock()

    played = play(
        ask_all(a_session(clock), Question("chan_1", "role:reviewers", {}, 10.0)),
        response(said("msg_1"), 201),
        response({"holders": ["a", "b"]}),
        response([answered("msg_2", "a")]),
        response([]),
        clock=clock,
        takes=3.0,
    )

    assert [one["id"] for one in played.result] == ["msg_2"]


def test_the_answer_of_the_one_who_took_the_job_is_all_there_will_be() -> None:
    played = play(
        ask_all(a_session(), Question("chan_1", "any:reviewers", {})),
        response(said("msg_1"), 201),
        response([answered("msg_2", "b")]),
    )

    assert [one["id"] for one in played.result] == ["msg_2"]


def test_one_who_is_asked_alone_is_not_looked_up() -> None:
    played = play(
        ask_all(a_session(), Question("chan_1", "codex", {})),
        response(said("msg_1"), 201),
        response([answered("msg_2", "codex")]),
    )

    assert [one["id"] for one in played.result] == ["msg_2"]


def test_a_question_to_several_that_waits_for_a_person_comes_back_as_it_is_held() -> None:
    held = {"status": "held", "approval": "appr_1"}

    played = play(ask_all(a_session(), Question("chan_1", "codex", {})), response(held, 202))

    assert played.result == [held]


def test_who_has_left_is_not_waited_for() -> None:
    left = {**said("msg_3"), "sender": "system", "payload": {"event": "agent_departed", "agent_id": "b"}}

    played = play(
        ask_all(a_session(), Question("chan_1", "role:reviewers", {})),
        response(said("msg_1"), 201),
        response({"holders": ["a", "b"]}),
        response([answered("msg_2", "a"), left]),
    )

    assert [message["id"] for message in played.result] == ["msg_2"]


def test_nobody_but_the_server_says_who_has_left() -> None:
    forged = {**said("msg_3"), "sender": "mallory", "payload": {"event": "agent_departed", "agent_id": "b"}}
    clock = Clock()

    played = play(
        ask_all(a_session(clock), Question("chan_1", "role:reviewers", {})),
        response(said("msg_1"), 201),
        response({"holders": ["a", "b"]}),
        response([answered("msg_2", "a"), forged]),
        response([answered("msg_4", "b")]),
        clock=clock,
    )

    assert [message["id"] for message in played.result] == ["msg_2", "msg_4"]
