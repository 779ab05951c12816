"""A workflow as a Mermaid flowchart: what depends on what, who does it, and who talks where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.channel.channel import MemberPolicy
from parley.domain.directory.intent import TaskStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parley.domain.workflow.plan import WorkflowPlan

# Fill and border of a step, by its state.
_COLOURS = {
    TaskStatus.READY: ("#e0f2fe", "#0369a1"),
    TaskStatus.RUNNING: ("#fef9c3", "#a16207"),
    TaskStatus.COMPLETED: ("#dcfce7", "#15803d"),
    TaskStatus.FAILED: ("#fee2e2", "#b91c1c"),
    TaskStatus.SKIPPED: ("#f3f4f6", "#6b7280"),
    TaskStatus.CANCELLED: ("#f3f4f6", "#6b7280"),
}
# What means something inside of a label: `#` first, because the others are spelled with it.
_MEANING = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;", "\\": "#92;"}
_LONGEST = 80


def diagram(plan: WorkflowPlan, states: Mapping[str, TaskStatus] | None = None) -> str:
    """The text of the flowchart; with states, each step has the colour of its own."""
    return "\n".join(_lines(plan, states or {})) + "\n"


def _lines(plan: WorkflowPlan, states: Mapping[str, TaskStatus]) -> Iterator[str]:
    # Names may hold what means something to Mermaid, or be a word of its own such as `end`: ids are numbers.
    steps = {step.name: f"step{number}" for number, step in enumerate(plan.steps, 1)}
    agents = {agent.name: f"agent{number}" for number, agent in enumerate(plan.agents, 1)}
    channels = {channel.name: f"channel{number}" for number, channel in enumerate(plan.channels, 1)}
    yield "flowchart LR"
    if plan.steps:
        yield f'  subgraph intent["{label(plan.intent.title)}"]'
        for step in plan.steps:
            state = f"<br/><i>{states[step.name].value}</i>" if step.name in states else ""
            yield f'    {steps[step.name]}["{label(step.title or step.name)}<br/>{label(step.doer)}{state}"]'
        yield "  end"
    else:
        yield f'  intent["{label(plan.intent.title)}"]'
    for agent in plan.agents:
        yield f'  {agents[agent.name]}(["{label(agent.name)}"])'
    for channel in plan.channels:
        yield f'  {channels[channel.name]}[/"{label(channel.name)}"/]'
    yield from _edges(plan, steps, agents, channels)
    for state in dict.fromkeys(states[name] for name in steps if name in states):
        if state in _COLOURS:
            fill, border = _COLOURS[state]
            names = ",".join(steps[name] for name in steps if states.get(name) is state)
            yield f"  classDef {state.value} fill:{fill},stroke:{border},color:#111827"
            yield f"  class {names} {state.value}"


def _edges(
    plan: WorkflowPlan, steps: Mapping[str, str], agents: Mapping[str, str], channels: Mapping[str, str]
) -> Iterator[str]:
    for step in plan.steps:
        for before in step.depends_on:
            if before in steps:
                yield f"  {steps[before]} --> {steps[step.name]}"
    for step in plan.steps:
        if step.assign in agents:
            yield f"  {agents[step.assign]} -.-> {steps[step.name]}"
    for channel in plan.channels:
        everyone = channel.policy is MemberPolicy.INTENT
        for member in agents if everyone else channel.members:
            if member in agents:
                yield f"  {agents[member]} --- {channels[channel.name]}"
    for agent in plan.agents:
        for rule in agent.on_message:
            if rule.channel in channels:
                handler = label(str(rule.handler))
                yield f'  {channels[rule.channel]} -- "{handler}" --> {agents[agent.name]}'


def label(text: str) -> str:
    """Any text as it can stand between the quotes of a label."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    shown = shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
    return "".join(_MEANING.get(character, character) for character in shown)
