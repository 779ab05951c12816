"""A stage: a whole team in the process of a test, without a network."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import parley.testing
from parley.domain.errors.errors import Invalid, NotFound, Unavailable
from parley.domain.errors.team import AskTimeout, BookmarkTaken
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_assignment, on_message
from parley.testing import Mailboxes, Stage
from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.intents import Intent
from tests.rigs.team import in_loop


@pytest.fixture
def stage() -> Iterator[Stage]:
    with parley.testing.stage() as stage:
        yield stage


@Agent("doubler")
class Doubler(BaseAgent):
    """Answers with twice the number."""

    @on_message(channel="test")
    async def double(self, message: ChannelMessage) -> dict[str, Any]:
        return {"answer": message.payload["number"] * 2}


@Agent("relay", concurrency=1)
class Relay(BaseAgent):
    """Asks somebody else, while all it has is one slot."""

    @on_message(kind="request")
    async def ask(self, message: ChannelMessage) -> dict[str, Any]:
        channel = await self.channels.open("test")
        answer = await channel.ask("doubler", message.payload)
        return {"relayed": answer.payload}


@Agent("listener")
class Listener(BaseAgent):
    """Remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @on_message(kind="notify")
    def hear(self, message: ChannelMessage) -> None:
        self.heard.append(message.payload)

    @on_message(kind="broadcast")
    def hear_too(self, message: ChannelMessage) -> None:
        self.heard.append(message.payload)

    @on_assignment
    async def assigned(self, intent: Intent) -> None:
        self.heard.append(intent.title)


# ---------------------------------------------------------------- agents on a stage


def test_an_agent_answers(stage: Stage) -> None:
    stage.start(Doubler())

    assert stage.ask("doubler", {"number": 21}).payload == {"answer": 42}


def test_what_was_said_can_be_looked_at(stage: Stage) -> None:
    stage.start(Doubler())
    stage.ask("doubler", {"number": 1})

    said = stage.messages()

    assert [(one.sender, one.payload) for one in said] == [("tester", {"number": 1}), ("doubler", {"answer": 2})]
    assert stage.messages("elsewhere") == []


@pytest.mark.parametrize("place", [parley.testing.stage, parley.testing.mailboxes])
def test_the_same_classes_work_on_a_server_and_at_mailboxes(place: Callable[[], Stage | Mailboxes]) -> None:
    listener = Listener()
    with place() as stage:
        stage.start(Doubler(), Relay(), listener)

        answer = stage.ask("relay", {"number": 4})
        failed = stage.ask("doubler", {"word": "four"}, check=False)
        with pytest.raises(parley.AgentFailed) as passed_on:
            stage.ask("relay", {"word": "four"})
        stage.notify("listener", {"text": "psst"})
        stage.wait_until(lambda: listener.heard)

    assert answer.payload == {"relayed": {"answer": 8}}
    assert (answer.sender, answer.channel_id != "", answer.message_type) == ("relay", True, "response")
    assert "KeyError" in failed.error
    assert str(passed_on.value) == "relay <- doubler: KeyError: 'number'"
    assert listener.heard == [{"text": "psst"}]


def test_everyone_hears_a_broadcast_and_an_agent_its_assignment(stage: Stage) -> None:
    listener = Listener()
    stage.start(listener)

    stage.notify("*", {"text": "all"})
    stage.wait_until(lambda: listener.heard == [{"text": "all"}])
    stage.client().assign_agent(stage.intent("a task").id, "listener")

    stage.wait_until(lambda: "a task" in listener.heard)


def test_an_agent_that_blocks_its_thread_stops_nobody_else(stage: Stage) -> None:
    go_on = threading.Event()

    @Agent("blocked")
    class Blocked(BaseAgent):
        @on_message()
        async def block(self, message: ChannelMessage) -> None:
            go_on.wait()

    stage.start(Blocked(), Doubler())
    stage.notify("blocked", {})
    try:
        assert stage.ask("doubler", {"number": 3}).payload == {"answer": 6}
    finally:
        go_on.set()


def test_an_agent_that_stopped_does_not_answer_and_answers_what_waited_when_it_comes_again(stage: Stage) -> None:
    doubler = Doubler()
    stage.start(doubler)
    stage.stop(doubler)

    with pytest.raises(AskTimeout):
        stage.ask("doubler", {"number": 1}, timeout=0.1)
    stage.notify("doubler", {"number": 0})
    stage.start(doubler)

    assert stage.ask("doubler", {"number": 2}).payload == {"answer": 4}


def play_until_an_agent_is_replaced(then: Callable[[], object]) -> None:
    with parley.testing.stage() as stage:
        stage.start(Listener())
        stage.client("listener").open_bookmark("listener", "default")
        stage.notify("listener", {})
        with pytest.raises(BookmarkTaken):
            stage.wait_until(lambda: False)
        then()


def test_the_error_that_ends_an_agent_comes_out_while_one_waits_and_at_the_end_of_the_stage() -> None:
    with pytest.raises(BookmarkTaken):
        play_until_an_agent_is_replaced(lambda: None)


def test_an_error_of_the_test_is_not_hidden_by_that_of_an_agent() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        play_until_an_agent_is_replaced(lambda: 1 / 0)

    assert any("listener" in note for note in raised.value.__notes__)


def test_what_is_no_agent_is_refused_by_name(stage: Stage) -> None:
    class Nobody:
        pass

    with pytest.raises(Invalid, match="Nobody is no agent"):
        stage.start(Nobody())  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=r"write Doubler\(\)"):
        stage.start(Doubler)  # type: ignore[arg-type]


