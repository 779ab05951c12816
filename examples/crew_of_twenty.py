"""A crew of twenty: one question to a role, twenty answers, a table.

    python examples/crew_of_twenty.py

Twenty agents in one process count primes, each in its own part of the numbers. The coordinator asks the role, not the
agents: it does not know how many they are. `ask_all` ends as soon as everybody who holds the role has answered. Then it
asks one of them by its name.

The server runs in this process. Against a real one: `parley.run_agents(*crew)`.
"""

import time
from datetime import UTC, datetime

from parley import Agent, BaseAgent, ChannelMessage, Intent, on_assignment, on_message
from parley.testing import stage

CREW = 20
BELOW = 20_000


def counter(number: int) -> BaseAgent:
    """The agent that counts the `number`-th part."""

    @Agent(f"counter-{number:02}", role="counter")
    class Counter(BaseAgent):
        @on_message(channel="work", kind="request")
        def count(self, message: ChannelMessage) -> dict[str, int]:  # no coroutine: it computes, in a thread of its own
            share = message.payload["below"] // message.payload["parts"]
            numbers = range(max(2, number * share), (number + 1) * share)
            return {"from": numbers.start, "primes": sum(map(is_prime, numbers))}

    return Counter()


def is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))


@Agent("coordinator")
class Coordinator(BaseAgent):
    """Asks all of them at once, and adds up."""

    @on_assignment
    async def collect(self, intent: Intent) -> None:
        channel = await self.channels.open("work")
        began, clock = datetime.now(UTC), time.perf_counter()
        answers = await channel.ask_all("role:counter", {"below": BELOW, "parts": CREW}, timeout=30)
        seconds = time.perf_counter() - clock
        print(f"{'AGENT':<12}{'FROM':>7}{'PRIMES':>8}{'AFTER':>10}")
        for one in sorted(answers, key=lambda answer: answer.sender):
            after = (one.created_at - began).total_seconds()
            print(f"{one.sender:<12}{one.payload['from']:>7}{one.payload['primes']:>8}{after * 1000:>7.0f} ms")
        total = sum(one.payload["primes"] for one in answers)
        print(f"{len(answers)} agents found {total} primes below {BELOW} in {seconds * 1000:.0f} ms")

        clock = time.perf_counter()
        alone = await channel.ask("counter-07", {"below": BELOW, "parts": CREW})
        seconds = time.perf_counter() - clock
        print(f"counter-07, asked alone, found {alone.payload['primes']} in {seconds * 1000:.0f} ms")
        await self.client.update_state(intent.id, {"primes": total})
        await self.client.complete_intent(intent.id)


def main() -> None:
    with stage() as team:
        crew = [counter(number) for number in range(CREW)]
        for agent in crew:
            team.admin.grant_role("counter", agent.name)  # nobody takes a role by itself
        team.start(Coordinator(), *crew)
        owner = team.client("owner")
        intent = owner.create_intent("Count primes", status="active", access=[agent.name for agent in crew])
        owner.assign_agent(intent.id, "coordinator")
        team.wait_until(lambda: owner.get_intent(intent.id).status == "completed", timeout=30)


if __name__ == "__main__":
    main()
