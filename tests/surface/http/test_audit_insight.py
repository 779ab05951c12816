"""What the audit log tells about a story: filters, counts, its state, why each message ended as it did, and an
exchange with what was held and denied; each key sees its own side.
"""

from __future__ import annotations

from typing import Any

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import admin_of, held, pair, person, place, put_policy, refused, said, shown, tell
from tests.rigs.team import Client, LiveServer, with_server


async def tell_story(server: LiveServer) -> dict[str, Any]:
    """alice asks bob, bob's promise is held and approved, and what alice may not share is denied."""
    alice, bob = await pair(server)
    first = await said(alice, "bob", "How is it?", conversation_id="conv-1")
    approval = await held(bob, "alice", "I commit to Friday.", conversation_id="conv-1")
    decision = {"decision": "approve", "digest": approval["digest"]}
    answer = await (await person(server, "ben")).post(f"/approvals/{approval['approval']}/decision", decision)
    assert answer.status == 200, answer
    denied = await tell(alice, "bob", "the margin", conversation_id="conv-1", classification="restricted")
    assert refused(denied) == (403, "classification_exceeded")
    return {
        "alice": alice,
        "bob": bob,
        "first": first,
        "approval": approval["approval"],
        "exchange": approval["exchange_id"],
    }


async def numbers(client: Client, **query: object) -> list[int]:
    return [entry["number"] for entry in (await shown(client, "/audit", **query))["entries"]]


@with_server
async def test_entries_are_found_by_actor_code_pair_and_message(server: LiveServer) -> None:
    story = await tell_story(server)
    admin, auditor = await admin_of(server), await server.client("", KeyKind.AUDITOR)
    (denied,) = await numbers(admin, code="classification_exceeded")
    entry = (await shown(admin, "/audit", after=denied - 1, limit=1))["entries"][0]

    # Nothing is stored of a denied message but its entries.
    assert await numbers(auditor, message_id=entry["document"]["message_id"]) == [denied]
    assert await numbers(admin, message_id=story["first"]["id"]) == (await numbers(auditor, pair="bob,alice"))[:2]
    assert denied in await numbers(auditor, pair="alice,bob")
    assert await numbers(admin, pair="alice,carol") == []
    assert len(await numbers(admin, actor="ben")) == 1
    assert await numbers(story["bob"], code="classification_exceeded") == []
    assert refused(await admin.get("/audit", pair="alice")) == (422, "invalid")


@with_server
async def test_an_entry_is_explained_by_what_it_recorded_and_the_policies_of_then(server: LiveServer) -> None:
    await tell_story(server)
    admin, auditor = await admin_of(server), await server.client("", KeyKind.AUDITOR)
    (denied,) = await numbers(admin, code="classification_exceeded")
    (promise,) = await numbers(admin, outcome="held")
    await put_policy(server, "enabled: true\nmax_rounds: 1")

    explained = {number: await shown(auditor, f"/audit/{number}/explain") for number in (denied, promise)}

    assert [(one["outcome"], one["verdict"], one["agrees"]) for one in explained.values()] == [
        ("denied", "deny", True),
        ("held", "hold", True),
    ]
    assert any("classification_exceeded" in reason for reason in explained[denied]["reasons"])
    assert any("approved by ben" in reason for reason in explained[promise]["reasons"])
    steps = {step["check"]: step for step in explained[promise]["steps"]}
    # The limit of then, not of now.
    assert steps["max_rounds"]["value"] == "3"
    assert [one["with_content"] for one in explained.values()] == [False, True]
    ann = await shown(await person(server, "ann"), f"/audit/{denied}/explain")
    assert (ann["steps"], ann["verdict"], ann["reasons"]) == ([], None, explained[denied]["reasons"])
    assert refused(await (await person(server, "ben")).get(f"/audit/{denied}/explain")) == (404, "not_found")
    placed = (await numbers(admin, action="agent_placed"))[0]
    assert (await shown(admin, f"/audit/{placed}/explain"))["reasons"] == []


