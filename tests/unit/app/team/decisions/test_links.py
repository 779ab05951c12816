"""Links to approvals, on a store: create, look up, and check before a decision."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.app.team.decisions import links
from parley.app.team.decisions.links import LINKS_OF_AN_APPROVAL, CreatedLink
from parley.domain.directory.callers import NO_TENANT, Caller, Key, KeyKind, key_digest
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import ApprovalDecided, ApprovalLinksOff, ApprovalStale, HumanRequired
from parley.domain.errors.team import ScopeRequired, Unauthorized
from parley.domain.exchange.approval import Approval, Decision
from parley.domain.exchange.link import ApprovalLink
from parley.domain.record import changed
from parley.domain.store.changes import RecordQuery
from tests.rigs.governed import decide, held, person, put_policy, two_agents, waiting
from tests.rigs.team import Rig, refusal, with_rig

pytestmark = pytest.mark.both_stores


async def held_for_ann(rig: Rig) -> Approval:
    """A message that waits for ann, who has a key, on a server that allows links."""
    await two_agents(rig)
    await put_policy(rig)
    rig.team.approval_links = True
    for user in ("ann", "dee"):
        key = Key(
            id=f"key_{user}",
            tenant_id=NO_TENANT,
            owner="default",
            key_kind=KeyKind.HUMAN,
            digest=key_digest(user),
            user_id=user,
            created_at=rig.at(),
        )
        await rig.put(key)
    return await held(rig, "alice", "bob")


def by_link(created: CreatedLink) -> Caller:
    return person("ann")._replace(link=created.link.id)


@with_rig
async def test_a_link_leads_back_to_its_approval_key_and_channel(rig: Rig) -> None:
    approval = await held_for_ann(rig)

    created = await links.create(rig.team, person("ann"), approval.id)
    holder = await links.find(rig.team, created.secret)

    assert holder.link.id == created.link.id
    assert (holder.key.id, holder.channel_id, holder.intent_id) == ("key_ann", approval.channel_id, "intent_1")
    assert created.ends_at == min(created.link.expires_at, approval.expires_at)


@with_rig
async def test_a_link_is_for_people_who_may_decide_what_waits(rig: Rig) -> None:
    approval = await held_for_ann(rig)
    team = rig.team

    assert await refusal(links.create(team, rig.caller("alice"), approval.id)) is HumanRequired
    assert await refusal(links.create(team, rig.caller("", KeyKind.ADMIN), approval.id)) is HumanRequired
    assert await refusal(links.create(team, person("dee"), approval.id)) is NotFound
    assert await refusal(links.create(team, person("ann"), "appr_none")) is NotFound
    await decide(rig, "ann", approval, Decision.REJECT)
    assert await refusal(links.create(team, person("ann"), approval.id)) is ApprovalDecided
    team.approval_links = False
    assert await refusal(links.create(team, person("ann"), approval.id)) is ApprovalLinksOff


@with_rig
async def test_a_link_that_has_ended_is_not_found(rig: Rig) -> None:
    approval = await held_for_ann(rig)
    first, second = [await links.create(rig.team, person("ann"), approval.id) for _ in range(2)]

    assert await refusal(links.find(rig.team, f"{first.secret}x")) is Unauthorized
    rig.team.approval_links = False
    assert await refusal(links.find(rig.team, first.secret)) is Unauthorized
    rig.team.approval_links = True
    assert (await links.find(rig.team, first.secret)).link == (await links.find(rig.team, first.secret)).link
    rig.clock.pass_by(seconds=timedelta(hours=24).total_seconds())
    assert await refusal(links.find(rig.team, second.secret)) is Unauthorized


@with_rig
async def test_a_decision_needs_the_link_of_this_approval_as_it_is_now(rig: Rig) -> None:
    approval = await held_for_ann(rig)
    caller = by_link(await links.create(rig.team, person("ann"), approval.id))
    other = await held(rig, "alice", "bob", "We promise more.")
    check = links.check_decision

    await check(rig.team, caller, await waiting(rig, approval))
    assert await refusal(check(rig.team, caller, await waiting(rig, other))) is ScopeRequired
    altered = changed(approval, digest="0" * 64)
    assert await refusal(check(rig.team, caller, altered)) is ApprovalStale
    assert await refusal(check(rig.team, caller._replace(key_id="key_dee"), approval)) is Unauthorized
    assert await refusal(check(rig.team, caller._replace(link="link_none"), approval)) is Unauthorized


@with_rig
async def test_a_person_has_a_bounded_number_of_links_to_one_approval(rig: Rig) -> None:
    approval = await held_for_ann(rig)

    created = [await links.create(rig.team, person("ann"), approval.id) for _ in range(LINKS_OF_AN_APPROVAL + 2)]

    kept = await rig.store.find(ApprovalLink, NO_TENANT, RecordQuery())
    assert {link.id for link in kept} == {one.link.id for one in created[2:]}