def test_an_agent_is_on_the_stage_once(stage: Stage) -> None:
    stage.start(Doubler())

    with pytest.raises(Invalid, match="already"):
        stage.start(Doubler())
    with pytest.raises(Invalid, match="not on the stage"):
        stage.stop("nobody")


def test_what_does_not_come_true_is_an_error_that_shows_it(stage: Stage) -> None:
    with pytest.raises(AssertionError, match=r"within 0.01 seconds: \[\]"):
        stage.wait_until(list, timeout=0.01)


# ---------------------------------------------------------------- clients and the server


def test_clients_speak_for_their_agents_and_the_admin_sees_all(stage: Stage) -> None:
    intent = stage.intent("a plan")
    channel = stage.client("alice").create_channel(intent.id, "private", ["alice", "bob"], "explicit")

    with pytest.raises(NotFound):
        stage.client("carol").get_channel(channel.id)

    assert (intent.created_by, channel.created_by) == ("tester", "alice")
    assert stage.admin.get_channel(channel.id).name == "private"


def test_keys_are_made_once_and_of_every_kind(stage: Stage) -> None:
    assert stage.key("alice") == stage.key("alice") != stage.key("bob")
    assert stage.key(kind="service") != stage.key(kind="admin")


def test_the_environment_does_not_change_who_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_AGENT", "somebody")
    monkeypatch.setenv("PARLEY_URL", "http://elsewhere.example")
    monkeypatch.setenv("PARLEY_HTTP_BODY_BYTES", "10")

    with parley.testing.stage() as stage:
        stage.start(Doubler())

        assert stage.ask("doubler", {"number": 1}).payload == {"answer": 2}
        assert stage.admin.list_keys() != []


def test_a_stage_has_the_settings_that_it_is_given() -> None:
    with parley.testing.stage(http_body_bytes=1000) as stage:
        with pytest.raises(Invalid) as refused:
            stage.client().create_intent("x" * 1000)

        assert refused.value.code == "too_large"
    with pytest.raises(Invalid, match="colour is no setting"):
        parley.testing.stage(colour="red")


@in_loop
async def test_a_coroutine_uses_a_stage_with_an_async_client() -> None:
    async with parley.testing.stage() as stage:
        stage.start(Doubler())
        client = stage.async_client("alice")
        channel = await client.create_channel((await client.create_intent("x", access="open")).id, "test")

        answers = await asyncio.gather(
            *[client.ask(channel.id, None, "doubler", {"number": number}) for number in range(3)]
        )

    assert [one.payload["answer"] for one in answers] == [0, 2, 4]


def test_a_server_that_vanishes_keeps_what_it_had_and_agents_go_on_when_it_is_back(stage: Stage) -> None:
    stage.start(Doubler())
    stage.ask("doubler", {"number": 1})

    stage.stop_server()
    with pytest.raises(Unavailable):
        stage.admin.health()
    stage.restart_server()

    assert stage.ask("doubler", {"number": 2}).payload == {"answer": 4}
    assert len(stage.messages()) == 4


def test_a_stage_ends_although_its_server_is_gone() -> None:
    with parley.testing.stage() as stage:
        stage.start(Doubler())
        stage.stop_server()


def test_nothing_of_a_stage_is_left() -> None:
    before = {thread.name for thread in threading.enumerate()}
    with parley.testing.stage() as stage:
        stage.start(Doubler())
        folder = Path(stage.folder)
        assert folder.is_dir()

    assert not folder.exists()
    assert {thread.name for thread in threading.enumerate() if thread.name.startswith("parley")} <= before


# ---------------------------------------------------------------- mailboxes


def test_mailboxes_are_real_ones() -> None:
    with parley.testing.mailboxes("codex", "claude") as boxes:
        boxes.mailbox("codex").send("claude", "question", "Which schema?", "See subject.")

        message = boxes.mailbox("claude").next()

    assert message is not None
    assert (message.sender, message.subject) == ("codex", "Which schema?")


def test_who_does_not_answer_at_a_mailbox_is_not_waited_for() -> None:
    with parley.testing.mailboxes("codex") as boxes, pytest.raises(AskTimeout, match="codex did not answer"):
        boxes.ask("codex", {"question": "Anybody there?"}, timeout=0.05)


def test_the_address_of_mailboxes_is_one_that_an_agent_runs_at() -> None:
    with parley.testing.mailboxes() as boxes:
        assert isinstance(boxes, Mailboxes)
        assert Path(boxes.address).is_dir()
        assert boxes.address.startswith(boxes.home)


def test_a_handler_that_cannot_be_cancelled_ends_the_test_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.testing._STOP_SECONDS", 0.1)
    monkeypatch.setattr("parley.testing._CANCEL_RETRY_SECONDS", 0.01)
    begun, over = threading.Event(), threading.Event()

    @Agent("mule", drain=0.01)
    class Mule(BaseAgent):
        @on_message()
        async def stay(self, message: ChannelMessage) -> None:
            begun.set()
            while not over.is_set():
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue

    with parley.testing.stage() as stage:
        stage.start(Mule())
        stage.notify("mule", {})
        assert begun.wait(10)
        with pytest.raises(TimeoutError, match="does not let itself be cancelled"):
            stage.stop("mule")
    over.set()
    gc.collect()  # a task that was never to end is heard of here, and not in another test
