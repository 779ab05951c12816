from __future__ import annotations

from parley.domain.directory import Tenant
from parley.domain.record import Expect, expecting

# A record of the plainest kind.
THING = Tenant(id="x", tenant_id="t", title="X", created_at="", version=3)


def test_a_record_without_a_parent_name_or_time_has_none() -> None:
    assert (THING.parent, THING.name, THING.due) == ("", "", "")


def test_what_has_nothing_unsettled_stays_as_it_is() -> None:
    assert THING.settled(7) is THING


def test_to_expect_a_record_is_to_expect_its_version() -> None:
    assert expecting(THING) == Expect("tenant", "x", 3)
