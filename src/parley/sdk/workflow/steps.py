"""The steps of a workflow at work: each is a task of the intent, done by its agent when its turn has come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
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
from parley.sdk.agent.calling import answer_of, call
from parley.sdk.agent.channels import current_intent
from parley.sdk.agent.decorators import Handles
from parley.sdk.agent.handlers import Handler
from parley.sdk.protocol.refusal import passes
from parley.sdk.workflow.context import StepContext
from parley.sdk.workflow.failures import said
from parley.sdk.workflow.result import StepResult, WorkflowEvent
from parley.sdk.workflow.retry import insist

if TYPE_CHECKING:
    from parley.domain.workflow.plan import HandlerRef, Step, WorkflowPlan
    from parley.sdk.agent.agent import BaseAgent
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.workflow.importing import Function
    from parley.wire.api.records.intents import Intent, Task

Tell = Callable[[WorkflowEvent], None]

_STEP = "step"
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 30.0

_log = logging.getLogger("parley.workflow")


class EndedElsewhere(Exception):  # named for what happened
    """Somebody else has ended the task of a step."""

    def __init__(self, task: Task) -> None:
        self.task = task
        super().__init__(task.status)


class StepTask:
    """The task of a step. Its status changes only from the version that we know of (If-Match)."""

    def __init__(self, client: AsyncClient, task: Task) -> None:
        self._client = client
        self.task = task

    async def move(self, status: TaskStatus, **fields: Any) -> None:  # noqa: ANN401  # those of a task
        """Go to a status, however long the server is away. `EndedElsewhere` when somebody else has ended it."""
        unheard = False
        while True:
            try:
                self.task = await self._client.update_task(
                    self.task.id, status=status.value, version=self.task.version, **fields
                )
                return
            except ParleyError as error:
                if not isinstance(error, Conflict) and not passes(error):
                    raise
                unheard = unheard or not isinstance(error, Conflict | RateLimited)
            self.task = await insist(lambda: self._client.get_task(self.task.id))
            if unheard and self.task.status == status.value:
                return  # it had arrived all the same
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
        tell: Tell,
        monotonic: Callable[[], float],
    ) -> None:
        self.states = initial_states(plan)
        self.results = {step.name: StepResult(step.name, step.assign) for step in plan.steps}
        self._plan = plan
        self._functions = functions
        self._agents = agents
        self._client = client
        self._tell = tell
        self._monotonic = monotonic
        self._tasks: dict[str, StepTask] = {}
        self._intent_id = ""
        # One after the other: all of them change the same intent.
        self._writing = asyncio.Lock()
        self._slots = {name: asyncio.Semaphore(one.plan.concurrency) for name, one in agents.items()}

    async def prepare(self, intent: Intent) -> None:
        """One task for each step, those first that others depend on."""
        self._intent_id = intent.id
        left = list(self._plan.steps)
        while left:
            step = next(one for one in left if all(before in self._tasks for before in one.depends_on))
            left.remove(step)
            task = await self._client.create_task(
                intent.id,
                step.title,
                step.description or None,
                assigned_agent=step.assign,
                depends_on=[self._tasks[before].task.id for before in step.depends_on],
                timeout_seconds=step.timeout,
                max_attempts=step.retries + 1,
                metadata={_STEP: step.name},
            )
            self._tasks[step.name] = StepTask(self._client, task)
            self._note(step, task_id=task.id)

    async def run(self) -> WorkflowOutcome:
        """Do all steps, as many at once as can be; what cannot be done any more is skipped."""
        running: set[asyncio.Task[None]] = set()
        try:
            while (outcome := outcome_of_steps(self.states)) is None:
                for name, before in missed_steps(self._plan, self.states).items():
                    await self._skip(name, before)
                for step in ready_steps(self._plan, self.states):
                    self.states[step.name] = TaskStatus.READY
                    running.add(asyncio.create_task(self._do(step)))
                if running:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for one in done:
                        one.result()
            return outcome
        finally:
            for one in running:
                one.cancel()
            if running:
                await asyncio.wait(running)

    async def cancel(self, why: str) -> None:
        """Say of everything that is not over that it will not be done."""
        for step in self._plan.steps:
            if self.states[step.name] not in TASK_OVER:
                self._settle(step, TaskStatus.CANCELLED, error=why)
        for step in self._plan.steps:
            if self.states[step.name] is TaskStatus.CANCELLED and step.name in self._tasks:
                try:
                    await self._tasks[step.name].move(TaskStatus.CANCELLED, blocked_reason=why)
                except (EndedElsewhere, Conflict):
                    continue

    # ---------------------------------------------------------------- one step

    async def _skip(self, name: str, before: str) -> None:
        step, why = self._named(name), f"{before} did not get done"
        self._settle(step, TaskStatus.SKIPPED, error=why)
        try:
            await self._tasks[name].move(TaskStatus.SKIPPED, blocked_reason=why)
        except EndedElsewhere as ended:
            self._adopt(step, ended.task)

    async def _do(self, step: Step) -> None:
        """A step from its turn to its end."""
        current_intent.set(self._intent_id)
        began = self._monotonic()
        try:
            await self._tasks[step.name].move(TaskStatus.READY)
            self._tell(WorkflowEvent("step_ready", step.name, step.assign))
            async with self._slots[step.assign]:
                began = self._monotonic()
                await self._tried(step, began)
        except EndedElsewhere as ended:
            self._adopt(step, ended.task, self._monotonic() - began)

    async def _tried(self, step: Step, began: float) -> None:
        """Try until it succeeds, or was tried often enough."""
        pause, record = _FIRST_PAUSE, self._tasks[step.name]
        for attempt in range(1, step.retries + 2):
            await record.move(TaskStatus.RUNNING, attempt=attempt)
            self.states[step.name] = TaskStatus.RUNNING
            self._note(step, attempts=attempt, status=TaskStatus.RUNNING)
            self._tell(WorkflowEvent("step_started", step.name, step.assign, attempt=attempt))
            tried = asyncio.ensure_future(self._attempt(step, attempt))
            try:
                await asyncio.wait((tried,))
            finally:
                tried.cancel()
            error = WorkflowFailed("its handler was cancelled") if tried.cancelled() else tried.exception()
            if error is None:
                try:
                    await record.move(TaskStatus.COMPLETED, output=dict(tried.result()))
                except Invalid:  # too large for a task by a few bytes; the intent's state has it
                    await record.move(TaskStatus.COMPLETED)
                return self._settle(step, TaskStatus.COMPLETED, began, result=tried.result())
            if isinstance(error, EndedElsewhere):
                raise error
            why = said(error)
            extra = {"action": "workflow_step_failed", "step": step.name, "agent": step.assign, "attempt": attempt}
            _log.error("the step %s failed", step.name, extra=extra, exc_info=error)
            if attempt > step.retries:
                await record.move(TaskStatus.FAILED, error={"message": why})
                return self._settle(step, TaskStatus.FAILED, began, error=why)
            self._tell(WorkflowEvent("step_retried", step.name, step.assign, why, attempt))
            await record.move(TaskStatus.PENDING, error={"message": why})
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return None

    async def _attempt(self, step: Step, attempt: int) -> Mapping[str, Any]:
        """Call the step's function, and put what it gives into the intent's state."""
        intent = await insist(lambda: self._client.get_intent(self._intent_id))
        results = {name: one.result for name, one in self.results.items() if one.status is TaskStatus.COMPLETED}
        agent = self._agents[step.assign]
        given = resolved_inputs(step, results)
        context = StepContext(
            step.name, step.title, given, intent, results, agent, attempt, self._tasks[step.name].task.id
        )
        ref = self._plan.handler_of(step)
        assert ref is not None  # noqa: S101  # a plan without is refused
        function = self._functions[ref]
        handler = Handler(function.name, function.of(agent), Handles(_STEP, timeout=step.timeout))
        try:
            returned = await call(handler, context, None)
        except SystemExit as end:
            raise WorkflowFailed(f"{function.name} called exit({end.code})") from None
        if not isinstance(returned, Mapping | None):
            hint = "a step returns a mapping, its result, or None for an empty one"
            raise Invalid(f"{function.name} returned {type(returned).__name__}", hint=hint)
        result = answer_of(handler, returned) or {}
        if missing := missing_outputs(step, result):
            raise Invalid(f"{function.name} did not give {', '.join(missing)}")
        async with self._writing:
            await insist(lambda: self._client.update_state(self._intent_id, {step.name: dict(result)}))
        return result

    # ---------------------------------------------------------------- notes

    def _named(self, name: str) -> Step:
        step = self._plan.step(name)
        assert step is not None  # noqa: S101  # names come from the plan
        return step

    def _note(self, step: Step, **fields: Any) -> None:  # noqa: ANN401  # those of a result
        self.results[step.name] = self.results[step.name]._replace(**fields)

    def _adopt(self, step: Step, task: Task, seconds: float = 0.0) -> None:
        """What somebody else has made of a step counts."""
        result = task.output if isinstance(task.output, dict) else {}
        status = TaskStatus(task.status)
        error = "" if status is TaskStatus.COMPLETED else f"somebody else set it {status.value}"
        self._settle(step, status, self._monotonic() - seconds, error=error, result=result)

    def _settle(
        self,
        step: Step,
        status: TaskStatus,
        began: float | None = None,
        *,
        error: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> None:
        seconds = 0.0 if began is None else self._monotonic() - began
        self.states[step.name] = status
        self._note(step, status=status, error=error, seconds=seconds, result=result or {})
        attempts = self.results[step.name].attempts
        self._tell(WorkflowEvent(f"step_{status.value}", step.name, step.assign, error, attempts, seconds))
