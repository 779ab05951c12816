"""Whether an agent is there, in the words that people use."""

from __future__ import annotations

import pytest

from parley.domain.agents.presence import presence_of
from parley.domain.directory.callers import AgentStatus

SEEN = "2026-03-13T14:30:00Z"


@pytest.mark.parametrize("status", AgentStatus)
def test_every_status_has_a_word_for_people(status: AgentStatus) -> None:
    assert presence_of(status.value, SEEN) in {"online", "stopping", "away", "offline", "left"}


def test_an_agent_that_never_ran_is_not_online() -> None:
    assert (presence_of("active", None), presence_of("active", SEEN)) == ("never seen", "online")


def test_a_status_of_a_newer_server_is_given_as_it_is() -> None:
    assert presence_of("hibernating", SEEN) == "hibernating"
