"""The agents of a workflow, made of the functions that its file names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import MESSAGE, Handles
from parley.sdk.agent.handlers import Handler, Handlers
from parley.sdk.agent.running import Crew
from parley.sdk.workflow.importing import awaits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley.domain.workflow.plan import AgentPlan, HandlerRef, WorkflowPlan
    from parley.sdk.workflow.importing import Function
    from parley.wire.api.records.channels import ChannelMessage

_CONCURRENCY = 10
_EVERYONE = (None, "*")


class _WorkflowAgent(BaseAgent):
    """An agent whose handlers stand in a file."""


def _copied() -> type[_WorkflowAgent]:
    """A class of its own: what an agent is called belongs to its class."""
    return type("WorkflowAgent", (_WorkflowAgent,), {})


class Hands:
    """The agents that a workflow runs, and which messages of its intent they have dealt with.

    An agent's stream shows every intent that it works on. The functions of the file are for one: the workflow's own,
    whose id is set when it is known.
    """

    def __init__(self, plan: WorkflowPlan, functions: Mapping[HandlerRef, Function]) -> None:
        self.intent_id = ""
        self._functions = functions
        self._dealt: set[tuple[str, str]] = set()
        self._news = asyncio.Event()
        self.crew = [self._made(one) for one in plan.agents if plan.works_here(one)]
        self.agents = {one.plan.name: one.agent for one in self.crew if one.agent is not None}

    def _made(self, planned: AgentPlan) -> Crew:
        declared = Agent(
            planned.name,
            capabilities=planned.capabilities,
            role=planned.role,
            concurrency=planned.concurrency or _CONCURRENCY,
            start="now",  # what was said before the intent was there is none of its business
        )
        agent = declared(_copied())()
        rules = [
            Handler(
                str(rule.handler),
                self._mine(planned.name, self._functions[rule.handler].of(agent)),
                Handles(MESSAGE, rule.channel, rule.kind, rule.senders, rule.timeout),
            )
            for rule in planned.on_message
        ]
        return Crew(agent.plan, Handlers(rules), agent)

    def _mine(self, agent: str, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function for messages of this workflow's intent; others are passed over."""
        if awaits(call):

            async def awaited(message: ChannelMessage) -> Any:  # noqa: ANN401  # its result
                if message.intent_id != self.intent_id:
                    return None
                try:
                    return await call(message)
                finally:
                    self._note(agent, message.id)

            return awaited
        loop = asyncio.get_running_loop()

        def called(message: ChannelMessage) -> Any:  # noqa: ANN401  # its result
            if message.intent_id != self.intent_id:
                return None
            try:
                return call(message)
            finally:
                loop.call_soon_threadsafe(self._note, agent, message.id)

        return called

    def _note(self, agent: str, message_id: str) -> None:
        self._dealt.add((agent, message_id))
        self._news.set()

    async def heard(self, messages: list[ChannelMessage]) -> None:
        """Wait until every agent has dealt with those of these messages that are for it."""
        expected = {
            (one.plan.name, message.id)
            for one in self.crew
            for message in messages
            if message.sender != one.plan.name
            and message.to in (*_EVERYONE, one.plan.name)
            and message.message_type != "response"
            and one.handlers.for_message(message)
        }
        while not expected <= self._dealt:
            self._news.clear()
            await self._news.wait()


def in_channel(message: ChannelMessage, channel: str, intent_id: str) -> ChannelMessage:
    """A message that was listed, with what only a stream says about it."""
    return msgspec.structs.replace(message, channel=channel, intent_id=intent_id)
