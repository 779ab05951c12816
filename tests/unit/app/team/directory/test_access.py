from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from parley.app.team.directory import access as access_lists
from parley.app.team.directory.access import GrantDraft, RequestDraft
from parley.app.team.intents import intents
from parley.app.team.work import sweep
from parley.domain.channel.post import PostState
from parley.domain.directory.access import AccessPolicy, AccessRequest, Permission, RequestStatus
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import BadName, Forbidden, NotFound
from parley.domain.errors.team import BadTransition, QuotaExceeded
from parley.domain.store.changes import Committed
from parley.domain.times import stamp
from tests.rigs.team import INTENT, Rig, with_rig

READ, WRITE, ADMIN = Permission.READ, Permission.WRITE, Permission.ADMIN


async def told(rig: Rig) -> list[tuple[str, str, Any]]:
    found = await rig.store.events(DEFAULT_TENANT, INTENT)
    return [(one.event_type, one.actor, json.loads(one.document)["payload"]) for one in found]


async def entered(rig: Rig) -> list[str]:
    return [one.entry.action for one in await rig.store.entries(DEFAULT_TENANT, 0, 100)]


async def sees(rig: Rig, agent: str) -> bool:
    try:
        await intents.get(rig.team, rig.caller(agent), INTENT)
    except NotFound:
        return False
    return True


