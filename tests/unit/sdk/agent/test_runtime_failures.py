"""An agent whose handlers fail, take too long or run in threads."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from parley.domain.errors.errors import Forbidden
from parley.domain.errors.team import AgentFailed
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, answered, asked, at_work

AT = datetime(2026, 1, 1, tzinfo=UTC)

# ---------------------------------------------------------------- what goes wrong in a handler


@pytest.mark.both_stores
@with_server
async def test_the_cause_of_a_failure_reaches_the_first_asker_through_agents_that_let_it_pass(
    server: LiveServer, ear: Ear
) -> None:
    @Agent("writer")
    class Writer(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            raise ValueError("no ink")

    @Agent("planner")
    class Planner(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            text = await (await self.channels.open("team")).ask("writer", {}, timeout=10)
            return {"report": text.payload["text"]}

    async with at_work(server, Writer(), Planner()) as alice:
        with pytest.raises(AgentFailed) as caught:
            await alice.ask(CHANNEL, None, "planner", {}, 10)
        answer = await asked(alice, to="planner")

    assert str(caught.value) == "planner <- writer: ValueError: no ink"
    assert (caught.value.code, caught.value.agent, caught.value.answer.sender) == (
        "handler_failed", "planner", "planner",
    )  # fmt: skip
    assert answer.payload["error"] == {
        "code": "handler_failed",
        "message": "ValueError: no ink",
        "agent": "planner",
        "chain": ["planner", "writer"],
    }
    # Only the agent with the defect logs a traceback.
    tracebacks = {one.getMessage().partition(":")[0] for one in ear.records if one.exc_info}
    assert tracebacks == {"writer"}


@with_server
async def test_a_handler_can_look_at_the_error_of_the_agent_that_it_asked(server: LiveServer) -> None:
    @Agent("writer")
    class Writer(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            raise Forbidden("not for you")

    @Agent("planner")
    class Planner(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            answer = await (await self.channels.open("team")).ask("writer", {}, timeout=10, check=False)
            return {"why": answer.error}

    async with at_work(server, Writer(), Planner()) as alice:
        answer = await alice.ask(CHANNEL, None, "planner", {}, 10)

    assert answer.payload == {"why": "not for you"}


@with_server
async def test_an_exception_is_an_error_response_that_is_logged_and_counted(server: LiveServer, ear: Ear) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            raise ValueError("there is no schema")

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await asked(alice)
        await soon(lambda: bob.counts["done"] == 1)

    told_why = {"code": "handler_failed", "message": "ValueError: there is no schema", "agent": "bob"}
    assert answer.payload == {"error": told_why}
    assert answer.error == "ValueError: there is no schema"
    assert answer.metadata["error"] == "handler_failed"
    assert bob.counts["failed"] == 1
    [logged] = [one for one in ear.records if vars(one).get("action") == "agent_handler_failed"]
    assert logged.exc_info is not None
    assert logged.exc_info[0] is ValueError
    assert (vars(logged)["agent"], vars(logged)["handler"]) == ("bob", "handle")
    assert logged.getMessage() == f"bob: handle failed on {answer.correlation_id} from alice in {CHANNEL}"


@with_server
async def test_a_refusal_on_purpose_is_one_line_without_a_traceback(server: LiveServer, ear: Ear) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            raise Forbidden("not for\nyou", hint="ask ann")

    async with at_work(server, Bob()) as alice:
        answer = await asked(alice)

    assert answer.payload["error"]["code"] == "forbidden"
    [logged] = [one for one in ear.records if vars(one).get("action") == "agent_handler_failed"]
    assert (logged.levelname, logged.exc_info) == ("WARNING", None)
    assert logged.getMessage() == (
        f"bob: handle failed on {answer.correlation_id} from alice in {CHANNEL} (forbidden: not for you (ask ann))"
    )


@with_server
async def test_what_parley_itself_refuses_in_a_handler_keeps_its_code(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(CHANNEL)
            await channel.ask("nobody", {}, timeout=0.05, wait_for_responders=True)

    async with at_work(server, Bob()) as alice:
        answer = await asked(alice)

    assert answer.payload["error"]["code"] == "ask_timeout"


@with_server
async def test_a_failed_handler_leaves_the_answer_to_the_others(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def first(self, message: ChannelMessage) -> None:
            raise ValueError

        @on_message()
        async def second(self, message: ChannelMessage) -> dict[str, Any]:
            return {"by": "second"}

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await asked(alice)
        await soon(lambda: bob.counts["done"] == 1)

    assert answer.payload == {"by": "second"}
    assert len(await answered(server, str(answer.correlation_id))) == 1
    assert bob.counts["failed"] == 1


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            {"report": {"when": AT.replace(tzinfo=None)}},
            "handle returned what is not JSON: this cannot be sent as JSON: report.when",
        ),
        ({"what": float("nan")}, "handle returned what is not JSON"),
        ({"half": "\ud800"}, "handle returned what is not JSON"),
        ({"raw": b"yes"}, "raw: bytes are not JSON"),
    ],
    ids=["a time without a zone", "no number", "half a character", "bytes"],
)
@with_server
async def test_what_cannot_be_sent_is_an_error_response(server: LiveServer, result: Any, said: str) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> Any:
            return result

    async with at_work(server, Bob()) as alice:
        answer = await asked(alice)

    assert answer.payload["error"]["code"] == "invalid"
    assert said in answer.error


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"text": "x" * 100_000}, "a text has at most 65536 bytes"),
        ({str(number): "x" * 60_000 for number in range(6)}, ""),
        ({"a": {str(number): number for number in range(2_000)}}, "keys"),
    ],
    ids=["a long text", "a large body", "many keys"],
)
@with_server
async def test_an_answer_that_the_server_refuses_is_an_error_response(
    server: LiveServer, result: Any, said: str, ear: Ear
) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> Any:
            return result

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await asked(alice)
        await soon(lambda: bob.counts["done"] == 1)

    assert answer.error.startswith("the answer was refused: ")
    assert said in answer.error
    assert answer.payload["error"]["agent"] == "bob"
    assert bob.counts["failed"] == 1
    assert "agent_answer_refused" in ear.actions


@with_server
async def test_a_handler_that_takes_too_long_is_an_error_response(server: LiveServer) -> None:
    @Agent("bob", timeout=0.02)
    class Bob(BaseAgent):
        @on_message(kind="question")
        async def slow(self, message: ChannelMessage) -> None:
            await asyncio.Event().wait()

        @on_message(kind="follow_up", timeout=30)
        async def longer(self, message: ChannelMessage) -> dict[str, Any]:
            await asyncio.sleep(0.1)
            return {"done": True}

    async with at_work(server, Bob()) as alice:
        slow = await alice.ask(CHANNEL, None, "bob", {}, 10, metadata={"kind": "question"}, check=False)
        longer = await alice.ask(CHANNEL, None, "bob", {}, 10, metadata={"kind": "follow_up"}, check=False)

    assert slow.payload["error"]["code"] == "handler_timeout"
    assert slow.error == "slow took longer than 0.02 seconds"
    assert longer.payload == {"done": True}


@with_server
async def test_a_thread_that_takes_too_long_is_answered_for_and_left_alone(server: LiveServer) -> None:
    go_on, ended = threading.Event(), threading.Event()

    @Agent("bob", timeout=0.02, concurrency=1)
    class Bob(BaseAgent):
        @on_message(kind="question")
        def slow(self, message: ChannelMessage) -> dict[str, Any]:
            go_on.wait(30)
            ended.set()
            return {"too": "late"}

        @on_message(kind="notify")
        async def other(self, message: ChannelMessage) -> None:
            go_on.set()

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await alice.ask(CHANNEL, None, "bob", {}, 10, metadata={"kind": "question"}, check=False)
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await asyncio.to_thread(ended.wait, 10)

    assert answer.payload["error"]["code"] == "handler_timeout"
    assert len(await answered(server, str(answer.correlation_id))) == 1


@with_server
async def test_a_handler_that_awaits_something_cancelled_fails_like_any_other(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            given_up = asyncio.ensure_future(asyncio.Event().wait())
            given_up.cancel()
            await given_up

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await asked(alice)
        await soon(lambda: bob.counts["done"] == 1)

    assert answer.payload["error"]["code"] == "handler_failed"
    assert "CancelledError" in answer.error


@with_server
async def test_an_agent_goes_on_after_a_failure(server: LiveServer) -> None:
    @Agent("bob", concurrency=1)
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"n": 1 / message.payload["n"]}

    async with at_work(server, Bob()) as alice:
        answers = [await asked(alice, {"n": number}) for number in (0, 1, 0, 2)]

    assert [one.payload.get("n") for one in answers] == [None, 1, None, 0.5]
    assert [bool(one.error) for one in answers] == [True, False, True, False]


# ---------------------------------------------------------------- handlers in threads


@with_server
async def test_a_function_runs_in_a_thread_and_can_wait_for_what_is_awaited(server: LiveServer) -> None:
    threads: list[int] = []

    @Agent("carol")
    class Carol(BaseAgent):
        @on_message(kind="request")
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"n": message.payload["n"] + 1}

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message(kind="request")
        def handle(self, message: ChannelMessage) -> dict[str, Any]:
            threads.append(threading.get_ident())
            channel = self.wait(self.channels.open(message.channel))
            answer = self.wait(channel.ask("carol", {"n": message.payload["n"]}, timeout=10))
            return {"n": answer.payload["n"] * 10}

    async with at_work(server, Bob(), Carol()) as alice:
        answer = await asked(alice, {"n": 3})

    assert answer.payload == {"n": 40}
    assert threading.get_ident() not in threads


@with_server
async def test_a_function_that_blocks_keeps_no_other_from_answering(server: LiveServer) -> None:
    go_on = threading.Event()

    @Agent("bob", concurrency=2)
    class Bob(BaseAgent):
        @on_message(kind="question")
        def blocks(self, message: ChannelMessage) -> dict[str, Any]:
            return {"waited": go_on.wait(30)}

        @on_message(kind="follow_up")
        async def quick(self, message: ChannelMessage) -> dict[str, Any]:
            return {"quick": True}

    async with at_work(server, Bob()) as alice:
        blocked = asyncio.ensure_future(alice.ask(CHANNEL, None, "bob", {}, 20, metadata={"kind": "question"}))
        quick = await alice.ask(CHANNEL, None, "bob", {}, 10, metadata={"kind": "follow_up"}, check=False)
        go_on.set()
        waited = await blocked

    assert (quick.payload, waited.payload) == ({"quick": True}, {"waited": True})
