"""Governance: neither a fresh name nor a third agent is a way around the limits."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from parley.domain.rules.policy import Policy
from tests.conformance.ocip.governed import (
    admin_of,
    decide,
    envelope_of,
    ext_of,
    inbox,
    pair,
    person,
    place,
    put_policy,
    refused,
    said,
    tell,
)
from tests.rigs.team import LiveServer, with_server


@pytest.mark.requirement("GOV-CONVERSATION-ONE")
@with_server
async def test_a_conversation_of_two_is_one_exchange_however_it_is_begun(server: LiveServer) -> None:
    alice, bob = await pair(server)
    carol = await place(server, "carol")

    first = await said(alice, "bob", conversation_id="talk")
    second = await said(bob, "alice", conversation_id="talk")
    third = await said(alice, "carol", conversation_id="talk")

    assert ext_of(first)["exchange_id"] == ext_of(second)["exchange_id"] != ext_of(third)["exchange_id"]
    await alice.post(f"/exchanges/{ext_of(first)['exchange_id']}/close")
    assert refused(await tell(bob, "alice", conversation_id="talk")) == (409, "exchange_closed")
    assert (await tell(carol, "alice", conversation_id="talk")).status == 201


@pytest.mark.both_stores
@pytest.mark.requirement("GOV-CONVERSATION-ONE")
@with_server
async def test_of_many_that_begin_one_conversation_at_once_one_exchange_comes(server: LiveServer) -> None:
    await pair(server)
    senders = [(await server.client(name), to) for name, to in [("alice", "bob"), ("bob", "alice")] * 4]

    answers = await asyncio.gather(*[tell(client, to, conversation_id="begun", max_rounds=3) for client, to in senders])

    assert Counter(one.status for one in answers) == {201: 3, 202: 5}
    found = (await (await admin_of(server)).get("/exchanges", conversation_id="begun")).json
    assert len(found) == 1


@pytest.mark.requirement("GOV-CONVERSATION-BUDGET")
@with_server
async def test_two_agents_have_so_many_messages_an_hour_under_however_many_names(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "pair_budget: 4")
    assert Policy().pair_budget == 600

    statuses = [(await tell(client, to)).status for client, to in [(alice, "bob"), (bob, "alice")] * 3]
    spent = await tell(alice, "bob")

    assert statuses == [201] * 4 + [429] * 2
    assert refused(spent) == (429, "pair_budget")
    assert 1 <= int(spent.headers["retry-after"]) <= 3600
    assert len(await inbox(bob)) == 4
    waiting = (await (await admin_of(server)).get("/approvals", status="pending")).json
    assert [(one["cause"], one["id"]) for one in waiting] == [("pair_budget", spent.json["approval"])]
    # The next hour is another one.
    server.rig.clock.pass_by(hours=1)
    assert (await tell(alice, "bob")).status == 201


@pytest.mark.requirement("GOV-CONVERSATION-HOPS")
@with_server
async def test_a_circle_of_agents_ends_after_eight_hops_with_one_escalation(server: LiveServer) -> None:
    assert Policy().hop_limit == 8
    names = ["alice", "bob", "carol"]
    clients = {name: await place(server, name) for name in names}
    await put_policy(server, "max_rounds: 50")

    answers = []
    for hop in range(12):
        sender, to = names[hop % 3], names[(hop + 1) % 3]
        answers.append(await tell(clients[sender], to, f"hop {hop}", conversation_id="circle"))
        if answers[-1].status != 201:
            break  # who was not written to does not write on

    assert [one.status for one in answers] == [201] * 8 + [403]
    assert refused(answers[-1]) == (403, "loop_detected")
    assert [ext_of(one.json)["hops"] for one in answers[:8]] == list(range(1, 9))
    again = await tell(clients["carol"], "alice", "once more", conversation_id="circle")
    assert refused(again) == (409, "exchange_closed")
    waiting = (await (await admin_of(server)).get("/approvals", status="pending")).json
    assert [(one["cause"], one["id"]) for one in waiting] == [("loop_detected", answers[-1].json["approval"])]
    assert len(await inbox(clients["alice"])) == 5


@pytest.mark.requirement("GOV-CONVERSATION-HOPS")
@with_server
async def test_to_and_fro_between_two_is_counted_by_rounds_not_by_hops(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "max_rounds: 20")

    told = [await said(client, to, conversation_id="long") for client, to in [(alice, "bob"), (bob, "alice")] * 6]

    assert [envelope_of(one)["exchange_round"] for one in told] == list(range(1, 13))
    assert {ext_of(one)["hops"] for one in told} == {1}


@pytest.mark.requirement("GOV-CONVERSATION-BUDGET")
@with_server
async def test_what_a_human_approves_counts_in_the_budget_too(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "pair_budget: 1")
    waiting = (await tell(alice, "bob", "I promise.")).json
    await decide(await person(server, "ann"), waiting, "approve")

    assert len(await inbox(bob)) == 1
    assert refused(await tell(alice, "bob")) == (429, "pair_budget")
