"""Steps whose agents run elsewhere: each is a request in the channel `workflow` of the intent."""

from __future__ import annotations

from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import AskEnded, AskTimeout, Gone, NoResponders
from parley.domain.names import suggestion
from parley.domain.times import seconds_text
from parley.sdk.protocol.failures import check_answer
from parley.sdk.protocol.retry import retry_until_accepted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from parley.domain.workflow.plan import Step
    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.channels import ChannelMessage
    from parley.wire.api.records.intents import Task

CHANNEL = "workflow"
# How long an answer may take when the step names no timeout.
_DEFAULT_SECONDS = 86_400.0
_POLL_SECONDS = 15.0
_PAGE = 1_000


class RemoteSteps:
    """Asks agents elsewhere to do steps, and waits for their answers.

    A run that is resumed waits for the answer to the request that the killed process sent, so the agent does the step
    once.
    """

    def __init__(self, client: AsyncClient, runner: str, monotonic: Callable[[], float]) -> None:
        self._client = client.as_agent(runner)
        self._runner = runner
        self._monotonic = monotonic

    async def run(self, step: Step, task: Task, inputs: Mapping[str, Any], attempt: int) -> Mapping[str, Any]:
        """The result of a step; `AgentFailed` when the agent answers with an error."""
        channel = await retry_until_accepted(lambda: self._client.open_channel(task.intent_id, CHANNEL))
        exchange = _StepExchange(self._client, self._runner, channel.id, step, attempt)
        deadline = self._monotonic() + exchange.seconds
        await retry_until_accepted(lambda: exchange.read(0.0))
        if step.role:
            exchange.let_in = lambda: self._let_holders_in(task.intent_id, step.role)
            await retry_until_accepted(exchange.let_in)
        if not exchange.request_id:
            if step.assign:
                await retry_until_accepted(lambda: self._check_registered(step.assign))
            # The task was set running just now, by the server's clock.
            expires_at = task.updated_at + timedelta(seconds=exchange.seconds)
            await retry_until_accepted(lambda: exchange.send(inputs, expires_at))
        while exchange.answer is None:
            left = deadline - self._monotonic()
            if left <= 0:
                raise AskTimeout(f"{step.doer} did not answer within {seconds_text(exchange.seconds)} seconds")
            await retry_until_accepted(partial(exchange.read, round(min(left, _POLL_SECONDS), 3)))
        return check_answer(exchange.answer).payload

    async def _check_registered(self, agent: str) -> None:
        """Refuse an agent that has never run: its entry in the intent's access list makes it look known."""
        client = self._client.as_agent("")
        try:
            await client.get_agent(agent)
        except NotFound:
            similar = get_close_matches(agent, [record.agent_id for record in await client.list_agents()], 3)
            hint = suggestion(similar) or "start it first"
            text = f'no agent "{agent}" is registered'
            raise NoResponders(text, hint=hint, facts={"similar": similar}) from None

    async def _let_holders_in(self, intent_id: str, role: str) -> None:
        """Give those who hold the role of a step access to the intent, so that its request reaches them."""
        admin = self._client.as_agent("")
        listed = {entry.principal_id for entry in (await admin.get_acl(intent_id)).entries}
        for agent in (await admin.get_role(role)).holders:
            if agent not in listed:
                await admin.grant_access(intent_id, agent, "write")


async def _nothing() -> None:
    """What there is to do for a step of one agent."""


class _StepExchange:
    """The request of one attempt, and its answer."""

    def __init__(self, client: AsyncClient, runner: str, channel_id: str, step: Step, attempt: int) -> None:
        self.request_id = ""
        self.answer: ChannelMessage | None = None
        # Lets agents in that hold the role of the step only now.
        self.let_in: Callable[[], Awaitable[None]] = _nothing
        self.seconds = step.timeout or _DEFAULT_SECONDS
        self._client = client
        self._runner = runner
        self._channel_id = channel_id
        self._step = step
        self._attempt = attempt
        self._cursor: str | None = None

    async def read(self, wait: float) -> None:
        """Read on in the channel: the request, which may have waited for an approval, and its answer."""
        page = await self._client.list_messages(self._channel_id, self._cursor, wait=wait, limit=_PAGE)
        for message in page:
            if self._is_request(message):
                self.request_id = message.id
            elif message.correlation_id and message.correlation_id == self.request_id:
                self.answer = self.answer or message
        self._cursor = page[-1].id if page else self._cursor
        if not page and self.request_id:
            await self._check_open()

    async def send(self, inputs: Mapping[str, Any], expires_at: datetime) -> None:
        """Send the request."""
        step = self._step
        payload = {
            "step": step.name,
            "title": step.title,
            "description": step.description,
            "inputs": dict(inputs),
            "constraints": list(step.constraints) if isinstance(step.constraints, tuple) else dict(step.constraints),
            "attempt": self._attempt,
        }
        try:
            request = await self._client.send_message(
                self._channel_id, None, step.doer, "request", payload, expires_at, wait_for_responders=False
            )
        except MessageHeld:
            return  # it is in the channel once it is approved
        self.request_id = request.id

    def _is_request(self, message: ChannelMessage) -> bool:
        is_own = message.sender == self._runner and message.message_type == "request"
        named = (message.payload.get("step"), message.payload.get("attempt"))
        return is_own and named == (self._step.name, self._attempt)

    async def _check_open(self) -> None:
        """Raise when nobody can answer any more: the agent was deregistered, or the time is over."""
        try:
            status = (await self._client.get_message(self._channel_id, self.request_id)).status
        except (NotFound, Gone):
            status = "expired"
        if status == "pending":
            await self.let_in()
        if status == "expired":
            raise AskEnded(f"{self._step.doer} will not answer: it has left, or the time is over")
