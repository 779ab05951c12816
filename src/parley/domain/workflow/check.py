"""Check a workflow as a whole: unknown names and dependency cycles."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.channel.channel import MemberPolicy
from parley.domain.workflow.plan import KeyPath, references

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from parley.domain.workflow.plan import AgentPlan, Reference, Step, WorkflowPlan


class Fault(NamedTuple):
    """One fault, at a key."""

    path: KeyPath
    code: str
    detail: str


def faults(plan: WorkflowPlan) -> list[Fault]:
    """All faults of the plan as a whole."""
    problems = [*_of_channels(plan)]
    for agent in plan.agents:
        problems += _of_agent(plan, agent)
    for step in plan.steps:
        problems += _of_step(plan, step)
    problems += [
        Fault(("workflow", circle[0], "depends_on"), "circle", f"goes in a circle: {' -> '.join(circle)}")
        for circle in circles({step.name: step.depends_on for step in plan.steps})
    ]
    if not plan.steps and not any(agent.on_message for agent in plan.agents):
        problems.append(Fault(("agents",), "missing", "nobody has anything to do: there is no step and no on_message"))
    return problems


def _of_channels(plan: WorkflowPlan) -> Iterator[Fault]:
    agents = [agent.name for agent in plan.agents]
    agents += [step.assign for step in plan.steps if step.assign and step.assign not in agents]
    for channel in plan.channels:
        path: KeyPath = ("channels", channel.name)
        for number, member in enumerate(channel.members):
            if member not in agents:
                yield _unknown((*path, "members", number), "agent", member, agents)
        if channel.policy is MemberPolicy.EXPLICIT and not channel.members:
            yield Fault((*path, "members"), "missing", "is not there: only members may talk in an explicit channel")


def _of_agent(plan: WorkflowPlan, agent: AgentPlan) -> Iterator[Fault]:
    channels = {channel.name: channel for channel in plan.channels}
    for number, rule in enumerate(agent.on_message):
        path: KeyPath = ("agents", agent.name, "on_message", number, "channel")
        channel = channels.get(rule.channel)
        if rule.channel and channel is None:
            yield _unknown(path, "channel", rule.channel, channels)
        if channel and channel.policy is MemberPolicy.EXPLICIT and agent.name not in channel.members:
            yield Fault(path, "not_member", f"{agent.name} is no member of {rule.channel}, and would hear nothing")


def _of_step(plan: WorkflowPlan, step: Step) -> Iterator[Fault]:
    path: KeyPath = ("workflow", step.name)
    steps = [step.name for step in plan.steps]
    if step.name in plan.intent.state:
        yield Fault(path, "duplicate", "is a key of intent.state, too: the step's result would take its place")
    yield from _of_doer(plan, step, path)
    for number, before in enumerate(step.depends_on):
        if before not in steps:
            yield _unknown((*path, "depends_on", number), "step", before, steps)
    before_it = _before(plan, step)
    for inside, value in references(dict(step.inputs)):
        yield from _of_reference(plan, (*path, "inputs", *inside), value, before_it)


def _of_doer(plan: WorkflowPlan, step: Step, path: KeyPath) -> Iterator[Fault]:
    """Who does it: an agent of the file with a handler, or one elsewhere without any."""
    agents = [agent.name for agent in plan.agents]
    agent = plan.agent(step.assign)
    if step.role and step.assign:
        yield Fault((*path, "role"), "duplicate", f"is done by {step.assign}: name an agent or a role")
    elif step.role and step.handler:
        yield Fault((*path, "handler"), "unexpected", "is for an agent of this file; those of a role run elsewhere")
    elif agent is None and step.assign and (step.handler or get_close_matches(step.assign, agents, 1)):
        yield _unknown((*path, "assign"), "agent", step.assign, agents)
    elif agent is not None and agent.on_message and plan.is_remote(step):
        yield Fault((*path, "handler"), "missing", f"is not there, and {agent.name}, which runs here, has none either")


def _of_reference(plan: WorkflowPlan, path: KeyPath, value: Reference, before: Collection[str]) -> Iterator[Fault]:
    source = plan.step(value.step)
    if source is None:
        yield _unknown(path, "step", value.step, [step.name for step in plan.steps])
    elif source.name not in before:
        yield Fault(path, "not_before", f"{value.step} may not be done by then: name it in depends_on")
    elif source.outputs and value.keys[0] not in source.outputs:
        yield Fault(path, "unknown", f"{value.step} does not give {value.keys[0]}, only {', '.join(source.outputs)}")


def _before(plan: WorkflowPlan, step: Step) -> set[str]:
    """Every step that is done before this one begins."""
    ahead, earlier = list(step.depends_on), set[str]()
    while ahead:
        name = ahead.pop()
        step_before = plan.step(name)
        if step_before is not None and name not in earlier:
            earlier.add(name)
            ahead += step_before.depends_on
    return earlier


def _unknown(path: KeyPath, what: str, name: str, candidates: Collection[str]) -> Fault:
    close = get_close_matches(name, candidates, 1)
    hint = (
        f"did you mean {close[0]}?" if close else f"there is {', '.join(candidates)}" if candidates else "there is none"
    )
    return Fault(path, "unknown", f"no {what} {name} ({hint})")


def circles(depends_on: dict[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Dependency cycles, each from a name back to itself. Breaking all of them leaves at most smaller ones."""
    left = {
        name: [dependency for dependency in before if dependency in depends_on] for name, before in depends_on.items()
    }
    cycles = []
    while left := _knotted(left):
        walk = [next(iter(left))]
        while walk[-1] not in walk[:-1]:
            walk.append(left[walk[-1]][0])
        circle = walk[walk.index(walk[-1]) :]
        cycles.append(tuple(circle))
        left = {
            name: [dependency for dependency in before if dependency not in circle]
            for name, before in left.items()
            if name not in circle
        }
    return cycles


def _knotted(depends_on: dict[str, list[str]]) -> dict[str, list[str]]:
    """The names that remain when names without dependencies are removed repeatedly."""
    left = dict(depends_on)
    while free := [name for name, before in left.items() if not any(dependency in left for dependency in before)]:
        for name in free:
            del left[name]
    return {name: [dependency for dependency in before if dependency in left] for name, before in left.items()}
