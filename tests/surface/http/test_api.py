"""The API around every route: finding it, and carrying a request out once however often it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from parley.app.team.channels import asking as asking_use_case
from parley.app.team.channels import posting
from parley.domain.channel.channel import Options
from parley.domain.channel.post import PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Invalid, Unavailable
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Committed, TeamChanges
from parley.surfaces.entrance.validation import converted
from parley.surfaces.http.server import all_routes
from parley.wire.api.agents import AgentIn
from tests.rigs.team import CHANNEL, INTENT, Answer, Client, LiveServer, delivered, soon, with_server

PLACE = f"/channels/{CHANNEL}/messages"
ASK = f"/channels/{CHANNEL}/ask"
CHANNELS = f"/intents/{INTENT}/channels"


async def once(client: Client, key: str, body: object, path: str = PLACE) -> Answer:
    return await client.post(path, body, {"Idempotency-Key": key})


def replayed(answer: Answer) -> bool:
    return answer.headers.get("idempotent-replayed") == "true"


async def count(server: LiveServer) -> int:
    return (await server.rig.store.tally(DEFAULT_TENANT, CHANNEL)).total


# ---------------------------------------------------------------- routes


@with_server
async def test_a_path_that_is_not_there_and_a_method_that_is_not_done(server: LiveServer) -> None:
    bob = await server.client("bob")

    for path in ("/nothing", "/channel", f"{PLACE}/x/y/z", "/api/v2/channels/x", "/channels//messages", f"{PLACE}/"):
        assert (await bob.get(path)).status == 404
    wrong = await bob.request("PUT", PLACE, {})

    assert (wrong.status, wrong.headers["allow"]) == (405, "GET, POST")


@with_server
async def test_without_a_valid_key_nothing_is_said(server: LiveServer) -> None:
    await server.rig.key("bob")
    expired = server.with_key(await server.rig.key("eve", expires_at=server.rig.at()))
    revoked = await server.client("carol")
    await server.rig.revoke("carol")

    answers = [
        await server.with_key("").get(PLACE),
        await server.with_key("wrong").get(PLACE),
        await expired.get(PLACE),
        await revoked.get(PLACE),
        await server.with_key("").get(PLACE, api_key=await server.rig.key("bob")),
    ]

    assert {(one.status, one.body) for one in answers} == {(401, answers[0].body)}


@with_server
async def test_a_head_request_is_a_get_without_its_body(server: LiveServer) -> None:
    bob = await server.client("bob")

    head, get = await bob.request("HEAD", f"/channels/{CHANNEL}"), await bob.get(f"/channels/{CHANNEL}")

    assert (head.status, head.headers["content-length"]) == (200, get.headers["content-length"])


@with_server
async def test_a_page_of_another_site_does_not_reach_the_server(server: LiveServer) -> None:
    bob = await server.client("bob")

    by_name = await bob.get(PLACE, headers={"Host": "evil.example"})
    by_browser = await bob.get(PLACE, headers={"Origin": "https://evil.example"})

    assert (by_name.status, by_name.code) == (403, "host_forbidden")
    assert (by_browser.status, by_browser.code) == (403, "origin_forbidden")


# ---------------------------------------------------------------- once


@pytest.mark.both_stores
@with_server
async def test_the_same_key_and_body_give_the_same_answer_once(server: LiveServer) -> None:
    bob = await server.client("bob")

    answers = [await once(bob, "k1", {"payload": {"n": 1}}) for _ in range(3)]

    assert {(one.status, one.body) for one in answers} == {(201, answers[0].body)}
    assert [replayed(one) for one in answers] == [False, True, True]
    assert await count(server) == 1


@with_server
async def test_the_same_key_with_another_body_is_refused(server: LiveServer) -> None:
    bob = await server.client("bob")
    await once(bob, "k1", {"payload": {"n": 1}})

    for other in (
        await once(bob, "k1", {"payload": {"n": 2}}),
        await once(bob, "k1", {"payload": {"n": 1}}, f"{PLACE}?wait=0"),
    ):
        assert (other.status, other.code) == (422, "idempotency_mismatch")
    assert await count(server) == 1


@with_server
async def test_a_key_belongs_to_its_tenant_its_agent_and_its_route(server: LiveServer) -> None:
    await server.rig.intent("intent_t", tenant="other")
    await server.rig.channel("chan_t", intent_id="intent_t", tenant="other")
    await server.rig.channel("chan_2")
    bob, carol = await server.client("bob"), await server.client("carol")
    foreign = await server.client("bob", tenant="other")
    fleet = [await server.client(kind=KeyKind.SERVICE, speaks_as=name) for name in ("r1", "r2")]

    answers = [
        await once(bob, "k1", {}),
        await once(carol, "k1", {}),
        await once(bob, "k1", {}, "/channels/chan_2/messages"),
        await once(foreign, "k1", {}, "/channels/chan_t/messages"),
        await once(fleet[0], "k1", {}),
        await once(fleet[1], "k1", {}),
    ]

    assert [one.status for one in answers] == [201] * 6
    assert len({one.json["id"] for one in answers}) == 6
    assert not any(map(replayed, answers))


@pytest.mark.both_stores
@with_server
async def test_a_key_is_remembered_over_a_restart(server: LiveServer) -> None:
    first = await once(await server.client("bob"), "k1", {"payload": {"n": 1}})

    await server.restart()

    again = await once(await server.client("bob"), "k1", {"payload": {"n": 1}})
    assert (again.status, again.body, replayed(again)) == (201, first.body, True)
    assert await count(server) == 1


@with_server
async def test_of_many_at_the_same_moment_one_is_carried_out(server: LiveServer) -> None:
    clients = [await server.client("bob") for _ in range(8)]

    answers = await asyncio.gather(*(once(one, "k1", {"payload": {"n": 1}}) for one in clients))

    assert {(one.status, one.body) for one in answers} == {(201, answers[0].body)}
    assert sum(map(replayed, answers)) == 7
    assert await count(server) == 1


@with_server
async def test_a_refusal_is_not_remembered(server: LiveServer) -> None:
    bob = await server.client("bob")

    refused = await once(bob, "k1", {"to": "x" * 65})
    carried_out = await once(bob, "k1", {"to": "alice"})

    assert (refused.status, carried_out.status) == (422, 201)


@with_server
async def test_what_was_carried_out_is_answered_though_it_would_be_refused_now(server: LiveServer) -> None:
    bob, alice = await server.client("bob"), await server.client("alice")
    first = await once(bob, "k1", {})
    await alice.patch(f"/channels/{CHANNEL}", {"status": "closed"})

    again, other = await once(bob, "k1", {}), await once(bob, "k2", {})

    assert (again.status, again.body) == (201, first.body)
    assert (other.status, other.code) == (409, "channel_closed")


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"/channels/{CHANNEL}/batch", {"messages": [{}, {}]}),
        (f"/intents/{INTENT}/channels/talk/messages", {"payload": {}}),
        (CHANNELS, {"name": "new"}),
    ],
)
@with_server
async def test_every_post_is_carried_out_once(server: LiveServer, path: str, body: object) -> None:
    bob = await server.client("bob")

    first = await once(bob, "k1", body, path)
    again = await once(bob, "k1", body, path)
    await server.restart()
    restarted = await once(await server.client("bob"), "k1", body, path)

    assert first.status == 201
    assert [(one.status, one.body) for one in (again, restarted)] == [(201, first.body)] * 2


@pytest.mark.both_stores
@with_server
async def test_a_reply_is_given_once(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = (await alice.post(PLACE, {"message_type": "request", "to": "bob"})).json["id"]

    first = await once(bob, "k1", {"payload": {"a": 1}}, f"{PLACE}/{asked}/reply")
    again = await once(bob, "k1", {"payload": {"a": 1}}, f"{PLACE}/{asked}/reply")

    assert (first.status, again.body) == (201, first.body)
    assert await count(server) == 2


@with_server
async def test_a_message_whose_answer_was_lost_is_answered_as_then(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = await server.client("bob")
    commit = server.rig.store.commit

    async def lost(changes: TeamChanges) -> Committed:
        """As if the server had been killed before it wrote the answer down."""
        return Committed(0) if changes.saved and changes.saved.answer else await commit(changes)

    monkeypatch.setattr(server.rig.store, "commit", lost)
    direct = await once(bob, "k1", {"to": "alice", "payload": {"n": 1}})
    waiting = await once(bob, "k2", {"to": "role:none"})
    await server.restart()

    bob = await server.client("bob")
    again = [await once(bob, "k1", {"to": "alice", "payload": {"n": 1}}), await once(bob, "k2", {"to": "role:none"})]

    assert [one.json for one in again] == [direct.json, waiting.json]
    assert [one.status for one in again] == [201, 201]
    assert all(map(replayed, again))


@with_server
async def test_what_cannot_be_answered_again_says_that_it_was_done(server: LiveServer) -> None:
    admin = await server.client("", KeyKind.ADMIN)
    path, body = "/keys", {"kind": "agent", "agent_id": "bob"}
    await once(admin, "k1", body, path)

    again = await once(admin, "k1", body, path)

    assert (again.status, again.code) == (409, "stale")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/intents", {"title": "new"}),
        (CHANNELS, {"name": "new"}),
        ("/tasks", {"intent_id": INTENT, "name": "new"}),
        (f"/channels/{CHANNEL}/batch", {"messages": [{"payload": {"n": n}} for n in range(3)]}),
        (f"/intents/{INTENT}/acl/entries", {"principal_id": "carol", "permission": "read"}),
        (f"/intents/{INTENT}/access-requests", {"principal_id": "alice", "requested_permission": "read"}),
        (f"/intents/{INTENT}/events", {"event_type": "noted", "payload": {"n": 1}}),
        ("/suspensions", {"what": "agent", "name": "carol"}),
        ("/audit/erasures", {"agent_id": "carol"}),
        ("/admin/checkpoints", {"intent_id": INTENT}),
    ],
)
@with_server
async def test_what_was_made_is_told_again_when_its_first_answer_was_lost(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, str]
) -> None:
    await server.rig.say("carol", "a word")
    admin = path.split("/")[1] in ("suspensions", "audit", "admin")
    bob = await server.client("" if admin else "alice", KeyKind.ADMIN if admin else KeyKind.AGENT)
    if path == "/admin/checkpoints":
        await (await server.client("bob")).post(f"/intents/{INTENT}/events", {"event_type": "noted"})
    commit = server.rig.store.commit

    async def lost(changes: TeamChanges) -> Committed:
        return Committed(0) if changes.saved and changes.saved.answer else await commit(changes)

    monkeypatch.setattr(server.rig.store, "commit", lost)
    first = await once(bob, "k1", body, path)
    again = await once(bob, "k1", body, path)

    assert (first.status, again.status, again.json) == (201, 201, first.json)
    assert replayed(again)


def test_every_route_that_creates_something_can_be_answered_again() -> None:
    """But for secrets, which are shown once."""
    creating = [one for one in all_routes() if one.method == "POST" and 201 in one.answers]

    assert len(creating) > 15
    assert [one.path for one in creating if not (one.again or one.written or one.confidential)] == []


@with_server
async def test_of_two_that_send_the_same_at_once_one_is_carried_out_and_both_get_its_answer(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob"})
    commit = server.rig.store.commit
    came, overtaken = asyncio.Event(), asyncio.Event()

    async def slow(changes: TeamChanges) -> Committed:
        if not came.is_set():
            came.set()
            await overtaken.wait()
        return await commit(changes)

    monkeypatch.setattr(server.rig.store, "commit", slow)
    path = "/agents/bob/heartbeat"
    beginning = asyncio.ensure_future(once(bob, "k1", {"current_load": 1}, path))
    await came.wait()
    server.rig.clock.pass_by(seconds=5)
    again = await once(await server.client("bob"), "k1", {"current_load": 1}, path)
    overtaken.set()
    first = await beginning

    assert (first.status, again.status, again.json) == (200, 200, first.json)
    assert [answer.headers.get("idempotent-replayed") for answer in (first, again)] == ["true", None]


@with_server
async def test_the_answer_outlives_its_message(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(max_messages=1))
    bob, place = await server.client("bob"), "/channels/chan_2/messages"
    first = await once(bob, "k1", {}, place)
    await bob.post(place, {})

    async def remembered() -> bool:
        return (await once(bob, "k1", {}, place)).body == first.body

    await soon(remembered)
    assert (await bob.get(f"{place}/{first.json['id']}")).status == 404


async def asking(server: LiveServer, verb: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
    before = await count(server)
    task = asyncio.create_task(verb)

    async def posted() -> bool:
        return task.done() or await count(server) > before

    await soon(posted)
    return task


def _waits(server: LiveServer, request_id: str) -> int:
    """How many wait for the answer to a request."""
    waiting = server.rig.team.waits._by_request.get(request_id)
    return len(waiting.answers) if waiting else 0


@with_server
async def test_an_ask_whose_connection_broke_goes_on_with_the_same_key(server: LiveServer) -> None:
    body = {"to": "bob", "payload": {"q": 1}, "timeout": 20, "wait_for_responders": True}
    alice, again = await server.client("alice"), await server.client("alice")
    broken = await asking(server, once(alice, "k1", body, ASK))
    broken.cancel()
    await alice.close()
    await soon(lambda: not server.rig.team.waits._by_request)

    waiting = asyncio.create_task(once(again, "k1", body, ASK))
    (asked,) = (await (await server.client("bob")).get(PLACE, since=0)).json
    await soon(lambda: _waits(server, asked["id"]) == 1)
    reply = PostDraft(Pattern.NOTIFY, b'{"a":1}')
    said = delivered(await posting.reply(server.rig.team, server.rig.caller("bob"), CHANNEL, asked["id"], reply))

    answer = await waiting
    assert (answer.status, answer.json["id"], answer.json["payload"]) == (200, said.id, {"a": 1})
    late = await once(await server.client("alice"), "k1", body, ASK)
    assert (late.status, late.json) == (200, answer.json)
    assert await count(server) == 2


@with_server
async def test_an_ask_that_timed_out_has_waited_once(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, again = await server.client("alice"), []
    ask_again = asking_use_case.resume_ask

    async def counted(*given: Any) -> Any:  # noqa: ANN401  # as the original
        again.append(given)
        return await ask_again(*given)

    monkeypatch.setattr(asking_use_case, "resume_ask", counted)
    body = {"to": "bob", "payload": {}, "timeout": 0.05, "wait_for_responders": True}
    gave_up = await once(alice, "k1", body, ASK)

    assert (gave_up.status, again) == (504, [])


@with_server
async def test_an_ask_that_timed_out_may_be_asked_again_for_its_late_answer(server: LiveServer) -> None:
    body = {"to": "bob", "payload": {"q": 1}, "message_type": "request", "expires_at": "2026-03-14T00:00:00Z"}
    alice, path = await server.client("alice"), f"{PLACE}?wait=0.05"
    gave_up = await once(alice, "k1", body, path)
    again = await once(alice, "k1", body, path)
    reply = PostDraft(Pattern.NOTIFY, b"{}")
    asked = gave_up.json["request_id"]
    said = delivered(await posting.reply(server.rig.team, server.rig.caller("bob"), CHANNEL, asked, reply))

    answered = await once(alice, "k1", body, path)

    assert [(one.status, one.json["request_id"]) for one in (gave_up, again)] == [(504, asked)] * 2
    assert (answered.status, answered.json["id"]) == (200, said.id)
    assert await count(server) == 2


@pytest.mark.parametrize(("key", "status"), [("k" * 255, 201), ("k" * 256, 422), ("", 422)])
@with_server
async def test_a_key_has_a_length(server: LiveServer, key: str, status: int) -> None:
    bob = await server.client("bob")

    assert (await once(bob, key, {})).status == status


@with_server
async def test_what_goes_wrong_inside_is_shown_without_detail(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = await server.client("bob")

    async def broken(*_: object) -> None:
        raise RuntimeError("the secret is in this text")

    monkeypatch.setattr(server.rig.store, "page", broken)
    failed = await bob.get(PLACE)

    assert (failed.status, failed.code) == (500, "internal")
    assert b"secret" not in failed.body
    assert (await bob.get(f"/channels/{CHANNEL}")).status == 200


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"org_unit": "a b"}, "must be letters, digits, '.', '_' or '-', at most 64"),
        ({"user_id": "a b"}, "must be letters, digits, '.', '_', '@', '+' or '-', at most 128"),
        ({"max_classification": "secret"}, "must be public or internal or confidential or restricted"),
        ({"supported_exchange_types": ["chat"]}, "must be information_query or "),
    ],
)
def test_what_is_wrong_with_a_field_is_said_in_words_with_what_there_is_to_choose_from(
    body: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid) as refused:
        converted({"agent_id": "alice", **body}, AgentIn)

    (problem,) = refused.value.problems
    assert said in problem.detail
    assert "regex" not in problem.detail


def test_a_choice_that_lies_deeper_is_refused_as_it_is() -> None:
    inner = msgspec.defstruct("Inner", [("kind", KeyKind)])
    outer = msgspec.defstruct("Outer", [("inner", inner)])

    for kind, document in ((outer, {"inner": {"kind": "x"}}), (list[inner], [{"kind": "x"}])):  # type: ignore[valid-type]
        with pytest.raises(Invalid, match="Invalid enum value"):
            converted(document, kind)


@with_server
async def test_a_store_that_does_not_answer_is_not_asked_whether_a_request_was_carried_out(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = await server.client("bob")
    asked: list[str] = []

    async def gone(changes: TeamChanges) -> Committed:
        raise Unavailable("the database cannot be asked")

    async def saved(scope: str) -> None:
        asked.append(scope)

    with monkeypatch.context() as patch:
        patch.setattr(server.rig.store, "commit", gone)
        patch.setattr(server.rig.store, "saved", saved)
        refused = await once(bob, "k1", {"payload": {"n": 1}})
    again = await once(bob, "k1", {"payload": {"n": 1}})

    assert (refused.status, asked) == (503, [])
    assert (again.status, replayed(again), await count(server)) == (201, False, 1)
