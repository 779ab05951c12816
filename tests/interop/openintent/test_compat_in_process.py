"""Agents written for the SDK, in the threads of one process, against our server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest
from openintent import AsyncOpenIntentClient
from openintent.agents import Agent, AgentConfig, BaseAgent, Worker, on_assignment, on_handoff, on_message
from openintent.exceptions import ConflictError, NotFoundError
from openintent.models import ChannelMessage, EventType, IntentStatus

from parley.sdk.blocking.client import Client
from tests.interop.openintent.programs import client, until
from tests.rigs.process import ADMIN_KEY, ServerProcess

# The SDK ships no type information.
Theirs: TypeAlias = Any


# Decorated before the helper is imported: that must not matter.
@Agent("data-in-process")
class DataAgent:
    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.threads: list[threading.Thread] = []

    @on_message(channel="data-clarification")  # type: ignore[untyped-decorator]
    async def handle_clarification(self, message: Theirs) -> dict[str, Any] | None:
        if message.message_type == "request":
            return {"answer": "v2.3", "confidence": 0.95}
        return None

    @on_message()  # type: ignore[untyped-decorator]
    def handle_any(self, message: Theirs) -> None:
        self.heard.append(message)
        self.threads.append(threading.current_thread())


@Agent("research-in-process")
class ResearchAgent:
    channels: Any

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @on_message()  # type: ignore[untyped-decorator]
    async def handle_any(self, message: Theirs) -> None:
        self.heard.append(message)

    @on_assignment  # type: ignore[untyped-decorator]
    async def handle(self, intent: Theirs) -> dict[str, Any]:
        channel = await self.channels.open("data-clarification", intent_id=intent.id)
        response = await channel.ask("data-in-process", {"question": "What schema version?"}, timeout=30)
        await channel.broadcast({"schema": response.payload["answer"]})
        await channel.notify("data-in-process", {"started": True})
        return {"schema": response["payload"]["answer"]}


@pytest.fixture(scope="module", autouse=True)
def helper() -> Iterator[None]:
    """Import it, which installs it, and leave nothing behind."""
    import parley.compat.openintent as helper

    helper.install()
    yield
    helper.uninstall()


def made(kind: Callable[..., Any], server: ServerProcess) -> Theirs:
    return kind(server.url, ADMIN_KEY)


@contextmanager
def in_threads(*agents: Theirs) -> Iterator[None]:
    """Agents that run; in the end all of them stop."""
    threads = [threading.Thread(target=agent.run) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for agent in agents:
            agent.stop()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


@contextmanager
def at_work(server: ServerProcess, *agents: Theirs) -> Iterator[None]:
    """Agents that run, from the moment at which they hear what happens."""
    with in_threads(*agents), client(server, "boss") as boss:
        for agent in agents:
            until(lambda name=agent.agent_id: _beats(boss, name))  # type: ignore[misc]
        yield


def _beats(boss: Theirs, name: str) -> bool:
    try:
        record = boss.get_agent_record(name)
    except NotFoundError:
        return False
    # The first heartbeat comes when it has begun to listen, and not when it registers.
    return bool(record.last_heartbeat_at and record.last_heartbeat_at > record.registered_at)


def heard_on(intent_id: str, agent: Theirs) -> list[Any]:
    """What an agent heard on an intent; what was said elsewhere while it was away comes as well."""
    return [message for message in agent.heard if message.intent_id == intent_id]


def test_the_agents_of_the_rfc_share_a_process(server: ServerProcess) -> None:
    data, research = made(DataAgent, server), made(ResearchAgent, server)
    with at_work(server, data, research), client(server, "boss") as boss:
        intent = boss.create_intent("Research", "d")

        boss.assign_agent(intent.id, "research-in-process")

        until(lambda: boss.get_intent(intent.id).state.get("schema") == "v2.3")
        until(lambda: len(heard_on(intent.id, data)) == 3)
        (channel,) = boss.list_channels(intent.id)
        boss.send_message(channel["id"], "boss", "research-in-process", "notify", {"well": "done"})
        until(lambda: heard_on(intent.id, research))

    # The answer went to whoever asked, and not to the handler too.
    assert [message.payload for message in heard_on(intent.id, research)] == [{"well": "done"}]
    messages = heard_on(intent.id, data)
    assert {message.message_type.value for message in messages} == {"request", "broadcast", "notify"}
    assert all(isinstance(message, ChannelMessage) for message in messages)
    assert {(message.channel, message.intent_id) for message in messages} == {("data-clarification", intent.id)}
    assert all(thread.name == "parley-handler" for thread in data.threads)


def test_run_may_be_called_on_the_class_and_again_after_a_stop(server: ServerProcess) -> None:
    answers = []
    started: list[Any] = []

    class Once(DataAgent):
        def __init__(self, url: str | None = None, key: str | None = None) -> None:
            super().__init__(url, key)  # type: ignore[call-arg]
            started.append(self)

    for _ in range(2):
        thread = threading.Thread(target=Once.run, args=(server.url, ADMIN_KEY))  # type: ignore[attr-defined]
        thread.start()
        with client(server, "boss") as boss:
            intent = boss.create_intent("x", "d")
            channel = boss.create_channel(intent.id, "data-clarification")["id"]
            answers.append(boss.ask(channel, "boss", "data-in-process", {}, timeout=30)["payload"]["answer"])
        started.pop().stop()
        thread.join(60)

    assert answers == ["v2.3", "v2.3"]


def test_two_agents_that_open_a_channel_at_the_same_time_get_the_same_one(server: ServerProcess) -> None:
    agent = made(ResearchAgent, server)
    with client(server, "boss") as boss:
        intent = boss.create_intent("x", "d")

    async def story() -> set[str]:
        async with agent.async_client:
            opened = await asyncio.gather(*(agent.channels.open("plans", intent_id=intent.id) for _ in range(10)))
            return {channel.channel_id for channel in opened}

    assert len(asyncio.run(story())) == 1


def test_a_channel_can_be_used_by_an_agent_that_does_not_run(server: ServerProcess) -> None:
    data, research = made(DataAgent, server), made(ResearchAgent, server)
    with client(server, "boss") as boss:
        intent = boss.create_intent("x", "d")

    async def story() -> Theirs:
        async with research.async_client:
            channel = await research.channels.open("data-clarification", intent.id)
            one = await channel.ask("data-in-process", {"q": 1})
            everyone = await channel.ask_all("data-in-process", {"q": 2})
            return one, everyone

    with at_work(server, data):
        one, (other,) = asyncio.run(story())

    assert one.payload == one["payload"] == {"answer": "v2.3", "confidence": 0.95}
    assert isinstance(one, dict)
    assert (other.sender, other.correlation_id is None) == ("data-in-process", False)
    with pytest.raises(AttributeError):
        _ = one.no_such_field  # type: ignore[attr-defined]


def test_a_question_that_nobody_answers_is_a_timeout_and_one_to_nowhere_is_theirs(server: ServerProcess) -> None:
    agent = made(ResearchAgent, server)
    with client(server, "boss") as boss:
        intent = boss.create_intent("x", "d")

    async def story() -> None:
        async with agent.async_client:
            channel = await agent.channels.open("silence", intent.id)
        with pytest.raises(TimeoutError, match="answer"):
            await channel.ask("nobody-there", {}, timeout=1)
        channel.channel_id = "chan_nowhere"
        with pytest.raises(NotFoundError):
            await channel.ask("nobody-there", {}, timeout=30)

    asyncio.run(story())


class Plain(BaseAgent):  # type: ignore[misc]
    """The other way to write an agent: a base class, and a name that is given late."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key, AgentConfig(heartbeat_interval=1.0))
        self._agent_id = "plain"

    @on_assignment  # type: ignore[untyped-decorator]
    async def work(self, intent: Theirs) -> None:
        channel = await self.channels.open("plain", intent.id)
        await channel.broadcast({"by": self.agent_id})
        await self.complete_intent(intent.id, {"done": True})


