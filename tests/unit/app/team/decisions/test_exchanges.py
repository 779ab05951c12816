from __future__ import annotations

import pytest

from parley.app.team.decisions import exchanges
from parley.app.team.decisions.exchanges import ExchangeQuery
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.exchange.approval import ApprovalStatus
from parley.domain.exchange.exchange import Outcome
from tests.rigs.governed import (
    answer,
    decide,
    entries,
    exchange_of,
    held,
    person,
    place,
    refusal,
    said,
    send,
    two_agents,
    waiting,
)
from tests.rigs.lists import collect
from tests.rigs.team import Rig, with_rig

pytestmark = pytest.mark.both_stores

ADMIN = Caller("default", "", KeyKind.ADMIN, "key_admin")


async def seen(rig: Rig, caller: Caller, **wanted: object) -> list[str]:
    found = await collect(exchanges.list_page(rig.team, caller, ExchangeQuery(**wanted)))  # type: ignore[arg-type]
    return [one.conversation_id for one in found]


@with_rig
async def test_parties_their_people_and_who_rules_see_an_exchange_and_nobody_else(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "eve", user_id="eva")
    post = await said(rig, "alice", "bob", conversation_id="conv-1")

    for caller in (rig.caller("alice"), rig.caller("bob"), person("ann"), person("ben"), ADMIN):
        assert await seen(rig, caller) == ["conv-1"]
        assert (await exchanges.get(rig.team, caller, post.exchange_id)).id == post.exchange_id
    foreign = Caller("globex", "", KeyKind.ADMIN, "key_x")
    for caller in (rig.caller("eve"), person("eva"), Caller("default", "eve", KeyKind.ADMIN, "k"), foreign):
        assert await seen(rig, caller) == []
        assert (await refusal(exchanges.get(rig.team, caller, post.exchange_id))).code == "not_found"


@with_rig
async def test_who_was_never_told_anything_sees_nothing_of_what_waits(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob", conversation_id="a-telling-name")

    assert await seen(rig, rig.caller("alice")) == ["a-telling-name"]
    assert await seen(rig, rig.caller("bob")) == []
    await decide(rig, "ann", approval)
    assert await seen(rig, rig.caller("bob")) == ["a-telling-name"]


@with_rig
async def test_who_answered_for_a_role_sees_the_exchange_and_so_does_its_person(rig: Rig) -> None:
    await two_agents(rig)
    await rig.role("ops", "bob")
    request = await said(rig, "alice", "role:ops", conversation_id="conv-1")
    assert await seen(rig, person("ben")) == []

    await answer(rig, "bob", request)

    assert await seen(rig, rig.caller("bob")) == await seen(rig, person("ben")) == ["conv-1"]


@with_rig
async def test_exchanges_are_found_by_what_they_are(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "dora")
    await said(rig, "alice", "bob", conversation_id="conv-1")
    await said(rig, "alice", "dora", conversation_id="conv-1")
    await held(rig, "alice", "dora", conversation_id="conv-2")

    alice = rig.caller("alice")
    assert await seen(rig, alice) == ["conv-1", "conv-1", "conv-2"]
    assert await seen(rig, alice, outcome=Outcome.ESCALATED) == ["conv-2"]
    assert await seen(rig, alice, agent="bob") == ["conv-1"]
    assert await seen(rig, alice, conversation_id="conv-1", agent="dora") == ["conv-1"]
    assert await seen(rig, alice, limit=2) == ["conv-1", "conv-1"]
    first = (await collect(exchanges.list_page(rig.team, alice, ExchangeQuery(limit=1))))[0]
    assert await seen(rig, alice, after=first.id) == ["conv-1", "conv-2"]


@with_rig
async def test_all_pages_together_are_all_there_is(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "_PAGE", 2)
    await two_agents(rig)
    await place(rig, "dora")
    for number in range(9):
        await said(rig, "alice" if number % 3 else "dora", "bob", conversation_id=f"conv-{number}")

    found: list[str] = []
    after = ""
    while page := await collect(
        exchanges.list_page(rig.team, rig.caller("alice"), ExchangeQuery(after=after, limit=2))
    ):
        found += [one.conversation_id for one in page]
        after = page[-1].id

    assert found == [f"conv-{number}" for number in range(9) if number % 3]


# ---------------------------------------------------------------- ending


@with_rig
async def test_a_party_closes_what_goes_on_and_both_sides_have_it_on_record(rig: Rig) -> None:
    await two_agents(rig)
    post = await said(rig, "alice", "bob", conversation_id="conv-1")
    await said(rig, "bob", "alice", conversation_id="conv-1")

    closed = await exchanges.close(rig.team, rig.caller("bob"), post.exchange_id, "done")

    assert (closed.outcome, closed.ended_by, closed.reason) == (Outcome.RESOLVED, "bob", "done")
    ended = [one for one in await entries(rig) if one["action"] == "agent_exchange_ended"]
    assert [(one["side"], one["actor"], one["outcome"], one["reason"]) for one in ended] == [
        # In bob's words only where bob reads: to alice they would be one more message.
        ("alice", "bob", "resolved", "closed"),
        ("bob", "bob", "resolved", "done"),
    ]
    assert (await exchanges.get(rig.team, rig.caller("alice"), post.exchange_id)).reason == "closed"
    assert (await refusal(exchanges.close(rig.team, rig.caller("bob"), post.exchange_id, ""))).code == "exchange_closed"
    assert (await refusal(send(rig, "alice", "bob", conversation_id="conv-1"))).code == "exchange_closed"


@with_rig
async def test_what_waits_for_a_person_only_a_person_closes_and_what_waits_in_it_is_closed(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")

    for caller in (rig.caller("alice"), ADMIN):
        refused = await refusal(exchanges.close(rig.team, caller, approval.exchange_id, ""))
        assert refused.code == "human_required"
    closed = await exchanges.close(rig.team, person("ann"), approval.exchange_id, "")

    assert (closed.outcome, closed.reason) == (Outcome.RESOLVED, "closed")
    assert (await waiting(rig, approval)).status is ApprovalStatus.CLOSED
    assert (await refusal(decide(rig, "ann", approval))).code == "approval_decided"


@with_rig
async def test_whose_time_has_passed_expires_once_whatever_waits_in_it(rig: Rig) -> None:
    await two_agents(rig)
    open_one = await said(rig, "alice", "bob")
    approval = await held(rig, "alice", "bob")

    await exchanges.expire(rig.team, "default", open_one.exchange_id)
    assert (await exchange_of(rig, open_one)).outcome is Outcome.IN_PROGRESS
    rig.clock.pass_by(hours=24)
    late = send(rig, "bob", "alice", conversation_id=(await exchange_of(rig, open_one)).conversation_id)
    assert (await refusal(late)).code == "exchange_expired"
    for exchange_id in (open_one.exchange_id, approval.exchange_id, "exch_none"):
        await exchanges.expire(rig.team, "default", exchange_id)
        await exchanges.expire(rig.team, "default", exchange_id)

    assert (await exchange_of(rig, open_one)).outcome is Outcome.EXPIRED
    assert (await exchange_of(rig, approval)).outcome is Outcome.EXPIRED
    assert (await waiting(rig, approval)).status is ApprovalStatus.EXPIRED
    ended = [one for one in await entries(rig) if one["action"] == "agent_exchange_ended"]
    assert {(one["actor"], one["outcome"]) for one in ended} == {("system", "expired")}
