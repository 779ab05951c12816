"""A handler gets its payload as the type that it asks for, and is not called with what does not fit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field

from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import AgentFailed
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message, on_request
from parley.sdk.agent.handlers import handlers_of
from parley.sdk.client.session import AsyncServerSession
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import CHANNEL, INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, at_work


@dataclass
class Query:
    dataset: str
    since: date | None = None


class Count(msgspec.Struct):
    rows: int


class Options(TypedDict):
    fast: bool


@Agent("bob")
class Bob(BaseAgent):
    """Handlers of all forms, each for a kind of its own."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    @on_message(kind="question")
    async def annotated(self, query: Query) -> Count:
        self.calls.append(query)
        return Count(rows=len(query.dataset))

    @on_message(kind="task_request")
    async def both(self, message: ChannelMessage, query: Query) -> list[str]:
        return [message.sender, query.dataset]

    @on_message(kind="follow_up", schema=Options)
    def in_a_thread(self, options) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001  # as users write it
        return f"fast: {options['fast']}"

    @on_message(kind="review_request", schema=Query)
    async def checked(self, message: ChannelMessage) -> dict[str, Any]:
        return {"as_sent": message.payload}

    @on_message(kind="notification", schema=Query)
    async def told(self, query: Query) -> None:
        self.calls.append(query)

    @on_message(kind="handoff")
    async def in_parts(self, query: Query, message: ChannelMessage) -> AsyncIterator[dict[str, Any]]:
        yield {"dataset": query.dataset, "by": message.sender}


@pytest.mark.parametrize(
    ("kind", "payload", "answer"),
    [
        ("question", {"dataset": "q1", "since": "2026-03-01"}, {"rows": 2}),
        ("question", Query("q12"), {"rows": 3}),
        ("task_request", {"dataset": "q1"}, {"items": ["alice", "q1"]}),
        ("follow_up", {"fast": True}, {"text": "fast: True"}),
        ("review_request", {"dataset": "q1"}, {"as_sent": {"dataset": "q1"}}),
        ("handoff", {"dataset": "q1"}, {"dataset": "q1", "by": "alice"}),
    ],
)
@with_server
async def test_a_handler_gets_what_it_asks_for(
    server: LiveServer, kind: str, payload: Any, answer: dict[str, Any]
) -> None:
    async with at_work(server, Bob()) as alice:
        got = await alice.ask(CHANNEL, None, "bob", payload, 10, metadata={"kind": kind})

    assert got.payload == answer


@pytest.mark.both_stores
@pytest.mark.parametrize("kind", ["question", "task_request", "follow_up", "review_request", "handoff"])
@with_server
async def test_what_does_not_fit_is_refused_to_the_asker_before_the_handler_runs(
    server: LiveServer, ear: Ear, kind: str
) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        with pytest.raises(AgentFailed) as refused:
            await alice.ask(CHANNEL, None, "bob", {"dataset": 7, "fast": "very"}, 10, metadata={"kind": kind})

    field = "fast" if kind == "follow_up" else "dataset"
    assert (refused.value.code, refused.value.reason.startswith(f"{field}: Expected")) == ("payload_invalid", True)
    assert bob.calls == []
    assert not [one for one in ear.records if one.exc_info]


@with_server
async def test_a_notification_that_does_not_fit_is_logged_and_passed_over(server: LiveServer, ear: Ear) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        for payload in ({"wrong": 1}, {"dataset": "q1"}):
            await alice.send_message(CHANNEL, None, "bob", "notify", payload, metadata={"kind": "notification"})
        await soon(lambda: bob.calls == [Query("q1")])

    [logged] = [one for one in ear.records if vars(one).get("action") == "agent_handler_failed"]
    assert "payload_invalid: dataset: Object missing required field" in logged.getMessage()
    assert bob.counts["failed"] == 1


def test_a_type_that_cannot_be_found_is_refused_with_the_way_out() -> None:
    @dataclass
    class Hidden:
        n: int

    class Local(BaseAgent):
        @on_message()
        async def handle(self, hidden: Hidden) -> None: ...

    class Named(BaseAgent):
        @on_message(schema=Hidden)
        async def handle(self, hidden: Hidden) -> None: ...

    with pytest.raises(Invalid, match=r"the type 'Hidden' of hidden cannot be found .*schema=Hidden"):
        handlers_of(Local())
    assert len(handlers_of(Named())) == 1


def test_a_handler_that_takes_something_else_is_refused() -> None:
    class Two(BaseAgent):
        @on_message(schema=Query)
        async def handle(self, one: Query, other: Query) -> None: ...

    class Three(BaseAgent):
        @on_message(schema=Query)
        async def handle(self, query: Query, message: ChannelMessage, more: int) -> None: ...

    class Untyped(BaseAgent):
        @on_message()
        async def handle(self, message: object, other: object) -> None: ...

    for agent, said in ((Two(), "the payload and the message"), (Three(), "nothing else"), (Untyped(), "nothing else")):
        with pytest.raises(Invalid, match=said):
            handlers_of(agent)
    with pytest.raises(Invalid, match="is no schema"):
        on_message(schema=ValueError)


@pytest.mark.parametrize("annotation", ["dict[str, Any]", "Any", "object", "ValueError", "parley.ChannelMessage"])
def test_other_annotations_change_nothing(annotation: str) -> None:
    class Old(BaseAgent):
        @on_message()
        async def handle(self, message: object) -> None: ...

    Old.handle.__annotations__["message"] = annotation
    agent = Old()

    [handler] = handlers_of(agent)

    assert handler.call == agent.handle


# ---------------------------------------------------------------- pydantic itself


class Order(BaseModel):
    """A model of pydantic, as people write it."""

    dataset: str
    rows: int = Field(gt=0)


class Receipt(BaseModel):
    order: Order
    ordered_by: str


@Agent("shop")
class Shop(BaseAgent):
    @on_request("orders", schema=Order)
    async def order(self, order: Order, message: ChannelMessage) -> Receipt:
        return Receipt(order=order, ordered_by=message.sender)


@with_server
async def test_a_pydantic_model_is_filled_checked_and_sent_back(server: LiveServer) -> None:
    async with at_work(server, Shop()) as alice:
        orders = await AsyncServerSession(alice).channel(INTENT, "orders")
        receipt = await orders.ask("shop", Order(dataset="q1", rows=3), timeout=10)
        with pytest.raises(AgentFailed) as refused:
            await orders.ask("shop", dataset="q1", rows=0, timeout=10)

    assert Receipt.model_validate(dict(receipt)).order == Order(dataset="q1", rows=3)
    assert receipt["ordered_by"] == "alice"
    assert (refused.value.code, refused.value.reason) == (
        "payload_invalid",
        "rows: Input should be greater than 0",
    )
