"""A governed exchange: agents of two departments talk, within the rules, and a person decides what binds them.

    python examples/governed_exchange.py

Sally acts for Ann in sales, Erik for Bob in engineering. The rules let the departments talk. When Erik's answer
promises something, it is held: Bob sees exactly what would be sent, and alone can release it. Erik hears what became of
it, and Sally gets the answer as if nothing had been in between.

The server runs in this process. Against a real one the classes stay as they are: `Erik().run()`.
"""

from parley import Agent, Approval, BaseAgent, ChannelMessage, Intent, on_approval, on_assignment, on_message
from parley.testing import stage

POLICY = """\
agent-to-agent:
  cross_org: true
  max_rounds: 5
"""


def say(who: str, what: str) -> None:
    """A line in one piece: the agents are threads here."""
    print(f"{who:<7}{what}\n", end="")


@Agent("erik")
class Erik(BaseAgent):
    """Answers for engineering."""

    def __init__(self) -> None:
        self.decisions: list[Approval] = []

    @on_message(channel="desk", kind="request")
    async def answer(self, message: ChannelMessage) -> dict[str, str]:
        if "when" in message.payload["text"].lower():
            return {"text": "We commit to ship it by Friday."}
        return {"text": "It is in review."}

    @on_approval
    async def decided(self, approval: Approval) -> None:
        say("erik", f"hears: {approval.status} by {approval.decided_by}, {approval.note!r}")
        self.decisions.append(approval)


@Agent("sally")
class Sally(BaseAgent):
    """Asks for sales."""

    @on_assignment
    async def ask(self, intent: Intent) -> None:
        desk = await self.channels.open("desk")
        for question in ("How is ENG-1234?", "When do we get it?"):
            say("sally", f"asks: {question}")
            answer = await desk.ask("erik", {"text": question}, timeout=20)
            say("sally", f"is told: {answer.payload['text']}")
        await self.client.complete_intent(intent.id)


def main() -> None:
    erik = Erik()
    with stage() as team:
        team.admin.register_agent("sally", user_id="ann", org_unit="sales")
        team.admin.register_agent("erik", user_id="bob", org_unit="engineering")
        team.admin.put_policy("enterprise", "default", POLICY)
        team.start(erik, Sally())

        owner = team.client("owner")
        intent = owner.create_intent("Renew the contract", status="active", access=["erik"])
        owner.assign_agent(intent.id, "sally")

        bob = team.client("bob", kind="human")
        held = team.wait_until(lambda: bob.list_approvals("pending"), timeout=30)[0]
        say("bob", f"sees {held.agent} to {held.to}: {held.visible_text!r}")
        say("", held.reason)
        bob.approve(held, note="Friday is fine")

        team.wait_until(lambda: erik.decisions and owner.get_intent(intent.id).status == "completed", timeout=30)
        for exchange in team.admin.list_exchanges():
            said = ", ".join(turn.sender for turn in exchange.transcript)
            print(f"An exchange of {exchange.current_round} of {exchange.max_rounds} rounds: {said}")


if __name__ == "__main__":
    main()
