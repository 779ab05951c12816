"""RFC-0021, SDK integration: the two agents of the text run as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from parley.testing import Stage, stage
from tests.conformance.channels.rfc_sdk import Agents
from tests.rigs.chosen_store import a_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from parley.wire.api.records.channels import ChannelMessage
    from parley.wire.api.records.intents import Intent

DATA, RESEARCH = "data-agent-01", "research-agent-01"
NAMED = "data-clarification"
ANSWER = {"answer": "v2.3", "confidence": 0.95}


@pytest.fixture(name="agents")
def written() -> Agents:
    return Agents()


@pytest.fixture(name="team")
def played(agents: Agents, tmp_path: Path) -> Iterator[Stage]:
    with a_database(tmp_path) as store, stage(store=store) as team:
        team.start(agents.data, agents.research)
        yield team


def assigned(team: Stage) -> Intent:
    """An intent on which the research agent works."""
    owner = team.client("owner")
    intent = owner.create_intent("Research Q1 Financials", status="active", access="open")
    owner.assign_agent(intent.id, RESEARCH)
    return intent


def said_in(team: Stage, intent: Intent) -> list[ChannelMessage]:
    return [
        message
        for channel in team.admin.list_channels(intent.id)
        if channel.name == NAMED
        for message in team.admin.list_messages(channel.id)
    ]


@pytest.mark.requirement("RFC21-S-ON-MESSAGE", "RFC21-S-ON-MESSAGE-RETURN")
def test_what_the_handler_of_the_named_channel_returns_is_the_response(team: Stage) -> None:
    answer = team.ask(DATA, {"question": "What schema version?"}, channel=NAMED)

    assert (answer.message_type, answer.sender, answer.payload) == ("response", DATA, ANSWER)


@pytest.mark.requirement("RFC21-S-ON-MESSAGE")
def test_the_handler_of_the_named_channel_is_not_called_for_another_one(team: Stage, agents: Agents) -> None:
    asked = team.notify(DATA, {"n": 1}, channel="elsewhere")
    request = team.client().send_message(asked.channel_id, to=DATA, message_type="request", payload={"n": 2})
    team.notify(DATA, {"n": 3}, channel="elsewhere")

    team.wait_until(lambda: len(agents.logged) == 3)

    assert [one.correlation_id for one in team.messages("elsewhere") if one.correlation_id == request.id] == []


@pytest.mark.requirement("RFC21-S-ON-MESSAGE-ANY")
def test_the_handler_without_a_channel_is_called_for_messages_on_any_channel(team: Stage, agents: Agents) -> None:
    team.notify(DATA, {"n": 1}, channel=NAMED)
    team.wait_until(lambda: len(agents.logged) == 1)
    team.notify(DATA, {"n": 2}, channel="progress")
    team.wait_until(lambda: len(agents.logged) == 2)
    team.notify("*", {"n": 3}, channel="third")

    team.wait_until(lambda: len(agents.logged) == 3)

    assert agents.logged == [f"Got message from tester: {{'n': {number}}}" for number in (1, 2, 3)]


@pytest.mark.requirement("RFC21-S-PROXY-OPEN")
def test_a_channel_is_created_when_it_is_opened_and_does_not_exist(team: Stage) -> None:
    intent = assigned(team)

    team.wait_until(lambda: len(said_in(team, intent)) == 4)

    [channel] = team.admin.list_channels(intent.id)
    assert (channel.name, channel.member_policy, channel.created_by) == (NAMED, "intent", RESEARCH)


@pytest.mark.requirement("RFC21-S-PROXY-OPEN")
def test_a_channel_that_exists_is_opened_and_not_created_again(team: Stage) -> None:
    owner = team.client("owner")
    intent = owner.create_intent("Research Q1 Financials", status="active", access="open")
    made = owner.create_channel(intent.id, NAMED, options={"audit": True})
    owner.assign_agent(intent.id, RESEARCH)

    team.wait_until(lambda: len(said_in(team, intent)) == 4)

    assert [channel.id for channel in team.admin.list_channels(intent.id)] == [made.id]


@pytest.mark.requirement("RFC21-S-PROXY-TALK")
def test_the_research_agent_asks_tells_everyone_and_tells_one(team: Stage) -> None:
    intent = assigned(team)

    said = team.wait_until(lambda: said if len(said := said_in(team, intent)) == 4 else None)

    assert [(one.sender, one.message_type, one.to, one.payload) for one in said or ()] == [
        (RESEARCH, "request", DATA, {"question": "What schema version?"}),
        (DATA, "response", RESEARCH, ANSWER),
        (RESEARCH, "broadcast", "*", {"status": "starting analysis", "schema": "v2.3"}),
        (RESEARCH, "notify", "logger-agent", {"phase": "research", "started": True}),
    ]
