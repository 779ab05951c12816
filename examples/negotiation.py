"""Negotiation: two agents want the same section, and settle it between themselves.

    python examples/negotiation.py

Two writers work on one report. Anna is faster, and would like what is left of Ben's. Before she takes a section she
asks him. He keeps the one that he is in the middle of and gives the other one away. Only then does she take it, for the
version that she has seen: had somebody else been faster, the server would have refused it.

The server runs in this process. Against a real one the classes stay as they are: `Anna().run()`.
"""

from parley import Agent, BaseAgent, ChannelMessage, Intent, on_assignment, on_message
from parley.testing import stage

SECTIONS = {"introduction": "anna", "method": "ben", "outlook": "ben"}


def say(who: str, what: str) -> None:
    """A line in one piece: the agents are threads here."""
    print(f"{who:<6}{what}\n", end="")


@Agent("ben")
class Ben(BaseAgent):
    """Holds two sections and works on one of them."""

    busy_with = "method"

    @on_message(channel="sections", kind="request")
    async def may_you_have_it(self, message: ChannelMessage) -> dict[str, object]:
        section = message.payload["section"]
        if section == self.busy_with:
            return {"yours": False, "because": "I am in the middle of it"}
        return {"yours": True, "because": "I have not begun"}


@Agent("anna")
class Anna(BaseAgent):
    """Has finished hers, and asks before she takes another one."""

    @on_assignment
    async def write(self, intent: Intent) -> None:
        channel = await self.channels.open("sections")
        for task in await self.client.list_tasks(intent.id):
            if task.assigned_agent == "ben":
                answer = await channel.ask("ben", {"section": task.name}, timeout=10)
                verdict = "yes" if answer.payload["yours"] else "no"
                say("anna", f"Are you still working on {task.name!r}, or can I take it?")
                say("ben", f"{verdict}: {answer.payload['because']}")
                if answer.payload["yours"]:
                    await self.client.update_task(task.id, assigned_agent="anna", version=task.version)
        await self.client.complete_intent(intent.id, reason="every section has its writer")


def main() -> None:
    with stage() as team:
        team.start(Ben(), Anna())
        editor = team.client("editor")
        intent = editor.create_intent("The annual report", status="active")
        for name, writer in SECTIONS.items():
            editor.create_task(intent.id, name, assigned_agent=writer)
        editor.assign_agent(intent.id, "ben")
        editor.assign_agent(intent.id, "anna")
        team.wait_until(lambda: editor.get_intent(intent.id).status == "completed", timeout=30)
        for task in editor.list_tasks(intent.id):
            print(f"{task.name:<13} is written by {task.assigned_agent}")


if __name__ == "__main__":
    main()
