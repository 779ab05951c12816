"""What is in force is swapped as a whole, in one commit with its record; and everybody reads what concerns them."""

from __future__ import annotations

import asyncio
import json

import pytest

from parley.app.team.rules import policies
from parley.domain.agents.party import Attributes
from parley.domain.audit.entry import TENANT_SIDE
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.errors.team import QuotaExceeded, ScopeRequired
from parley.domain.rules.policy import CURRENT, DEFAULT_DOCUMENT, Fragment, PolicyRevision, PolicySnapshot
from parley.domain.store.changes import AuditQuery
from tests.rigs.team import Rig, with_rig


def admin(rig: Rig, tenant: str = "default") -> Caller:
    return rig.caller(kind=KeyKind.ADMIN, tenant=tenant)


async def put(rig: Rig, document: str, **said: int) -> PolicySnapshot:
    scope, _, name = document.partition("/")
    return await policies.put(rig.team, admin(rig), scope, name, json.dumps(said), Fragment(**said))


@with_rig
async def test_a_tenant_that_never_had_a_policy_is_under_the_default(rig: Rig) -> None:
    now = await policies.current(rig.team, "default")

    assert list(now.texts) == [DEFAULT_DOCUMENT]
    assert await rig.store.get(PolicySnapshot, "default", CURRENT) is None
    assert (await policies.revision(rig.team, "default", now.label)).label == now.label


@with_rig
async def test_a_document_comes_into_force_beside_the_others(rig: Rig) -> None:
    new = await put(rig, "org/sales", max_rounds=2)

    assert new == await rig.store.get(PolicySnapshot, "default", CURRENT)
    assert new.fragments["org/sales"] == Fragment(max_rounds=2)
    assert set(new.texts) == {DEFAULT_DOCUMENT, "org/sales"}
    assert (new.number, new.made_by, new.made_at) == (2, admin(rig).actor, rig.at())


@with_rig
async def test_a_change_is_in_the_ledger_and_in_the_audit_log_with_both_labels(rig: Rig) -> None:
    first = await policies.current(rig.team, "default")
    second = await put(rig, "org/sales", max_rounds=2)

    entries = [one.entry for one in await rig.store.entries("default", 0, 100)]
    audits = await rig.store.audits("default", AuditQuery())

    assert [(one.action, one.message_id, one.facts["old"], one.facts["new"]) for one in entries] == [
        ("policy_changed", "org/sales", first.label, second.label)
    ]
    assert [one.side for one in audits] == [TENANT_SIDE]
    said = json.loads(audits[0].document)
    assert (said["action"], said["actor"], said["document"]) == ("policy_changed", admin(rig).actor, "org/sales")
    assert (said["old"], said["new"]) == (first.label, second.label)


@with_rig
async def test_everything_that_was_in_force_stays_known_by_its_label(rig: Rig) -> None:
    first = await policies.current(rig.team, "default")
    second = await put(rig, "org/sales", max_rounds=2)
    third = await put(rig, "org/sales", max_rounds=1)

    for one in (first, second, third):
        kept = await policies.revision(rig.team, "default", one.label)
        assert (kept.label, kept.fragments) == (one.label, one.fragments)
    assert [one.label for one in await policies.history(rig.team, "default")] == [
        third.label,
        second.label,
        first.label,
    ]
    with pytest.raises(NotFound):
        await policies.revision(rig.team, "default", "9-000000000000")


@with_rig
async def test_the_same_text_again_changes_nothing(rig: Rig) -> None:
    once = await put(rig, "org/sales", max_rounds=2)
    again = await put(rig, "org/sales", max_rounds=2)

    assert once.label == again.label
    assert await rig.store.count(PolicyRevision, "default", "") == 2


@with_rig
async def test_without_the_enterprises_document_there_is_none_and_the_default_does_not_come_back(rig: Rig) -> None:
    await policies.remove(rig.team, admin(rig), "enterprise", "default")

    await policies.settle(rig.team, "default")
    await rig.reopen()

    assert (await policies.current(rig.team, "default")).texts == {}
    assert (await policies.in_force(rig.team, admin(rig))).policy is None


@with_rig
async def test_what_is_not_there_cannot_be_removed(rig: Rig) -> None:
    with pytest.raises(NotFound):
        await policies.remove(rig.team, admin(rig), "org", "sales")


@with_rig
async def test_settling_writes_down_the_default_once(rig: Rig) -> None:
    first = await policies.current(rig.team, "default")

    settled = await policies.settle(rig.team, "default")
    again = await policies.settle(rig.team, "default")

    assert settled.label == again.label == first.label
    assert (settled.version, again.version, settled.made_by) == (1, 1, "system")
    assert len(await rig.store.audits("default", AuditQuery())) == 1


