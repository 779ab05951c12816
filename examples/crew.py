"""A crew that writes reports: a planner, three researchers, a writer and a critic.

    python examples/crew.py                     all of them, with a server in this process: three reports
    python examples/crew.py planner writer      these two, on the server of your saved login (or of PARLEY_URL)

    owner ──assigns──> planner ──asks──> any researcher, for each part
                          └─────asks──> writer ──asks──> critic, until it has no wishes left

Kill any of them, or the server, at any moment: all go on where they were. A handler may then be called again with what
it was called with before. So the planner looks first whether there is a report, and never writes a second one.
"""

import asyncio
import sys

from parley import Agent, BaseAgent, ChannelMessage, Intent, on_assignment, on_message, run_agents
from parley.testing import stage

PARTS = ("history", "present", "outlook")
RESEARCHERS = 3
# How long an answer may take: the agent that is asked, or the server, may be away for a while.
PATIENCE_SECONDS = 900


@Agent("planner", concurrency=50)
class Planner(BaseAgent):
    """Gets a topic as the title of an intent; its state gets the report."""

    @on_assignment
    async def plan(self, intent: Intent) -> None:
        if intent.status == "completed":
            return
        if "report" not in intent.state:
            channel = await self.channels.open("crew")
            questions = [{"topic": intent.title, "part": part} for part in PARTS]
            findings = await asyncio.gather(
                *(
                    channel.ask("any:researcher", question, timeout=PATIENCE_SECONDS, wait_for_responders=True)
                    for question in questions
                )
            )
            notes = {"topic": intent.title, "findings": [finding.payload["finding"] for finding in findings]}
            report = await channel.ask("writer", notes, timeout=PATIENCE_SECONDS)
            await self.client.update_state(intent.id, {"report": report.payload["text"]}, version=intent.version)
        await self.client.complete_intent(intent.id)


def researcher(number: int) -> BaseAgent:
    """One of several that hold the same role. Five seconds after a kill, its question goes to another one."""

    @Agent(f"researcher-{number}", role="researcher", lease=5)
    class Researcher(BaseAgent):
        @on_message(channel="crew", kind="request")
        async def research(self, message: ChannelMessage) -> dict[str, str]:
            topic, part = message.payload["topic"], message.payload["part"]
            await asyncio.sleep(0.05)  # here a model would work
            return {"finding": f"The {part} of {topic} is bright."}

    return Researcher()


@Agent("writer", concurrency=50)
class Writer(BaseAgent):
    @on_message(channel="crew", kind="request")
    async def write(self, message: ChannelMessage) -> dict[str, str]:
        channel = await self.channels.open("crew")
        text = " ".join(message.payload["findings"])
        while True:
            review = await channel.ask("critic", {"text": text}, timeout=PATIENCE_SECONDS)
            if not review.payload["wish"]:
                return {"text": text}
            text = f"{message.payload['topic']}: {text}"  # here a model would follow the wish


@Agent("critic")
class Critic(BaseAgent):
    @on_message(channel="crew", kind="request")
    async def review(self, message: ChannelMessage) -> dict[str, str]:
        return {"wish": "" if ":" in message.payload["text"] else "Begin with the topic."}


def crew() -> list[BaseAgent]:
    return [Planner(), *(researcher(number) for number in range(1, RESEARCHERS + 1)), Writer(), Critic()]


def main() -> None:
    with stage() as team:
        for agent in (agents := crew()):
            if agent.name.startswith("researcher"):
                team.admin.grant_role("researcher", agent.name)  # nobody takes a role by itself
        team.start(*agents)
        owner = team.client("owner")
        intents = [owner.create_intent(topic, status="active") for topic in ("Tea", "Rail", "Ink")]
        for intent in intents:
            for agent in reversed(agents):  # the planner last: it begins at once, and asks the others
                owner.assign_agent(intent.id, agent.name)
        team.wait_until(lambda: len(owner.list_intents("completed")) == len(intents), timeout=30)
        for intent in intents:
            print(owner.get_intent(intent.id).state["report"])


if __name__ == "__main__":
    if sys.argv[1:]:
        run_agents(*(agent for agent in crew() if agent.name in sys.argv[1:]))
    else:
        main()