@with_rig
async def test_a_grant_is_one_commit_with_its_event_and_its_entry(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    commits: list[Committed] = []
    rig.store.watch(lambda _, committed: commits.append(committed))

    given = await access_lists.grant(rig.team, rig.caller("alice"), INTENT, GrantDraft("bob", READ, reason="r"))

    assert len(commits) == 1
    assert (given.principal_id, given.permission, given.granted_by, given.reason) == ("bob", READ, "alice", "r")
    assert await told(rig) == [("access_granted", "alice", {"principal_id": "bob", "permission": "read"})]
    assert await entered(rig) == ["access_granted"]
    assert await sees(rig, "bob")


@pytest.mark.both_stores
@with_rig
async def test_many_grants_at_once_are_all_kept(rig: Rig) -> None:
    await rig.intent()
    drafts = [GrantDraft(f"agent-{number}", READ) for number in range(6)]

    await asyncio.gather(*(access_lists.grant(rig.team, rig.caller("alice"), INTENT, one) for one in drafts))

    access = await access_lists.get(rig.team, rig.caller("alice"), INTENT)
    assert sorted(one.principal_id for one in access.grants) == [one.principal_id for one in drafts]


@with_rig
async def test_a_revoked_grant_is_told_with_its_principal(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"),))

    await access_lists.revoke(rig.team, rig.caller("alice"), INTENT, "grant_bob")

    assert not await sees(rig, "bob")
    assert await told(rig) == [("access_revoked", "alice", {"entry_id": "grant_bob", "principal_id": "bob"})]
    with pytest.raises(NotFound):
        await access_lists.revoke(rig.team, rig.caller("alice"), INTENT, "grant_bob")


@with_rig
async def test_a_list_has_only_so_many_entries(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_lists, "MOST_ENTRIES", 1)
    await rig.intent(grants=(rig.grant("bob"),))
    asked = await access_lists.request(rig.team, rig.caller("carol"), INTENT, RequestDraft(READ))

    with pytest.raises(QuotaExceeded):
        await access_lists.grant(rig.team, rig.caller("alice"), INTENT, GrantDraft("carol", READ))
    with pytest.raises(QuotaExceeded):
        await access_lists.approve(rig.team, rig.caller("alice"), INTENT, asked.id)
    await access_lists.replace_all(
        rig.team, rig.caller("alice"), INTENT, AccessPolicy.CLOSED, [GrantDraft("carol", READ)]
    )


@with_rig
async def test_a_reserved_name_gets_no_entry(rig: Rig) -> None:
    await rig.intent()

    with pytest.raises(BadName):
        await access_lists.grant(rig.team, rig.caller("alice"), INTENT, GrantDraft("system", ADMIN))


@pytest.mark.both_stores
@with_rig
async def test_an_entry_that_expired_is_swept_once_and_told(rig: Rig) -> None:
    over = stamp(rig.clock.at + timedelta(minutes=1))
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", expires_at=over), rig.grant("carol")))
    await access_lists.expire(rig.team, DEFAULT_TENANT, INTENT)
    before = await told(rig)
    rig.clock.pass_by(minutes=1)

    await access_lists.expire(rig.team, DEFAULT_TENANT, INTENT)
    await access_lists.expire(rig.team, DEFAULT_TENANT, INTENT)

    access = await access_lists.get(rig.team, rig.caller("alice"), INTENT)
    assert [one.principal_id for one in access.grants] == ["carol"]
    assert before == []
    assert await told(rig) == [("access_expired", "system", {"entry_id": "grant_bob", "principal_id": "bob"})]


@with_rig
async def test_what_waited_for_a_role_is_delivered_when_its_holder_is_granted_access(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    await rig.channel()
    await rig.role("reviewer", "bob")
    waiting = await rig.say("alice", to="role:reviewer")

    await access_lists.grant(rig.team, rig.caller("alice"), INTENT, GrantDraft("bob", READ))

    delivered = await rig.store.post(DEFAULT_TENANT, waiting.id)
    assert delivered is not None
    assert delivered.state is PostState.DELIVERED


@with_rig
async def test_approval_grants_in_the_same_commit(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    asked = await access_lists.request(rig.team, rig.caller("bob"), INTENT, RequestDraft(ADMIN, capabilities=("x",)))
    commits: list[Committed] = []
    rig.store.watch(lambda _, committed: commits.append(committed))

    decided = await access_lists.approve(rig.team, rig.caller("alice"), INTENT, asked.id, permission=WRITE, reason="r")

    assert [[one.kind for one in commit.puts] for commit in commits] == [["access_request", "access"]]
    assert (decided.status, decided.decided_by, decided.decision_reason) == (RequestStatus.APPROVED, "alice", "r")
    assert [(name, payload) for name, _, payload in await told(rig)] == [
        (
            "access_requested",
            {
                "request_id": asked.id,
                "principal_id": "bob",
                "requested_permission": "admin",
                "capabilities": ["x"],
            },
        ),
        ("access_request_approved", {"request_id": asked.id, "principal_id": "bob", "permission": "write"}),
        ("access_granted", {"principal_id": "bob", "permission": "write"}),
    ]
    assert await entered(rig) == ["access_requested", "access_request_approved"]


@pytest.mark.both_stores
@with_rig
async def test_of_two_decisions_at_once_one_counts(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    asked = await access_lists.request(rig.team, rig.caller("bob"), INTENT, RequestDraft(READ))
    alice = rig.caller("alice")

    outcomes = await asyncio.gather(
        access_lists.approve(rig.team, alice, INTENT, asked.id),
        access_lists.deny(rig.team, alice, INTENT, asked.id),
        return_exceptions=True,
    )

    decided = [one for one in outcomes if isinstance(one, AccessRequest)]
    assert [type(one) for one in outcomes if isinstance(one, Exception)] == [BadTransition]
    assert await sees(rig, "bob") is (decided[0].status is RequestStatus.APPROVED)


@with_rig
async def test_a_request_of_another_intent_is_not_decided_here(rig: Rig) -> None:
    await rig.intent()
    await rig.intent("intent_2", "mallory")
    asked = await access_lists.request(rig.team, rig.caller("mallory"), INTENT, RequestDraft(ADMIN))

    with pytest.raises(NotFound):
        await access_lists.approve(rig.team, rig.caller("mallory"), "intent_2", asked.id)
    with pytest.raises(Forbidden):
        await access_lists.approve(rig.team, rig.caller("mallory"), INTENT, asked.id)


@with_rig
async def test_an_intent_is_asked_for_only_so_often(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_lists, "MOST_REQUESTS", 1)
    await rig.intent(policy=AccessPolicy.CLOSED)
    await access_lists.request(rig.team, rig.caller("bob"), INTENT, RequestDraft(READ))
    await access_lists.request(rig.team, rig.caller("bob"), INTENT, RequestDraft(READ))

    with pytest.raises(QuotaExceeded):
        await access_lists.request(rig.team, rig.caller("carol"), INTENT, RequestDraft(READ))


@with_rig
async def test_who_was_denied_may_ask_again(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    first = await access_lists.request(rig.team, rig.caller("bob"), INTENT, RequestDraft(READ))
    await access_lists.deny(rig.team, rig.caller("alice"), INTENT, first.id)

    second = await access_lists.request(rig.team, rig.caller("bob"), INTENT, RequestDraft(READ))

    assert second.id != first.id
    assert [one.id for one in await access_lists.requests(rig.team, rig.caller("bob"), INTENT)] == [first.id, second.id]


@pytest.mark.both_stores
@with_rig
async def test_the_sweep_finds_entries_that_expired(rig: Rig) -> None:
    over = stamp(rig.clock.at + timedelta(minutes=1))
    await rig.intent(policy=AccessPolicy.CLOSED)
    await access_lists.grant(rig.team, rig.caller("alice"), INTENT, GrantDraft("bob", READ, expires_at=over))
    rig.clock.pass_by(minutes=1)

    await sweep.sweep(rig.team)

    assert (await access_lists.get(rig.team, rig.caller("alice"), INTENT)).grants == ()
