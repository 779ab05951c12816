"""A workflow: an intent, its channels, the agents that work on it, and the steps of the work.

pending ──everything before it is completed──> ready ──> running ──> completed
   │  ^                                                    │ └────> failed
   │  └─────────────────── another try ────────────────────┘
   └──something before it did not get done──> skipped          cancelled: the whole ended before this step did
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.intent import TASK_OVER, IntentStatus, TaskStatus
from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VERSION = "1.0"

# From the root of the file down: keys, and places in lists from 0 on.
KeyPath = tuple[str | int, ...]


class HandlerRef(NamedTuple):
    """A function by its name. Without a module it is looked up where the workflow keeps its handlers."""

    module: str
    function: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}" if self.module else self.function


class IntentPlan(NamedTuple):
    """The intent that the workflow creates."""

    title: str
    description: str = ""
    state: Mapping[str, Any] = {}  # never written to
    constraints: Mapping[str, Any] | tuple[Any, ...] = ()
    # Who has access beside the agents of the file: everybody if it is open, and these agents.
    access: AccessPolicy = AccessPolicy.CLOSED
    others: tuple[str, ...] = ()


class ChannelPlan(NamedTuple):
    """A channel that the workflow creates on its intent."""

    name: str
    members: tuple[str, ...] = ()
    policy: MemberPolicy = MemberPolicy.INTENT
    options: Options = Options()


class MessageRule(NamedTuple):
    """Which messages an agent hands to which function. An empty filter lets everything through."""

    handler: HandlerRef
    channel: str = ""
    kind: str = ""
    senders: tuple[str, ...] = ()
    timeout: float | None = None


class AgentPlan(NamedTuple):
    """An agent. `handler` is for those of its steps that name none; `description` is its title in the registry."""

    name: str
    role: str = ""
    capabilities: tuple[str, ...] = ()
    concurrency: int | None = None
    handler: HandlerRef | None = None
    on_message: tuple[MessageRule, ...] = ()
    description: str = ""


class Reference(NamedTuple):
    """A value that an earlier step gives: `step.key`, and further down where that is a mapping."""

    step: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.step, *self.keys))


class RetryPauses(NamedTuple):
    """How long to wait before a step is tried again: it doubles each time, grows by the same step, or stays."""

    first: float = 0.2
    longest: float = 30.0
    growth: str = "exponential"

    def after(self, attempt: int) -> float:
        """Seconds after an attempt that failed; the first one is 1."""
        factor = {"exponential": 2.0 ** min(attempt - 1, 60), "linear": float(attempt)}.get(self.growth, 1.0)
        return min(self.first * factor, self.longest)


class Step(NamedTuple):
    """A part of the work, done by one agent, or by one that holds a role.

    Inputs are values, or references to what earlier steps gave. Without a handler of its own or of its agent, the step
    is sent as a request to the agent, which runs elsewhere.
    """

    name: str
    title: str = ""
    description: str = ""
    assign: str = ""
    depends_on: tuple[str, ...] = ()
    handler: HandlerRef | None = None
    timeout: float | None = None
    retries: int = 0
    inputs: Mapping[str, Any] = {}  # never written to
    outputs: tuple[str, ...] = ()
    role: str = ""
    constraints: Mapping[str, Any] | tuple[Any, ...] = ()
    pauses: RetryPauses = RetryPauses()

    @property
    def doer(self) -> str:
        """The agent that does it, or `any:ROLE`: one of those who hold the role."""
        return f"any:{self.role}" if self.role else self.assign


class WorkflowPlan(NamedTuple):
    """A whole workflow as its file says it. `handlers` is the module of handlers that name none."""

    intent: IntentPlan
    channels: tuple[ChannelPlan, ...] = ()
    agents: tuple[AgentPlan, ...] = ()
    steps: tuple[Step, ...] = ()
    timeout: float | None = None
    handlers: str = ""

    def agent(self, name: str) -> AgentPlan | None:
        return next((agent for agent in self.agents if agent.name == name), None)

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)

    def handler_of(self, step: Step) -> HandlerRef | None:
        """The step's own, or its agent's."""
        agent = self.agent(step.assign)
        return step.handler or (agent.handler if agent else None)

    def is_remote(self, step: Step) -> bool:
        """Whether its agent runs elsewhere: nothing in the file says how the step is done."""
        return self.handler_of(step) is None

    @property
    def remote_doers(self) -> tuple[str, ...]:
        """The agents and roles elsewhere that do steps."""
        return tuple(dict.fromkeys(step.doer for step in self.steps if self.is_remote(step)))

    @property
    def participants(self) -> tuple[str, ...]:
        """The agents that take part in the intent: those of the file, and those elsewhere that it names."""
        doers = [step.assign for step in self.steps if step.assign]
        return tuple(dict.fromkeys((*(agent.name for agent in self.agents), *doers, *self.intent.others)))

    def works_here(self, agent: AgentPlan) -> bool:
        """Whether the workflow has work for an agent in its own process; an agent without any runs elsewhere."""
        return bool(agent.on_message) or any(
            step.assign == agent.name and not self.is_remote(step) for step in self.steps
        )


class HandlerUse(NamedTuple):
    """Where the file names a function, and whether it does a step or takes messages."""

    path: KeyPath
    handler: HandlerRef
    does_step: bool


def handler_uses(plan: WorkflowPlan) -> Iterator[HandlerUse]:
    """Every function that the file names, in its order."""
    for agent in plan.agents:
        if agent.handler is not None:
            yield HandlerUse(("agents", agent.name, "handler"), agent.handler, does_step=True)
        for number, rule in enumerate(agent.on_message):
            path = ("agents", agent.name, "on_message", number, "handler")
            yield HandlerUse(path, rule.handler, does_step=False)
    for step in plan.steps:
        if step.handler is not None:
            yield HandlerUse(("workflow", step.name, "handler"), step.handler, does_step=True)


# ---------------------------------------------------------------- on the way

States = dict[str, TaskStatus]
# What a step needs that comes before it, and what shows that it will never be there.
_MISSED = TASK_OVER - {TaskStatus.COMPLETED}


def initial_states(plan: WorkflowPlan) -> States:
    return {step.name: TaskStatus.PENDING for step in plan.steps}


def ready_steps(plan: WorkflowPlan, states: Mapping[str, TaskStatus]) -> list[Step]:
    """The steps that can begin now, in the order of the file."""
    return [
        step
        for step in plan.steps
        if states[step.name] is TaskStatus.PENDING
        and all(states[before] is TaskStatus.COMPLETED for before in step.depends_on)
    ]


def missed_steps(plan: WorkflowPlan, states: Mapping[str, TaskStatus]) -> dict[str, str]:
    """The steps that can never begin, however far behind what failed, each with the step that it misses."""
    missed: dict[str, str] = {}
    over = {name for name, status in states.items() if status in _MISSED}
    waiting = [step for step in plan.steps if states[step.name] is TaskStatus.PENDING]
    changed = True
    while changed:
        changed = False
        for step in waiting:
            before = next(
                (dependency for dependency in step.depends_on if dependency in over or dependency in missed), ""
            )
            if before and step.name not in missed:
                missed[step.name] = before
                changed = True
    return missed


class WorkflowOutcome(StrEnum):
    """How a workflow ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    ABANDONED = "abandoned"
    INTERRUPTED = "interrupted"


