"""Whether an agent is there, in the words that people use."""

from __future__ import annotations

import pytest

from parley.domain.agents.presence import is_online, presence_of
from parley.domain.directory.callers import AgentStatus

SEEN = "2026-03-13T14:30:00Z"


@pytest.mark.parametrize("status", AgentStatus)
def test_every_status_has_a_word_for_people(status: AgentStatus) -> None:
    assert presence_of(status.value, SEEN, online=True) in {"online", "stopping", "away", "offline", "left"}


def test_an_agent_that_never_ran_is_not_online() -> None:
    assert (presence_of("active", None), presence_of("active", SEEN)) == ("never seen", "offline")
    assert not is_online("active", "", is_connected=False)


def test_an_agent_is_online_by_an_open_stream_or_by_heartbeats_in_time() -> None:
    assert is_online("active", "", is_connected=True)
    assert is_online("active", SEEN, is_connected=False)
    assert is_online("dead", SEEN, is_connected=True)
    assert presence_of("unhealthy", SEEN, online=True) == "online"
    assert not is_online("unhealthy", SEEN, is_connected=False)
    assert not is_online("deregistered", SEEN, is_connected=True)


def test_a_status_of_a_newer_server_is_given_as_it_is() -> None:
    assert presence_of("hibernating", SEEN) == "hibernating"
