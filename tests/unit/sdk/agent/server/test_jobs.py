"""Agents that claim jobs on a real server: one of several works, fails, stops, or is too slow."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from parley.domain.channel.job import LOST_READERS_MAX, Job
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.message.message import Pattern
from parley.sdk.agent.agent import Agent, BaseAgent, Plan
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.running import serve_agents
from parley.sdk.agent.server.workplace import ServerWorkplace
from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.queues import ClaimedJob
from tests.fault.sdk.door import Door
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, at_work, client_of


class Worker(BaseAgent):
    """Notes what it gets; behaves as it is told."""

    def __init__(self, seen: list[tuple[str, str]] | None = None) -> None:
        self.seen: list[tuple[str, str]] = [] if seen is None else seen
        self.gate: asyncio.Event | None = None
        self.cancelled = 0

    @on_message()
    async def handle(self, message: ChannelMessage) -> dict[str, Any]:
        text = message.payload["text"]
        self.seen.append((self.name, text))
        if text.startswith("refuse"):
            raise NotFound("not here")
        if text.startswith("fail"):
            raise ValueError(text)
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {"by": self.name}


def a_worker(name: str, seen: list[tuple[str, str]] | None = None, **plan: Any) -> Worker:
    @Agent(name, start="beginning", **plan)
    class One(Worker):
        pass

    return One(seen)


async def hold(server: LiveServer, *agents: str) -> None:
    """These agents take part in the intent as coders."""
    await server.rig.access(assignments=tuple(map(server.rig.assignment, agents)))
    await server.rig.role("coder", *agents)


async def open_jobs(server: LiveServer) -> int:
    return len(await server.rig.store.children(Job, DEFAULT_TENANT, "open"))


async def enqueue(server: LiveServer, *texts: str, pattern: Pattern = Pattern.NOTIFY, to: str = "any:coder") -> None:
    for text in texts:
        await server.rig.say("alice", text, to=to, pattern=pattern)


@with_server
async def test_one_of_those_who_hold_the_role_answers(server: LiveServer) -> None:
    await hold(server, "a", "b")
    seen: list[tuple[str, str]] = []
    async with at_work(server, a_worker("a", seen), a_worker("b", seen)) as alice:
        answers = [await alice.ask(CHANNEL, None, "any:coder", {"text": f"{n}"}, 20) for n in range(6)]

    assert sorted(text for _, text in seen) == [f"{n}" for n in range(6)]
    assert [answer.payload["by"] for answer in answers] == [name for name, _ in seen]
    assert await open_jobs(server) == 0


@with_server
async def test_every_notification_is_done_once(server: LiveServer) -> None:
    await hold(server, "a", "b")
    seen: list[tuple[str, str]] = []
    await enqueue(server, *map(str, range(40)))
    async with at_work(server, a_worker("a", seen), a_worker("b", seen)):
        await soon(lambda: len(seen) >= 40)
    assert sorted(text for _, text in seen) == sorted(map(str, range(40)))
    assert await open_jobs(server) == 0


@with_server
async def test_an_agent_that_is_told_to_stop_gives_its_jobs_back(server: LiveServer) -> None:
    await hold(server, "a", "b")
    await enqueue(server, "slow")
    slow = a_worker("a", drain=0)
    slow.gate = asyncio.Event()
    async with at_work(server, slow):
        await soon(lambda: bool(slow.seen))
    quick = a_worker("b")
    async with at_work(server, quick):
        await soon(lambda: bool(quick.seen))

    assert slow.cancelled == 1
    assert quick.seen == [("b", "slow")]


@with_server
async def test_a_handler_whose_lease_is_lost_is_cancelled(server: LiveServer, ear: Ear) -> None:
    await hold(server, "a", "b")
    await enqueue(server, "slow")
    slow = a_worker("a", lease=1, concurrency=1)  # so it does not take the job again itself
    slow.gate = asyncio.Event()
    async with at_work(server, slow):
        await soon(lambda: bool(slow.seen))
        (job,) = await server.rig.store.children(Job, DEFAULT_TENANT, "open")
        client = await client_of(server, "b")
        taken: list[ClaimedJob] = []
        while not taken:  # it may have extended its lease just before
            server.rig.clock.pass_by(seconds=2)  # as if it had fallen silent
            taken = await client.claim_jobs("b")
        await soon(lambda: slow.cancelled == 1)
        await ear.hears("agent_job_lost")
        await client.finish_job("b", taken[0].id, taken[0].lease)
        await client.close()

    assert [one.id for one in taken] == [job.id]


@with_server
async def test_a_lease_is_extended_while_its_handler_runs(server: LiveServer) -> None:
    await hold(server, "a")
    await enqueue(server, "slow")
    slow = a_worker("a", lease=1)
    slow.gate = asyncio.Event()

    def extended() -> bool:
        queues = server.rig.team.queues.get(DEFAULT_TENANT)
        return queues is not None and any(entry.version >= 4 for entry in queues.jobs.values())

    async with at_work(server, slow):
        await soon(extended)
        slow.gate.set()
        await soon(lambda: slow.counts["done"] == 1)
    assert await open_jobs(server) == 0


@with_server
async def test_a_failed_job_is_tried_again_and_then_is_a_dead_letter(server: LiveServer) -> None:
    await hold(server, "a")

    @Agent("a", start="beginning")
    class Stubborn(BaseAgent):
        tries = 0

        @on_message(retries=2, backoff=0.01)
        async def handle(self, message: ChannelMessage) -> None:
            self.tries += 1
            raise ValueError("no disk")

    agent = Stubborn()
    await enqueue(server, "job")
    async with at_work(server, agent) as alice:
        while not (letters := await alice.as_agent("a").list_dead("any:coder")):
            server.rig.clock.pass_by(seconds=0.05)
        await alice.retry_dead(letters[0].id)
        await soon(lambda: agent.tries > 3)

    assert (letters[0].error, letters[0].attempts) == ("ValueError: no disk", 3)
    assert letters[0].message is not None
    assert letters[0].message.payload == {"text": "job"}


@with_server
async def test_an_ordinary_message_is_tried_again_here_and_then_is_a_dead_letter(server: LiveServer) -> None:
    calls: list[str] = []

    @Agent("a", start="beginning")
    class Stubborn(BaseAgent):
        @on_message(retries=1, backoff=0.01)
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            calls.append(message.payload["text"])
            if len(calls) < 4:
                raise ValueError("no disk")
            return {"calls": len(calls)}

    async with at_work(server, Stubborn()) as alice:
        await enqueue(server, "told", to="a")
        while not (letters := await alice.as_agent("a").list_dead()):
            await alice.list_roles()  # others get their turn
        answer = await alice.ask(CHANNEL, None, "a", {"text": "asked"}, 20)
        await alice.retry_dead(letters[0].id)
        await soon(lambda: len(calls) == 5)

    assert answer.payload == {"calls": 4}
    assert calls == ["told", "told", "asked", "asked", "told"]
    assert (letters[0].queue, letters[0].attempts, letters[0].error) == ("a", 2, "ValueError: no disk")


@with_server
async def test_what_is_refused_on_purpose_is_not_tried_again(server: LiveServer) -> None:
    await hold(server, "a")
    seen: list[tuple[str, str]] = []

    @Agent("a", start="beginning")
    class Refusing(BaseAgent):
        @on_message(retries=5, backoff=0.01)
        async def handle(self, message: ChannelMessage) -> None:
            seen.append(("a", message.payload["text"]))
            raise NotFound("not here")

    async with at_work(server, Refusing()) as alice:
        await enqueue(server, "job")
        while not (letters := await alice.as_agent("a").list_dead()):
            await alice.list_roles()  # others get their turn

    assert (len(seen), letters[0].error) == (1, "not here")


@with_server
async def test_processes_that_share_their_mail_take_nothing_over(server: LiveServer) -> None:
    seen: list[tuple[str, str]] = []
    one, other = a_worker("a", seen, shared=True, concurrency=1), a_worker("a", seen, shared=True, concurrency=1)
    gate = one.gate = asyncio.Event()
    async with at_work(server, one) as alice, at_work(server, other):
        await enqueue(server, "0", to="a")
        await soon(lambda: bool(seen))
        await enqueue(server, *map(str, range(1, 20)), to="a")
        if other.seen is seen and one.counts["received"] == 0:
            other.gate, one.gate = one.gate, None
        answer = await alice.ask(CHANNEL, None, "a", {"text": "asked"}, 20)
        one.gate = other.gate = None
        gate.set()  # else the one that holds "0" is drained for half a minute
        await soon(lambda: len(seen) >= 21)
        assert min(one.counts["received"], other.counts["received"]) > 0

    assert answer.payload == {"by": "a"}
    assert sorted(text for _, text in seen) == sorted([*map(str, range(20)), "asked"])


@with_server
async def test_a_message_that_ends_its_reader_does_not_come_for_ever(server: LiveServer, ear: Ear) -> None:
    await server.rig.agent("a")
    client = await client_of(server, "a")
    await enqueue(server, "poison", "fine", to="a")
    got = []
    for _ in range(LOST_READERS_MAX + 2):
        process = ServerWorkplace(client, Plan("a", start="beginning"))
        await process.open()
        async with aclosing(process.arrivals()) as arrivals:
            got.append((await anext(arrivals)).message)
        # It is ended here, without any word to the server.
    (letter,) = await client.list_dead()
    await client.close()

    assert [message.payload["text"] for message in got if message] == ["poison"] * (LOST_READERS_MAX + 1) + ["fine"]
    assert letter.error == "its reader ended 5 times"
    assert "agent_message_dead" in ear.actions


@with_server
async def test_what_may_have_ended_its_reader_is_handled_alone(server: LiveServer) -> None:
    await server.rig.agent("a")
    client = await client_of(server, "a")
    await enqueue(server, "suspect", "other", to="a")
    for _ in range(2):
        process = ServerWorkplace(client, Plan("a", start="beginning"))
        await process.open()
        async with aclosing(process.arrivals()) as arrivals:
            await anext(arrivals)
    process = ServerWorkplace(client, Plan("a", start="beginning"))
    await process.open()
    async with aclosing(process.arrivals()) as arrivals:
        suspect = await anext(arrivals)
        following = asyncio.ensure_future(anext(arrivals))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not following.done()
        await process.finish(suspect)
        other = await following
    await client.close()

    assert [one.message.payload["text"] for one in (suspect, other) if one.message] == ["suspect", "other"]


@pytest.mark.parametrize(
    ("plan", "says"),
    [({"lease": 0.5}, "lease is a number of seconds from 1"), ({"lease": "x"}, "lease"), ({"lease": 4000}, "3600")],
    ids=str,
)
def test_a_lease_has_bounds(plan: dict[str, Any], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        Agent("a", **plan)


@with_server
async def test_a_reader_that_cannot_reach_its_server_stops_before_its_lease_ends(server: LiveServer) -> None:
    await hold(server, "a")
    await enqueue(server, "slow")
    async with Door(server.listener.port) as door:
        client = await client_of(server, "", door.port)
        slow = a_worker("a", lease=1)
        slow.gate = asyncio.Event()
        stop = asyncio.Event()
        serving = asyncio.ensure_future(serve_agents([slow], client=client, stop=stop))
        await soon(lambda: bool(slow.seen))
        await door.shut()
        await soon(lambda: slow.cancelled == 1)
        await door.open()
        stop.set()
        await serving
        await client.close()

    assert slow.counts["done"] == 0
