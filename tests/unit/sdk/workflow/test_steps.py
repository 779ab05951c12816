"""The task of a step changes from the version that is known, however often the server goes away or others change it."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.directory.intent import TaskStatus
from parley.domain.errors.errors import Invalid
from parley.sdk.client.client import AsyncClient
from parley.sdk.transport.asynchronous import AsyncHttp
from parley.sdk.transport.port import Broken, Request, Response
from parley.sdk.workflow.steps import EndedElsewhere, StepTask
from parley.wire.api.records.intents import Task
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.workflow.stage import a_stage


class Breaking:
    """A real transport, behind which the answer to the next change of a task gets lost."""

    def __init__(self, inner: AsyncHttp) -> None:
        self._inner = inner
        self.loses: list[str] = []
        self.versions: list[str] = []

    async def send(self, request: Request) -> Response[Any]:
        if request.method == "PATCH":
            self.versions.append(request.headers["if-match"])
        lost = self.loses.pop() if self.loses and request.method == "PATCH" else ""
        if lost == "request":
            raise Broken("it never left", arrived=True)
        response = await self._inner.send(request)
        if lost == "answer":
            raise Broken("the answer got lost", arrived=True)
        return response

    async def close(self) -> None:
        await self._inner.close()


async def a_task(server: LiveServer) -> tuple[AsyncClient, Breaking, Task]:
    stage = await a_stage(server)
    how = stage.client
    breaking = Breaking(AsyncHttp(how.connection.session.place))
    key = await server.rig.key("ann")
    client = AsyncClient(how.url, key=key, transport=breaking)
    intent = await client.create_intent("T", status="active")
    return client, breaking, await client.create_task(intent.id, "a")


@with_server
async def test_every_change_is_made_from_the_version_before(server: LiveServer) -> None:
    client, breaking, task = await a_task(server)
    record = StepTask(client, task)

    for status in (TaskStatus.READY, TaskStatus.RUNNING, TaskStatus.COMPLETED):
        await record.move(status)

    assert (record.task.version, record.task.status) == (task.version + 3, "completed")
    assert breaking.versions == [f'"{task.version + number}"' for number in range(3)]


@pytest.mark.parametrize("lost", ["request", "answer"])
@with_server
async def test_a_change_whose_answer_got_lost_is_made_once(server: LiveServer, lost: str) -> None:
    client, breaking, task = await a_task(server)
    record = StepTask(client, task)
    breaking.loses = [lost]

    await record.move(TaskStatus.RUNNING, attempt=2)

    kept = await client.get_task(task.id)
    assert (kept.status, kept.attempt, kept.version) == ("running", 2, task.version + 1)


@with_server
async def test_a_change_that_somebody_else_made_meanwhile_is_built_upon(server: LiveServer) -> None:
    client, _, task = await a_task(server)
    await client.update_task(task.id, priority="high")

    await StepTask(client, task).move(TaskStatus.RUNNING)

    kept = await client.get_task(task.id)
    assert (kept.status, kept.priority) == ("running", "high")


@pytest.mark.parametrize("then", [TaskStatus.RUNNING, TaskStatus.COMPLETED, TaskStatus.CANCELLED])
@with_server
async def test_a_task_that_somebody_else_ended_stays_as_it_is(server: LiveServer, then: TaskStatus) -> None:
    client, _, task = await a_task(server)
    await client.update_task(task.id, status="cancelled")

    with pytest.raises(EndedElsewhere) as ended:
        await StepTask(client, task).move(then)

    assert ended.value.task.status == "cancelled"


@with_server
async def test_what_the_server_refuses_is_raised(server: LiveServer) -> None:
    client, _, task = await a_task(server)

    with pytest.raises(Invalid, match="bytes"):
        await StepTask(client, task).move(TaskStatus.RUNNING, output="x" * 300_000)