def test_a_class_under_their_base_completes_what_it_is_given(server: ServerProcess) -> None:
    agent = made(Plain, server)
    with at_work(server, agent), client(server, "boss") as boss:
        intent = boss.create_intent("x", "d")

        boss.assign_agent(intent.id, "plain")

        until(lambda: boss.get_intent(intent.id).status is IntentStatus.COMPLETED)
        assert boss.get_intent(intent.id).state.get("done") is True
        (channel,) = boss.list_channels(intent.id)
        assert [one["sender"] for one in boss.list_messages(channel["id"])] == ["plain"]
        assert agent.client.agent_id == "plain"
        agent.client.close()


def test_a_worker_works_and_completes(server: ServerProcess) -> None:
    def process(intent: Theirs) -> dict[str, Any]:
        return {"length": len(intent.title)}

    worker = Worker("counter", process, server.url, ADMIN_KEY)
    with at_work(server, worker), client(server, "boss") as boss:
        intent = boss.create_intent("seven!!", "d")

        boss.assign_agent(intent.id, "counter")

        until(lambda: boss.get_intent(intent.id).status is IntentStatus.COMPLETED)
        assert boss.get_intent(intent.id).state.get("length") == 7


@pytest.mark.both_stores
def test_two_agents_that_write_at_once_lose_nothing(server: ServerProcess) -> None:
    agent = made(ResearchAgent, server)
    with client(server, "boss") as boss:
        intent = boss.create_intent("x", "d")

        async def story() -> None:
            async with agent.async_client:
                await asyncio.gather(*(agent.patch_state(intent.id, {f"k{number}": number}) for number in range(8)))

        asyncio.run(story())

        state = boss.get_intent(intent.id).state.to_dict()
    assert state == {f"k{number}": number for number in range(8)}


