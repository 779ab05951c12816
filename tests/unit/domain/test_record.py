from __future__ import annotations

from dataclasses import replace

import pytest

from parley.domain.agents.agent import AgentRecord
from parley.domain.directory.callers import Tenant
from parley.domain.record import Expect, changed, expecting

# A record of the plainest kind.
THING = Tenant(id="x", tenant_id="t", title="X", created_at="", version=3)


def test_a_record_without_a_parent_name_or_time_has_none() -> None:
    assert (THING.parent, THING.name, THING.due) == ("", "", "")


def test_what_has_nothing_unsettled_stays_as_it_is() -> None:
    assert THING.with_position(7) is THING


def test_a_changed_record_is_another_with_everything_else_as_it_was() -> None:
    assert changed(THING, title="Y", version=4) == replace(THING, title="Y", version=4)
    assert THING.title == "X"


def test_what_is_no_field_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        changed(THING, colour="red")


def test_to_expect_a_record_is_to_expect_its_version() -> None:
    assert expecting(THING) == Expect("tenant", "x", 3)


def test_an_expectation_holds_while_nothing_decisive_has_changed() -> None:
    agent = AgentRecord(id="a", tenant_id="t", registered_at="", version=5, decisive=3)

    assert [Expect("agent", "a", version).holds_for(agent) for version in (0, 2, 3, 4, 5, 6)] == [
        *(False, False, True, True, True, False)
    ]
    assert [Expect("tenant", "x", version).holds_for(THING) for version in (0, 2, 3, 4)] == [False, False, True, False]
    assert [Expect("tenant", "x", version).holds_for(None) for version in (0, 1)] == [True, False]
