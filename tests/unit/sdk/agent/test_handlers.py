"""The handlers of an agent: which are found, in which order, and what each is for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.sdk.agent.decorators import on_approval, on_assignment, on_message, on_request
from parley.sdk.agent.handlers import handlers_of, no_handler_text
from parley.wire.api.records.channels import ChannelMessage

NOON = datetime(2026, 3, 13, 12, tzinfo=UTC)


def message(**fields: Any) -> ChannelMessage:
    said: dict[str, Any] = {
        "id": "msg_1",
        "channel_id": "chan_1",
        "sender": "alice",
        "message_type": "request",
        "payload": {},
        "created_at": NOON,
        "channel": "questions",
    }
    return ChannelMessage(**(said | fields))


class Everything:
    @on_message(channel="questions")
    async def second_in_the_alphabet(self, message: object) -> None: ...

    @on_message()
    def first_in_the_alphabet(self, message: object) -> None: ...

    @on_assignment
    async def assigned(self, intent: object) -> None: ...

    @on_approval
    async def decided(self, approval: object) -> None: ...

    def not_marked(self, message: object) -> None: ...


def test_marked_methods_are_found_in_the_order_of_the_text() -> None:
    assert [one.name for one in handlers_of(Everything())] == [
        "second_in_the_alphabet",
        "first_in_the_alphabet",
        "assigned",
        "decided",
    ]


def test_each_is_for_one_kind_of_arrival() -> None:
    handlers = handlers_of(Everything())

    assert [one.name for one in handlers.for_message(message())] == ["second_in_the_alphabet", "first_in_the_alphabet"]
    assert [one.name for one in handlers.for_assignment] == ["assigned"]
    assert [one.name for one in handlers.for_approval] == ["decided"]


def test_a_method_of_a_subclass_replaces_the_one_of_its_base() -> None:
    class Other(Everything):
        @on_message(channel="other")
        async def second_in_the_alphabet(self, message: object) -> None: ...

    found = {one.name: one.spec.channel for one in handlers_of(Other())}

    assert found["second_in_the_alphabet"] == "other"
    assert len(found) == 4


def test_a_method_that_is_replaced_without_a_mark_handles_nothing() -> None:
    class Quiet(Everything):
        async def assigned(self, intent: object) -> None: ...

    assert handlers_of(Quiet()).for_assignment == []


def test_it_is_known_which_are_awaited() -> None:
    assert {one.name: one.awaits for one in handlers_of(Everything())} == {
        "second_in_the_alphabet": True,
        "first_in_the_alphabet": False,
        "assigned": True,
        "decided": True,
    }


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        ({"channel": "questions"}, True),
        ({"channel": "chan_1"}, True),
        ({"channel": "answers"}, False),
        ({"kind": "request"}, True),
        ({"kind": "notify"}, False),
        ({"kind": "question"}, True),
        ({"kind": "handoff"}, False),
        ({"from_": "alice"}, True),
        ({"from_": ("bob", "alice")}, True),
        ({"from_": "bob"}, False),
        ({"channel": "questions", "kind": "request", "from_": "bob"}, False),
    ],
)
def test_a_message_is_for_a_handler_when_all_its_filters_fit(filters: dict[str, Any], fits: bool) -> None:
    class One:
        @on_message(**filters)
        def handle(self, message: object) -> None: ...

    found = handlers_of(One()).for_message(message(metadata={"kind": "question"}))

    assert bool(found) is fits


def test_a_handler_that_takes_something_else_is_refused_by_its_name() -> None:
    class Wrong:
        @on_message()
        def handle(self, message: object, more: object) -> None: ...

    with pytest.raises(Invalid, match=r"handle\(\) has to take one message"):
        handlers_of(Wrong())


class OfOneIntent:
    @on_message(intent="Research Q1")
    async def by_title(self, message: object) -> None: ...

    @on_message(intent="intent_1")
    async def by_id(self, message: object) -> None: ...


@pytest.mark.parametrize(
    ("intent_id", "title", "called"),
    [
        ("intent_1", "Research Q1", ["by_title", "by_id"]),
        ("intent_1", "Other", ["by_id"]),
        ("intent_2", "Research Q1", ["by_title"]),
        ("intent_2", "Other", []),
        ("", "", []),
    ],
)
def test_a_handler_of_an_intent_gets_its_messages_only(intent_id: str, title: str, called: list[str]) -> None:
    handlers = handlers_of(OfOneIntent())

    names = [handler.name for handler in handlers.for_message(message(intent_id=intent_id, intent=title))]

    assert names == called
    assert handlers.need_titles
    assert not handlers_of(Everything()).need_titles


class Worker:
    @on_request("jobs")
    async def build(self, message: object) -> None: ...


@pytest.mark.parametrize(
    ("arrived", "sentence"),
    [
        (
            {"channel": "jobs", "message_type": "notify"},
            "has no handler for this notify in 'jobs' (it has one for requests only)",
        ),
        (
            {"channel": "chat", "message_type": "request"},
            "has no handler for this request in 'chat' (it has some for jobs)",
        ),
    ],
)
def test_an_agent_without_a_handler_says_what_it_has_handlers_for(arrived: dict[str, Any], sentence: str) -> None:
    specs = [handler.spec for handler in handlers_of(Worker())]

    assert no_handler_text(message(**arrived), specs) == sentence
