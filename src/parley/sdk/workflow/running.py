"""A workflow from its intent to its end.

registered ──> intent ──> agents at work ──> channels, tasks ──> steps ──> what was said is dealt with ──> completed
                                                                   └── failed, out of time, interrupted ──> abandoned
                                                                   └── resolved elsewhere: that is the end
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.intent import RESOLVED, IntentStatus, TaskStatus
from parley.domain.errors.errors import Conflict, Invalid, NotFound, ParleyError
from parley.domain.errors.team import BookmarkTaken
from parley.domain.errors.workflow import WorkflowRunning
from parley.domain.workflow.plan import WorkflowOutcome, outcome_of_intent
from parley.sdk.agent.running import serve_crew
from parley.sdk.protocol.retry import retry_until_accepted
from parley.sdk.workflow.crew import WorkflowAgents, with_channel
from parley.sdk.workflow.remote import RemoteSteps
from parley.sdk.workflow.result import NOT_REPORTED, WorkflowEvent, WorkflowResult
from parley.sdk.workflow.run_lock import RunLock
from parley.sdk.workflow.steps import Steps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from parley.domain.workflow.plan import HandlerRef, WorkflowPlan
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.protocol.event_stream import StreamEvent
    from parley.sdk.workflow.importing import Function
    from parley.sdk.workflow.steps import OnEvent
    from parley.wire.api.records.channels import ChannelMessage
    from parley.wire.api.records.intents import Intent, Task

# How long the last messages may take to be handled, and how long the last status may take to be set.
_CATCH_UP_SECONDS = 30.0
_ENDING_SECONDS = 20.0
_HURRIED_SECONDS = 10.0
_POLL_SECONDS = 5.0
_POLL_WITHOUT_STREAM_SECONDS = 1.0
_PAGE = 1_000
# The name under which a workflow asks agents elsewhere, unless its client has one.
_RUNNER = "workflow"

_log = logging.getLogger("parley.workflow")


class Run:
    """One run of a workflow."""

    def __init__(
        self,
        plan: WorkflowPlan,
        functions: Mapping[HandlerRef, Function],
        client: AsyncClient,
        *,
        on_event: OnEvent,
        monotonic: Callable[[], float],
        resume: str = "",
    ) -> None:
        self._plan = plan
        # The workflow creates what it needs for no agent, whatever the environment names. It asks agents elsewhere,
        # and holds its lock, under a name.
        self._client = client.as_agent("")
        self._runner = client.agent or _RUNNER
        self._resume_id = resume
        self._lock: RunLock | None = None
        # The messages that were there when it was resumed: whether an earlier process handled them is not known here.
        self._earlier: frozenset[str] = frozenset()
        self._on_event = on_event
        self._monotonic = monotonic
        self._started_at = monotonic()
        self._agents = WorkflowAgents(plan, functions)
        remote = RemoteSteps(client, self._runner, monotonic)
        self._steps = Steps(plan, functions, self._agents.agents, self._client, remote, on_event, monotonic)
        self._intent: Intent | None = None
        self._detail = ""

    async def run(self, stop: asyncio.Event, limit: float | None) -> WorkflowResult:
        """Run to the end: all is done, a step failed, `limit` seconds have passed, or `stop` was set."""
        await self._client.server_info()  # agents would wait for a server that is not there; a workflow says so
        done, ready = asyncio.Event(), asyncio.Event()
        serve_task = asyncio.ensure_future(
            serve_crew(self._agents.crew, client=self._client, stop=done, ready=ready.set, registered=self._take_intent)
        )
        stop_task = asyncio.ensure_future(stop.wait())
        outcome: WorkflowOutcome | None = None
        try:
            outcome = await self._run_with_agents(serve_task, ready, stop_task, limit)
        except (WorkflowRunning, BookmarkTaken):
            raise  # it goes on in another process
        except ParleyError as error:
            await self._give_up(str(error))
            raise
        except asyncio.CancelledError:
            if not stop.is_set():  # else it was ending already, and is ended at once
                await self._give_up("interrupted")
            raise
        finally:
            stop_task.cancel()
            done.set()
            if (current := asyncio.current_task()) is not None and current.cancelling():
                serve_task.cancel()
            await asyncio.wait((serve_task,))
            agent_error = None if serve_task.cancelled() else serve_task.exception()
            if outcome is not None and agent_error is not None:  # else it is raised, or something worse is
                _log.warning("an agent stopped", extra={"action": "workflow_agent_stopped", "why": str(agent_error)})
            if outcome is WorkflowOutcome.INTERRUPTED:
                await self._give_up(self._detail)  # the intent may have been created just now
            await self._leave()
        seconds = self._monotonic() - self._started_at
        self._on_event(WorkflowEvent("ended", detail=self._detail or outcome.value, seconds=seconds))
        intent = self._intent
        return WorkflowResult(
            outcome,
            intent.id if intent else "",
            dict(self._steps.results),
            intent.state if intent else {},
            self._detail,
            seconds,
        )

    async def _run_with_agents(
        self,
        serve_task: asyncio.Future[None],
        ready: asyncio.Event,
        stop_task: asyncio.Future[Any],
        limit: float | None,
    ) -> WorkflowOutcome:
        ready_task = asyncio.ensure_future(ready.wait())
        await asyncio.wait((serve_task, ready_task, stop_task), return_when=asyncio.FIRST_COMPLETED)
        ready_task.cancel()
        if serve_task.done():
            serve_task.result()  # what keeps the agents from working
        if not ready.is_set():
            self._detail = "interrupted before it began"
            return WorkflowOutcome.INTERRUPTED
        outcome = await self._set_up() or await self._wait_until_over(serve_task, stop_task, limit)
        await self._conclude(outcome)
        return outcome

    # ---------------------------------------------------------------- the beginning

    async def _take_intent(self) -> None:
        """Create the intent, or take over that of an earlier run, with the lock that keeps others from running it."""
        if self._resume_id:
            intent = await self._load_intent()
        else:
            intent = self._intent = await self._create_intent()
        lock = RunLock(self._client, self._runner, intent.id)
        await lock.acquire()
        self._lock, self._intent = lock, intent
        self._agents.scope.intent_id = intent.id
        if self._resume_id:
            self._earlier = frozenset(message.id for message in await self._list_all_messages())
        self._on_event(WorkflowEvent("intent_resumed" if self._resume_id else "intent_created", detail=intent.id))

    async def _load_intent(self) -> Intent:
        intent = await self._client.get_intent(self._resume_id)
        if intent.status in RESOLVED:
            raise Conflict(f"{intent.id} is {intent.status}", hint="only a run that was cut off can be resumed")
        tasks = await self._list_step_tasks(intent.id)
        names = {step.name for step in self._plan.steps}
        if foreign := sorted(set(tasks) - names):
            raise Invalid(f"{intent.id} has a step {foreign[0]} that the file does not have", hint="is it its run?")
        return intent

    async def _list_step_tasks(self, intent_id: str) -> dict[str, Task]:
        tasks = await self._client.list_tasks(intent_id, limit=_PAGE)
        return {str(task.metadata["step"]): task for task in tasks if "step" in task.metadata}

    async def _set_up(self) -> WorkflowOutcome | None:
        """Create the channels and tasks that are missing; the outcome if the intent was resolved meanwhile."""
        intent = self._intent
        assert intent is not None  # noqa: S101  # it was taken before the agents began
        try:
            await self._create_channels_and_tasks(intent)
        except Conflict:
            current = await self._client.get_intent(intent.id)
            if current.status in RESOLVED:
                return self._resolved_by_others(IntentStatus(current.status))
            raise
        self._on_event(WorkflowEvent("agents_ready", detail=", ".join(self._agents.agents)))
        return None

    def _resolved_by_others(self, status: IntentStatus) -> WorkflowOutcome:
        self._detail = f"the intent was {status.value} by another client"
        return outcome_of_intent(status) or WorkflowOutcome.ABANDONED

    async def _create_intent(self) -> Intent:
        """The intent, as a draft: it becomes active when its agents work, so that they miss nothing."""
        planned, client = self._plan.intent, self._client
        constraints = planned.constraints
        agents = [*self._plan.participants, *([self._runner] if self._plan.remote_doers else [])]
        is_open = planned.access is AccessPolicy.OPEN
        intent = await client.create_intent(
            planned.title,
            planned.description or None,
            state=dict(planned.state),
            constraints=list(constraints) if isinstance(constraints, tuple) else dict(constraints),
            access="open" if is_open else agents,
        )
        # On an open intent, too, the agents of the file get what is said to everyone.
        for agent in agents if is_open else ():
            await client.grant_access(intent.id, agent, "write")
        return intent

    async def _create_channels_and_tasks(self, intent: Intent) -> None:
        if intent.status == IntentStatus.DRAFT.value:
            self._intent = await self._client.set_status(intent.id, IntentStatus.ACTIVE.value)
        existing = {channel.name for channel in await self._client.list_channels(intent.id)} if self._resume_id else ()
        for channel in self._plan.channels:
            if channel.name in existing:
                continue
            options = channel.options
            await self._client.create_channel(
                intent.id,
                channel.name,
                channel.members,
                channel.policy.value,
                {"audit": options.audit, "ttl_seconds": options.ttl_seconds, "max_messages": options.max_messages},
            )
        tasks = await self._list_step_tasks(intent.id) if self._resume_id else {}
        await self._steps.prepare(intent, tasks)

    # ---------------------------------------------------------------- until it is over

    async def _wait_until_over(
        self, serve_task: asyncio.Future[None], stop_task: asyncio.Future[Any], limit: float | None
    ) -> WorkflowOutcome:
        assert self._intent is not None and self._lock is not None  # noqa: S101, PT018  # it was set up
        lock_task = asyncio.ensure_future(self._lock.keep())
        watch_task = asyncio.ensure_future(_wait_until_resolved(self._client, self._intent.id))
        steps_task = asyncio.ensure_future(self._steps.run() if self._plan.steps else _never())
        seconds_left = None if limit is None else max(0.0, limit - (self._monotonic() - self._started_at))
        try:
            await asyncio.wait(
                (steps_task, watch_task, serve_task, stop_task, lock_task),
                timeout=seconds_left,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if steps_task.done():
                return steps_task.result()
            if watch_task.done():
                return self._resolved_by_others(watch_task.result())
            if lock_task.done():
                lock_task.result()  # another process has it
            if serve_task.done():
                serve_task.result()  # what keeps the agents from going on
                self._detail = "all agents were asked to stop"
                return WorkflowOutcome.ABANDONED
            if stop_task.done():
                self._detail = "interrupted"
                self._on_event(WorkflowEvent("stopping"))
                return WorkflowOutcome.INTERRUPTED
            self._detail = f"it took longer than {limit:g} seconds"
            return WorkflowOutcome.TIMED_OUT
        finally:
            await _cancel_and_wait(steps_task, watch_task, lock_task)

    # ---------------------------------------------------------------- the end

    async def _conclude(self, outcome: WorkflowOutcome) -> None:
        """Wait until open messages are handled, and set the last status on the server."""
        if outcome is WorkflowOutcome.COMPLETED:
            await self._catch_up()
        elif outcome is WorkflowOutcome.FAILED:
            failed = [
                step
                for step in self._steps.results.values()
                if step.status in (TaskStatus.FAILED, TaskStatus.CANCELLED)
            ]
            self._detail = "; ".join(f"{step.name}: {step.error}" for step in failed)
        is_hurried = outcome in (WorkflowOutcome.INTERRUPTED, WorkflowOutcome.ABANDONED)
        status = IntentStatus.COMPLETED if outcome is WorkflowOutcome.COMPLETED else IntentStatus.ABANDONED
        reason = self._detail or outcome.value
        try:
            async with asyncio.timeout(_HURRIED_SECONDS if is_hurried else _ENDING_SECONDS):
                await self._steps.cancel(reason)
                await retry_until_accepted(lambda: self._resolve(status, reason))
        except TimeoutError:
            _log.error("the server could not be reached to end the workflow", extra={"action": "workflow_unheard"})
            self._detail = f"{reason}; {NOT_REPORTED}"

    async def _resolve(self, status: IntentStatus, reason: str) -> None:
        """Set the intent's last status, unless it is resolved already."""
        assert self._intent is not None  # noqa: S101  # it was set up
        client, intent_id = self._client, self._intent.id
        while True:
            intent = self._intent = await client.get_intent(intent_id)
            if intent.status in RESOLVED:
                return
            if intent.status == IntentStatus.BLOCKED.value and status is IntentStatus.COMPLETED:
                await client.set_status(intent_id, IntentStatus.ACTIVE.value, version=intent.version)
                continue
            with suppress(Conflict):  # it changed in this moment
                self._intent = await client.set_status(
                    intent_id, status.value, reason=reason[:2000], version=intent.version
                )
                return

    async def _catch_up(self) -> None:
        """Wait until the agents have handled all messages, up to a timeout."""
        try:
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                messages = await retry_until_accepted(self._list_all_messages)
                await self._agents.wait_until_handled([one for one in messages if one.id not in self._earlier])
        except TimeoutError:
            _log.warning("some messages were not handled", extra={"action": "workflow_unheard_messages"})

    async def _list_all_messages(self) -> list[ChannelMessage]:
        assert self._intent is not None  # noqa: S101  # it was set up
        messages: list[ChannelMessage] = []
        for channel in await self._client.list_channels(self._intent.id):
            since: str | None = None
            while True:
                page = await self._client.list_messages(channel.id, since, limit=_PAGE)
                messages += [with_channel(message, channel.name, self._intent.id) for message in page]
                if len(page) < _PAGE:
                    break
                since = page[-1].id
        return messages

    async def _leave(self) -> None:
        """Delete what only a run needs, unless it may be resumed."""
        if self._lock is None or self._intent is None:
            return
        self._lock.forget()
        if self._intent.status not in RESOLVED:
            return
        with suppress(ParleyError, TimeoutError):
            async with asyncio.timeout(_HURRIED_SECONDS):
                for name in self._agents.agents:
                    with suppress(NotFound):
                        await self._client.as_agent(name).delete_bookmark(name, self._intent.id)
                await self._lock.release()

    async def _give_up(self, reason: str) -> None:
        """After an error: cancel the steps and abandon the intent."""
        if self._intent is None or self._intent.status in RESOLVED:
            return
        with suppress(ParleyError, TimeoutError):
            async with asyncio.timeout(_HURRIED_SECONDS):
                await self._steps.cancel(reason)
                await self._resolve(IntentStatus.ABANDONED, reason)


