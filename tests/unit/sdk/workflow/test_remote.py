"""Steps whose agents run elsewhere: asked in the channel `workflow`, waited for, tried again, and never twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.workflow import WorkflowFailed
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.client.client import AsyncClient
from parley.sdk.workflow.context import StepContext
from parley.sdk.workflow.remote import CHANNEL
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import shift
from tests.unit.sdk.workflow.stage import HEAD, Stage, a_stage

ONE = HEAD + "workflow: {a: {assign: remote, inputs: {n: 3}, constraints: [be brief], description: Add one, %s}}\n"


@Agent("remote")
class Remote(BaseAgent):
    """Does steps that it is asked for, and notes what it got."""

    def __init__(self, failures: int = 0) -> None:
        self.payloads: list[dict[str, Any]] = []
        self.failures = failures

    @on_message(channel=CHANNEL, kind="request")
    async def work(self, message: ChannelMessage) -> dict[str, Any]:
        self.payloads.append(message.payload)
        if len(self.payloads) <= self.failures:
            raise Invalid("not today")
        return {"sum": message.payload["inputs"]["n"] + 1}


@with_server
async def test_a_step_of_an_agent_elsewhere_is_a_request_and_its_answer_the_result(server: LiveServer) -> None:
    stage, remote = await a_stage(server), Remote()
    async with shift(server, remote):
        result = await stage.run(ONE % "title: One more")

    assert result.or_raise().results == {"a": {"sum": 4}}
    assert remote.payloads == [
        {
            "step": "a",
            "title": "One more",
            "description": "Add one",
            "inputs": {"n": 3},
            "constraints": ["be brief"],
            "attempt": 1,
        }
    ]
    assert result.steps["a"].agent == "remote"
    assert [event.detail for event in stage.events if event.name == "agents_ready"] == [""]


@with_server
async def test_steps_here_and_elsewhere_hand_their_results_on(server: LiveServer) -> None:
    stage = await a_stage(server)
    text = HEAD + (
        "agents: {ann: {handler: begin}}\n"
        "workflow:\n"
        "  a: {assign: ann}\n"
        "  b: {assign: remote, depends_on: [a], inputs: {n: a.n}, outputs: [sum]}\n"
        "  c: {assign: ann, handler: end, depends_on: [b], inputs: {total: b.sum}}\n"
    )

    def begin(step: StepContext) -> dict[str, int]:
        return {"n": 41}

    def end(step: StepContext) -> dict[str, int]:
        return {"total": step.inputs["total"]}

    async with shift(server, Remote()):
        result = await stage.run(text, begin, end)

    assert result.or_raise().results["c"] == {"total": 42}


@with_server
async def test_an_agent_elsewhere_that_fails_is_asked_again(server: LiveServer) -> None:
    stage, remote = await a_stage(server), Remote(failures=1)
    async with shift(server, remote):
        result = await stage.run(ONE % "retries: 1")

    assert result.or_raise().results == {"a": {"sum": 4}}
    assert [payload["attempt"] for payload in remote.payloads] == [1, 2]
    assert stage.names("a") == ["ready", "started", "retried", "started", "completed"]


@with_server
async def test_what_an_agent_elsewhere_says_of_its_failure_is_the_error_of_the_step(server: LiveServer) -> None:
    stage = await a_stage(server)
    async with shift(server, Remote(failures=1)):
        result = await stage.run(ONE % "retries: 0")

    with pytest.raises(WorkflowFailed, match="a: remote: not today"):
        result.or_raise()


@with_server
async def test_an_agent_elsewhere_that_does_not_answer_in_time_fails_the_step(server: LiveServer) -> None:
    stage = await a_stage(server)
    await stage.client.register_agent("remote")

    result = await stage.run(ONE % "timeout: 1s")

    assert result.steps["a"].error == "remote did not answer within 1 seconds"


@with_server
async def test_a_step_of_an_agent_that_nobody_knows_fails_at_once_with_similar_names(server: LiveServer) -> None:
    stage = await a_stage(server)
    await stage.client.register_agent("remtoe")

    result = await stage.run(ONE % "timeout: 1h")

    assert 'no agent "remote" is registered (did you mean "remtoe"?)' in result.steps["a"].error


@with_server
async def test_a_step_may_go_to_any_holder_of_a_role(server: LiveServer) -> None:
    @Agent("worker-7", role="worker")
    class Worker(Remote):
        pass

    stage, worker = await a_stage(server), Worker()
    async with shift(server, worker):
        result = await stage.run(HEAD + "workflow: {a: {role: worker, inputs: {n: 1}}}\n")

    assert result.or_raise().results == {"a": {"sum": 2}}
    assert result.steps["a"].agent == "any:worker"


@with_server
async def test_an_agent_can_run_a_workflow_of_agents_elsewhere_with_its_own_key(server: LiveServer) -> None:
    key = await server.rig.key("boss")
    url = f"http://127.0.0.1:{server.listener.port}"
    async with AsyncClient(url, key=key, agent="boss") as client, shift(server, Remote()):
        stage = Stage(server, client)
        result = await stage.run(ONE % "title: One more")
        channel = await client.open_channel(result.intent_id, CHANNEL)
        senders = [message.sender for message in await client.list_messages(channel.id)]

    assert result.or_raise().results == {"a": {"sum": 4}}
    assert senders == ["boss", "remote"]


@with_server
async def test_a_resumed_run_waits_for_the_answer_to_the_request_that_was_sent(server: LiveServer) -> None:
    """The process that sent it is gone: what it left is an active intent, a running task, a request."""
    stage, remote = await a_stage(server), Remote()
    client = stage.client
    intent = await client.create_intent("T", status="active", access="open")
    task = await client.create_task(intent.id, "a", metadata={"step": "a"})
    await client.update_task(task.id, status="running", version=task.version, attempt=1)
    asked = await _leave_request(client, intent.id)

    running = asyncio.ensure_future(stage.run(ONE % "timeout: 30s", resume=intent.id))
    await stage.until("step_started")
    async with shift(server, remote):
        result = await running

    assert result.or_raise().results == {"a": {"sum": 8}}
    assert len(remote.payloads) == 1
    (channel,) = await client.list_channels(intent.id)
    requests = [one for one in await client.list_messages(channel.id) if one.message_type == "request"]
    assert [one.id for one in requests] == [asked]


async def _leave_request(client: AsyncClient, intent_id: str) -> str:
    runner = client.as_agent("workflow")
    channel = await runner.open_channel(intent_id, CHANNEL)
    payload = {"step": "a", "attempt": 1, "inputs": {"n": 7}}
    return (await runner.send_message(channel.id, None, "remote", "request", payload)).id


@with_server
async def test_two_runs_of_one_file_have_their_own_agents_messages_and_results(server: LiveServer) -> None:
    text = HEAD + (
        "channels: {progress: {}}\n"
        "agents: {ann: {handler: work}, bob: {on_message: [{channel: progress, handler: hear}]}}\n"
        "workflow: {a: {assign: ann}}\n"
    )
    heard: dict[str, list[str]] = {"one": [], "two": []}
    both = asyncio.Barrier(2)

    # One after the other: both use one key, which has to be there.
    stages = {name: await a_stage(server) for name in heard}

    async def run(name: str) -> None:
        stage = stages[name]

        async def work(step: StepContext) -> dict[str, str]:
            async with asyncio.timeout(20):
                await both.wait()  # both runs are in the middle of it
                channel = await step.channels.open("progress")
                await channel.broadcast({"text": name})
                await both.wait()
            return {"by": name}

        async def hear(message: ChannelMessage) -> None:
            heard[name].append(message.payload["text"])

        result = await stage.run(text, work, hear)
        assert result.or_raise().results == {"a": {"by": name}}
        await stage.client.close()

    await asyncio.gather(run("one"), run("two"))

    assert heard == {"one": ["one"], "two": ["two"]}


@with_server
async def test_an_agent_of_a_run_takes_no_work_of_another_intent_from_a_queue(server: LiveServer) -> None:
    stage = await a_stage(server)
    client = stage.client
    text = HEAD + (
        "agents: {ann: {handler: work, role: worker, on_message: [{handler: hear}]}}\nworkflow: {a: {assign: ann}}\n"
    )

    async def work(step: StepContext) -> None:
        intent = await client.create_intent("another", status="active", access=["ann", "boss"])
        boss = client.as_agent("boss")
        channel = await boss.open_channel(intent.id, "jobs")
        await boss.send_message(channel.id, None, "any:worker", "request", {"n": 1})
        await asyncio.sleep(0.2)  # time enough to claim it

    async def hear(message: ChannelMessage) -> None: ...

    result = await stage.run(text, work, hear)
    jobs = await client.as_agent("ann").claim_jobs("ann", max=1)

    assert result.ok
    assert [job.data["payload"] for job in jobs] == [{"n": 1}]


@with_server
async def test_an_agent_of_a_run_does_not_take_the_place_of_one_that_runs_elsewhere(server: LiveServer) -> None:
    stage, remote = await a_stage(server), Remote()
    text = HEAD + "agents: {remote: {handler: work}}\nworkflow: {a: {assign: remote}}\n"

    async def work(step: StepContext) -> None: ...

    async with shift(server, remote) as elsewhere:
        await stage.run(text, work)
        intent = await stage.client.create_intent("after", status="active", access="open")
        await _leave_request(stage.client, intent.id)
        await soon(lambda: len(remote.payloads) == 1)
        assert not elsewhere.serving.done()
