from __future__ import annotations

from parley.domain.agents.org_units import ALL, OrgUnits, with_unit


def test_a_tenant_begins_with_one_org_unit() -> None:
    assert OrgUnits(id=ALL, tenant_id="t").names == ("default",)


def test_a_new_org_unit_is_added_and_a_known_one_changes_nothing() -> None:
    known = OrgUnits(id=ALL, tenant_id="t")

    more = with_unit(known, "sales")

    assert more.names == ("default", "sales")
    assert with_unit(more, "sales") is more
    assert with_unit(known, "default") is known
