"""The lock of a run: one process at a time, the others are told which, and none waits for one that is gone."""

from __future__ import annotations

import asyncio
import os

import pytest

from parley.domain.errors.workflow import WorkflowRunning
from parley.sdk.agent.process import process_name
from parley.sdk.client.client import AsyncClient
from parley.sdk.workflow import run_lock
from parley.sdk.workflow.run_lock import RunLock
from tests.rigs.team import INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.test_process import an_ended_process
from tests.unit.sdk.workflow.stage import a_stage

RUNNER = "workflow"


@pytest.fixture(autouse=True)
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of earlier tests, whose servers give the same ids again."""
    monkeypatch.setattr(run_lock, "_held_here", set())


async def a_lock(server: LiveServer) -> tuple[AsyncClient, RunLock]:
    client = (await a_stage(server)).client
    return client, RunLock(client, RUNNER, INTENT)


@with_server
async def test_a_run_that_is_held_names_the_process_that_holds_it(server: LiveServer) -> None:
    client, lock = await a_lock(server)
    await lock.acquire()

    with pytest.raises(WorkflowRunning) as refused:
        await RunLock(client, RUNNER, INTENT).acquire()
    await client.close()

    host = process_name().partition("@")[2]
    assert refused.value.message == f"{INTENT} is run by pid {os.getpid()} on host {host}, last seen 0s ago"
    assert refused.value.facts["process"] == process_name()


@with_server
async def test_a_holder_on_another_host_is_replaced_when_it_has_not_been_seen_for_a_while(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lock, "_RENEW_SECONDS", 0.01)
    client, lock = await a_lock(server)
    monkeypatch.setattr(run_lock, "process_name", lambda: "1@elsewhere")
    await lock.acquire()
    server.rig.clock.pass_by(seconds=29)
    with pytest.raises(WorkflowRunning, match="pid 1 on host elsewhere, last seen 29s ago"):
        await RunLock(client, RUNNER, INTENT).acquire()
    server.rig.clock.pass_by(seconds=1)
    monkeypatch.setattr(run_lock, "process_name", lambda: "2@here")

    await RunLock(client, RUNNER, INTENT).acquire()

    with pytest.raises(WorkflowRunning, match="pid 2 on host here"):
        await lock.keep()
    await client.close()


@with_server
async def test_a_holder_that_renews_keeps_its_run(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lock, "_RENEW_SECONDS", 0.001)
    client, lock = await a_lock(server)
    await lock.acquire()
    server.rig.clock.pass_by(seconds=29)
    keeping = asyncio.ensure_future(lock.keep())

    async def is_renewed() -> bool:
        bookmark = await client.get_bookmark(RUNNER, INTENT)
        return bookmark.saved_at != bookmark.opened_at

    await soon(is_renewed)
    server.rig.clock.pass_by(seconds=29)

    with pytest.raises(WorkflowRunning):
        await RunLock(client, RUNNER, INTENT).acquire()
    keeping.cancel()
    await client.close()


@with_server
async def test_of_those_that_come_for_a_killed_process_one_wins_at_once(server: LiveServer) -> None:
    client, _ = await a_lock(server)
    await client.as_agent(RUNNER).open_bookmark(RUNNER, INTENT, start="now", process=an_ended_process())
    locks = [RunLock(client, RUNNER, INTENT) for _ in range(8)]

    outcomes = await asyncio.gather(*(lock.acquire() for lock in locks), return_exceptions=True)
    await client.close()

    assert outcomes.count(None) == 1
    refused = [str(outcome) for outcome in outcomes if isinstance(outcome, WorkflowRunning)]
    assert len(refused) == 7
    assert all(f"pid {os.getpid()} on host" in text for text in refused)
