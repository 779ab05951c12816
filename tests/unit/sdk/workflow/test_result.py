from __future__ import annotations

import json

import pytest

from parley.domain.directory.intent import TaskStatus
from parley.domain.errors.workflow import WorkflowAbandoned, WorkflowFailed, WorkflowTimedOut
from parley.domain.workflow.plan import WorkflowOutcome
from parley.sdk.workflow.result import StepResult, WorkflowEvent, WorkflowResult

STEPS = {
    "a": StepResult("a", "ann", TaskStatus.COMPLETED, {"x": 1}, attempts=1, seconds=0.12345),
    "b": StepResult("b", "bob", TaskStatus.FAILED, error="no"),
}


def a_result(outcome: WorkflowOutcome, detail: str = "why") -> WorkflowResult:
    return WorkflowResult(outcome, "intent_1", STEPS, {"a": {"x": 1}}, detail, 1.23456)


def test_what_got_done_is_there_by_name() -> None:
    assert a_result(WorkflowOutcome.FAILED).results == {"a": {"x": 1}}


def test_a_result_that_is_good_raises_nothing() -> None:
    result = a_result(WorkflowOutcome.COMPLETED)

    assert result.ok
    assert result.or_raise() is result


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WorkflowOutcome.FAILED, WorkflowFailed),
        (WorkflowOutcome.TIMED_OUT, WorkflowTimedOut),
        (WorkflowOutcome.ABANDONED, WorkflowAbandoned),
        (WorkflowOutcome.INTERRUPTED, WorkflowFailed),
    ],
)
def test_every_other_end_is_an_error_that_names_the_intent(
    outcome: WorkflowOutcome, error: type[WorkflowFailed]
) -> None:
    with pytest.raises(error, match=r"^why$") as raised:
        a_result(outcome).or_raise()

    assert type(raised.value) is error
    assert raised.value.facts == {"intent_id": "intent_1", "outcome": outcome.value}


def test_all_of_it_can_be_written_as_json() -> None:
    document = json.loads(json.dumps(a_result(WorkflowOutcome.FAILED).to_dict()))

    assert (document["outcome"], document["seconds"]) == ("failed", 1.235)
    assert document["steps"]["a"]["result"] == {"x": 1}
    assert document["steps"]["b"]["status"] == "failed"


def test_an_event_tells_only_what_there_is_to_tell() -> None:
    assert WorkflowEvent("step_started", "a", "ann", attempt=1).fields() == {
        "event": "step_started",
        "step": "a",
        "agent": "ann",
        "attempt": 1,
    }
