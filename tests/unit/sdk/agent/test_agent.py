"""`@Agent` on a class: what it adds, what it leaves alone, and what it says about a class that cannot work."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import BadAgentName, Invalid
from parley.sdk.agent.agent import Agent, BaseAgent, Plan, runtime_parts
from parley.sdk.agent.decorators import on_message
from parley.sdk.client.client import AsyncClient
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import CHANNEL, INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import at_work, client_of, shift


@Agent("plain")
class Plain:
    """A class that knows of nothing."""

    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    @on_message()
    async def handle(self, message: ChannelMessage) -> dict[str, Any]:
        return {"text": self.greeting}


@Agent("typed", capabilities=["review"], role="reviewer", title="T", concurrency=3, timeout=2, drain=4, start="now")
class Typed(BaseAgent):
    """A class that says so itself."""

    @on_message()
    async def handle(self, message: ChannelMessage) -> dict[str, Any]:
        return {"text": "typed"}


def test_a_class_keeps_its_name_its_text_and_its_init() -> None:
    one: Any = Plain("good day")

    assert (type(one).__name__, type(one).__doc__) == ("Plain", "A class that knows of nothing.")
    assert type(one).__module__ == __name__
    assert one.greeting == "good day"
    assert isinstance(one, BaseAgent)
    assert pickle.loads(pickle.dumps(one)).greeting == "good day"


def test_a_class_that_is_an_agent_already_is_the_same_class() -> None:
    assert Typed.__mro__[1] is BaseAgent


def test_what_the_decorator_was_given_is_the_plan() -> None:
    assert runtime_parts(Typed())[0] == Plan("typed", ("review",), "reviewer", "T", 3, 2, 4, "now")
    assert Typed().name == "typed"


def test_a_subclass_can_be_another_agent() -> None:
    @Agent("other")
    class Other(Typed):
        pass

    assert (Other().name, Typed().name) == ("other", "typed")
    assert len(runtime_parts(Other())[1]) == 1


@pytest.mark.parametrize("name", sorted(name for name in dir(BaseAgent) if not name.startswith("__")))
@pytest.mark.parametrize("bases", [(BaseAgent,), (object,)], ids=["typed", "plain"])
def test_a_handler_named_like_an_attribute_of_every_agent_is_refused(name: str, bases: tuple[type, ...]) -> None:
    async def handle(self: object, message: ChannelMessage) -> None: ...

    with pytest.raises(Invalid, match=rf"^Shadow\.{name}: .* \(rename it, for example to handle_") as refused:
        Agent("shadow")(type("Shadow", bases, {name: on_message()(handle)}))
    assert len(str(refused.value).splitlines()) == 1


def test_a_method_that_is_no_handler_may_replace_one_of_the_base() -> None:
    @Agent("quiet")
    class Quiet(Typed):
        def run(self, address: str = "", *, key: str = "") -> None: ...

    assert len(runtime_parts(Quiet())[1]) == 1


@with_server
async def test_a_handler_and_an_attribute_may_be_called_plan(server: LiveServer) -> None:
    @Agent("planner")
    class Planner(BaseAgent):
        @on_message(channel="general")
        async def plan(self, message: ChannelMessage) -> dict[str, Any]:
            return {"steps": 3}

    @Agent("keeper")
    class Keeper(BaseAgent):
        def __init__(self) -> None:
            self.plan = ["step 1"]

        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"plan": self.plan}

    @Agent("other-name")
    class Named(BaseAgent):
        name = "a title"

        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"log": self.log.name}

    assert [handler.name for handler in runtime_parts(Planner())[1]] == ["plan"]
    async with at_work(server, Keeper(), Named()) as alice:
        kept = await alice.ask(CHANNEL, None, "keeper", {}, 10)
        named = await alice.ask(CHANNEL, None, "other-name", {}, 10)

    assert (kept.payload, named.payload) == ({"plan": ["step 1"]}, {"log": "parley.agent.other-name"})


@with_server
async def test_both_kinds_of_classes_answer(server: LiveServer) -> None:
    plain: Any = Plain("good day")
    async with at_work(server, plain, Typed()) as alice:
        first = await alice.ask(CHANNEL, None, "plain", {}, 10)
        second = await alice.ask(CHANNEL, None, "typed", {}, 10)

    assert (first.payload, second.payload) == ({"text": "good day"}, {"text": "typed"})


@with_server
async def test_a_handler_has_a_client_that_speaks_for_its_agent(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            said = await self.client.send_message(message.channel_id, to="alice", payload={"text": "by the way"})
            return {"sender": said.sender, "agent": self.client.agent, "log": self.log.name}

    async with at_work(server, Bob()) as alice:
        answer = await alice.ask(CHANNEL, None, "bob", {}, 10)

    assert answer.payload == {"sender": "bob", "agent": "bob", "log": "parley.agent.bob"}


@with_server
async def test_an_agent_serves_inside_a_loop_that_is_there(server: LiveServer) -> None:
    alice = await client_of(server)
    answer = await _served(Typed(), alice, await server.rig.key(kind=KeyKind.SERVICE))
    await alice.close()

    assert answer.payload == {"text": "typed"}


@with_server
async def test_an_agent_with_a_key_of_its_own_works(server: LiveServer) -> None:
    alice = await client_of(server)
    answer = await _served(Plain("good day"), alice, await server.rig.key("plain"))
    await alice.close()

    assert (answer.sender, answer.payload) == ("plain", {"text": "good day"})


async def _served(agent: Any, alice: AsyncClient, key: str) -> ChannelMessage:
    """What an agent answers that was started by its own method."""
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.ensure_future(agent.serve(alice.url, key=key, stop=stop, ready=ready.set))
    await asyncio.wait((serving, asyncio.ensure_future(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
    answer = await alice.ask(CHANNEL, None, agent.name, {}, 10)
    stop.set()
    await serving
    return answer


# ---------------------------------------------------------------- classes that cannot work


class NoAgent:
    """No decorator."""

    @on_message()
    async def handle(self, message: ChannelMessage) -> None: ...


@Agent("silent")
class Silent(BaseAgent):
    """No handlers."""


class Bare(BaseAgent):
    """A base, but no decorator."""

    @on_message()
    async def handle(self, message: ChannelMessage) -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (NoAgent(), "NoAgent is no agent (put @Agent('NAME') above its class)"),
        (Bare(), "Bare is no agent (put @Agent('NAME') above its class)"),
        (Typed, "Typed is no agent (write Typed() with its parentheses)"),
        (Silent(), "Silent has no handlers (put @on_message() above a method)"),
        ("typed", "str is no agent (put @Agent('NAME') above its class)"),
    ],
    ids=["no decorator", "only a base", "a class", "no handlers", "a text"],
)
def test_what_is_no_agent_is_told_so(given: object, said: str) -> None:
    with pytest.raises(Invalid) as error:
        runtime_parts(given)

    assert str(error.value) == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "a name"}, "not a valid"),
        ({"name": ""}, "not a valid"),
        ({"name": object}, "write @Agent"),
        ({"name": "bob", "concurrency": 1.5}, "concurrency"),
        ({"name": "bob", "concurrency": "3"}, "concurrency"),
        ({"name": "bob", "timeout": 0}, "timeout is a number of seconds above 0"),
        ({"name": "bob", "timeout": -1}, "timeout is a number of seconds above 0"),
        ({"name": "bob", "drain": -1}, "drain is a number of seconds above 0"),
        ({"name": "bob", "start": "yesterday"}, "start is one of unanswered, now, beginning"),
        ({"name": "bob", "concurrency": 0}, "concurrency"),
        ({"name": "bob", "concurrency": -1}, "concurrency"),
        ({"name": "bob", "concurrency": 1_000}, "concurrency"),
        ({"name": "bob", "capabilities": "review"}, "a list of texts"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_at_the_decorator(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        Agent(**arguments)


def test_a_name_that_is_none_is_refused_as_such() -> None:
    with pytest.raises(BadAgentName):
        Agent("a/b")


def test_the_decorator_belongs_above_a_class() -> None:
    decorate: Any = Agent("bob")

    with pytest.raises(Invalid, match=r"@Agent\('bob'\) belongs above a class"):
        decorate(lambda: None)


@pytest.mark.parametrize("what", ["channels", "client", "counts"])
def test_an_agent_that_does_not_run_says_so(what: str) -> None:
    with pytest.raises(Invalid, match="Typed does not run"):
        getattr(Typed(), what)


@with_server
async def test_waiting_is_for_threads_only(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            opening = self.channels.open("chan_1", INTENT)
            try:
                self.wait(opening)
            finally:
                opening.close()  # it is a coroutine, and nobody awaits it

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await alice.ask(CHANNEL, None, "bob", {}, 10, check=False)
        await soon(lambda: bob.counts["done"] == 1)

    assert answer.error == "wait() is for handlers that are no coroutines (write: await ...)"


@with_server
async def test_one_object_can_work_again_after_it_has_stopped(server: LiveServer) -> None:
    typed = Typed()
    for _ in range(2):
        async with shift(server, typed):
            alice = await client_of(server)
            assert (await alice.ask(CHANNEL, None, "typed", {}, 10)).payload == {"text": "typed"}
            await alice.close()


def test_a_decorator_without_its_name_says_what_is_missing() -> None:
    with pytest.raises(Invalid, match=r"Bob: an agent needs a name .*@Agent\('NAME'\)"):

        @Agent  # type: ignore[arg-type]
        class Bob: ...


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"concurency": 3}, "Agent('a') has no option 'concurency'", "did you mean concurrency?"),
        ({"capability": "x"}, "Agent('a') has no option 'capability'", "did you mean capabilities?"),
        (
            {"zzz": 1},
            "Agent('a') has no option 'zzz'",
            "its options are capabilities, role, title, concurrency, timeout, drain, start, shared, lease",
        ),
    ],
)
def test_a_misspelt_option_names_the_one_that_was_meant(options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        Agent("a", **options)

    assert (refused.value.message, refused.value.hint) == (message, hint)


@pytest.mark.parametrize("call", [Plain.run, Typed.run])  # type: ignore[attr-defined]
def test_a_class_in_place_of_an_agent_is_refused_with_the_parentheses(call: Any) -> None:
    with pytest.raises(Invalid, match="is a class, not an agent") as refused:
        call()

    assert refused.value.hint in (
        "write Plain().run(...) with the parentheses",
        "write Typed().run(...) with the parentheses",
    )
