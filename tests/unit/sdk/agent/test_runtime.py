"""An agent at work: what is called with what, what becomes of what it returns, and how much runs at once."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from parley.domain.directory import KeyKind
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_assignment, on_message
from parley.sdk.client.client import AsyncClient
from parley.sdk.records import ChannelMessage, Intent
from tests.team_rig import CHANNEL, INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, answered, at_work, told


async def asked(alice: AsyncClient, payload: dict[str, Any] | None = None, *, to: str = "bob") -> ChannelMessage:
    return await alice.ask(CHANNEL, None, to, payload or {}, 10)


# ---------------------------------------------------------------- what a handler returns


@with_server
async def test_a_returned_mapping_answers_the_request(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"twice": message.payload["n"] * 2}

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await asked(alice, {"n": 21})
        await soon(lambda: bob.counts["done"] == 1)

    assert answer.payload == {"twice": 42}
    assert (answer.sender, answer.error) == ("bob", "")
    assert bob.counts == {"received": 1, "answered": 1, "done": 1}


@with_server
async def test_none_answers_nothing(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            return None

    bob = Bob()
    async with at_work(server, bob) as alice:
        request = await alice.send_message(CHANNEL, None, "bob", "request", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert await answered(server, request.id) == []


@with_server
async def test_an_empty_mapping_is_an_answer(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {}

    async with at_work(server, Bob()) as alice:
        assert (await asked(alice)).payload == {}


@with_server
async def test_what_is_returned_for_a_notice_answers_nothing(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"thanks": True}

    bob = Bob()
    async with at_work(server, bob) as alice:
        told_by = await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert await answered(server, told_by.id) == []
    assert bob.counts["failed"] == 0


@with_server
async def test_all_handlers_are_called_and_the_first_that_returns_something_answers(server: LiveServer) -> None:
    called: list[str] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def first(self, message: ChannelMessage) -> None:
            called.append("first")

        @on_message()
        def second(self, message: ChannelMessage) -> dict[str, Any]:
            called.append("second")
            return {"by": "second"}

        @on_message()
        async def third(self, message: ChannelMessage) -> dict[str, Any]:
            called.append("third")
            return {"by": "third"}

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await asked(alice)
        await soon(lambda: bob.counts["done"] == 1)

    assert called == ["first", "second", "third"]
    assert answer.payload == {"by": "second"}
    assert len(await answered(server, str(answer.correlation_id))) == 1


# ---------------------------------------------------------------- which handler is called


@with_server
async def test_a_handler_is_called_for_its_channel_kind_and_senders_only(server: LiveServer) -> None:
    got: dict[str, list[str]] = {}

    @Agent("bob")
    class Bob(BaseAgent):
        def _note(self, handler: str, message: ChannelMessage) -> None:
            got.setdefault(handler, []).append(message.payload["text"])

        @on_message(channel="side")
        async def by_name(self, message: ChannelMessage) -> None:
            self._note("by_name", message)

        @on_message(channel=CHANNEL)
        async def by_id(self, message: ChannelMessage) -> None:
            self._note("by_id", message)

        @on_message(kind="broadcast")
        async def by_pattern(self, message: ChannelMessage) -> None:
            self._note("by_pattern", message)

        @on_message(kind="question")
        async def by_kind(self, message: ChannelMessage) -> None:
            self._note("by_kind", message)

        @on_message(from_=("carol", "dave"))
        async def by_sender(self, message: ChannelMessage) -> None:
            self._note("by_sender", message)

        @on_message(channel="side", kind="request", from_="carol")
        async def by_all(self, message: ChannelMessage) -> None:
            self._note("by_all", message)

    bob = Bob()
    async with at_work(server, bob) as alice:
        side = (await alice.create_channel(INTENT, "side")).id
        await alice.send_message(CHANNEL, None, "bob", "notify", {"text": "a"})
        await alice.send_message(CHANNEL, None, "*", "broadcast", {"text": "b"})
        await alice.send_message(side, "carol", "bob", "request", {"text": "c"}, metadata={"kind": "question"})
        await alice.send_message(side, "dave", "bob", "request", {"text": "d"})
        await soon(lambda: bob.counts["done"] == 4)

    assert {name: sorted(texts) for name, texts in got.items()} == {
        "by_name": ["c", "d"],
        "by_id": ["a", "b"],
        "by_pattern": ["b"],
        "by_kind": ["c"],
        "by_sender": ["c", "d"],
        "by_all": ["c"],
    }


@with_server
async def test_a_message_that_no_handler_is_for_is_dealt_with(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message(channel="elsewhere")
        async def handle(self, message: ChannelMessage) -> None:
            raise AssertionError

    bob = Bob()
    async with at_work(server, bob) as alice:
        await alice.send_message(CHANNEL, None, "bob", "request", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert bob.counts["failed"] == 0


@with_server
async def test_an_agent_does_not_hear_itself(server: LiveServer) -> None:
    heard: list[str] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            heard.append(message.sender)
            channel = await self.channels.open(CHANNEL)
            await channel.broadcast({"text": "heard"})

    bob = Bob()
    async with at_work(server, bob) as alice:
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await soon(lambda: bob.counts["done"] == 2)

    assert heard == ["alice", "alice"]


@with_server
async def test_a_handler_knows_the_channel_and_the_intent_of_a_message(server: LiveServer) -> None:
    got: list[ChannelMessage] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            got.append(message)

    async with at_work(server, Bob()) as alice:
        side = await alice.create_channel(INTENT, "side")
        await alice.send_message(side.id, None, "bob", "notify", {})
        await soon(lambda: bool(got))

    assert (got[0].channel, got[0].channel_id, got[0].intent_id) == ("side", side.id, INTENT)


# ---------------------------------------------------------------- what goes wrong in a handler


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


@with_server
async def test_what_parley_itself_refuses_in_a_handler_keeps_its_code(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(CHANNEL)
            await channel.ask("nobody", {}, timeout=0.05)

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
        ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "handle returned what is not JSON"),
        ({"what": float("nan")}, "handle returned what is not JSON"),
        ({"half": "\ud800"}, "handle returned what is not JSON"),
        ("yes", "handle returned str (return a mapping"),
        (["yes"], "handle returned list (return a mapping"),
        (42, "handle returned int (return a mapping"),
    ],
    ids=["a time", "no number", "half a character", "a text", "a list", "a number"],
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
        slow = await alice.ask(CHANNEL, None, "bob", {}, 10, metadata={"kind": "question"})
        longer = await alice.ask(CHANNEL, None, "bob", {}, 10, metadata={"kind": "follow_up"})

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
        answer = await alice.ask(CHANNEL, None, "bob", {}, 10, metadata={"kind": "question"})
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
        quick = await alice.ask(CHANNEL, None, "bob", {}, 10, metadata={"kind": "follow_up"})
        go_on.set()
        waited = await blocked

    assert (quick.payload, waited.payload) == ({"quick": True}, {"waited": True})


# ---------------------------------------------------------------- how much at once


class Crowded:
    """Counts how many are inside at once, and lets them go on when a test says so."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.texts: list[str] = []
        self.go_on = asyncio.Semaphore(0)

    async def pass_through(self, message: ChannelMessage) -> None:
        self.texts.append(message.payload["text"])
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.go_on.acquire()
        self.inside -= 1


