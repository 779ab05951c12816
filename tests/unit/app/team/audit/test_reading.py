"""Who sees which entries of the audit log, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from parley.app.team.audit import reading as audits
from parley.app.team.audit.reading import Filters, Sight
from parley.domain.agents.party import Attributes
from parley.domain.audit.entry import TENANT_SIDE
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.store.changes import TeamChanges
from tests.contract.team_store import a_post
from tests.rigs.team import Rig, with_rig
from tests.samples.audit import a_draft

pytestmark = pytest.mark.both_stores

LATE = "2026-03-14T14:30:00.000000+00:00"


async def write(rig: Rig, *sides: str, tenant: str = DEFAULT_TENANT, **changes: Any) -> None:  # noqa: ANN401
    size = await rig.store.audit_size(tenant)
    drafts = tuple(
        a_draft(size + n, side)._replace(id=f"aud_{tenant}_{size + n}", **changes) for n, side in enumerate(sides, 1)
    )
    await rig.store.commit(TeamChanges(tenant, audits=drafts))


async def numbers(rig: Rig, caller: Caller, **filters: Any) -> list[int]:  # noqa: ANN401
    return [one.number for one in (await audits.page(rig.team, caller, Filters(**filters))).entries]


def admin(rig: Rig, tenant: str = DEFAULT_TENANT) -> Caller:
    return rig.caller(kind=KeyKind.ADMIN, tenant=tenant)


def person(rig: Rig, user: str) -> Caller:
    return rig.caller(kind=KeyKind.HUMAN)._replace(user=user)


@with_rig
async def test_an_admin_and_a_service_see_their_whole_tenant_and_nothing_else(rig: Rig) -> None:
    await write(rig, "alice", "bob", TENANT_SIDE)
    await write(rig, "alice", tenant="acme")

    assert await numbers(rig, admin(rig)) == [1, 2, 3]
    assert await numbers(rig, rig.caller(kind=KeyKind.SERVICE)) == [1, 2, 3]
    (foreign,) = (await audits.page(rig.team, admin(rig, "acme"), Filters())).entries
    assert foreign.id == "aud_acme_1"


@with_rig
async def test_entries_of_one_message_are_found_by_its_exchange_and_only_by_who_sees_them(rig: Rig) -> None:
    await rig.intent(agents=("alice", "bob", "carol"))
    await rig.channel()
    governed = [a_post(f"msg_{n}", to="bob", recipients=("bob",))._replace(exchange_id="exch_1") for n in (8, 9)]
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, tuple(governed)))
    _, second = governed
    for said in governed:
        facts = {"message_id": said.id}
        await write(rig, "alice", "bob", exchange_id="exch_1", facts=facts)

    assert await numbers(rig, admin(rig), message_id=second.id) == [3, 4]
    assert await numbers(rig, rig.caller("bob"), message_id=second.id) == [4]
    assert await numbers(rig, rig.caller("carol"), message_id=second.id) == []
    assert await numbers(rig, admin(rig), message_id=second.id, exchange_id="exch_2") == []
    assert await numbers(rig, admin(rig), message_id="msg_none") == []
    assert await numbers(rig, admin(rig, "acme"), message_id=second.id) == []


@with_rig
async def test_an_agent_sees_its_own_side_only_whatever_it_asks_for(rig: Rig) -> None:
    await write(rig, "alice", "bob", "alice", TENANT_SIDE)

    assert await numbers(rig, rig.caller("alice")) == [1, 3]
    assert await numbers(rig, rig.caller("alice"), side="bob") == []
    assert await numbers(rig, rig.caller("alice"), side="alice") == [1, 3]
    assert await numbers(rig, rig.caller("alice", KeyKind.SERVICE)) == [1, 3]
    assert await numbers(rig, rig.caller()) == []


@with_rig
async def test_a_person_sees_its_agents_and_its_own_decisions(rig: Rig) -> None:
    await rig.agent("alice", attributes=Attributes(user_id="ann"))
    await rig.agent("carol", attributes=Attributes(user_id="ann"))
    await rig.agent("bob", attributes=Attributes(user_id="ben"))
    await write(rig, "alice", "bob", "carol", "ann")
    await write(rig, "bob", actor="ann")
    await write(rig, "bob", actor="ben")

    assert await numbers(rig, person(rig, "ann")) == [1, 3, 4, 5]
    assert await numbers(rig, person(rig, "ann"), side="bob") == []
    assert await numbers(rig, person(rig, "ben")) == [2, 5, 6]
    assert await numbers(rig, person(rig, "eve")) == []
    assert await numbers(rig, rig.caller(kind=KeyKind.HUMAN)) == []


@with_rig
async def test_pages_follow_each_other_without_gaps(rig: Rig) -> None:
    await write(rig, *("alice", "bob") * 5)
    found: list[int] = []
    after = 0
    while True:
        page = await audits.page(rig.team, rig.caller("bob"), Filters(after=after, limit=2))
        found += [one.number for one in page.entries]
        after = page.next
        if not after:
            break

    assert found == [2, 4, 6, 8, 10]


@with_rig
async def test_who_looks_for_what_is_rare_gets_a_short_page_and_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits, "_LOOKED_AT", 4)
    await write(rig, *("alice",) * 6, "bob")

    first = await audits.page(rig.team, admin(rig), Filters(side="bob"))
    second = await audits.page(rig.team, admin(rig), Filters(side="bob", after=first.next))

    assert (first.entries, first.next) == ((), 4)
    assert ([one.number for one in second.entries], second.next) == ([7], 0)


@with_rig
async def test_entries_are_found_by_what_they_tell(rig: Rig) -> None:
    await write(rig, *("alice", "bob") * 4)
    await write(rig, "alice", action="suspended")
    await write(rig, "alice", at=LATE)
    facts = dict(a_draft(11, "alice").facts) | {"outcome": "denied"}
    await write(rig, "alice", facts=facts)

    assert await numbers(rig, admin(rig), exchange_id="ex_1") == [7, 8, 9, 10, 11]
    assert await numbers(rig, admin(rig), exchange_id="ex_1", limit=2) == [7, 8]
    assert await numbers(rig, admin(rig), exchange_id="ex_1", after=8) == [9, 10, 11]
    assert await numbers(rig, admin(rig), conversation_id="conv_0") == [1, 2, 3, 4, 5, 6]
    assert await numbers(rig, admin(rig), action="suspended") == [9]
    assert await numbers(rig, admin(rig), outcome="denied") == [11]
    assert await numbers(rig, admin(rig), since=LATE) == [10]
    assert await numbers(rig, admin(rig), until=LATE, side="bob") == [2, 4, 6, 8]


@with_rig
async def test_entries_that_were_let_go_of_do_not_disturb_a_search(rig: Rig) -> None:
    await write(rig, "alice", "bob", "alice")
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, trim_audit=2))

    assert await numbers(rig, admin(rig), outcome="delivered") == [3]
    assert await numbers(rig, person(rig, "alice")) == [1, 3]


@with_rig
async def test_one_entry_is_found_by_id_or_number_by_those_who_may_see_it(rig: Rig) -> None:
    await write(rig, "alice", "bob")

    assert (await audits.get(rig.team, rig.caller("bob"), "aud_default_2")).number == 2
    assert (await audits.get(rig.team, rig.caller("bob"), "2")).id == "aud_default_2"
    refusals = []
    for caller, name in (
        (rig.caller("bob"), "aud_default_1"),
        (rig.caller("bob"), "1"),
        (rig.caller("bob"), "3"),
        (rig.caller("bob"), "0"),
        (rig.caller("bob"), "nothing"),
        (admin(rig, "acme"), "aud_default_1"),
        (rig.caller(), "1"),
    ):
        with pytest.raises(NotFound) as refused:
            await audits.get(rig.team, caller, name)
        refusals.append(refused.value.message)
    assert len(set(refusals)) == 1


@with_rig
async def test_the_whole_log_shows_the_others_only_by_their_place(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "_PIECE", 2)
    await write(rig, "alice", "bob", "alice", "carol", "bob")

    async def shown(seen: Sight, through: int = 5) -> list[tuple[int, bool]]:
        pieces = [piece async for piece in audits.whole(rig.team, DEFAULT_TENANT, through, seen)]
        return [(one.number, visible) for piece in pieces for one, visible in piece]

    assert await shown(Sight(None)) == [(n, True) for n in range(1, 6)]
    assert await shown(Sight(("bob",))) == [(1, False), (2, True), (3, False), (4, False), (5, True)]
    assert await shown(Sight(()), 3) == [(1, False), (2, False), (3, False)]
    assert await shown(Sight(("bob",), "carol")) == [(1, False), (2, True), (3, False), (4, True), (5, True)]


@with_rig
async def test_the_last_entries_are_found_from_the_end_in_order(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(rig, "alice", "bob", "alice", "bob", "alice")

    async def back(**filters: Any) -> tuple[list[int], int]:  # noqa: ANN401
        page = await audits.page(rig.team, admin(rig), Filters(**filters))
        return [one.number for one in page.entries], page.previous

    assert await back(before=100, limit=2) == ([4, 5], 4)
    assert await back(before=4, limit=2) == ([2, 3], 2)
    assert await back(before=2, limit=2) == ([1], 0)
    assert await back(before=1, limit=2) == ([], 0)
    assert await back(before=100, limit=2, side="alice") == ([3, 5], 3)
    assert await back(before=100, limit=9, after=3) == ([4, 5], 0)
    monkeypatch.setattr(audits, "_LOOKED_AT", 2)
    assert await back(before=100, limit=9, side="bob") == ([4], 4)


@with_rig
async def test_a_person_finds_its_own_decision_about_the_agent_of_somebody_else_alone_and_in_the_whole_log(
    rig: Rig,
) -> None:
    await rig.agent("bob", attributes=Attributes(user_id="ben"))
    await write(rig, "bob")
    await write(rig, "bob", actor="ann")
    ann = person(rig, "ann")

    assert [(await audits.get(rig.team, ann, one)).number for one in ("2", "aud_default_2")] == [2, 2]
    with pytest.raises(NotFound):
        await audits.get(rig.team, ann, "1")
    pieces = [piece async for piece in audits.whole(rig.team, DEFAULT_TENANT, 2, await audits.sight(rig.team, ann))]
    assert [shown for piece in pieces for _, shown in piece] == [False, True]


@with_rig
async def test_a_person_called_like_the_agent_of_somebody_else_sees_nothing_of_what_that_agent_did(rig: Rig) -> None:
    await rig.agent("zed", attributes=Attributes(user_id="ann"))
    await write(rig, "bob", actor="zed")
    await write(rig, "zed")
    zed = person(rig, "zed")

    assert await audits.sight(rig.team, zed) == Sight(())
    assert await numbers(rig, zed) == []
    with pytest.raises(NotFound):
        await audits.get(rig.team, zed, "1")
    pieces = [piece async for piece in audits.whole(rig.team, DEFAULT_TENANT, 2, await audits.sight(rig.team, zed))]
    assert [shown for piece in pieces for _, shown in piece] == [False, False]
