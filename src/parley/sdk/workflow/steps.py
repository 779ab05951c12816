"""The steps of a workflow at work: each is a task of the intent, done by its agent when its turn has come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from parley.domain.directory.intent import TASK_OVER, TaskStatus
from parley.domain.errors.errors import Conflict, Invalid, ParleyError
from parley.domain.errors.team import RateLimited
from parley.domain.errors.workflow import WorkflowFailed
from parley.domain.workflow.plan import (
    WorkflowOutcome,
    initial_states,
    missed_steps,
    missing_outputs,
    outcome_of_steps,
    ready_steps,
    resolved_inputs,
)
from parley.sdk.agent.agent import plan_of
from parley.sdk.agent.calling import answer_of, call
from parley.sdk.agent.decorators import HandlerSpec
from parley.sdk.agent.handlers import Handler
from parley.sdk.agent.logs import describe_error
from parley.sdk.protocol.context import current_intent
from parley.sdk.protocol.refusal import is_temporary
from parley.sdk.protocol.retry import retry_until_accepted
from parley.sdk.workflow.context import StepContext
from parley.sdk.workflow.result import StepResult, WorkflowEvent

if TYPE_CHECKING:
    from parley.domain.workflow.plan import HandlerRef, Step, WorkflowPlan
    from parley.sdk.agent.agent import BaseAgent
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.workflow.importing import Function
    from parley.sdk.workflow.remote import RemoteSteps
    from parley.wire.api.records.intents import Intent, Task

OnEvent = Callable[[WorkflowEvent], None]

_STEP = "step"

_log = logging.getLogger("parley.workflow")


class EndedElsewhere(Exception):  # named for what happened
    """The task of a step was ended by another client."""

    def __init__(self, task: Task) -> None:
        self.task = task
        super().__init__(task.status)


class StepTask:
    """The task of a step. Its status changes only from the version that we know of (If-Match)."""

    def __init__(self, client: AsyncClient, task: Task) -> None:
        self._client = client
        self.task = task

    async def move(self, status: TaskStatus, **fields: Any) -> None:  # noqa: ANN401  # those of a task
        """Set a status, retrying while the server is away. `EndedElsewhere` when another client has ended the task."""
        maybe_applied = False
        while True:
            try:
                self.task = await self._client.update_task(
                    self.task.id, status=status.value, version=self.task.version, **fields
                )
                return
            except ParleyError as error:
                if not isinstance(error, Conflict) and not is_temporary(error):
                    raise
                maybe_applied = maybe_applied or not isinstance(error, Conflict | RateLimited)
            self.task = await retry_until_accepted(lambda: self._client.get_task(self.task.id))
            if maybe_applied and self.task.status == status.value:
                return  # the earlier update was applied
            if self.task.status in TASK_OVER:
                raise EndedElsewhere(self.task)


class Steps:
    """All steps of one run. `states` and `results` say how far it has come."""

    def __init__(
        self,
        plan: WorkflowPlan,
        functions: Mapping[HandlerRef, Function],
        agents: Mapping[str, BaseAgent],
        client: AsyncClient,
        remote: RemoteSteps,
        on_event: OnEvent,
        monotonic: Callable[[], float],
    ) -> None:
        self.states = initial_states(plan)
        self.results = {step.name: StepResult(step.name, step.doer) for step in plan.steps}
        self._plan = plan
        self._functions = functions
        self._agents = agents
        self._client = client
        self._remote = remote
        self._on_event = on_event
        self._monotonic = monotonic
        self._tasks: dict[str, StepTask] = {}
        # The attempt with which a step begins: not 1 where an earlier process has tried.
        self._first_attempts: dict[str, int] = {}
        self._intent_id = ""
        # One after the other: all of them change the same intent.
        self._state_lock = asyncio.Lock()
        self._slots = {name: asyncio.Semaphore(plan_of(agent).concurrency) for name, agent in agents.items()}

    async def prepare(self, intent: Intent, tasks: Mapping[str, Task]) -> None:
        """Create a task for each step that has none yet, dependencies first; the others go on where they are."""
        self._intent_id = intent.id
        remaining = list(self._plan.steps)
        while remaining:
            step = next(step for step in remaining if all(before in self._tasks for before in step.depends_on))
            remaining.remove(step)
            task = tasks.get(step.name) or await self._create_task(step)
            self._tasks[step.name] = StepTask(self._client, task)
            self._update_result(step, task_id=task.id)
            if step.name in tasks:
                await self._resume_step(step, intent.state.get(step.name))

    async def _create_task(self, step: Step) -> Task:
        return await self._client.create_task(
            self._intent_id,
            step.title,
            step.description or None,
            assigned_agent=step.assign or None,
            depends_on=[self._tasks[before].task.id for before in step.depends_on],
            timeout_seconds=step.timeout,
            max_attempts=step.retries + 1,
            metadata={_STEP: step.name},
        )

    async def _resume_step(self, step: Step, result: object) -> None:
        """Take over a step from the process that ran it: what is over stays so, what was running runs again."""
        step_task = self._tasks[step.name]
        task = step_task.task
        if task.status not in TASK_OVER and isinstance(result, dict):
            # Its function has returned: the result is in the intent's state before the task counts as completed.
            await step_task.move(TaskStatus.COMPLETED, output=result)
        elif task.status not in TASK_OVER:
            tried = task.status == TaskStatus.PENDING.value and task.error is not None
            self._first_attempts[step.name] = min(task.attempt + tried, step.retries + 1)
            if task.status == TaskStatus.RUNNING.value:
                await step_task.move(TaskStatus.PENDING)
            return
        status = TaskStatus(step_task.task.status)
        error = task.error.get("message", "") if isinstance(task.error, dict) else task.blocked_reason or ""
        self._finish_step(step, status, error=error, result=result if isinstance(result, dict) else None)

    async def run(self) -> WorkflowOutcome:
        """Run all steps, in parallel where possible; steps whose dependencies failed are skipped."""
        running: set[asyncio.Task[None]] = set()
        try:
            while (outcome := outcome_of_steps(self.states)) is None:
                for name, before in missed_steps(self._plan, self.states).items():
                    await self._skip(name, before)
                for step in ready_steps(self._plan, self.states):
                    self.states[step.name] = TaskStatus.READY
                    running.add(asyncio.create_task(self._run_step(step)))
                if running:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
            return outcome
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)

    async def cancel(self, why: str) -> None:
        """Cancel every step that is not over."""
        for step in self._plan.steps:
            if self.states[step.name] not in TASK_OVER:
                self._finish_step(step, TaskStatus.CANCELLED, error=why)
        for step in self._plan.steps:
            if self.states[step.name] is TaskStatus.CANCELLED and step.name in self._tasks:
                try:
                    await self._tasks[step.name].move(TaskStatus.CANCELLED, blocked_reason=why)
                except (EndedElsewhere, Conflict):
                    continue

    # ---------------------------------------------------------------- one step

    async def _skip(self, name: str, before: str) -> None:
        step, why = self._step_named(name), f"{before} did not get done"
        self._finish_step(step, TaskStatus.SKIPPED, error=why)
        try:
            await self._tasks[name].move(TaskStatus.SKIPPED, blocked_reason=why)
        except EndedElsewhere as ended:
            self._adopt_status(step, ended.task)

    async def _run_step(self, step: Step) -> None:
        """Run a step to its end."""
        current_intent.set(self._intent_id)
        started_at = self._monotonic()
        try:
            await self._tasks[step.name].move(TaskStatus.READY)
            self._on_event(WorkflowEvent("step_ready", step.name, step.doer))
            async with self._slots.get(step.assign) or nullcontext():
                started_at = self._monotonic()
                await self._run_attempts(step, started_at)
        except EndedElsewhere as ended:
            self._adopt_status(step, ended.task, self._monotonic() - started_at)

    async def _run_attempts(self, step: Step, started_at: float) -> None:
        """Attempt a step until it succeeds, or its retries are used up."""
        step_task = self._tasks[step.name]
        for attempt in range(self._first_attempts.get(step.name, 1), step.retries + 2):
            await step_task.move(TaskStatus.RUNNING, attempt=attempt)
            self.states[step.name] = TaskStatus.RUNNING
            self._update_result(step, attempts=attempt, status=TaskStatus.RUNNING)
            self._on_event(WorkflowEvent("step_started", step.name, step.doer, attempt=attempt))
            attempt_task = asyncio.ensure_future(self._attempt(step, attempt))
            try:
                await asyncio.wait((attempt_task,))
            finally:
                attempt_task.cancel()
            error = (
                WorkflowFailed("its handler was cancelled") if attempt_task.cancelled() else attempt_task.exception()
            )
            if error is None:
                try:
                    await step_task.move(TaskStatus.COMPLETED, output=dict(attempt_task.result()))
                except Invalid:  # too large for a task by a few bytes; the intent's state has it
                    await step_task.move(TaskStatus.COMPLETED)
                return self._finish_step(step, TaskStatus.COMPLETED, started_at, result=attempt_task.result())
            if isinstance(error, EndedElsewhere):
                raise error
            error_text = describe_error(error)
            extra = {"action": "workflow_step_failed", "step": step.name, "agent": step.doer, "attempt": attempt}
            if self._plan.is_remote(step):  # the traceback is in the log of its agent
                _log.error("the step %s failed: %s", step.name, error_text, extra=extra)
            else:
                _log.error("the step %s failed", step.name, extra=extra, exc_info=error)
            if attempt > step.retries:
                await step_task.move(TaskStatus.FAILED, error={"message": error_text})
                return self._finish_step(step, TaskStatus.FAILED, started_at, error=error_text)
            self._on_event(WorkflowEvent("step_retried", step.name, step.doer, error_text, attempt))
            await step_task.move(TaskStatus.PENDING, error={"message": error_text})
            await asyncio.sleep(step.pauses.after(attempt))
        return None

    async def _attempt(self, step: Step, attempt: int) -> Mapping[str, Any]:
        """Do the step once, and store its result in the intent's state."""
        intent = await retry_until_accepted(lambda: self._client.get_intent(self._intent_id))
        results = {
            name: step_result.result
            for name, step_result in self.results.items()
            if step_result.status is TaskStatus.COMPLETED
        }
        inputs = resolved_inputs(step, results)
        if self._plan.is_remote(step):
            result = await self._remote.run(step, self._tasks[step.name].task, inputs, attempt)
        else:
            result = await self._call(step, attempt, intent, results, inputs)
        if missing := missing_outputs(step, result):
            raise Invalid(f"{self._plan.handler_of(step) or step.doer} did not give {', '.join(missing)}")
        async with self._state_lock:
            await retry_until_accepted(lambda: self._client.update_state(self._intent_id, {step.name: dict(result)}))
        return result

    async def _call(
        self,
        step: Step,
        attempt: int,
        intent: Intent,
        results: Mapping[str, Mapping[str, Any]],
        inputs: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """Call the step's function."""
        agent = self._agents[step.assign]
        context = StepContext(
            step.name,
            step.title,
            inputs,
            intent,
            results,
            agent,
            attempt,
            self._tasks[step.name].task.id,
            step.constraints,
        )
        ref = self._plan.handler_of(step)
        assert ref is not None  # noqa: S101  # a plan without is refused
        function = self._functions[ref]
        handler = Handler(function.name, function.of(agent), HandlerSpec(_STEP, timeout=step.timeout))
        try:
            return_value = await call(handler, context, None)
        except SystemExit as end:
            raise WorkflowFailed(f"{function.name} called exit({end.code})") from None
        if not isinstance(return_value, Mapping | None):
            hint = "a step returns a mapping, its result, or None for an empty one"
            raise Invalid(f"{function.name} returned {type(return_value).__name__}", hint=hint)
        return answer_of(handler, return_value) or {}

    # ---------------------------------------------------------------- notes

    def _step_named(self, name: str) -> Step:
        step = self._plan.step(name)
        assert step is not None  # noqa: S101  # names come from the plan
        return step

    def _update_result(self, step: Step, **fields: Any) -> None:  # noqa: ANN401  # those of a result
        self.results[step.name] = self.results[step.name]._replace(**fields)

    def _adopt_status(self, step: Step, task: Task, seconds: float = 0.0) -> None:
        """Take over the status that another client has set."""
        result = task.output if isinstance(task.output, dict) else {}
        status = TaskStatus(task.status)
        error = "" if status is TaskStatus.COMPLETED else f"another client set it {status.value}"
        self._finish_step(step, status, self._monotonic() - seconds, error=error, result=result)

    def _finish_step(
        self,
        step: Step,
        status: TaskStatus,
        started_at: float | None = None,
        *,
        error: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> None:
        seconds = 0.0 if started_at is None else self._monotonic() - started_at
        self.states[step.name] = status
        self._update_result(step, status=status, error=error, seconds=seconds, result=result or {})
        attempts = self.results[step.name].attempts
        self._on_event(WorkflowEvent(f"step_{status.value}", step.name, step.doer, error, attempts, seconds))
