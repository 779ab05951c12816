"""A workflow from its intent to its end, on a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley.domain.channel.job import OPEN, Job
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import AgentDeparted, WrongSender
from parley.domain.errors.workflow import WorkflowAbandoned, WorkflowFailed, WorkflowTimedOut
from parley.domain.workflow.plan import WorkflowOutcome
from parley.sdk.agent.agent import BaseAgent
from parley.sdk.workflow.context import StepContext
from parley.sdk.workflow.run_lock import RunLock
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.log_records import logged_by
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.workflow.stage import HEAD, a_stage
from tests.unit.wire.files.test_workflow import RFC

ONE = HEAD + "agents: {ann: {handler: work}}\nworkflow: {a: {assign: ann}}\n"
TWO = HEAD + "agents: {ann: {handler: work}}\nworkflow: {a: {assign: ann}, b: {assign: ann, depends_on: [a]}}\n"
TALK = """\
channels: {progress: {}, questions: {members: [ann, bob], member_policy: explicit, audit: true}}
agents:
  ann: {handler: work}
  bob: {on_message: [{channel: questions, handler: answer}, {channel: progress, handler: log}]}
"""


@with_server
async def test_the_intent_is_completed_with_what_the_steps_gave(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> dict[str, Any]:
        return {"name": step.name, "before": list(step.results), "state": sorted(step.intent.state)}

    result = await stage.run(TWO, work)

    assert result.or_raise() is result
    assert result.results == {
        "a": {"name": "a", "before": [], "state": ["quarter"]},
        "b": {"name": "b", "before": ["a"], "state": ["a", "quarter"]},
    }
    intent = await stage.intent()
    assert (intent.status, intent.state) == ("completed", {"quarter": "Q1", **result.results})
    assert result.state == intent.state
    assert await stage.tasks() == {"a": "completed", "b": "completed"}
    assert stage.names("a") == stage.names("b") == ["ready", "started", "completed"]
    assert [event.name for event in stage.events if not event.step] == ["intent_created", "agents_ready", "ended"]


@with_server
async def test_channels_are_as_the_file_says_and_close_with_the_intent(server: LiveServer) -> None:
    stage = await a_stage(server)
    seen = []

    async def work(step: StepContext) -> None:
        seen.extend(await step.client.list_channels(step.intent.id))

    async def answer(message: ChannelMessage) -> None: ...

    async def log(message: ChannelMessage) -> None: ...

    await stage.run(HEAD + TALK + "workflow: {a: {assign: ann}}\n", work, answer, log)

    named = {one.name: one for one in seen}
    assert (named["progress"].member_policy, named["questions"].member_policy) == ("intent", "explicit")
    assert set(named["questions"].members) == {"ann", "bob"}
    assert named["questions"].options.audit is True
    assert {one.status for one in await stage.client.list_channels(seen[0].intent_id)} == {"closed"}


@with_server
async def test_steps_that_do_not_depend_on_each_other_run_at_once(server: LiveServer) -> None:
    stage, both = await a_stage(server), asyncio.Barrier(2)

    async def work(step: StepContext) -> None:
        async with asyncio.timeout(20):
            await both.wait()

    text = HEAD + "agents: {ann: {handler: work}, bob: {handler: work}}\n"
    result = await stage.run(text + "workflow: {a: {assign: ann}, b: {assign: bob}}\n", work)

    assert result.ok


@with_server
async def test_an_agent_does_as_many_steps_at_once_as_it_says(server: LiveServer) -> None:
    stage, pair = await a_stage(server), asyncio.Barrier(2)
    now, most = 0, 0

    async def work(step: StepContext) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        async with asyncio.timeout(20):
            await pair.wait()
        now -= 1

    steps = ", ".join(f"s{number}: {{assign: ann}}" for number in range(6))
    result = await stage.run(f"{HEAD}agents: {{ann: {{handler: work, concurrency: 2}}}}\nworkflow: {{{steps}}}\n", work)

    assert (result.ok, most) == (True, 2)


@with_server
async def test_many_steps_that_end_at_once_do_not_get_in_each_others_way(server: LiveServer) -> None:
    stage, all_at_once = await a_stage(server), asyncio.Barrier(25)

    async def work(step: StepContext, agent: BaseAgent) -> dict[str, Any]:
        async with asyncio.timeout(20):
            await all_at_once.wait()
        return {"by": agent.name}

    steps = ", ".join(f"s{number}: {{assign: ann}}" for number in range(25))
    text = f"{HEAD}agents: {{ann: {{handler: work, concurrency: 25}}}}\nworkflow: {{{steps}}}\n"
    result = await stage.run(text, work)

    assert result.ok
    assert len(result.results) == 25
    assert set(result.results) <= set((await stage.intent()).state)


@with_server
async def test_the_log_names_the_step_that_failed(server: LiveServer, caplog: pytest.LogCaptureFixture) -> None:
    stage = await a_stage(server)

    def work(step: StepContext) -> None:
        raise ValueError("no rows")

    await stage.run(HEAD + "agents: {ann: {handler: work}}\nworkflow: {fetch: {assign: ann}}\n", work)

    (record,) = logged_by("parley.workflow", caplog)
    assert (record.levelname, record.getMessage()) == ("ERROR", "the step fetch failed")
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "no rows"


@with_server
async def test_after_a_failure_what_depends_on_it_is_skipped_and_the_rest_is_done(server: LiveServer) -> None:
    stage = await a_stage(server)

    def work(step: StepContext) -> None:
        if step.name == "bad":
            raise ValueError("no rows")

    text = HEAD + "agents: {ann: {handler: work}}\nworkflow:\n"
    text += (
        "  bad: {assign: ann}\n  after: {assign: ann, depends_on: [bad]}\n  last: {assign: ann, depends_on: [after]}\n"
    )
    result = await stage.run(text + "  good: {assign: ann}\n  next: {assign: ann, depends_on: [good]}\n", work)

    assert result.outcome is WorkflowOutcome.FAILED
    assert await stage.tasks() == {
        "bad": "failed",
        "after": "skipped",
        "last": "skipped",
        "good": "completed",
        "next": "completed",
    }
    assert (await stage.intent()).status == "abandoned"
    line = (work.__code__.co_firstlineno or 0) + 2
    assert result.detail == f"bad: ValueError: no rows (test_running.py, line {line})"
    assert result.steps["last"].error == "after did not get done"
    assert set(result.results) == {"good", "next"}
    with pytest.raises(WorkflowFailed, match="no rows"):
        result.or_raise()


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (3, "work returned int (a step returns a mapping, its result, or None for an empty one)"),
        ([], "work returned list"),
        ({"x": object()}, "work returned what is not JSON"),
        ({"x": float("nan")}, "work returned what is not JSON"),
        ({"y": 1}, "work did not give x"),
        (None, "work did not give x"),
    ],
)
@with_server
async def test_what_a_step_gives_is_a_mapping_with_its_outputs(server: LiveServer, returned: object, said: str) -> None:
    stage = await a_stage(server)

    def work(step: StepContext) -> object:
        return returned

    text = HEAD + "agents: {ann: {handler: work}}\nworkflow: {a: {assign: ann, outputs: [x]}}\n"
    result = await stage.run(text, work)

    assert (result.outcome, said in result.detail) == (WorkflowOutcome.FAILED, True), result.detail


@pytest.mark.parametrize("blocks", [True, False])
@with_server
async def test_a_step_that_takes_too_long_fails(server: LiveServer, blocks: bool) -> None:
    import threading

    stage, ended = await a_stage(server), threading.Event()

    async def waits(step: StepContext) -> None:
        await asyncio.Event().wait()

    def work(step: StepContext) -> None:
        ended.wait(30)

    text = HEAD + "agents: {ann: {handler: %s}}\nworkflow: {a: {assign: ann, timeout: 1s}}\n"
    result = await stage.run(text % ("work" if blocks else "waits"), work, waits)
    ended.set()

    assert result.outcome is WorkflowOutcome.FAILED
    assert "took longer than 1 seconds" in result.detail


@with_server
async def test_a_step_is_tried_again_as_often_as_the_file_says(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> dict[str, int]:
        if step.attempt < 3:
            raise ValueError(f"try {step.attempt}")
        return {"attempt": step.attempt}

    text = HEAD + "agents: {ann: {handler: work}}\nworkflow: {a: {assign: ann, retries: 2}}\n"
    result = await stage.run(text, work)

    assert (result.results, result.steps["a"].attempts) == ({"a": {"attempt": 3}}, 3)
    assert stage.names("a") == ["ready", "started", "retried", "started", "retried", "started", "completed"]
    (task,) = await stage.client.list_tasks(result.intent_id)
    assert (task.status, task.attempt, task.max_attempts) == ("completed", 3, 3)


@with_server
async def test_a_step_gets_the_values_that_the_file_names(server: LiveServer) -> None:
    stage = await a_stage(server)

    def work(step: StepContext) -> dict[str, Any]:
        return {"rows": [1, 2], "meta": {"unit": "EUR"}} if step.name == "a" else dict(step.inputs)

    text = HEAD + "agents: {ann: {handler: work}}\nworkflow:\n  a: {assign: ann}\n  b: {assign: ann, depends_on: [a], "
    result = await stage.run(text + "inputs: {rows: a.rows, unit: a.meta.unit, limit: 3, final: true}}\n", work)

    assert result.results["b"] == {"rows": [1, 2], "unit": "EUR", "limit": 3, "final": True}


@with_server
async def test_a_value_that_an_earlier_step_did_not_give_fails_the_step(server: LiveServer) -> None:
    stage = await a_stage(server)

    def work(step: StepContext) -> dict[str, Any]:
        return {}

    text = HEAD + "agents: {ann: {handler: work}}\nworkflow:\n  a: {assign: ann}\n"
    result = await stage.run(text + "  b: {assign: ann, depends_on: [a], inputs: {rows: a.rows}}\n", work)

    assert result.detail == "b: inputs.rows: the step a gave no rows"


@with_server
async def test_a_handler_that_wants_to_end_the_process_only_fails_its_step(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> None:
        raise SystemExit(3)

    assert (await stage.run(ONE, work)).detail == "a: work called exit(3)"


@with_server
async def test_a_handler_that_cancels_itself_fails_its_step(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> None:
        raise asyncio.CancelledError

    assert (await stage.run(ONE, work)).detail == "a: its handler was cancelled"


@with_server
async def test_a_result_that_is_too_large_fails_the_step(server: LiveServer) -> None:
    stage = await a_stage(server)

    def work(step: StepContext) -> dict[str, str]:
        return {"text": "x" * 300_000}

    result = await stage.run(ONE, work)

    assert result.outcome is WorkflowOutcome.FAILED
    assert (await stage.tasks(), (await stage.intent()).state) == ({"a": "failed"}, {"quarter": "Q1"})


# ---------------------------------------------------------------- talking


@pytest.mark.parametrize("blocks", [True, False])
@with_server
async def test_a_step_talks_as_its_agent_in_the_channels_of_the_intent(server: LiveServer, blocks: bool) -> None:
    stage, heard = await a_stage(server), []

    async def asks(step: StepContext, agent: BaseAgent) -> dict[str, Any]:
        questions = await step.channels.open("questions")
        answer = await questions.ask("bob", {"q": 1}, timeout=20)
        await (await agent.channels.open("progress")).broadcast({"done": True})
        return {"answer": answer.payload, "by": agent.name}

    def work(step: StepContext, agent: BaseAgent) -> dict[str, Any]:
        return step.wait(asks(step, agent))

    async def answer(message: ChannelMessage) -> dict[str, Any]:
        return {"to": message.sender, "q": message.payload["q"]}

    def log(message: ChannelMessage, agent: BaseAgent) -> None:
        heard.append((agent.name, message.sender, message.channel, message.payload))

    text = HEAD + TALK + f"workflow: {{a: {{assign: ann, handler: {'work' if blocks else 'asks'}}}}}\n"
    result = await stage.run(text, work, asks, answer, log)

    assert result.results["a"] == {"answer": {"to": "ann", "q": 1}, "by": "ann"}
    # What was said last is dealt with before the agents go home.
    assert heard == [("bob", "ann", "progress", {"done": True})]


@with_server
async def test_what_was_said_last_is_dealt_with_before_the_intent_is_completed(server: LiveServer) -> None:
    stage, seen, said = await a_stage(server), [], asyncio.Event()

    async def work(step: StepContext) -> None:
        progress = await step.channels.open("progress")
        for number in range(30):
            await progress.broadcast({"n": number})
        said.set()

    async def log(message: ChannelMessage, agent: BaseAgent) -> None:
        await said.wait()
        intent = await agent.client.get_intent(message.intent_id)
        seen.append((message.payload["n"], intent.status))

    async def answer(message: ChannelMessage) -> None: ...

    text = HEAD + TALK.replace("bob: {", "bob: {concurrency: 1, ") + "workflow: {a: {assign: ann}}\n"
    await stage.run(text, work, log, answer)

    assert seen == [(number, "active") for number in range(30)]


@with_server
async def test_an_agent_is_found_by_its_role(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> dict[str, Any]:
        answer = await (await step.channels.open("talk")).ask("role:analyst", {}, timeout=20)
        return {"by": answer.sender}

    async def answer(message: ChannelMessage) -> dict[str, Any]:
        return {}

    text = (
        HEAD + "agents: {ann: {handler: work}, bob: {role: analyst, on_message: [{kind: request, handler: answer}]}}\n"
    )
    result = await stage.run(text + "workflow: {a: {assign: ann}}\n", work, answer)

    assert result.or_raise().results == {"a": {"by": "bob"}}


@with_server
async def test_a_handler_that_fails_is_told_to_the_asker_and_ends_nothing(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> dict[str, Any]:
        answer = await (await step.channels.open("questions")).ask("bob", {}, timeout=20, check=False)
        return {"error": answer.error}

    async def answer(message: ChannelMessage) -> None:
        raise ValueError("no idea")

    async def log(message: ChannelMessage) -> None: ...

    result = await stage.run(HEAD + TALK + "workflow: {a: {assign: ann}}\n", work, answer, log)

    assert (result.ok, "no idea" in result.results["a"]["error"]) == (True, True)


@with_server
async def test_messages_of_other_intents_are_none_of_its_business(server: LiveServer) -> None:
    stage, heard = await a_stage(server), []
    other = await stage.client.create_intent("other", status="active", access="open")

    async def work(step: StepContext) -> None:
        elsewhere = await step.client.open_channel(other.id, "progress")
        await step.client.send_message(elsewhere.id, None, "bob", "notify", {"from": "elsewhere"})
        here = await step.channels.open("progress")
        await here.notify("bob", {"from": "here"})

    async def log(message: ChannelMessage) -> None:
        heard.append(message.payload["from"])

    async def answer(message: ChannelMessage) -> None: ...

    await stage.run(HEAD + TALK + "workflow: {a: {assign: ann}}\n", work, log, answer)

    assert heard == ["here"]


# ---------------------------------------------------------------- the file of the RFC: no steps


async def answer_questions(message: ChannelMessage) -> dict[str, str]:
    return {"answer": "v2.3"}


@with_server
async def test_without_steps_it_works_until_a_handler_completes_the_intent(server: LiveServer) -> None:
    stage, heard = await a_stage(server), []

    async def log_progress(message: ChannelMessage, agent: BaseAgent) -> None:
        heard.append(message.payload)
        await agent.client.complete_intent(message.intent_id)

    running = asyncio.create_task(stage.run(RFC, log_progress, answer_questions))
    await stage.until("agents_ready")
    asker = stage.client.as_agent("data-agent")
    channels = {one.name: one.id for one in await asker.list_channels(await stage.intent_id())}
    outside = stage.client.as_agent("research-agent")
    answer = await outside.ask(channels["data-clarification"], None, "data-agent", {"question": "Which?"}, 20)
    await asker.send_message(channels["progress"], None, "research-agent", "notify", {"rows": 3})
    result = await running

    assert answer.payload == {"answer": "v2.3"}
    assert heard == [{"rows": 3}]
    assert (result.outcome, (await stage.intent()).status) == (WorkflowOutcome.COMPLETED, "completed")


@pytest.mark.parametrize(
    ("status", "outcome"), [("completed", WorkflowOutcome.COMPLETED), ("abandoned", WorkflowOutcome.ABANDONED)]
)
@with_server
async def test_without_steps_it_works_until_somebody_resolves_the_intent(
    server: LiveServer, status: str, outcome: WorkflowOutcome
) -> None:
    stage = await a_stage(server)

    async def log_progress(message: ChannelMessage) -> None: ...

    running = asyncio.create_task(stage.run(RFC, log_progress, answer_questions))
    await stage.until("agents_ready")
    await stage.client.set_status(await stage.intent_id(), status)
    result = await running

    assert result.outcome is outcome
    if outcome is WorkflowOutcome.ABANDONED:
        with pytest.raises(WorkflowAbandoned):
            result.or_raise()


# ---------------------------------------------------------------- ends that nobody wished for


@pytest.mark.slow
@pytest.mark.parametrize("text", [ONE, RFC])
@with_server
async def test_a_workflow_that_takes_too_long_is_cancelled_and_abandoned(server: LiveServer, text: str) -> None:
    stage, cancelled = await a_stage(server), []

    async def work(step: StepContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(step.name)

    async def log_progress(message: ChannelMessage) -> None: ...

    result = await stage.run(text, work, log_progress, answer_questions, limit=5)  # in which a step begins

    assert (result.outcome, result.detail) == (WorkflowOutcome.TIMED_OUT, "it took longer than 5 seconds")
    assert (await stage.intent()).status == "abandoned"
    assert (cancelled, await stage.tasks()) == ((["a"], {"a": "cancelled"}) if text is ONE else ([], {}))
    with pytest.raises(WorkflowTimedOut, match=r"longer than 5 seconds"):
        result.or_raise()


@with_server
async def test_who_interrupts_it_while_it_begins_leaves_no_intent_that_is_open(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await a_stage(server)
    acquire = RunLock.acquire

    async def interrupted(self: RunLock) -> None:
        stage.stop.set()
        await acquire(self)

    monkeypatch.setattr(RunLock, "acquire", interrupted)

    async def work(step: StepContext) -> None: ...

    result = await stage.run(ONE, work)

    assert result.outcome is WorkflowOutcome.INTERRUPTED
    assert {intent.status for intent in await stage.client.list_intents()} <= {"active", "abandoned"}
    assert [intent.title for intent in await stage.client.list_intents("abandoned")] == ["T"]


@with_server
async def test_who_interrupts_it_leaves_nothing_that_looks_as_if_it_went_on(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> None:
        stage.stop.set()
        await asyncio.Event().wait()

    result = await stage.run(TWO, work)

    assert result.outcome is WorkflowOutcome.INTERRUPTED
    assert (await stage.intent()).status == "abandoned"
    assert await stage.tasks() == {"a": "cancelled", "b": "cancelled"}
    with pytest.raises(NotFound):
        await stage.client.get_bookmark("ann", await stage.intent_id())


@with_server
async def test_a_run_that_is_cancelled_abandons_its_intent(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> None:
        await asyncio.Event().wait()

    running = asyncio.create_task(stage.run(ONE, work))
    await stage.until("step_started")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (await stage.intent()).status == "abandoned"


@with_server
async def test_a_task_that_somebody_cancels_takes_what_depends_on_it_along(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> None:
        await step.client.update_task(step.task_id, status="cancelled")

    result = await stage.run(TWO, work)

    assert await stage.tasks() == {"a": "cancelled", "b": "skipped"}
    assert (result.outcome, result.steps["a"].error) == (WorkflowOutcome.FAILED, "another client set it cancelled")


@with_server
async def test_an_intent_that_a_step_resolves_ends_the_workflow(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> None:
        await step.client.complete_intent(step.intent.id)
        await asyncio.Event().wait()

    result = await stage.run(TWO, work)

    assert result.outcome is WorkflowOutcome.COMPLETED
    assert await stage.tasks() == {"a": "cancelled", "b": "cancelled"}


@with_server
async def test_a_blocked_intent_is_completed_all_the_same_when_everything_is_done(server: LiveServer) -> None:
    stage = await a_stage(server)

    async def work(step: StepContext) -> None:
        await step.client.set_status(step.intent.id, "blocked")

    assert (await stage.run(ONE, work)).ok
    assert (await stage.intent()).status == "completed"


@with_server
async def test_a_key_that_cannot_speak_for_the_agents_is_refused_before_anything_is_there(server: LiveServer) -> None:
    stage = await a_stage(server, "bob", KeyKind.AGENT)

    async def work(step: StepContext) -> None: ...

    with pytest.raises(WrongSender):
        await stage.run(ONE, work)

    assert stage.events == []


@with_server
async def test_an_intent_that_cannot_be_set_up_is_abandoned(server: LiveServer) -> None:
    stage = await a_stage(server)
    await stage.client.register_agent("gone")
    await stage.client.deregister_agent("gone")

    async def work(step: StepContext) -> None: ...

    text = HEAD + "channels: {talk: {members: [gone]}}\nagents: {ann: {handler: work}, gone: {}}\n"
    with pytest.raises(AgentDeparted):
        await stage.run(text + "workflow: {a: {assign: ann}}\n", work)

    assert (await stage.intent()).status == "abandoned"


@with_server
async def test_agents_of_a_run_take_the_jobs_of_their_role_in_its_intent(server: LiveServer) -> None:
    stage, logged = await a_stage(server), list[tuple[str, str]]()
    await server.rig.role("coder", "bob", "cy")
    await server.rig.say("alice", "of another intent", to="any:coder")

    async def work(context: StepContext) -> dict[str, Any]:
        channel = await context.channels.open("jobs")
        await channel.notify("any:coder", {"text": "log"})
        return (await channel.ask("any:coder", {"text": "ask"}, timeout=20)).payload

    async def answer(message: ChannelMessage, agent: BaseAgent) -> dict[str, Any]:
        logged.append((agent.name, message.payload["text"]))
        return {"by": agent.name}

    agents = "ann: {handler: work}, "
    agents += ", ".join(f"{name}: {{role: coder, on_message: [{{handler: answer}}]}}" for name in ("bob", "cy"))
    text = f"{HEAD}channels: {{jobs: {{}}}}\nagents: {{{agents}}}\nworkflow: {{a: {{assign: ann}}}}\n"
    result = await stage.run(text, work, answer)

    assert result.or_raise().results["a"]["by"] in ("bob", "cy")
    assert sorted(text for _, text in logged) == ["ask", "log"]
    assert [job.state for job in await server.rig.store.children(Job, DEFAULT_TENANT, OPEN)] == ["waiting"]
