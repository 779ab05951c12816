"""What goes on beside the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from parley.app.team.state.nodes import NodeState
from parley.app.team.team import Team
from parley.app.team.work import background, sweep
from parley.domain.channel.post import PostState
from parley.domain.errors.errors import DiskFull, Unavailable
from parley.domain.store.node import Node, StoreReport
from tests.rigs.log_records import logged_by
from tests.rigs.node import two_nodes
from tests.rigs.team import Rig, in_loop, soon, with_rig

pytestmark = pytest.mark.both_stores


@with_rig
async def test_the_sweep_goes_on_after_a_disk_that_was_full(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SWEEP_SECONDS", 0.0)
    passes: list[int] = []
    enough = asyncio.Event()

    async def failing(team: Team) -> int:
        assert team is rig.team
        passes.append(len(passes))
        if len(passes) > 2:
            enough.set()
        raise DiskFull

    monkeypatch.setattr(sweep, "sweep", failing)
    task = asyncio.ensure_future(background.sweep_forever(rig.team))

    await enough.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    assert len(passes) > 2


@with_rig
async def test_what_is_overdue_expires_by_itself(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SWEEP_SECONDS", 0.001)
    await rig.intent()
    await rig.channel()
    post = await rig.say("alice", to="bob", expires_at=rig.clock.at + timedelta(seconds=1))
    task = asyncio.ensure_future(background.sweep_forever(rig.team))

    rig.clock.pass_by(seconds=2)
    while (found := await rig.store.post("default", post.id)) and found.state is not PostState.EXPIRED:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    assert found is not None
    assert found.state is PostState.EXPIRED


# ---------------------------------------------------------------- one of many


class Others:
    """Other servers, which let us lead or not, or cannot be asked."""

    def __init__(self) -> None:
        self.leading: bool | None = True
        # What time it is for them.
        self.now = 0.0

    async def leads(self, work: str) -> bool:
        if self.leading is None:
            raise Unavailable("the database is gone")
        return self.leading

    async def heartbeat(self, node: Node) -> float:
        return self.now

    async def leave(self, name: str) -> None: ...

    async def list_nodes(self) -> tuple[Node, ...]:
        return ()

    async def report(self) -> StoreReport:
        return StoreReport("none")

    def measured(self, node: Node) -> Node:
        return node


class Work:
    """A work that only says that it goes on."""

    def __init__(self) -> None:
        self.begun = 0
        self.running = 0
        self.fails: Exception | None = None

    async def run(self) -> None:
        self.begun += 1
        self.running += 1
        try:
            if self.fails is not None:
                raise self.fails
            await asyncio.Event().wait()
        finally:
            self.running -= 1


@asynccontextmanager
async def led(team: Team, run: Callable[[], Coroutine[None, None, None]]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(background.run_while_leader(team, "sweep", run))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RENEW_SECONDS", "LOOK_SECONDS", "HEARTBEAT_SECONDS"):
        monkeypatch.setattr(background, name, 0.001)


@pytest.mark.usefixtures("hasty")
@with_rig
async def test_a_work_goes_on_while_this_server_leads_it(rig: Rig) -> None:
    others, work = Others(), Work()
    rig.team.nodes = NodeState(others)

    async with led(rig.team, work.run):
        await soon(lambda: work.running == 1)
        others.leading = False
        await soon(lambda: work.running == 0)
        others.leading = True
        await soon(lambda: work.running == 1)

    assert (work.begun, work.running) == (2, 0)


@pytest.mark.usefixtures("hasty")
@with_rig
async def test_who_cannot_ask_whether_it_leads_does_not(rig: Rig) -> None:
    others, work = Others(), Work()
    rig.team.nodes = NodeState(others)

    async with led(rig.team, work.run):
        await soon(lambda: work.running == 1)
        others.leading = None
        await soon(lambda: work.running == 0)

        assert rig.team.nodes.leading == set()


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.usefixtures("hasty")
@with_rig
async def test_a_work_that_fails_is_logged_and_begun_again(
    rig: Rig,
    alone: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work()
    work.fails = ValueError("unexpected")
    rig.team.nodes = NodeState(None if alone else Others())

    async with led(rig.team, work.run):
        await soon(lambda: work.begun >= 2)
        work.fails = None
        await soon(lambda: work.running == 1)

    errors = [one for one in logged_by("parley.background", caplog) if one.levelno == logging.ERROR]
    assert errors
    assert all(one.exc_info is not None and one.exc_info[1] is not None for one in errors)


@pytest.mark.usefixtures("hasty")
@in_loop
async def test_of_two_servers_one_does_the_work_and_the_other_takes_it_over(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        first, second = Work(), Work()
        async with led(b.team, second.run):
            await soon(lambda: second.running == 1)
            async with led(a.team, first.run):
                for _ in range(5):
                    assert not await a.team.nodes.leads("sweep")
                assert (first.begun, second.begun) == (0, 1)

        # It has stopped, and said so
        await b.team.nodes.leave()
        async with led(a.team, first.run):
            await soon(lambda: first.running == 1)
        assert second.begun == 1


@pytest.mark.usefixtures("hasty")
@in_loop
async def test_a_server_says_again_and_again_how_it_is(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        beating = asyncio.ensure_future(background.heartbeat_forever(a.team))

        async def heard() -> bool:
            report = await b.team.nodes.report(b.team.nodes.node(0.0, 0))
            return [one.name for one in report.nodes] == ["a", "b"] and report.nodes[0].uptime > 0

        await soon(heard)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


@with_rig
async def test_a_server_that_is_alone_has_nobody_to_tell_how_it_is(rig: Rig) -> None:
    await background.heartbeat_forever(rig.team)


@with_rig
async def test_a_node_whose_clock_is_far_off_the_stores_leads_nothing(rig: Rig) -> None:
    others = Others()
    rig.team.nodes = NodeState(others, "here")

    for ahead, out in ((0.0, False), (4.0, False), (60.0, True), (-60.0, True), (0.5, False)):
        others.now = rig.clock.at.timestamp() - ahead
        task = asyncio.ensure_future(background.heartbeat_forever(rig.team))
        await soon(lambda ahead=ahead: abs(rig.team.nodes.skew - ahead) < 0.1)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

        assert rig.team.nodes.out_of_time is out
        assert await rig.team.nodes.leads("sweep") is not out


@with_rig
async def test_a_step_of_the_wall_clock_is_logged_once_and_so_is_its_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    believed = rig.clock.now()

    monkeypatch.setattr(rig.clock, "now", lambda: believed._replace(step=3_600.0))
    stepped = background.report_clock(rig.team, stepped=False)
    stepped = background.report_clock(rig.team, stepped=stepped)
    monkeypatch.setattr(rig.clock, "now", lambda: believed)
    stepped = background.report_clock(rig.team, stepped=stepped)

    assert not stepped
    assert [record.__dict__["action"] for record in caplog.records] == ["clock_stepped", "clock_believed"]
    assert caplog.records[0].__dict__["seconds"] == 3_600