@with_rig
async def test_racing_changes_all_come_into_force_one_after_the_other(rig: Rig) -> None:
    await asyncio.gather(*(put(rig, f"org/unit{number}", max_rounds=number + 1) for number in range(6)))

    now = await policies.current(rig.team, "default")

    assert set(now.texts) == {DEFAULT_DOCUMENT, *(f"org/unit{number}" for number in range(6))}
    assert now.number == 7
    assert [one.number for one in await policies.history(rig.team, "default")] == [7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("kind", [KeyKind.AGENT, KeyKind.SERVICE, KeyKind.HUMAN])
@with_rig
async def test_only_an_admin_changes_a_policy(rig: Rig, kind: KeyKind) -> None:
    caller = rig.caller("alice", kind)

    with pytest.raises(ScopeRequired):
        await policies.put(rig.team, caller, "org", "sales", "text", Fragment(max_rounds=1))
    with pytest.raises(ScopeRequired):
        await policies.remove(rig.team, caller, "enterprise", "default")


@pytest.mark.parametrize(
    ("scope", "name"),
    [("orgs", "sales"), ("", "sales"), ("org", ""), ("org", "a/b"), ("org", "../x"), ("org", ".x"), ("org", "é")],
)
@with_rig
async def test_a_document_has_a_scope_and_a_name_that_a_file_may_have(rig: Rig, scope: str, name: str) -> None:
    with pytest.raises(Invalid):
        await policies.put(rig.team, admin(rig), scope, name, "text", Fragment(max_rounds=1))


@with_rig
async def test_there_are_only_so_many_and_they_are_only_so_long(rig: Rig) -> None:
    with pytest.raises(QuotaExceeded):
        await policies.put(rig.team, admin(rig), "org", "a", "#" * (policies.MOST_CHARACTERS + 1), Fragment())

    assert (await policies.current(rig.team, "default")).number == 1


@with_rig
async def test_an_admin_and_a_service_see_all_and_an_agent_what_concerns_it(rig: Rig) -> None:
    for document in ("enterprise/privacy", "org/sales", "org/law", "team/north", "user/ana", "user/bo"):
        await put(rig, document, max_rounds=2)
    await rig.agent("alice", attributes=Attributes(org_unit="sales", team="north", user_id="ana"))

    async def seen(caller: Caller) -> set[str]:
        return set((await policies.visible_snapshot(rig.team, caller)).texts) - {DEFAULT_DOCUMENT, "enterprise/privacy"}

    human = Caller("default", "", KeyKind.HUMAN, "key_1", user="bo")
    assert await seen(admin(rig)) == await seen(rig.caller(kind=KeyKind.SERVICE))
    assert await seen(admin(rig)) == {"org/sales", "org/law", "team/north", "user/ana", "user/bo"}
    assert await seen(rig.caller("alice")) == {"org/sales", "team/north", "user/ana"}
    assert await seen(rig.caller("stranger")) == set()
    assert await seen(human) == {"user/bo"}


@with_rig
async def test_one_document_is_shown_to_whom_it_concerns(rig: Rig) -> None:
    await put(rig, "org/sales", max_rounds=2)
    await rig.agent("alice", attributes=Attributes(org_unit="sales"))

    shown = await policies.get(rig.team, rig.caller("alice"), "org", "sales")

    assert list(shown.texts) == list(shown.fragments) == ["org/sales"]
    for caller in (rig.caller("bob"), admin(rig, "globex")):
        with pytest.raises(NotFound):
            await policies.get(rig.team, caller, "org", "sales")


@with_rig
async def test_what_is_in_force_for_an_agent_follows_from_its_org_unit_team_and_person(rig: Rig) -> None:
    await put(rig, "org/sales", max_rounds=2, hop_limit=4)
    await put(rig, "user/ana", max_rounds=1)
    await rig.agent("alice", attributes=Attributes(org_unit="sales", user_id="ana"))

    own = await policies.in_force(rig.team, rig.caller("alice"))

    assert own == await policies.in_force(rig.team, admin(rig), "alice")
    assert own.policy is not None
    assert (own.policy.max_rounds, own.policy.hop_limit, own.policy.version) == (1, 4, own.label)
    assert (own.origins["max_rounds"], own.origins["hop_limit"]) == ("user/ana", "org/sales")


@with_rig
async def test_somebody_else_s_is_not_there(rig: Rig) -> None:
    await rig.agent("alice", attributes=Attributes(user_id="ana"))
    ana = Caller("default", "", KeyKind.HUMAN, "key_1", user="ana")
    bo = Caller("default", "", KeyKind.HUMAN, "key_2", user="bo")

    assert (await policies.in_force(rig.team, ana, "alice")).agent == "alice"
    for caller in (bo, rig.caller("bob")):
        with pytest.raises(NotFound):
            await policies.in_force(rig.team, caller, "alice")
        with pytest.raises(NotFound):
            await policies.in_force(rig.team, caller, "nobody")


@with_rig
async def test_tenants_have_policies_of_their_own(rig: Rig) -> None:
    await put(rig, "org/sales", max_rounds=2)

    other = await policies.current(rig.team, "globex")

    assert list(other.texts) == [DEFAULT_DOCUMENT]
    with pytest.raises(NotFound):
        await policies.revision(rig.team, "globex", (await policies.current(rig.team, "default")).label)


@with_rig
async def test_a_change_calls_for_a_look_at_the_files(rig: Rig) -> None:
    await put(rig, "org/sales", max_rounds=2)

    assert rig.team.policies.look.is_set()
