"""What a suspension would halt is what it halts: told before, counted, and never more than its tenant has."""

from __future__ import annotations

import pytest

from parley.app.team.rules import suspension_preview, suspensions
from parley.app.team.rules.suspension_preview import SuspensionPreview
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.rules.policy import CrossOrg
from parley.domain.rules.suspension import Stopped
from tests.rigs.governed import held, place, put_policy, refusal, said, two_agents
from tests.rigs.team import Rig, with_rig

ADMIN = Caller("default", "", KeyKind.ADMIN, "key_admin", "root")


async def preview(rig: Rig, what: Stopped, name: str) -> SuspensionPreview:
    return await suspension_preview.preview(rig.team, ADMIN, what, name)


async def talk(rig: Rig) -> None:
    """alice asks bob and dora, who answer nothing; a message of bob to alice is held; dora is in sales."""
    await two_agents(rig)
    await put_policy(rig, cross_org=CrossOrg.ALLOW)
    await place(rig, "dora", org_unit="sales", user_id="dan")
    await said(rig, "alice", "bob", conversation_id="c1")
    await said(rig, "alice", "dora", conversation_id="c2")
    await held(rig, "bob", "alice", conversation_id="c3")


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("what", "name", "agents", "exchanges", "approvals", "asks"),
    [
        (Stopped.AGENT, "alice", 1, 3, 1, 2),
        (Stopped.AGENT, "bob", 1, 2, 1, 1),
        (Stopped.AGENT, "dora", 1, 1, 0, 1),
        (Stopped.AGENT, "nobody", 0, 0, 0, 0),
        (Stopped.PAIR, "dora,alice", 2, 1, 0, 1),
        (Stopped.PAIR, "dora,bob", 2, 0, 0, 0),
        (Stopped.ORG_UNIT, "sales", 1, 1, 0, 1),
        (Stopped.ORG_UNIT, "engineering", 2, 3, 1, 2),
        (Stopped.TENANT, "", 3, 3, 1, 2),
    ],
)
@with_rig
async def test_everything_that_would_stand_still_is_counted(
    rig: Rig, what: Stopped, name: str, agents: int, exchanges: int, approvals: int, asks: int
) -> None:
    await talk(rig)

    found = await preview(rig, what, name)

    assert (found.agents, found.exchanges, found.approvals, found.asks) == (agents, exchanges, approvals, asks)
    assert [len(ids) for ids in (found.exchange_ids, found.approval_ids, found.ask_ids)] == [exchanges, approvals, asks]
    assert not found.suspended


@with_rig
async def test_it_changes_nothing_and_says_what_is_suspended_already(rig: Rig) -> None:
    await talk(rig)
    await preview(rig, Stopped.AGENT, "bob")
    await said(rig, "alice", "bob", conversation_id="c1b")

    await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "")

    assert (await preview(rig, Stopped.AGENT, "bob")).suspended
    assert not (await preview(rig, Stopped.TENANT, "")).suspended


@with_rig
async def test_another_tenant_has_nothing_to_halt(rig: Rig) -> None:
    await talk(rig)

    found = await suspension_preview.preview(rig.team, ADMIN._replace(tenant="globex"), Stopped.TENANT, "")

    assert (found.agents, found.exchanges, found.approvals, found.asks) == (0, 0, 0, 0)


@with_rig
async def test_a_name_that_cannot_be_is_refused(rig: Rig) -> None:
    assert (await refusal(preview(rig, Stopped.PAIR, "alice"))).code == "invalid"


@with_rig
async def test_a_count_ends_at_its_limit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspension_preview, "COUNT_MAX", 2)
    monkeypatch.setattr(suspension_preview, "IDS_MAX", 1)
    await talk(rig)

    found = await preview(rig, Stopped.TENANT, "")

    assert (found.exchanges, len(found.exchange_ids)) == (2, 1)
