"""The result of a workflow, and the events while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.directory.intent import TaskStatus
from parley.domain.errors.workflow import WorkflowAbandoned, WorkflowFailed, WorkflowTimedOut
from parley.domain.workflow.plan import WorkflowOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

# How a detail ends when the server could not be told of the end.
NOT_REPORTED = "the server could not be reached, so the intent keeps its status"

_ERRORS = {WorkflowOutcome.TIMED_OUT: WorkflowTimedOut, WorkflowOutcome.ABANDONED: WorkflowAbandoned}


class StepResult(NamedTuple):
    """The outcome of one step. `result` is what its function returned; `error` says why it failed."""

    name: str
    agent: str
    status: TaskStatus = TaskStatus.PENDING
    result: Mapping[str, Any] = {}
    error: str = ""
    attempts: int = 0
    seconds: float = 0.0
    task_id: str = ""


class WorkflowEvent(NamedTuple):
    """Something that happened while a workflow runs.

    `name` is `intent_created` or `intent_resumed`, `agents_ready`, `step_ready`, `step_started`, `step_completed`,
    `step_failed`, `step_retried`, `step_skipped`, `step_cancelled`, `stopping` (it was interrupted) or `ended`; `step`
    and `agent` are empty where it is about no step.
    """

    name: str
    step: str = ""
    agent: str = ""
    detail: str = ""
    attempt: int = 0
    seconds: float = 0.0

    def fields(self) -> dict[str, Any]:
        """The non-empty fields, for JSON."""
        named = {"event": self.name, **self._asdict(), "seconds": round(self.seconds, 3)}
        return {name: value for name, value in named.items() if name != "name" and value not in ("", 0)}


WorkflowEvent.__module__ = "parley"


class WorkflowResult(NamedTuple):
    """How a workflow ended. `detail` says more where it was not completed; `state` is the intent's last."""

    outcome: WorkflowOutcome
    intent_id: str
    steps: Mapping[str, StepResult]
    state: Mapping[str, Any]
    detail: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every step was completed."""
        return self.outcome is WorkflowOutcome.COMPLETED

    @property
    def results(self) -> dict[str, Mapping[str, Any]]:
        """The results of completed steps, by name."""
        return {name: step.result for name, step in self.steps.items() if step.status is TaskStatus.COMPLETED}

    def or_raise(self) -> WorkflowResult:
        """Itself when completed, else raises `WorkflowFailed`, `WorkflowTimedOut` or `WorkflowAbandoned`."""
        if self.ok:
            return self
        facts = {"intent_id": self.intent_id, "outcome": self.outcome.value}
        raise _ERRORS.get(self.outcome, WorkflowFailed)(self.detail, facts=facts)

    def to_dict(self) -> dict[str, Any]:
        """The result as a JSON object."""
        steps = {
            name: {**step._asdict(), "status": step.status.value, "seconds": round(step.seconds, 3)}
            for name, step in self.steps.items()
        }
        return {**self._asdict(), "outcome": self.outcome.value, "steps": steps, "seconds": round(self.seconds, 3)}


WorkflowResult.__module__ = "parley"