async def _wait_until_resolved(client: AsyncClient, intent_id: str) -> IntentStatus:
    """The status of an intent, once it is resolved."""
    follow_task = asyncio.ensure_future(_follow_until_resolved(client, intent_id))
    # A stream reports at once, but only what happens after it was opened, and a server limits their number.
    pending = {follow_task}
    try:
        while True:
            if pending:
                _, pending = await asyncio.wait(pending, timeout=_POLL_SECONDS)
            else:
                await asyncio.sleep(_POLL_WITHOUT_STREAM_SECONDS)
            intent = await retry_until_accepted(lambda: client.get_intent(intent_id))
            if intent.status in RESOLVED:
                return IntentStatus(intent.status)
    finally:
        await _cancel_and_wait(follow_task)


async def _never() -> WorkflowOutcome:
    """What a workflow without steps does: its intent says when it is over."""
    await asyncio.Event().wait()
    raise AssertionError  # it is cancelled


async def _follow_until_resolved(client: AsyncClient, intent_id: str) -> None:
    """Return when the intent's stream says that it is resolved; raises what keeps it from being followed."""
    stream: AsyncGenerator[StreamEvent] = client.connection.follow("subscribe", "intents", intent_id)
    async with aclosing(stream) as events:
        async for event in events:
            if event.name == "status_changed" and json.loads(event.data).get("new_status") in RESOLVED:
                return


async def _cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # it was looked at
