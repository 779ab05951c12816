"""RFC-0021, section 4: to one agent, to a role, to everyone."""

from __future__ import annotations

import pytest

from parley.domain.channel.channel import MemberPolicy
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from tests.conformance.channels.talk import CHANNELS, MESSAGES, heard, listed, messages_of, reply, request, send
from tests.rigs.team import LiveServer, with_server


@pytest.mark.requirement("RFC21-4.1-ONLY")
@with_server
async def test_a_direct_message_reaches_its_target_and_nobody_else(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]

    async with carol.events("/subscribe/channels/chan_1") as third, bob.events("/subscribe/channels/chan_1") as target:
        await send(alice, "for bob", to="bob")
        pushed = await target.next()
        silent = await third.silence()

    assert pushed.json["payload"] == {"text": "for bob"}
    assert silent
    assert (await heard(bob), await heard(carol), await heard(alice)) == (["for bob"], [], ["for bob"])


@pytest.mark.requirement("RFC21-4.1-FORBIDDEN")
@pytest.mark.parametrize("kind", ["notify", "request"])
@with_server
async def test_who_is_no_member_of_an_explicit_channel_cannot_be_addressed(server: LiveServer, kind: str) -> None:
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    alice = await server.client("alice")
    path = messages_of("chan_2")

    to_carol = await alice.post(path, {"to": "carol", "message_type": kind, "payload": {}})
    to_bob = await alice.post(path, {"to": "bob", "message_type": kind, "payload": {}})

    assert (to_carol.status, to_carol.code) == (403, "not_member")
    assert to_bob.status == 201
    assert [one["to"] for one in await listed(alice, path)] == ["bob"]


@pytest.mark.requirement("RFC21-4.1-FORBIDDEN")
@with_server
async def test_who_has_no_access_to_the_intent_cannot_be_addressed_either(server: LiveServer) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED)
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"to": "eve", "payload": {}})

    assert answer.status == 403


@pytest.mark.requirement("RFC21-4.2-HOLDER", "RFC21-R-0016-ROLE")
@with_server
async def test_a_message_to_a_role_reaches_who_registered_with_it(server: LiveServer) -> None:
    fleet = await server.client("", KeyKind.SERVICE)
    registered = await fleet.post("/agents/register", {"agent_id": "bob", "role_id": "billing-processor"})
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]

    said = await send(alice, "bill it", to="role:billing-processor")

    assert (registered.status, registered.json["role_id"]) == (200, "billing-processor")
    assert (said["to"], said["status"]) == ("role:billing-processor", "delivered")
    assert (await heard(bob), await heard(carol)) == (["bill it"], [])


@pytest.mark.requirement("RFC21-4.2-MEMBER")
@with_server
async def test_on_an_explicit_channel_a_role_reaches_its_members_only(server: LiveServer) -> None:
    await server.rig.role("data", "bob", "carol")
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    asked = await request(alice, "role:data", path=messages_of("chan_2"))

    await alice.patch("/channels/chan_2", {"add_members": ["carol"]})

    assert await heard(bob, messages_of("chan_2")) == ["well?"]
    # Recipients are fixed when it is said: who comes later was not asked.
    assert await heard(carol, messages_of("chan_2")) == []
    late = await carol.post(f"{messages_of('chan_2')}/{asked['id']}/reply", {"payload": {}})
    assert (late.status, late.code) == (403, "not_addressee")


@pytest.mark.requirement("RFC21-4.2-ACCESS")
@with_server
async def test_on_an_intent_channel_a_role_reaches_those_with_access_only(server: LiveServer) -> None:
    await server.rig.role("data", "bob", "carol")
    await server.rig.access(policy=AccessPolicy.CLOSED, grants=(server.rig.grant("bob"),))
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]

    await send(alice, "for data", to="role:data")

    assert await heard(bob) == ["for data"]
    assert (await carol.get(MESSAGES)).status == 404


@pytest.mark.requirement("RFC21-4.2-ALL")
@with_server
async def test_everyone_with_the_role_receives_it(server: LiveServer) -> None:
    await server.rig.role("data", "bob", "carol")
    alice, bob, carol, dave = [await server.client(name) for name in ("alice", "bob", "carol", "dave")]

    asked = await request(alice, "role:data")

    assert (await heard(bob), await heard(carol), await heard(dave)) == (["well?"], ["well?"], [])
    assert [(await reply(one, asked))["to"] for one in (bob, carol)] == ["alice", "alice"]


@pytest.mark.requirement("RFC21-4.3-ALL", "RFC21-4.3-USED")
@pytest.mark.parametrize(
    "given",
    [
        {"message_type": "broadcast"},
        {"message_type": "broadcast", "to": "*"},
        {"message_type": "notify", "to": "*"},
        {"message_type": "notify"},
    ],
)
@with_server
async def test_a_broadcast_reaches_all_members_by_pull_and_push(server: LiveServer, given: dict[str, str]) -> None:
    await server.rig.channel("chan_2", "bob", "carol", policy=MemberPolicy.EXPLICIT)
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]

    async with bob.events("/subscribe/agents/bob") as one, carol.events("/subscribe/agents/carol") as other:
        await send(alice, "all", messages_of("chan_2"), **given)
        pushed = [await one.next(), await other.next()]

    assert [item.json["payload"] for item in pushed] == [{"text": "all"}] * 2
    assert [await heard(who, messages_of("chan_2")) for who in (alice, bob, carol)] == [["all"]] * 3


@pytest.mark.requirement("RFC21-4.3-ALL")
@with_server
async def test_a_member_that_joins_later_does_not_hear_what_was_said_to_all_before(server: LiveServer) -> None:
    await server.rig.channel("chan_2", policy=MemberPolicy.EXPLICIT)
    alice, bob = await server.client("alice"), await server.client("bob")
    await send(alice, "before", messages_of("chan_2"))

    await alice.patch("/channels/chan_2", {"add_members": ["bob"]})
    await send(alice, "after", messages_of("chan_2"))

    assert await heard(bob, messages_of("chan_2")) == ["after"]
    assert [one["id"] for one in (await bob.get(CHANNELS)).json] == ["chan_1", "chan_2"]