def outcome_of_steps(states: Mapping[str, TaskStatus]) -> WorkflowOutcome | None:
    """How the steps ended; None while they have not."""
    if any(status not in TASK_OVER for status in states.values()):
        return None
    return (
        WorkflowOutcome.COMPLETED
        if all(status is TaskStatus.COMPLETED for status in states.values())
        else WorkflowOutcome.FAILED
    )


def outcome_of_intent(status: IntentStatus) -> WorkflowOutcome | None:
    """How a workflow without steps ended; None while its intent is not resolved."""
    return {IntentStatus.COMPLETED: WorkflowOutcome.COMPLETED, IntentStatus.ABANDONED: WorkflowOutcome.ABANDONED}.get(
        status
    )


def references(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Reference]]:  # noqa: ANN401  # any input
    """Every reference in an input, and where in it."""
    if isinstance(value, Reference):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from references(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from references(item, (*path, number))


def resolved_inputs(step: Step, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the step is given; `Invalid` names the first value that an earlier step was to give and did not."""
    return {name: _resolved(name, value, results) for name, value in step.inputs.items()}


def _resolved(name: str, value: Any, results: Mapping[str, Mapping[str, Any]]) -> Any:  # noqa: ANN401  # any input
    if isinstance(value, Reference):
        return _referenced(name, value, results)
    if isinstance(value, dict):
        return {key: _resolved(name, item, results) for key, item in value.items()}
    return [_resolved(name, item, results) for item in value] if isinstance(value, list) else value


def _referenced(name: str, reference: Reference, results: Mapping[str, Mapping[str, Any]]) -> Any:  # noqa: ANN401
    value: Any = results.get(reference.step, {})
    for depth, key in enumerate(reference.keys):
        if not isinstance(value, dict) or key not in value:
            missing = ".".join(reference.keys[: depth + 1])
            raise Invalid(f"inputs.{name}: the step {reference.step} gave no {missing}")
        value = value[key]
    return value


def missing_outputs(step: Step, result: Mapping[str, Any]) -> list[str]:
    """The keys that the step was to give and did not."""
    return [key for key in step.outputs if key not in result]