@Agent("receiver-in-process")
class Receiver:
    def __init__(self) -> None:
        self.given: list[tuple[str, str]] = []

    @on_handoff  # type: ignore[untyped-decorator]
    async def receive(self, intent: Theirs, from_agent: str) -> None:
        comments = [one.payload for one in intent.ctx.events if one.event_type is EventType.COMMENT]
        self.given.append((from_agent, comments[-1]["payload"]["hint"]))


def test_work_that_is_delegated_arrives_with_who_delegated_it_and_what_for(server: ServerProcess) -> None:
    giver, receiver = made(ResearchAgent, server), made(Receiver, server)
    with client(server, "boss") as boss:
        intent = boss.create_intent("x", "d")

    async def story() -> None:
        async with giver.async_client:
            await giver.delegate(intent.id, "receiver-in-process", {"hint": "begin with Q1"})

    with at_work(server, receiver):
        asyncio.run(story())
        until(lambda: receiver.given)

    assert receiver.given == [("research-in-process", "begin with Q1")]


def test_both_clients_collect_every_answer_as_the_rfc_says(server: ServerProcess) -> None:
    with at_work(server, made(DataAgent, server)), client(server, "boss") as boss:
        channel = boss.create_channel(boss.create_intent("x", "d").id, "data-clarification")["id"]

        async def story() -> Theirs:
            async with AsyncOpenIntentClient(server.url, ADMIN_KEY, "boss") as other:
                return await other.ask_all(channel, "boss", "data-in-process", {}, timeout=30)

        blocking = boss.ask_all(channel, "boss", "data-in-process", {}, timeout=30)
        awaited = asyncio.run(story())

        for answers in (blocking, awaited):
            assert [one.payload["answer"] for one in answers] == ["v2.3"]
        with pytest.raises(NotFoundError):
            boss.ask_all("chan_nowhere", "boss", "data-in-process", {}, timeout=30)


def test_a_channel_that_was_closed_is_not_opened(server: ServerProcess) -> None:
    agent = made(ResearchAgent, server)
    with Client(server.url, key=ADMIN_KEY, agent="research-in-process") as ours:
        intent = ours.create_intent("x", "d")
        ours.close_channel(ours.create_channel(intent.id, "over").id)

    async def story() -> None:
        async with agent.async_client:
            await agent.channels.open("over", intent.id)

    with pytest.raises(ConflictError):
        asyncio.run(story())


def configured(name: str, **options: Any) -> Theirs:  # noqa: ANN401  # fields of their configuration
    """A new class, with two handlers that both want to answer."""

    class Both:
        @on_message()  # type: ignore[untyped-decorator]
        def zeta(self, message: Theirs) -> dict[str, str]:
            return {"by": "zeta"}

        @on_message(channel="questions")  # type: ignore[untyped-decorator]
        async def alpha(self, message: Theirs) -> dict[str, str]:
            return {"by": "alpha"}

    return Agent(name, AgentConfig(**options), auto_heartbeat=options.get("auto_heartbeat", True))(Both)


def test_of_two_handlers_the_one_that_is_written_first_answers_and_one_may_do_without_heartbeats(
    server: ServerProcess,
) -> None:
    agent = made(configured("quiet", auto_heartbeat=False), server)
    with in_threads(agent), client(server, "boss") as boss:
        channel = boss.create_channel(boss.create_intent("x", "d").id, "questions")["id"]

        answer = boss.ask(channel, "boss", "quiet", {}, timeout=30)

        assert answer["payload"] == {"by": "zeta"}
        assert boss.get_agent_record("quiet").last_heartbeat_at is None


def test_an_agent_that_does_not_subscribe_only_waits_for_its_end(server: ServerProcess) -> None:
    agent = made(configured("deaf", auto_subscribe=False), server)

    with in_threads(agent):
        until(lambda: getattr(agent, "_parley_stop", None))

    with client(server, "boss") as boss, pytest.raises(NotFoundError):
        boss.get_agent_record("deaf")
