from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.directory.intent import TASK_OVER, IntentStatus, TaskStatus
from parley.domain.errors.errors import Invalid
from parley.domain.workflow.plan import (
    AgentPlan,
    HandlerRef,
    HandlerUse,
    IntentPlan,
    MessageRule,
    Reference,
    States,
    Step,
    WorkflowOutcome,
    WorkflowPlan,
    handler_uses,
    initial_states,
    missed_steps,
    missing_outputs,
    outcome_of_intent,
    outcome_of_steps,
    ready_steps,
    references,
    resolved_inputs,
)
from tests.samples.messages import PROPERTY

T = TaskStatus


def a_plan(**depends_on: str) -> WorkflowPlan:
    """Steps by name, each with the names of those before it."""
    steps = tuple(Step(name, depends_on=tuple(before.split())) for name, before in depends_on.items())
    return WorkflowPlan(IntentPlan("t"), steps=steps)


def names(steps: list[Step]) -> list[str]:
    return [step.name for step in steps]


def test_a_handler_is_written_as_in_the_file() -> None:
    assert [str(HandlerRef("tools.web", "fetch")), str(HandlerRef("", "fetch"))] == ["tools.web:fetch", "fetch"]


def test_a_step_that_names_no_handler_has_its_agents() -> None:
    own, shared = HandlerRef("", "own"), HandlerRef("", "shared")
    steps = Step("a", assign="ann", handler=own), Step("b", assign="ann"), Step("c", assign="bob")
    plan = WorkflowPlan(IntentPlan("t"), agents=(AgentPlan("ann", handler=shared), AgentPlan("bob")), steps=steps)

    assert [plan.handler_of(step) for step in steps] == [own, shared, None]


def test_an_agent_without_steps_and_handlers_is_run_by_somebody_else() -> None:
    talks = AgentPlan("talks", on_message=(MessageRule(HandlerRef("", "f")),))
    agents = talks, AgentPlan("works"), AgentPlan("elsewhere")
    steps = Step("a", assign="works", handler=HandlerRef("", "f")), Step("b", assign="elsewhere")
    plan = WorkflowPlan(IntentPlan("t"), agents=agents, steps=steps)

    assert [agent.name for agent in agents if plan.works_here(agent)] == ["talks", "works"]


def test_every_function_that_the_file_names_has_its_key() -> None:
    one, two, three = (HandlerRef("", name) for name in ("one", "two", "three"))
    agent = AgentPlan("ann", handler=one, on_message=(MessageRule(two),))
    plan = WorkflowPlan(
        IntentPlan("t"), agents=(agent,), steps=(Step("a", assign="ann"), Step("b", assign="ann", handler=three))
    )

    assert list(handler_uses(plan)) == [
        HandlerUse(("agents", "ann", "handler"), one, does_step=True),
        HandlerUse(("agents", "ann", "on_message", 0, "handler"), two, does_step=False),
        HandlerUse(("workflow", "b", "handler"), three, does_step=True),
    ]


def test_steps_begin_when_everything_before_them_is_completed() -> None:
    plan = a_plan(a="", b="", c="a b", d="c")
    states = initial_states(plan)

    assert names(ready_steps(plan, states)) == ["a", "b"]
    states |= {"a": T.COMPLETED, "b": T.RUNNING}
    assert names(ready_steps(plan, states)) == []
    states["b"] = T.COMPLETED
    assert names(ready_steps(plan, states)) == ["c"]


@pytest.mark.parametrize("over", sorted(TASK_OVER - {T.COMPLETED}))
def test_what_comes_after_a_step_that_did_not_get_done_is_missed_however_far_behind(over: TaskStatus) -> None:
    plan = a_plan(d="c", c="b", b="a", a="", other="")
    states = initial_states(plan) | {"a": over}

    assert missed_steps(plan, states) == {"b": "a", "c": "b", "d": "c"}
    assert names(ready_steps(plan, states)) == ["other"]


def test_nothing_is_missed_while_all_goes_well() -> None:
    plan = a_plan(a="", b="a")

    assert missed_steps(plan, {"a": T.COMPLETED, "b": T.PENDING}) == {}


@PROPERTY
@given(st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=7), st.lists(st.booleans(), min_size=7))
def test_whatever_fails_every_step_ends(befores: list[list[int]], succeeds: list[bool]) -> None:
    steps = {f"s{n}": " ".join({f"s{one}" for one in before if one < n}) for n, before in enumerate(befores)}
    plan = a_plan(**steps)
    states: States = initial_states(plan)

    while outcome_of_steps(states) is None:
        states |= dict.fromkeys(missed_steps(plan, states), T.SKIPPED)
        ready = ready_steps(plan, states)
        for step in ready:
            states[step.name] = T.COMPLETED if succeeds[int(step.name[1:])] else T.FAILED
        assert ready or outcome_of_steps(states) is not None

    assert (outcome_of_steps(states) is WorkflowOutcome.COMPLETED) == all(one is T.COMPLETED for one in states.values())
    for step in plan.steps:
        if states[step.name] is T.SKIPPED:
            assert any(states[before] is not T.COMPLETED for before in step.depends_on)


def test_steps_that_are_not_over_have_no_outcome() -> None:
    assert outcome_of_steps({"a": T.COMPLETED, "b": T.RUNNING}) is None
    assert outcome_of_steps({"a": T.COMPLETED, "b": T.SKIPPED}) is WorkflowOutcome.FAILED
    assert outcome_of_steps({"a": T.COMPLETED}) is WorkflowOutcome.COMPLETED


def test_without_steps_the_intent_says_how_it_ended() -> None:
    assert {status: outcome_of_intent(status) for status in IntentStatus} == {
        IntentStatus.DRAFT: None,
        IntentStatus.ACTIVE: None,
        IntentStatus.BLOCKED: None,
        IntentStatus.COMPLETED: WorkflowOutcome.COMPLETED,
        IntentStatus.ABANDONED: WorkflowOutcome.ABANDONED,
    }


def test_inputs_are_values_or_what_earlier_steps_gave() -> None:
    rows, first = Reference("fetch", ("rows",)), Reference("fetch", ("meta", "first"))
    inputs = {"limit": 3, "rows": rows, "first": first, "inside": {"list": [rows, "text"]}}

    given = resolved_inputs(Step("a", inputs=inputs), {"fetch": {"rows": [1], "meta": {"first": None}}})

    assert given == {"limit": 3, "rows": [1], "first": None, "inside": {"list": [[1], "text"]}}


def test_every_reference_is_found_however_deep_it_stands() -> None:
    one, two = Reference("a", ("x",)), Reference("b", ("y",))

    assert list(references({"p": one, "q": ["text", {"r": two}], "s": 1})) == [(("p",), one), (("q", 1, "r"), two)]


@pytest.mark.parametrize(
    ("keys", "missing"), [(("cols",), "cols"), (("meta", "last"), "meta.last"), (("rows", "x"), "rows.x")]
)
def test_a_value_that_an_earlier_step_did_not_give_is_named(keys: tuple[str, ...], missing: str) -> None:
    step = Step("a", inputs={"x": Reference("fetch", keys)})

    with pytest.raises(Invalid, match=rf"^inputs\.x: the step fetch gave no {missing}$"):
        resolved_inputs(step, {"fetch": {"rows": 1, "meta": {}}})


def test_outputs_that_are_missing_are_named() -> None:
    assert missing_outputs(Step("a", outputs=("x", "y", "z")), {"y": None}) == ["x", "z"]
