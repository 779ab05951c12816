"""The decorators: what a method is marked with, and what is refused where it is written."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import (
    HandlerSpec,
    on_approval,
    on_assignment,
    on_message,
    on_notify,
    on_request,
    specs_of,
)
from parley.sdk.client.session import AsyncServerSession
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import at_work


def _method(self: object, message: object) -> None:
    """Something to decorate."""


def _fresh() -> Any:
    return lambda self, message: None


def test_without_filters_everything_is_for_the_method() -> None:
    assert specs_of(on_message()(_fresh())) == (HandlerSpec("message"),)


def test_the_parentheses_may_be_left_out() -> None:
    assert specs_of(on_message(_fresh())) == (HandlerSpec("message"),)


def test_filters_are_kept() -> None:
    marked = on_message(channel="questions", kind="request", from_="alice", timeout=2.5, intent="Q1")(_fresh())

    assert specs_of(marked) == (HandlerSpec("message", "questions", "request", ("alice",), 2.5, None, "Q1"),)


def test_several_senders_may_be_named() -> None:
    assert specs_of(on_message(from_=["alice", "bob"])(_fresh()))[0].senders == ("alice", "bob")


def test_a_method_may_be_marked_more_than_once() -> None:
    marked = on_message(channel="a")(on_message(channel="b")(_fresh()))

    assert [one.channel for one in specs_of(marked)] == ["b", "a"]


def test_assignments_and_approvals_are_marked() -> None:
    assert specs_of(on_assignment(_fresh())) == (HandlerSpec("assignment"),)
    assert specs_of(on_approval(_fresh())) == (HandlerSpec("approval"),)


def test_the_method_itself_comes_back() -> None:
    method = _fresh()

    assert on_message(channel="a")(method) is method


@pytest.mark.parametrize("kind", ["request", "response", "notify", "broadcast", "question", "handoff"])
def test_a_kind_is_how_it_is_answered_or_what_is_asked(kind: str) -> None:
    assert specs_of(on_message(kind=kind)(_fresh()))[0].kind == kind


def test_an_unknown_kind_is_refused_where_it_is_written() -> None:
    with pytest.raises(Invalid, match=r"'requests' is no kind of message .*request"):
        on_message(kind="requests")


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_time_that_is_none_is_refused_where_it_is_written(timeout: float) -> None:
    with pytest.raises(Invalid, match="timeout is a number of seconds above 0"):
        on_message(timeout=timeout)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(Invalid, match="cannot be called"):
        on_assignment("handle")  # type: ignore[type-var]


def test_what_is_not_marked_handles_nothing() -> None:
    assert specs_of(_method) == ()


# ---------------------------------------------------------------- requests, and what needs no answer


@Agent("bob")
class Both(BaseAgent):
    def __init__(self) -> None:
        self.told: list[str] = []

    @on_request("questions", from_="alice")
    async def answer(self, message: ChannelMessage) -> str:
        return f"asked {message.text}"

    @on_notify
    async def note(self, message: ChannelMessage) -> None:
        self.told.append(message.text)


@with_server
async def test_a_request_goes_to_one_handler_and_what_is_told_to_the_other(server: LiveServer) -> None:
    bob = Both()
    async with at_work(server, bob) as alice:
        channel = await AsyncServerSession(alice).channel(INTENT, "questions")
        await channel.notify("bob", "told")
        await channel.broadcast("told everyone")
        answer = await channel.ask("bob", "something", timeout=10)
        await soon(lambda: len(bob.told) == 2)

    assert answer.text == "asked something"
    assert bob.told == ["told", "told everyone"]


def test_both_take_the_parameters_of_on_message() -> None:
    marked = on_request("questions", from_=["alice"], intent="Launch", timeout=5, retries=2, backoff=3.0)(_fresh())
    told = on_notify("news")(_fresh())

    assert specs_of(marked) == (HandlerSpec("message", "questions", "request", ("alice",), 5, None, "Launch", 2, 3.0),)
    assert [(spec.channel, spec.kind) for spec in specs_of(told)] == [("news", "notify"), ("news", "broadcast")]


@pytest.mark.parametrize("decorator", [on_request, on_notify])
def test_a_wrong_parameter_names_the_decorator(decorator: Any) -> None:
    with pytest.raises(Invalid, match=rf"^{decorator.__name__}: timeout is a number of seconds"):
        decorator(timeout=0)
    with pytest.raises(Invalid, match=rf"^{decorator.__name__}: retries is a number"):
        decorator(retries=-1)
