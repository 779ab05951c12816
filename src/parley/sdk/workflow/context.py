"""The argument of a step's function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from parley.sdk.agent.agent import BaseAgent
    from parley.sdk.agent.channels import AgentChannels
    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.intents import Intent

T = TypeVar("T")


class StepContext(NamedTuple):
    """A step that is to be done: return a mapping, which is its result.

    `inputs` are the values that the file names for it; `intent` is as it was when the step began, with what earlier
    steps gave in its `state`, and so is `results`, by their names. `attempt` counts from 1. `constraints` are those of
    the step.
    """

    name: str
    title: str
    inputs: Mapping[str, Any]
    intent: Intent
    results: Mapping[str, Mapping[str, Any]]
    agent: BaseAgent
    attempt: int
    task_id: str
    constraints: Mapping[str, Any] | tuple[Any, ...] = ()

    @property
    def channels(self) -> AgentChannels:
        """Channels of the intent, in which the assigned agent speaks: `await step.channels.open("progress")`."""
        return self.agent.channels

    @property
    def client(self) -> AsyncClient:
        """A client that speaks for the assigned agent."""
        return self.agent.client

    def wait(self, awaitable: Awaitable[T]) -> T:
        """The result of an awaitable, for functions that are no coroutines: `step.wait(channel.ask(...))`."""
        return self.agent.wait(awaitable)


StepContext.__module__ = "parley"