@with_server
async def test_never_more_than_concurrency_run_at_once_and_the_stream_waits(server: LiveServer) -> None:
    crowded = Crowded()

    @Agent("bob", concurrency=3)
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            await crowded.pass_through(message)

    bob = Bob()
    async with at_work(server, bob):
        await told(server, "bob", *range(20))
        await soon(lambda: crowded.inside == 3)
        for _ in range(200):  # whoever was let in too early would be in by now
            await asyncio.sleep(0)
        assert crowded.inside == 3
        assert len(crowded.texts) == 3
        for _ in range(20):
            crowded.go_on.release()
        await soon(lambda: bob.counts["done"] == 20)

    assert crowded.most == 3
    assert sorted(map(int, crowded.texts)) == list(range(20))


@with_server
async def test_with_a_concurrency_of_one_the_order_is_kept(server: LiveServer) -> None:
    texts: list[str] = []

    @Agent("bob", concurrency=1)
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            await asyncio.sleep(0 if int(message.payload["text"]) % 2 else 0.002)
            texts.append(message.payload["text"])

    async with at_work(server, Bob()):
        await told(server, "bob", *range(30))
        await soon(lambda: len(texts) == 30)

    assert texts == [str(number) for number in range(30)]


# ---------------------------------------------------------------- assignments and answers to its own questions


