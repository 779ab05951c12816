"""The four agents of the demo. They are written as anybody writes agents; their lines come from a script, not a model.

    sales         sally asks engineering, quinn makes offers      both act for ann
    engineering   erik answers for engineering, tess tests        both act for bob

What erik commits to is held for bob, what quinn promises for ann, and what tess must not tell sales is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.rules import Denied, MessageHeld
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_approval, on_notify, on_request

if TYPE_CHECKING:
    from parley.cli.demo.narration import Narrator
    from parley.sdk.client.handle import AsyncChannelHandle
    from parley.wire.api.records.channels import ChannelMessage
    from parley.wire.api.records.rules import Approval

# Channels: between the departments, inside sales, inside engineering.
DESK, PRICES, TESTS = "desk", "prices", "tests"
# An answer that a person decides about may take as long as the demo runs. A server waits for no longer.
DECISION_SECONDS = 3_600


class Deal(NamedTuple):
    """What one round of the demo is about."""

    customer: str
    ticket: str
    day: str


class ScriptedAgent(BaseAgent):
    """An agent that says on the terminal what it says to others."""

    def __init__(self, narrator: Narrator, intent_id: str) -> None:
        self._narrator = narrator
        self._intent_id = intent_id

    async def _open(self, channel: str) -> AsyncChannelHandle:
        return await self.channels.open(channel, intent_id=self._intent_id)

    async def _ask(self, channel: str, to: str, text: str, seconds: float = 30.0, **fields: str) -> str:
        """Ask in a channel, and return the answer's text."""
        await self._narrator.pause()
        self._narrator.say(self.name, to, text)
        answer = await (await self._open(channel)).ask(to, {"text": text, **fields}, timeout=seconds)
        return str(answer.payload.get("text", ""))

    async def _tell(self, channel: str, to: str, text: str, **metadata: str) -> None:
        """Notify somebody in a channel."""
        await self._narrator.pause()
        await (await self._open(channel)).notify(to, {"text": text}, metadata=metadata)
        self._narrator.say(self.name, to, text)

    async def _answer(self, message: ChannelMessage, text: str) -> dict[str, str]:
        await self._narrator.pause()
        self._narrator.say(self.name, message.sender, text)
        return {"text": text}


@Agent("sally", drain=0, title="Asks engineering for ann")
class Sally(ScriptedAgent):
    """Looks after customers."""

    is_waiting = False

    @on_notify
    async def hear(self, message: ChannelMessage) -> None:
        """Notifications to sally need no answer."""

    async def ask_for_state(self, deal: Deal) -> None:
        """A question between departments, which the policies allow."""
        await self._ask(DESK, "erik", f"How is {deal.ticket}? {deal.customer} asks every day.")

    async def ask_for_price(self, deal: Deal) -> None:
        """A question inside the department."""
        await self._ask(PRICES, "quinn", f"What do ten seats cost {deal.customer}?")

    async def ask_for_date(self, deal: Deal) -> None:
        """A question whose answer bob has to approve; what follows depends on it."""
        self.is_waiting = True
        try:
            question = f"When can {deal.customer} have {deal.ticket}?"
            answer = await self._ask(DESK, "erik", question, DECISION_SECONDS, day=deal.day)
            await self._ask(PRICES, "quinn", f'Engineering says: "{answer}" Please tell {deal.customer}.')
        finally:
            self.is_waiting = False


@Agent("quinn", drain=0, title="Makes offers for ann")
class Quinn(ScriptedAgent):
    """Makes offers."""

    is_waiting = False

    @on_request(PRICES)
    async def answer(self, message: ChannelMessage) -> dict[str, str]:
        """Answer sally."""
        if "tell" in message.text:
            return await self._answer(message, "Done. The customer is happy.")
        return await self._answer(message, "400 a month for ten seats.")

    @on_approval
    async def decided(self, approval: Approval) -> None:
        """Go on when ann has decided; what she approved was sent by then."""
        self.is_waiting = False
        self._narrator.decide(approval)
        if approval.status == "rejected":
            await self._tell(PRICES, "sally", "Ann does not want me to promise that. I make another offer.")

    async def promise_seats(self, deal: Deal) -> None:
        """A promise to another department, which ann has to approve."""
        text = f"We promise {deal.customer} ten seats with {deal.ticket}."
        try:
            await self._tell(DESK, "erik", text)
        except MessageHeld:
            self.is_waiting = True
            self._narrator.say(self.name, "erik", text, "held for ann")


@Agent("erik", drain=0, title="Answers for engineering, for bob")
class Erik(ScriptedAgent):
    """Answers for engineering."""

    def __init__(self, narrator: Narrator, intent_id: str) -> None:
        super().__init__(narrator, intent_id)
        self.has_committed = asyncio.Event()

    @on_request(DESK)
    async def answer(self, message: ChannelMessage) -> dict[str, str] | None:
        """Answer sally: a state by itself, a date only with bob."""
        if message.text.startswith("When"):
            text = f"We commit to {message.payload['day']}."
            await self._narrator.pause()
            await self._reply(message.channel_id, message.id, message.sender, text)
            return None
        tests = await self._ask(TESTS, "tess", "Do the tests pass?")
        return await self._answer(message, f"In review. {tests}")

    @on_notify(DESK)
    async def hear(self, message: ChannelMessage) -> None:
        """Hear what quinn promised, and have it prepared."""
        if message.sender == "quinn":
            await self._ask(TESTS, "tess", f'Quinn says: "{message.text}" Please set them up.')

    @on_approval
    async def decided(self, approval: Approval) -> None:
        """Bob has decided. What he approved was sent; in place of what he rejected, erik says something else."""
        self._narrator.decide(approval)
        if approval.status == "rejected" and approval.correlation_id and approval.channel_id:
            await self._narrator.pause()
            text = "Bob does not want to name a day yet."
            await self._reply(approval.channel_id, approval.correlation_id, approval.to, text)

    async def _reply(self, channel_id: str, message_id: str, to: str, text: str) -> None:
        state = ""
        try:
            await self.client.reply_to(channel_id, message_id, None, {"text": text})
        except MessageHeld:
            state = "held for bob"
            self.has_committed.set()
        self._narrator.say(self.name, to, text, state)


@Agent("tess", drain=0, title="Tests for bob")
class Tess(ScriptedAgent):
    """Tests."""

    @on_request(TESTS)
    async def answer(self, message: ChannelMessage) -> dict[str, str]:
        """Answer erik."""
        if "set them up" in message.text:
            return await self._answer(message, "Ten seats are set up.")
        return await self._answer(message, "118 of 120 tests pass.")

    async def tell_too_much(self, deal: Deal) -> None:
        """What is confidential does not go to another department: the policies refuse it."""
        text = f"{deal.customer} pays us less than it costs."
        try:
            await self._tell(DESK, "sally", text, classification="confidential")
        except Denied:
            self._narrator.say(self.name, "sally", text, "refused: confidential")
