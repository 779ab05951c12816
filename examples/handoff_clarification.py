"""Handoff clarification: in the middle of its work an agent asks another one, and goes on with the answer.

    python examples/handoff_clarification.py

A coordinator hands research over. The research agent finds columns that it cannot read, and asks the data agent which
schema they have. No new intent, no state that others have to watch, nobody else disturbed: one question, one answer.

The server runs in this process. Against a real one the classes stay as they are: `ResearchAgent().run()`.
"""

from parley import Agent, BaseAgent, ChannelMessage, Intent, on_assignment, on_message
from parley.testing import stage

LINE = "2026-01-07;EMEA;1204.50;0.19"
SCHEMAS = {"v1.0": ["day", "amount", "tax"], "v2.3": ["day", "region", "amount", "tax"]}


def say(who: str, what: str) -> None:
    """A line in one piece: the agents are threads here."""
    print(f"{who:<16}{what}\n", end="")


@Agent("data-agent")
class DataAgent(BaseAgent):
    """Knows which dataset has which schema."""

    @on_message(channel="data-clarification", kind="request")
    async def which_schema(self, message: ChannelMessage) -> dict[str, object]:
        say("data-agent", f"is asked by {message.sender}: {message.payload['question']}")
        return {"answer": "v2.3", "confidence": 0.95}


@Agent("research-agent")
class ResearchAgent(BaseAgent):
    """Is given the work, and asks when something is not clear."""

    @on_assignment
    async def research(self, intent: Intent) -> None:
        say("research-agent", f"is assigned to {intent.title!r}, and finds a line of four columns: {LINE}")
        channel = await self.channels.open("data-clarification")
        answer = await channel.ask("data-agent", {"question": "Which schema?", "dataset": "q1_financials"}, timeout=10)
        row = dict(zip(SCHEMAS[answer.payload["answer"]], LINE.split(";"), strict=True))
        say("research-agent", f"reads it as {answer.payload['answer']}: {row}")
        await self.client.update_state(intent.id, {"revenue": {row["region"]: float(row["amount"])}})
        await self.client.complete_intent(intent.id, reason="all lines are read")


@Agent("onlooker")
class Onlooker(BaseAgent):
    """Works on the same intent. The question is none of its business."""

    def __init__(self) -> None:
        self.seen: list[ChannelMessage] = []

    @on_message
    async def look(self, message: ChannelMessage) -> None:
        self.seen.append(message)


def main() -> None:
    onlooker = Onlooker()
    with stage() as team:
        team.start(DataAgent(), ResearchAgent(), onlooker)
        coordinator = team.client("coordinator")
        intent = coordinator.create_intent("Research Q1", status="active", access=["data-agent"])
        coordinator.assign_agent(intent.id, "onlooker")
        coordinator.assign_agent(intent.id, "research-agent")
        team.wait_until(lambda: coordinator.get_intent(intent.id).status == "completed", timeout=30)
        say("coordinator", f"finds the result: {coordinator.get_intent(intent.id).state}")
    say("onlooker", f"was disturbed {len(onlooker.seen)} times")


if __name__ == "__main__":
    main()