@with_server
async def test_the_log_says_how_far_it_is_intact_and_how_much_happened_when(server: LiveServer) -> None:
    await tell_story(server)
    for client in (await admin_of(server), await server.client("", KeyKind.AUDITOR), await person(server, "ann")):
        state = await shown(client, "/audit/state")
        assert state["verified_to"] == state["size"] > 0
        assert (state["broken_at"], state["reason"]) == (None, None)
    (hour,) = (await shown(await admin_of(server), "/audit/counts"))["counts"]
    assert {name: hour[name] for name in ("sent", "received", "held", "denied")} == {
        "sent": 2, "received": 2, "held": 1, "denied": 1,
    }  # fmt: skip
    (day,) = (await shown(await person(server, "ben"), "/audit/counts", by="day"))["counts"]
    assert (day["sent"], day["received"], day["held"], day["denied"]) == (1, 1, 1, 0)
    assert (await (await admin_of(server)).get("/audit/counts", by="week")).status == 422


@with_server
async def test_an_exchange_has_its_held_and_denied_messages_for_those_who_may_know_of_them(server: LiveServer) -> None:
    story = await tell_story(server)
    path = f"/exchanges/{story['exchange']}"

    def told(exchange: dict[str, Any]) -> list[tuple[Any, ...]]:
        names = ("round", "sender", "outcome", "classification", "summary", "decision", "decided_by")
        return [tuple([message[name] for name in names]) for message in exchange["messages"]]

    everything = [
        (1, "alice", "delivered", "internal", "How is it?", None, None),
        (2, "bob", "delivered", "internal", "I commit to Friday.", "approved", "ben"),
    ]
    denied = (3, "alice", "denied", "restricted", None, None, None)
    assert told(await shown(await server.client("", KeyKind.AUDITOR), path)) == [*everything, denied]
    assert told(await shown(await person(server, "ann"), path)) == [
        everything[0], (*everything[1][:5], None, "ben"), denied
    ]  # fmt: skip
    ben = await shown(await person(server, "ben"), path)
    assert told(ben) == everything
    first, promise = ben["messages"]
    assert (promise["approval"], len(promise["audit"])) == (story["approval"], 3)
    whole = await shown(await admin_of(server), path)
    assert set(first["audit"]) < set(whole["messages"][0]["audit"])


@with_server
async def test_exchanges_are_found_by_people_units_pair_purpose_level_and_time(server: LiveServer) -> None:
    story = await tell_story(server)
    await place(server, "dora", user_id="dan", org_unit="engineering")
    await held(story["alice"], "dora", conversation_id="conv-2", exchange_type="meeting_scheduling")
    admin = await admin_of(server)

    async def found(**query: Any) -> list[str]:  # noqa: ANN401
        answer = await admin.get("/exchanges", **query)
        assert answer.status == 200, answer
        return [exchange["conversationId"] for exchange in answer.json]

    both = ["conv-1", "conv-2"]
    assert await found(user="ann") == await found(org_unit="engineering") == both
    assert (
        await found(user="ben") == await found(pair="bob,alice") == await found(classification="restricted") == both[:1]
    )
    assert await found(user="dan") == await found(purpose="meeting_scheduling") == both[1:]
    assert await found(classification="internal") == both[1:]
    assert await found(order="newest") == both[::-1]
    (last,) = (await admin.get("/exchanges", order="newest", limit=1)).json
    assert await found(before=last["exchangeId"]) == both[:1]
    assert (await found(until="2020-01-01T00:00:00Z"), await found(since="2020-01-01T00:00:00Z", order="newest")) == (
        [],
        both[::-1],
    )
    assert await found(org_unit="sales") == await found(since="2100-01-01T00:00:00Z") == []
    assert (await admin.get("/exchanges", purpose="nothing")).status == 422
