from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.channel import MemberPolicy
from parley.domain.workflow.check import circles, faults
from parley.domain.workflow.plan import (
    AgentPlan,
    ChannelPlan,
    HandlerRef,
    IntentPlan,
    KeyPath,
    MessageRule,
    Reference,
    Step,
    WorkflowPlan,
)
from tests.samples.messages import PROPERTY

F = HandlerRef("", "f")
ANN = AgentPlan("ann", handler=F)


def a_plan(
    *steps: Step, agents: tuple[AgentPlan, ...] = (ANN,), channels: tuple[ChannelPlan, ...] = ()
) -> WorkflowPlan:
    return WorkflowPlan(IntentPlan("t", state={"quarter": "Q1"}), channels, agents, steps)


def found(plan: WorkflowPlan) -> list[tuple[KeyPath, str]]:
    return [(fault.path, fault.detail) for fault in faults(plan)]


def test_a_plan_in_which_every_name_stands_for_something_has_no_faults() -> None:
    talk = ChannelPlan("talk", ("ann",), MemberPolicy.EXPLICIT)
    agents = (AgentPlan("ann", handler=F, on_message=(MessageRule(F, "talk"), MessageRule(F))),)
    first = Step("first", assign="ann", outputs=("rows",))
    last = Step("last", assign="ann", depends_on=("first",), inputs={"x": Reference("first", ("rows",)), "y": 1})

    assert found(a_plan(first, last, agents=agents, channels=(talk,))) == []


def test_agents_channels_and_steps_that_are_not_there_are_named_with_what_was_probably_meant() -> None:
    channels = (ChannelPlan("talk", ("ann", "an")), ChannelPlan("progress"))
    agents = (AgentPlan("ann", handler=F, on_message=(MessageRule(F, "progres"),)),)
    steps = Step("a", assign="bob", handler=F), Step("b", assign="ann", depends_on=("x",)), Step("c", assign="anna")

    assert found(a_plan(*steps, agents=agents, channels=channels)) == [
        (("channels", "talk", "members", 1), "no agent an (did you mean ann?)"),
        (("agents", "ann", "on_message", 0, "channel"), "no channel progres (did you mean progress?)"),
        (("workflow", "a", "assign"), "no agent bob (there is ann)"),
        (("workflow", "b", "depends_on", 0), "no step x (there is a, b, c)"),
        (("workflow", "c", "assign"), "no agent anna (did you mean ann?)"),
    ]


def test_who_would_hear_nothing_is_told() -> None:
    channels = (ChannelPlan("talk", ("ann",), MemberPolicy.EXPLICIT), ChannelPlan("all"))
    bob = AgentPlan("bob", on_message=(MessageRule(F, "all"), MessageRule(F, "talk")))

    assert found(a_plan(agents=(ANN, bob), channels=channels)) == [
        (("agents", "bob", "on_message", 1, "channel"), "bob is no member of talk, and would hear nothing")
    ]


def test_an_explicit_channel_has_members() -> None:
    channels = (ChannelPlan("talk", (), MemberPolicy.EXPLICIT),)

    assert [path for path, _ in found(a_plan(Step("a", assign="ann"), channels=channels))] == [
        ("channels", "talk", "members")
    ]


def test_a_step_of_an_agent_that_runs_here_has_a_handler() -> None:
    bob = AgentPlan("bob", on_message=(MessageRule(F),))

    assert found(a_plan(Step("a", assign="bob"), agents=(ANN, bob))) == [
        (("workflow", "a", "handler"), "is not there, and bob, which runs here, has none either")
    ]


def test_a_step_without_a_handler_is_done_elsewhere() -> None:
    steps = Step("a", assign="bob"), Step("b", assign="zoe"), Step("c", role="writer"), Step("d", assign="ann")
    plan = a_plan(*steps, agents=(ANN, AgentPlan("bob")), channels=(ChannelPlan("talk", ("zoe",)),))

    assert found(plan) == []
    assert plan.remote_doers == ("bob", "zoe", "any:writer")


def test_an_input_comes_from_a_step_that_is_done_before_and_gives_it() -> None:
    first = Step("first", assign="ann", outputs=("rows", "count"))
    middle = Step("middle", assign="ann", depends_on=("first",))
    inputs = {
        "through": Reference("first", ("rows", "0")),
        "beside": Reference("other", ("x",)),
        "unsaid": Reference("first", ("row",)),
        "nowhere": [Reference("frist", ("rows",))],
    }
    last = Step("last", assign="ann", depends_on=("middle",), inputs=inputs)

    assert found(a_plan(first, middle, last, Step("other", assign="ann"))) == [
        (("workflow", "last", "inputs", "beside"), "other may not be done by then: name it in depends_on"),
        (("workflow", "last", "inputs", "unsaid"), "first does not give row, only rows, count"),
        (("workflow", "last", "inputs", "nowhere", 0), "no step frist (did you mean first?)"),
    ]


def test_a_step_does_not_write_over_what_the_intent_begins_with() -> None:
    assert [path for path, _ in found(a_plan(Step("quarter", assign="ann")))] == [("workflow", "quarter")]


def test_a_workflow_in_which_nobody_does_anything_is_refused() -> None:
    assert [path for path, _ in found(a_plan(channels=(ChannelPlan("talk"),)))] == [("agents",)]


def test_a_circle_is_named_step_by_step() -> None:
    steps = [Step(name, assign="ann", depends_on=(before,)) for name, before in ("ab", "bc", "ca", "da")]

    assert found(a_plan(*steps)) == [(("workflow", "a", "depends_on"), "goes in a circle: a -> b -> c -> a")]


def test_a_step_that_waits_for_itself_is_a_circle() -> None:
    assert circles({"a": ("a",)}) == [("a", "a")]


def test_circles_that_have_nothing_to_do_with_each_other_are_all_named() -> None:
    assert circles({"a": ("b",), "b": ("a",), "c": ("d",), "d": ("c", "a"), "e": ()}) == [
        ("a", "b", "a"),
        ("c", "d", "c"),
    ]


@PROPERTY
@given(st.dictionaries(st.sampled_from("abcdefg"), st.lists(st.sampled_from("abcdefg"), max_size=3)))
def test_exactly_what_can_be_put_in_an_order_has_no_circle(graph: dict[str, list[str]]) -> None:
    depends_on = {name: tuple(before) for name, before in graph.items()}

    named = circles(depends_on)

    for circle in named:
        assert circle[0] == circle[-1]
        assert all(after in depends_on[before] for before, after in pairwise(circle))
    done: set[str] = set()
    while ready := {
        name
        for name, before in graph.items()
        if name not in done and all(one in done or one not in graph for one in before)
    }:
        done |= ready
    assert (named == []) == (done == set(graph))
