"""Sign-ins of browsers: started with a key or a link, looked up with each request, ended at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from parley.app.team.channels.streams import Followed, follow
from parley.app.team.directory import sessions
from parley.app.team.directory.sessions import SESSIONS_OF_A_KEY, StartedSession
from parley.app.team.work import sweep
from parley.domain.directory.callers import NO_TENANT, Caller, Key, KeyKind
from parley.domain.directory.session import SESSION_LIFETIME, LoginSession
from parley.domain.errors.team import Unauthorized
from parley.domain.store.changes import RecordQuery
from parley.domain.times import from_stamp, stamp
from tests.conformance.ocip.governed import admin_of, audit_of, person, place, refused, shown
from tests.rigs.team import CHANNEL, LiveServer, with_server

pytestmark = pytest.mark.both_stores


async def signed_in(server: LiveServer, user: str, tenant: str = "default", via: str = "key") -> StartedSession:
    """A sign-in of a person."""
    await person(server, user, tenant)
    key = await server.rig.team.store.get(Key, NO_TENANT, f"key_{tenant}_human_{user}")
    assert key is not None
    return await sessions.start(server.rig.team, key, via)


async def listed(server: LiveServer, user: str = "", tenant: str = "default") -> list[str]:
    client = await person(server, user, tenant) if user else await admin_of(server, tenant)
    answer = await client.get("/sessions")
    assert answer.status == 200
    return [one["id"] for one in answer.json]


@with_server
async def test_a_person_lists_its_own_sign_ins_and_an_admin_those_of_its_tenant(server: LiveServer) -> None:
    anns = [(await signed_in(server, "ann")).session.id for _ in range(2)]
    bens = [(await signed_in(server, "ben", via="link")).session.id]
    other = [(await signed_in(server, "ann", "globex")).session.id]

    assert await listed(server, "ann") == anns
    assert await listed(server, "ben") == bens
    assert await listed(server) == [*anns, *bens]
    assert await listed(server, tenant="globex") == other
    ann = await person(server, "ann")
    (last,) = (await ann.get("/sessions", after=anns[0], limit=1)).json
    assert (last["id"], last["user_id"], last["via"]) == (anns[1], "ann", "key")
    assert not {"secret", "digest", "owner"} & last.keys()


@with_server
async def test_only_the_person_and_an_admin_of_its_tenant_end_a_sign_in(server: LiveServer) -> None:
    team = server.rig.team
    first, second = await signed_in(server, "ann"), await signed_in(server, "ann")
    strangers = (await person(server, "ben"), await admin_of(server, "globex"), await server.client("alice"))

    for stranger in strangers:
        assert refused(await stranger.delete(f"/sessions/{first.session.id}")) == (404, "not_found")
    assert (await sessions.find(team, first.secret)).session.id == first.session.id
    assert (await (await person(server, "ann")).delete(f"/sessions/{first.session.id}")).json["id"] == first.session.id
    assert (await (await admin_of(server)).delete(f"/sessions/{second.session.id}")).status == 200
    for ended in (first, second):
        with pytest.raises(Unauthorized):
            await sessions.find(team, ended.secret)


@with_server
async def test_all_of_ones_own_sign_ins_are_ended_and_nobody_elses(server: LiveServer) -> None:
    for user in ("ann", "ann", "ben"):
        await signed_in(server, user)

    assert (await (await person(server, "ann")).delete("/sessions")).json == {"ended": 2}
    assert (await (await admin_of(server)).delete("/sessions")).json == {"ended": 0}
    assert await listed(server, "ann") == []
    assert len(await listed(server)) == 1


@with_server
async def test_a_sign_in_ends_with_its_time_and_with_its_key(server: LiveServer) -> None:
    team, clock = server.rig.team, server.rig.clock
    ann, ben = await signed_in(server, "ann"), await signed_in(server, "ben")
    assert (await sessions.find(team, ann.secret)).key.user_id == "ann"

    await (await admin_of(server)).delete("/keys/key_default_human_ann")
    with pytest.raises(Unauthorized):
        await sessions.find(team, ann.secret)
    assert await listed(server) == [ben.session.id]
    clock.pass_by(seconds=SESSION_LIFETIME.total_seconds())
    with pytest.raises(Unauthorized):
        await sessions.find(team, ben.secret)
    await sweep.sweep(team)
    assert await team.store.count_matching(LoginSession, NO_TENANT, RecordQuery()) == 0


@with_server
async def test_a_sign_in_never_outlives_a_key_that_expires(server: LiveServer) -> None:
    team = server.rig.team
    end = stamp(team.now() + timedelta(minutes=5))
    answer = await (await admin_of(server)).post("/keys", {"kind": "human", "user_id": "dee", "expires_at": end})
    key = await team.store.get(Key, NO_TENANT, answer.json["id"])
    assert key is not None

    session = (await sessions.start(team, key)).session

    assert from_stamp(session.expires_at) == from_stamp(end)


@with_server
async def test_a_link_signs_in_once_within_ten_minutes_as_the_one_who_made_it(server: LiveServer) -> None:
    team, clock = server.rig.team, server.rig.clock
    ann = await person(server, "ann")
    links = [(await ann.post("/sessions/once", {})).json["once"] for _ in range(3)]

    begun = await sessions.start_by_link(team, links[0])
    assert (begun.session.user_id, begun.session.via) == ("ann", "link")
    tries = await asyncio.gather(*[sessions.start_by_link(team, links[1]) for _ in range(4)], return_exceptions=True)
    assert sorted(type(one) is StartedSession for one in tries) == [False, False, False, True]
    clock.pass_by(seconds=600)
    for wrong in (links[0], links[2], "pso_nonsense", ann.headers["X-API-Key"], begun.secret):
        with pytest.raises(Unauthorized):
            await sessions.start_by_link(team, wrong)


@with_server
async def test_every_sign_in_link_and_end_is_in_the_audit_log_without_a_secret(server: LiveServer) -> None:
    ann = await person(server, "ann")
    link = (await ann.post("/sessions/once", {})).json["once"]
    begun = await sessions.start_by_link(server.rig.team, link)
    await ann.delete(f"/sessions/{begun.session.id}")

    entries = await audit_of(await admin_of(server))

    facts = {one["action"]: one for one in entries}
    assert {"login_link_created", "session_started", "session_ended"} <= facts.keys()
    assert (facts["session_started"]["session"], facts["session_started"]["via"]) == (begun.session.id, "link")
    assert facts["session_ended"]["user_id"] == "ann"
    assert not any(secret in str(entries) for secret in (link, begun.secret))


@with_server
async def test_the_oldest_sign_in_of_a_key_gives_way(server: LiveServer) -> None:
    first = await signed_in(server, "ann")
    later = [await signed_in(server, "ann") for _ in range(SESSIONS_OF_A_KEY)]

    assert await listed(server, "ann") == [one.session.id for one in later]
    with pytest.raises(Unauthorized):
        await sessions.find(server.rig.team, first.secret)


@with_server
async def test_signing_out_ends_a_stream_at_once(server: LiveServer) -> None:
    team = server.rig.team
    await place(server, "bob", user_id="ben", org_unit="default")
    begun = await signed_in(server, "ben")
    caller = Caller("default", "bob", KeyKind.HUMAN, begun.session.key_id, "ben", session=begun.session.id)
    batches = follow(team, caller, Followed(channel_id=CHANNEL), None)
    assert await anext(batches) is None
    waiting = asyncio.ensure_future(anext(batches))
    await server.rig.say("alice", "one", to="bob")
    batch = await waiting
    assert batch is not None
    assert len(batch.items) == 1

    waiting = asyncio.ensure_future(anext(batches))
    await sessions.end(team, caller, begun.session.id)

    with pytest.raises(Unauthorized):
        await asyncio.wait_for(waiting, 10)


# ---------------------------------------------------------------- people see what their agents see


@with_server
async def test_a_person_sees_what_its_agent_sees_by_its_seat(server: LiveServer) -> None:
    await place(server, "bob", user_id="ben", org_unit="default")
    alice = await server.client("alice")
    said = (await alice.post(f"/channels/{CHANNEL}/messages", {"to": "bob", "payload": {"text": "for bob"}})).json
    hidden = (await alice.post(f"/channels/{CHANNEL}/messages", {"to": "carol", "payload": {"text": "no"}})).json
    ben, ann = await person(server, "ben"), await person(server, "ann")
    path = f"/channels/{CHANNEL}/messages"

    seen = [one["id"] for one in (await ben.get(path, seat="bob")).json]

    assert said["id"] in seen
    assert hidden["id"] not in seen
    assert (await ben.get("/intents/intent_1", seat="bob")).json["id"] == "intent_1"
    assert refused(await ann.get(path, seat="bob")) == (403, "sender_mismatch")
    assert refused(await ben.get(path, seat="alice")) == (403, "sender_mismatch")
    assert refused(await alice.get(path, seat="bob")) == (403, "sender_mismatch")
    assert refused(await ben.request("GET", f"/api/v1{path}?seat=bob", None, {"X-Agent-ID": "carol"})) == (
        422,
        "invalid",
    )
    assert {one["agent_id"] for one in (await ben.get("/agents")).json} >= {"bob"}
    assert (await ben.get("/roles")).status == 200


@with_server
async def test_a_person_follows_the_stream_of_its_agent_until_that_acts_for_somebody_else(server: LiveServer) -> None:
    await place(server, "bob", user_id="ben", org_unit="default")
    ben, ann = await person(server, "ben"), await person(server, "ann")
    alice = await server.client("alice")
    async with ann.events("/api/v1/agents/bob/subscribe") as refused_stream:
        assert refused_stream.status == 404
    async with (
        ben.events("/api/v1/agents/bob/subscribe") as own,
        ben.events(f"/api/v1/channels/{CHANNEL}/subscribe?seat=bob") as seat,
    ):
        await alice.post(f"/channels/{CHANNEL}/messages", {"to": "bob", "payload": {"text": "one"}})
        assert (await own.next()).json["payload"] == (await seat.next()).json["payload"] == {"text": "one"}

        await place(server, "bob", user_id="ann", org_unit="default")
        await alice.post(f"/channels/{CHANNEL}/messages", {"to": "bob", "payload": {"text": "two"}})

        assert [(await stream.next()).event for stream in (own, seat)] == ["revoked", "revoked"]
    assert refused(await ben.get(f"/channels/{CHANNEL}/messages", seat="bob")) == (403, "sender_mismatch")


@with_server
async def test_what_agents_of_units_kept_apart_say_of_themselves_stays_hidden_from_their_people(
    server: LiveServer,
) -> None:
    await place(server, "alice", user_id="ann", org_unit="sales", capabilities=["selling"])
    await place(server, "bob", user_id="ben", org_unit="engineering")

    seen = {
        user: (await shown(await person(server, user), "/agents/alice/record"))["capabilities"]
        for user in ("ann", "ben", "nobody")
    }

    assert seen == {"ann": ["selling"], "ben": [], "nobody": []}
