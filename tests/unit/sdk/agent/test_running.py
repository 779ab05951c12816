"""Running agents: in a loop that is there, or as a process until a signal comes."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Invalid, UnknownProject
from parley.domain.errors.team import BookmarkTaken, Unauthorized, WrongSender
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.running import is_mailbox, run_agents, serve_agents
from parley.sdk.blocking.client import Client
from parley.wire.api.records.channels import ChannelMessage
from tests.fault.sdk.crew import AgentProcess, lines
from tests.rigs.process import ADMIN_KEY, running
from tests.rigs.team import CHANNEL, LiveServer, in_loop, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, at_work, client_of, shift, told
from tests.unit.sdk.peer import a_peer, refused


def an_agent(name: str) -> BaseAgent:
    @Agent(name, start="beginning")
    class One(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"by": name}

    return One()


# ---------------------------------------------------------------- several agents in one loop


@with_server
async def test_several_agents_share_a_process(server: LiveServer) -> None:
    async with at_work(server, *map(an_agent, ["a", "b", "c"])) as alice:
        answers = [await alice.ask(CHANNEL, None, name, {}, 10) for name in ("a", "b", "c")]

    assert [one.payload["by"] for one in answers] == ["a", "b", "c"]


@in_loop
async def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(Invalid, match="two agents are called a"):
        await serve_agents([an_agent("a"), an_agent("b"), an_agent("a")], address="http://127.0.0.1:1")


def test_when_several_cannot_begin_the_first_error_is_raised_and_none_is_reported_as_unseen() -> None:
    reported: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about))
        with pytest.raises(Unauthorized):
            await serve_agents([an_agent("a"), an_agent("b")], address=peer.url, key="k")

    with a_peer(*[refused("401 Unauthorized", "unauthorized")] * 2) as peer:
        asyncio.run(main())
    gc.collect()  # what nobody looked at is reported when it goes away

    assert reported == []


@with_server
async def test_an_agent_that_is_taken_over_ends_alone_and_the_last_one_ends_the_process(
    server: LiveServer, ear: Ear
) -> None:
    a, b = an_agent("a"), an_agent("b")
    client = await client_of(server, "a")
    async with shift(server, a, b) as both:
        await told(server, "a", 1)
        await soon(lambda: a.counts["done"] == 1)
        await client.open_bookmark("a", "default", process="4711@vm")  # another process takes a's place
        await told(server, "a", 2)
        await ear.hears("agent_taken_over")
        assert (await client.ask(CHANNEL, "alice", "b", {}, 10)).payload == {"by": "b"}
        assert not both.serving.done()
        await client.as_agent("b").open_bookmark("b", "default")
        failed = await both.ended()
    await client.close()

    assert isinstance(failed, BookmarkTaken)
    assert failed.message == "a: taken over by pid 4711 on host vm, 0s ago; b: taken over by another process, 0s ago"
    taken = [record for record in ear.records if vars(record).get("action") == "agent_taken_over"]
    assert [record.getMessage() for record in taken] == [
        "a: taken over by pid 4711 on host vm, 0s ago; it stops here",
        "b: taken over by another process, 0s ago; it stops here",
    ]
    assert vars(taken[0])["taken_by"] == "4711@vm"


@with_server
async def test_a_newcomer_whose_key_does_not_speak_for_all_takes_nothing_over(server: LiveServer) -> None:
    a, b = an_agent("a"), an_agent("b")
    url = f"http://127.0.0.1:{server.listener.port}"
    async with at_work(server, a, b) as alice:
        before = (await alice.as_agent("a").get_bookmark("a", "default")).holder
        with pytest.raises(WrongSender, match="speaks for a, not for b"):
            await serve_agents([an_agent("a"), an_agent("b")], address=url, key=await server.rig.key("a"))
        after = (await alice.as_agent("a").get_bookmark("a", "default")).holder
        answers = [(await alice.ask(CHANNEL, None, name, {}, 10)).payload for name in ("a", "b")]

    assert (before, answers) == (after, [{"by": "a"}, {"by": "b"}])


@with_server
async def test_when_one_cannot_go_on_all_stop_in_good_order(server: LiveServer) -> None:
    a, b = an_agent("a"), an_agent("b")
    client, stop, ready = await client_of(server, "a"), asyncio.Event(), asyncio.Event()
    secret = await server.rig.key(kind=KeyKind.SERVICE)
    url = f"http://127.0.0.1:{server.listener.port}"
    serving = asyncio.ensure_future(serve_agents([a, b], address=url, key=secret, stop=stop, ready=ready.set))
    await ready.wait()
    runtime = a._running
    assert runtime._fatal is not None
    runtime._fatal.set_exception(Invalid("it cannot go on"))
    with pytest.raises(Invalid, match="it cannot go on"):
        await serving
    assert (await client.get_agent("b")).status == "dead"
    await client.close()


@with_server
async def test_agents_wait_for_their_server_and_can_be_stopped_meanwhile(
    server: LiveServer, ear: Ear, quick: None
) -> None:
    port = server.listener.port
    client = await client_of(server, "", port)
    await server.stop()
    stop, ready, started = asyncio.Event(), asyncio.Event(), [an_agent("a"), an_agent("b")]
    serving = asyncio.ensure_future(serve_agents(started, client=client, stop=stop, ready=ready.set))
    await ear.hears("agent_waits_for_server", 2)
    assert not serving.done()
    stop.set()
    await serving
    await client.close()

    assert not ready.is_set()
    waiting = [record.getMessage() for record in ear.records if "waits for its server" in record.getMessage()]
    assert len(waiting) == 2  # once each
    assert all("no server answers at" in text for text in waiting)


@with_server
async def test_agents_that_are_cancelled_finish_what_runs(server: LiveServer) -> None:
    go_on, texts = asyncio.Event(), list[str]()

    @Agent("bob", start="beginning")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            texts.append(message.payload["text"])
            await go_on.wait()
            texts.append("done")

    client = await client_of(server, "")
    ready = asyncio.Event()
    serving = asyncio.ensure_future(serve_agents([Bob()], client=client, ready=ready.set))
    await ready.wait()
    await told(server, "bob", 1)
    await soon(lambda: bool(texts))
    serving.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await client.close()

    assert texts == ["1", "done"]


@pytest.mark.parametrize(
    ("address", "mailbox"),
    [
        ("", False),
        ("http://127.0.0.1:8484", False),
        ("https://parley.example/team", False),
        ("mailbox:demo", True),
        ("~/agent-messages", True),
        ("./agent-messages", True),
        ("/srv/agent-messages", True),
    ],
)
def test_an_address_says_where_an_agent_works(address: str, mailbox: bool) -> None:
    assert is_mailbox(address) is mailbox


@in_loop
async def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match="no address of a server"):
        await serve_agents([an_agent("a")], address="somewhere")


@in_loop
async def test_run_belongs_into_the_main_thread() -> None:
    with pytest.raises(Invalid, match="run\\(\\) wants the main thread"):
        await asyncio.to_thread(run_agents, an_agent("a"))


# ---------------------------------------------------------------- as a process


Told = Callable[..., str]


@pytest.fixture
def told_by(tmp_path: Path) -> Any:
    """A server as a process, and a way to tell its agents something."""
    with running(tmp_path / "data") as server, Client(server.url, key=ADMIN_KEY, agent="alice") as alice:
        intent = alice.create_intent("test", status="active", access="open")
        channel = alice.create_channel(intent.id, "hall")
        yield server.url, alice, channel.id


def _waits(process: AgentProcess, count: int) -> None:
    """Until so many lines are in its journal."""
    while len(lines(process.journal)) < count:
        assert not process.ended()


def test_a_signal_ends_a_process_when_it_has_finished_what_runs(told_by: Any, tmp_path: Path) -> None:
    url, alice, channel = told_by
    with AgentProcess("bob", url, tmp_path / "journal") as bob:
        asked = alice.send_message(channel, None, "bob", "request", {"do": "late", "after": 0.3, "n": 7})
        _waits(bob, 1)
        code = bob.stop()

    assert code == 0
    [answer] = [one for one in alice.list_messages(channel) if one.correlation_id == asked.id]
    assert answer.payload == {"n": 7, "by": "bob"}
    assert alice.get_agent("bob").status == "dead"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_process_at_once_and_nothing_is_lost(
    told_by: Any, tmp_path: Path, number: signal.Signals
) -> None:
    url, alice, channel = told_by
    with AgentProcess("bob", url, tmp_path / "journal") as bob:
        asked = alice.send_message(channel, None, "bob", "request", {"do": "late", "after": 120, "n": 1})
        alice.send_message(channel, None, "bob", "notify", {"n": 2})
        _waits(bob, 2)
        assert bob.process is not None
        bob.process.send_signal(number)
        while alice.get_agent("bob").status != "draining":
            pass
        assert bob.process.poll() is None
        bob.process.send_signal(number)
        code = bob.process.wait(20)  # long before it would stop waiting for its handler

    assert code == 0
    assert [one for one in alice.list_messages(channel) if one.correlation_id == asked.id] == []
    with AgentProcess("bob", url, tmp_path / "again") as bob:
        _waits(bob, 1)
    assert lines(tmp_path / "again")[0]["id"] == asked.id


@in_loop
async def test_run_in_a_running_loop_says_what_to_write_instead() -> None:
    with pytest.raises(Invalid, match=r"without an event loop .*await agent\.serve\(\)"):
        an_agent("a").run()


def test_what_run_cannot_begin_with_is_raised_without_the_way_through_our_code() -> None:
    with a_peer(refused("401 Unauthorized", "unauthorized")) as peer, pytest.raises(Unauthorized) as raised:
        an_agent("a").run(peer.url, key="k")

    files = [str(one.path) for one in raised.traceback]
    assert not [one for one in files if one.endswith(("runtime.py", "flow.py", "server/workplace.py"))]


def test_the_settings_may_name_a_mailbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_URL", "mailbox:nowhere")

    with pytest.raises(UnknownProject, match="nowhere"):
        an_agent("a").run()