@with_server
async def test_an_assignment_is_told_with_its_intent(server: LiveServer) -> None:
    got: list[Intent] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_assignment
        async def begin(self, intent: Intent) -> None:
            got.append(intent)

    bob = Bob()
    async with at_work(server, bob) as alice:
        made = await alice.create_intent("to do", status="active")
        await alice.assign_agent(made.id, "carol")
        await alice.assign_agent(made.id, "bob")
        await soon(lambda: bool(got))

    assert [(one.id, one.title) for one in got] == [(made.id, "to do")]


@with_server
async def test_an_answer_to_a_question_of_its_own_goes_to_no_handler_but_a_late_one_does(server: LiveServer) -> None:
    seen: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message(kind="notify")
        async def begin(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(message.channel)
            answers.append((await channel.ask("carol", {"n": message.payload["n"]}, timeout=10)).payload)

        @on_message(kind="response")
        async def late(self, message: ChannelMessage) -> None:
            seen.append(message.payload)

    @Agent("carol")
    class Carol(BaseAgent):
        @on_message(kind="request")
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return message.payload

    bob = Bob()
    async with at_work(server, bob, Carol()) as alice:
        for number in range(3):
            await alice.send_message(CHANNEL, None, "bob", "notify", {"n": number})
        await soon(lambda: len(answers) == 3)
        old = await alice.send_message(CHANNEL, "bob", "dave", "request", {})  # nobody waits for its answer
        await alice.reply_to(CHANNEL, old.id, "dave", {"late": True})
        await soon(lambda: bob.counts["done"] == 7)

    assert sorted(one["n"] for one in answers) == [0, 1, 2]
    assert seen == [{"late": True}]


@with_server
async def test_answers_to_other_questions_do_not_wait_for_the_slowest(server: LiveServer) -> None:
    answers: list[int] = []

    @Agent("bob", concurrency=3)
    class Bob(BaseAgent):
        @on_message(kind="notify")
        async def begin(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(message.channel)
            answers.append((await channel.ask(message.payload["whom"], {}, timeout=20)).payload["n"])

    @Agent("carol")
    class Carol(BaseAgent):
        @on_message(kind="request")
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"n": 1}

    bob = Bob()
    async with at_work(server, bob, Carol()) as alice:
        await alice.send_message(CHANNEL, None, "bob", "notify", {"whom": "dave"})  # who takes his time
        for _ in range(5):
            await alice.send_message(CHANNEL, None, "bob", "notify", {"whom": "carol"})
        await soon(lambda: len(answers) == 5)
        said = await bob.client.list_messages(CHANNEL, limit=1000)
        [question] = [one for one in said if one.to == "dave"]
        await alice.reply_to(CHANNEL, question.id, "dave", {"n": 2})
        await soon(lambda: len(answers) == 6)

    assert answers == [1, 1, 1, 1, 1, 2]


@with_server
async def test_everybody_who_was_asked_is_heard(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    await server.rig.role("reviewers", "carol", "dave")
    got: list[str] = []

    def reviewer(name: str) -> BaseAgent:
        @Agent(name)
        class Reviewer(BaseAgent):
            @on_message(kind="request")
            async def handle(self, message: ChannelMessage) -> dict[str, Any]:
                return {"by": name}

        return Reviewer()

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message(kind="notify")
        async def begin(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(message.channel)
            got.extend(one.payload["by"] for one in await channel.ask_all("role:reviewers", {}, timeout=10))

    async with at_work(server, Bob(), reviewer("carol"), reviewer("dave")) as alice:
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await soon(lambda: bool(got))

    assert sorted(got) == ["carol", "dave"]


@with_server
async def test_an_answer_for_which_it_is_too_late_is_let_go(server: LiveServer, ear: Ear) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            admin = await server.client(kind=KeyKind.ADMIN)
            assert (await admin.delete(f"/channels/{message.channel_id}")).status == 200
            return {"too": "late"}

    bob = Bob()
    async with at_work(server, bob) as alice:
        side = await alice.create_channel(INTENT, "side")
        await alice.send_message(side.id, None, "bob", "request", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert ear.actions.count("agent_answer_unwanted") == 1
    assert bob.counts["failed"] == 0
