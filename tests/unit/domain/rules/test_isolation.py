"""Which text of others an agent reads, and where it may write."""

from __future__ import annotations

import pytest

from parley.domain.agents.agent import DEFAULT_HEARTBEATS, DEFAULT_TASKS, AgentRecord, Heartbeats
from parley.domain.agents.party import Attributes
from parley.domain.directory.access import Permission, Standing
from parley.domain.rules.isolation import are_apart, bounded, keeps_apart, public_part
from parley.domain.rules.policy import CURRENT, AppliesTo, CrossOrg, Fragment, Policy, PolicySnapshot, with_document
from parley.domain.rules.rulebook import Rulebook

SALES, ENGINEERING = Attributes(org_unit="sales"), Attributes(org_unit="engineering")
ADMIN = Standing(Permission.ADMIN, 3)


@pytest.mark.parametrize(
    ("policy", "apart"),
    [
        (None, True),
        (Policy(), True),
        (Policy(cross_org=CrossOrg.DENY, applies_to=AppliesTo.ALL), True),
        (Policy(cross_org=CrossOrg.DENY, applies_to=AppliesTo.ANNOTATED), False),
        (Policy(cross_org=CrossOrg.APPROVAL), False),
        (Policy(cross_org=CrossOrg.ALLOW), False),
    ],
)
def test_units_are_kept_apart_where_the_policy_denies_or_there_is_none(policy: Policy | None, apart: bool) -> None:
    assert keeps_apart(policy) is apart


def a_book(cross_org: CrossOrg) -> Rulebook:
    snapshot = PolicySnapshot(id=CURRENT, tenant_id="default")
    return Rulebook(with_document(snapshot, "enterprise/default", "", Fragment(cross_org=cross_org)))


@pytest.mark.parametrize("cross_org", list(CrossOrg))
def test_agents_of_one_unit_are_never_apart(cross_org: CrossOrg) -> None:
    book = a_book(cross_org)

    assert not are_apart(book, SALES, SALES)
    assert are_apart(book, SALES, ENGINEERING) is (cross_org is CrossOrg.DENY)


@pytest.mark.parametrize("cross_org", list(CrossOrg))
def test_the_intent_of_a_unit_is_not_there_for_a_unit_that_is_kept_apart(cross_org: CrossOrg) -> None:
    book = a_book(cross_org)

    assert bounded(book, ADMIN, SALES, "sales", None) == ADMIN
    assert bounded(book, ADMIN, SALES, "engineering", None) == (None if cross_org is CrossOrg.DENY else ADMIN)


@pytest.mark.parametrize(
    ("readers", "left"),
    [
        (None, Permission.READ),
        ([SALES, ENGINEERING], Permission.READ),
        ([SALES, SALES], Permission.WRITE),
        ([], Permission.WRITE),
    ],
)
def test_on_an_intent_of_the_tenant_an_agent_writes_where_every_reader_may_be_told(
    readers: list[Attributes] | None, left: Permission
) -> None:
    assert bounded(a_book(CrossOrg.DENY), ADMIN, SALES, "", readers) == Standing(left, 3)
    assert bounded(a_book(CrossOrg.ALLOW), ADMIN, SALES, "", readers) == ADMIN


def test_a_standing_is_never_raised() -> None:
    reads = Standing(Permission.READ, 1)

    assert bounded(a_book(CrossOrg.DENY), reads, SALES, "", [SALES]) == reads


def test_what_an_admin_has_set_is_the_public_part_of_an_agent() -> None:
    record = AgentRecord(
        id="alice",
        tenant_id="default",
        registered_at="2026-03-13T14:30:00.000000+00:00",
        role_id="ops",
        title="t",
        capabilities=("c",),
        endpoint="https://hook.example/t",
        metadata={"a": "b"},
        max_concurrent_tasks=31337,
        current_load=3,
        heartbeats=Heartbeats(101, 202, 303),
        drain_timeout_seconds=404,
        attributes=SALES,
    )

    shown = public_part(record)

    assert (shown.id, shown.role_id, shown.attributes) == ("alice", "ops", SALES)
    assert (shown.title, shown.capabilities, shown.endpoint, shown.metadata, shown.current_load) == ("", (), "", {}, 0)
    assert (shown.max_concurrent_tasks, shown.heartbeats) == (DEFAULT_TASKS, DEFAULT_HEARTBEATS)
    assert shown.drain_timeout_seconds is None
