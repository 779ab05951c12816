"""The agents of a workflow, made of the functions that its file names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from parley.sdk.agent.agent import Agent, BaseAgent, plan_of
from parley.sdk.agent.decorators import MESSAGE, HandlerSpec
from parley.sdk.agent.handlers import Handler, Handlers, returns_awaitable
from parley.sdk.agent.running import CrewMember
from parley.sdk.agent.workplace import IntentScope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley.domain.workflow.plan import AgentPlan, HandlerRef, WorkflowPlan
    from parley.sdk.workflow.importing import Function
    from parley.wire.api.records.channels import ChannelMessage

_CONCURRENCY = 10
_EVERYONE = (None, "*")


class _WorkflowAgent(BaseAgent):
    """An agent whose handlers come from a workflow file."""


def _new_agent_class() -> type[_WorkflowAgent]:
    """A new class for each agent: the name belongs to the class."""
    return type("WorkflowAgent", (_WorkflowAgent,), {})


class WorkflowAgents:
    """The agents that a run of a workflow has in this process, and which messages of its intent they have handled.

    They work on this intent only (`scope`, set when it is known), so that two runs do not hear each other.
    """

    def __init__(self, plan: WorkflowPlan, functions: Mapping[HandlerRef, Function]) -> None:
        self.scope = IntentScope()
        self._functions = functions
        self._handled: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self.crew = [self._build_member(agent_plan) for agent_plan in plan.agents if plan.works_here(agent_plan)]
        self.agents = {member.plan.name: member.agent for member in self.crew if member.agent is not None}

    def _build_member(self, agent_plan: AgentPlan) -> CrewMember:
        decorate = Agent(
            agent_plan.name,
            capabilities=agent_plan.capabilities,
            role=agent_plan.role,
            title=agent_plan.description,
            concurrency=agent_plan.concurrency or _CONCURRENCY,
            start="now",  # earlier messages belong to other intents; a resumed run has its bookmark
        )
        agent = decorate(_new_agent_class())()
        rules = [
            Handler(
                str(rule.handler),
                self._recording(agent_plan.name, self._functions[rule.handler].of(agent)),
                HandlerSpec(MESSAGE, rule.channel, rule.kind, rule.senders, rule.timeout),
            )
            for rule in agent_plan.on_message
        ]
        return CrewMember(plan_of(agent), Handlers(rules), agent, self.scope)

    def _recording(self, agent: str, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function, which also records that the agent has handled its message."""
        if returns_awaitable(call):

            async def call_async(message: ChannelMessage) -> Any:  # noqa: ANN401  # its result
                try:
                    return await call(message)
                finally:
                    self._record_handled(agent, message.id)

            return call_async
        loop = asyncio.get_running_loop()

        def call_sync(message: ChannelMessage) -> Any:  # noqa: ANN401  # its result
            try:
                return call(message)
            finally:
                loop.call_soon_threadsafe(self._record_handled, agent, message.id)

        return call_sync

    def _record_handled(self, agent: str, message_id: str) -> None:
        self._handled.add((agent, message_id))
        self._changed.set()

    async def wait_until_handled(self, messages: list[ChannelMessage]) -> None:
        """Wait until every agent has handled those of these messages that are for it."""
        expected = {
            (member.plan.name, message.id)
            for member in self.crew
            for message in messages
            if message.sender != member.plan.name
            and message.to in (*_EVERYONE, member.plan.name)
            and message.message_type != "response"
            and member.handlers.for_message(message)
        }
        # Of what one of several takes, one has to have handled it.
        shared = [
            {(member.plan.name, message.id) for member in self.crew if message.to == f"any:{member.plan.role}"}
            for message in messages
            if message.message_type == "notify"
        ]
        while not (expected <= self._handled and all(not takers or takers & self._handled for takers in shared)):
            self._changed.clear()
            await self._changed.wait()


def with_channel(message: ChannelMessage, channel: str, intent_id: str) -> ChannelMessage:
    """A listed message with its channel name and intent, which only streams include."""
    return msgspec.structs.replace(message, channel=channel, intent_id=intent_id)
