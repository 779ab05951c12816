"""Two crews with the same roles and channels on one server, each on an intent of its own."""

from __future__ import annotations

import pytest

from parley import Agent, BaseAgent, ChannelMessage, on_message
from parley.testing import Stage, stage


class Researcher(BaseAgent):
    """Answers questions, and notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []

    @on_message(channel="questions", kind="request")
    async def answer(self, message: ChannelMessage) -> dict[str, str]:
        return {"by": self.name}

    @on_message(channel="progress")
    async def note(self, message: ChannelMessage) -> None:
        self.heard.append((message.sender, message.payload["step"]))


def researcher(name: str) -> Researcher:
    @Agent(name, role="researcher")
    class OneOfThem(Researcher):
        pass

    return OneOfThem()


def crew(team: str) -> list[Researcher]:
    return [researcher(f"{team}-{number}") for number in (1, 2)]


def begin(server: Stage, agents: list[Researcher], team: str, access: str) -> str:
    """The intent of a team, on which its agents work."""
    intent = server.client(f"{team}-lead").create_intent(team, status="active", access=access)
    for agent in agents:
        server.client(f"{team}-lead").assign_agent(intent.id, agent.name)
    return intent.id


@pytest.mark.parametrize("access", ["closed", "open"])
def test_what_a_team_asks_and_tells_reaches_its_own_agents_only(access: str) -> None:
    with stage() as server:
        red, blue = crew("red"), crew("blue")
        for agent in (*red, *blue):
            server.admin.grant_role("researcher", agent.name)
        server.start(*red, *blue)
        intents = {"red": begin(server, red, "red", access), "blue": begin(server, blue, "blue", access)}
        leads = {team: server.client(f"{team}-lead") for team in intents}

        for team, intent in intents.items():
            lead = leads[team]
            questions = lead.open_channel(intent, "questions")
            answers = lead.ask_all(questions.id, None, "role:researcher", {"question": "?"}, 2.0)
            assert sorted(str(answer.payload["by"]) for answer in answers) == [f"{team}-1", f"{team}-2"]
            lead.send_to_name(intent, "progress", None, "*", "broadcast", {"step": 1})

        for team, agents in (("red", red), ("blue", blue)):
            expected = [(f"{team}-lead", 1)]
            for agent in agents:
                server.wait_until(lambda agent=agent, expected=expected: agent.heard == expected)  # type: ignore[misc]
        # What is not for them would have come before this, which is.
        for team, agents in (("red", red), ("blue", blue)):
            leads[team].send_to_name(intents[team], "progress", None, "role:researcher", "notify", {"step": 2})
            for agent in agents:
                expected = [(f"{team}-lead", 1), (f"{team}-lead", 2)]
                server.wait_until(lambda agent=agent, expected=expected: agent.heard == expected)  # type: ignore[misc]


@Agent("clerk")
class Clerk(BaseAgent):
    """Works on two intents, and keeps their messages apart."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []

    @on_message(intent="Sales")
    async def by_title(self, message: ChannelMessage) -> None:
        self.heard.append(("sales", message.payload["n"]))

    @on_message(channel="news")
    async def by_channel(self, message: ChannelMessage) -> None:
        self.heard.append(("news", message.payload["n"]))


def test_a_handler_of_one_intent_is_not_called_for_another() -> None:
    with stage() as server:
        clerk = Clerk()
        server.start(clerk)
        boss = server.client("boss")
        sales, support = (boss.create_intent(title, access=["clerk"]).id for title in ("Sales", "Support"))

        for number, intent in enumerate((support, sales, support)):
            boss.send_to_name(intent, "news", None, "*", "broadcast", {"n": number})

        expected = [("news", 0), ("sales", 1), ("news", 1), ("news", 2)]
        server.wait_until(lambda: len(clerk.heard) == len(expected))
        assert sorted(clerk.heard) == sorted(expected)
