"""Webhooks by their whole way: asked for over HTTP, pushed to a real receiver, checked by it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from parley.adapters.outside.outbound import HttpOutbound
from parley.app.team.webhooks import delivering as webhooks
from parley.domain.channel.subscription import Subscription
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.team import WebhookInvalid, WebhookReplayed
from parley.domain.times import stamp
from parley.wire.api.webhooks import Memory, verify
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, soon, with_server
from tests.rigs.webhook_receiver import Receiver, certified, receiving, status

FORBIDDEN = [
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://169.254.169.254/latest/meta-data/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.0.1/",
    "https://100.64.0.1/",
    "https://[fc00::1]/",
    "https://[fe80::1]/",
    "https://0.0.0.0/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://224.0.0.1/",
    "https://2130706433/",
    "https://0177.0.0.1/",
    "https://0x7f000001/",
    "https://127.1/",
    "https://localhost/",
    "http://93.184.216.34/",
    "https://user:password@93.184.216.34/",
    "ftp://93.184.216.34/",
    "not a url",
]


@asynccontextmanager
async def pushing(server: LiveServer, outbound: HttpOutbound) -> AsyncIterator[None]:
    """What a server does beside answering."""
    server.rig.team.outbound = outbound
    outbound.avoid(server.listener.port)
    work = asyncio.ensure_future(webhooks.deliver_forever(server.rig.team, outbound))
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def subscribed(client: Client, receiver: Receiver, **fields: object) -> dict[str, Any]:
    answer = await client.post("/subscriptions", {"webhook_url": receiver.url, **fields})
    assert answer.status == 201, answer.body
    found: dict[str, Any] = answer.json
    return found


async def say(client: Client, text: str, to: str = "") -> None:
    message = {"payload": {"text": text}, **({"to": to} if to else {})}
    assert (await client.post(f"/channels/{CHANNEL}/messages", message)).status == 201


@with_server
async def test_a_message_is_pushed_signed_to_its_subscriber(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        made = await subscribed(bob, receiver)

        await say(alice, "hello", to="bob")
        (got,) = await receiver.until(1)

    document = verify(made["secret"], got.headers, got.body, server.rig.clock.at)
    assert document["type"] == "channel_message"
    assert (document["data"]["payload"], document["data"]["sender"]) == ({"text": "hello"}, "alice")
    assert (document["data"]["intent_id"], document["data"]["channel_id"]) == (INTENT, CHANNEL)


@with_server
async def test_what_is_pushed_is_what_the_channel_lists(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        await subscribed(bob, receiver)
        await say(alice, "hello")
        (got,) = await receiver.until(1)

    (listed,) = (await bob.get(f"/channels/{CHANNEL}/messages")).json
    assert {**got.data} == {**listed, "intent_id": INTENT}


@with_server
async def test_a_webhook_goes_over_https_to_the_address_that_was_judged(server: LiveServer) -> None:
    serves, trusts = certified(server.rig.path.parent, "hook.example")

    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    outbound = HttpOutbound(private=True, resolve=here, context=trusts)
    alice, bob = await server.client("alice"), await server.client("bob")
    async with receiving(serves) as receiver, pushing(server, outbound):
        await bob.post("/subscriptions", {"webhook_url": f"https://hook.example:{receiver.port}/in"})
        await say(alice, "hello")
        (got,) = await receiver.until(1)

    assert (got.headers["host"], got.text) == (f"hook.example:{receiver.port}", "hello")


@with_server
async def test_the_receivers_check_refuses_what_was_altered_or_is_old_or_came_before(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        secret = (await subscribed(bob, receiver))["secret"]
        await say(alice, "pay 1")
        (got,) = await receiver.until(1)
    now, memory = server.rig.clock.at, Memory()
    verify(secret, got.headers, got.body, now, memory=memory)

    with pytest.raises(WebhookInvalid):
        verify(secret, got.headers, got.body.replace(b"pay 1", b"pay 9"), now)
    with pytest.raises(WebhookInvalid):
        verify(secret, {**got.headers, "webhook-id": "another"}, got.body, now)
    with pytest.raises(WebhookInvalid):
        verify(secret, got.headers, got.body, now + timedelta(minutes=5, seconds=1))
    with pytest.raises(WebhookReplayed):
        verify(secret, got.headers, got.body, now, memory=memory)


@with_server
async def test_the_secret_is_shown_once(server: LiveServer) -> None:
    bob = await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        made = await subscribed(bob, receiver)
        secret = made.pop("secret")

        assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
        assert (await bob.get(f"/subscriptions/{made['id']}")).json == made
        assert (await bob.get("/subscriptions")).json == [made]


@with_server
async def test_the_six_fields_of_the_sdk_are_taken_and_its_times_given_back_as_it_reads_them(
    server: LiveServer,
) -> None:
    bob = await server.client("bob")
    tomorrow = server.rig.clock.at + timedelta(days=1)
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        made = await subscribed(
            bob,
            receiver,
            intent_id=INTENT,
            portfolio_id=None,
            subscriber_id="bob",
            event_types=[],
            expires_at=tomorrow.replace(tzinfo=None).isoformat(),
        )

    assert (made["intent_id"], made["subscriber_id"], made["event_types"], made["active"]) == (INTENT, "bob", [], True)
    assert made["expiresAt"] == made["expires_at"] == stamp(tomorrow)
    assert made["createdAt"] == made["created_at"] == stamp(server.rig.clock.at)


@with_server
async def test_without_an_address_a_subscription_is_taken_as_the_sdk_makes_it(server: LiveServer) -> None:
    bob = await server.client("bob")

    made = await bob.post("/subscriptions", {"intent_id": INTENT, "webhook_url": None, "subscriber_id": "bob"})

    assert (made.status, made.json["webhook_url"]) == (201, None)


@with_server
async def test_who_unsubscribes_has_no_subscription(server: LiveServer) -> None:
    bob = await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        made = await subscribed(bob, receiver)

        assert (await bob.delete(f"/subscriptions/{made['id']}")).status == 204
        assert (await bob.delete(f"/subscriptions/{made['id']}")).status == 404
        assert (await bob.get("/subscriptions")).json == []


@pytest.mark.parametrize("url", FORBIDDEN)
@with_server
async def test_a_forbidden_target_is_refused_when_it_is_asked_for(server: LiveServer, url: str) -> None:
    bob = await server.client("bob")
    server.rig.team.outbound = HttpOutbound()

    answer = await bob.post("/subscriptions", {"webhook_url": url})

    assert (answer.status, answer.json["code"]) == (422, "target_forbidden")
    assert (await bob.get("/subscriptions")).json == []


@with_server
async def test_the_own_api_is_a_forbidden_target_even_on_a_laptop(server: LiveServer) -> None:
    bob = await server.client("bob")
    async with pushing(server, HttpOutbound(private=True)):
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            url = f"http://{host}:{server.listener.port}/api/v1/channels/{CHANNEL}/messages"
            answer = await bob.post("/subscriptions", {"webhook_url": url})
            assert (answer.status, answer.json["code"]) == (422, "target_forbidden")


@with_server
async def test_a_name_that_turns_inward_is_blocked_when_something_is_pushed(server: LiveServer) -> None:
    leads_to = ["93.184.216.34"]

    async def rebinding(host: str, port: int) -> list[str]:
        return leads_to

    alice, bob = await server.client("alice"), await server.client("bob")
    async with receiving() as inner, pushing(server, HttpOutbound(resolve=rebinding)):
        made = await bob.post("/subscriptions", {"webhook_url": f"https://evil.example:{inner.port}/"})
        leads_to[:] = ["127.0.0.1"]
        await say(alice, "secret")
        attempt = await _attempted(bob, made.json["id"])

    assert (made.status, attempt["error"], attempt["status"]) == (201, "target_forbidden", None)
    assert inner.connections == 0


async def _attempted(client: Client, subscription_id: str) -> dict[str, Any]:
    """The first attempt, once there is one."""
    found: list[dict[str, Any]] = []

    async def is_there() -> bool:
        found[:] = (await client.get(f"/subscriptions/{subscription_id}/attempts")).json
        return bool(found)

    await soon(is_there)
    return found[0]


@pytest.mark.parametrize(
    ("answer", "drips", "error", "seconds"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n", b"", "redirect", 30.0),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", b"x", "timeout", 0.3),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000, "answer_too_large", 30.0),
        (None, b"", "timeout", 0.3),
    ],
)
@with_server
async def test_what_a_hostile_receiver_answers_is_a_failed_attempt(
    server: LiveServer, answer: bytes | None, drips: bytes, error: str, seconds: float
) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    outbound = HttpOutbound(private=True, seconds=seconds)
    async with receiving() as inner, receiving() as receiver, pushing(server, outbound):
        receiver.answer = answer % inner.port if answer and b"%d" in answer else answer
        receiver.drips = drips
        made = await subscribed(bob, receiver)
        await say(alice, "hello")
        attempt = await _attempted(bob, made["id"])
        shown = (await bob.get(f"/subscriptions/{made['id']}")).json

    assert (attempt["error"], attempt["number"]) == (error, 1)
    assert (shown["tries"], shown["active"], shown["last_attempt"]) == (1, True, attempt)
    assert shown["next_try_at"] == stamp(server.rig.clock.at + timedelta(seconds=5))
    assert inner.connections == 0


@with_server
async def test_a_receiver_that_is_gone_disables_its_subscription_until_it_is_switched_on(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        receiver.answer = status(410)
        path = f"/subscriptions/{(await subscribed(bob, receiver))['id']}"
        await say(alice, "one")

        async def is_off() -> bool:
            shown = (await bob.get(path)).json
            return (shown["state"], shown["disabled_reason"], shown["active"]) == ("disabled", "gone", False)

        await soon(is_off)
        await say(alice, "two")
        receiver.answer = status(200)
        switched = await bob.patch(path, {"active": True})
        await receiver.until(3)

    assert (switched.status, switched.json["state"]) == (200, "active")
    assert receiver.texts == ["one", "one", "two"]


@with_server
async def test_switched_off_nothing_is_pushed(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    async with receiving() as off, receiving() as on, pushing(server, HttpOutbound(private=True)):
        made = await subscribed(bob, off)
        await subscribed(carol, on)
        switched = await bob.patch(f"/subscriptions/{made['id']}", {"active": False})
        await say(alice, "hello")
        await on.until(1)

    assert (switched.json["active"], switched.json["disabled_reason"]) == (False, "switched_off")
    assert off.got == []


@with_server
async def test_a_renewed_secret_signs_beside_the_old_one(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        made = await subscribed(bob, receiver)
        renewed = await bob.post(f"/subscriptions/{made['id']}/secret")
        await say(alice, "hello")
        (got,) = await receiver.until(1)

    assert (renewed.status, renewed.json["secret"] != made["secret"]) == (200, True)
    for secret in (made["secret"], renewed.json["secret"]):
        assert verify(secret, got.headers, got.body, server.rig.clock.at)


@with_server
async def test_a_registered_endpoint_gets_what_is_said_to_its_agent(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        registered = await bob.post("/agents/register", {"agent_id": "bob", "endpoint": receiver.url})
        assert registered.status in (200, 201)

        async def is_followed() -> bool:
            return bool((await bob.get("/subscriptions")).json)

        await soon(is_followed)
        (followed,) = (await bob.get("/subscriptions")).json
        secret = (await bob.post(f"/subscriptions/{followed['id']}/secret")).json["secret"]
        await say(alice, "to carol", to="carol")
        await say(alice, "to bob", to="bob")
        (got,) = await receiver.until(1)
        deleted = await bob.delete(f"/subscriptions/{followed['id']}")

    assert (followed["follows_endpoint"], followed["webhook_url"]) == (True, receiver.url)
    assert verify(secret, got.headers, got.body, server.rig.clock.at)["data"]["payload"] == {"text": "to bob"}
    assert deleted.status == 409


@with_server
async def test_what_others_subscribed_to_is_as_good_as_nothing(server: LiveServer) -> None:
    bob, carol = await server.client("bob"), await server.client("carol")
    other = await server.client("bob", tenant="other")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        made = await subscribed(bob, receiver)
        nothing = await carol.get("/subscriptions/sub_nothing")
        for client in (carol, other):
            path = f"/subscriptions/{made['id']}"
            for answer in (
                await client.get(path),
                await client.get(f"{path}/attempts"),
                await client.delete(path),
                await client.patch(path, {"active": False}),
                await client.post(f"{path}/secret"),
            ):
                assert (answer.status, answer.json) == (404, nothing.json)
            assert (await client.get("/subscriptions")).json == []


@with_server
async def test_nobody_subscribes_in_the_name_of_another(server: LiveServer) -> None:
    bob = await server.client("bob")
    fleet = await server.client(kind=KeyKind.SERVICE)

    refused = await bob.post("/subscriptions", {"subscriber_id": "alice"})
    made = await fleet.post("/subscriptions", {"subscriber_id": "alice"})

    assert (refused.status, refused.json["code"]) == (403, "sender_mismatch")
    assert (made.status, made.json["subscriber_id"]) == (201, "alice")


@with_server
async def test_a_key_of_a_person_makes_no_subscription(server: LiveServer) -> None:
    person = await server.client(kind=KeyKind.HUMAN)

    assert (await person.post("/subscriptions", {})).status == 403


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"portfolio_id": "portfolio_1"}, 422),
        ({"expires_at": "yesterday"}, 422),
        ({"expires_at": "2001-01-01T00:00:00"}, 422),
        ({"intent_id": "intent_nowhere"}, 404),
        ({"event_types": [1]}, 422),
        ({"secret": "whsec_mine"}, 422),
        ({"active": False}, 422),
        ({"tenant_id": "other"}, 422),
    ],
)
@with_server
async def test_what_cannot_be_subscribed_to_is_refused(server: LiveServer, fields: dict[str, Any], code: int) -> None:
    bob = await server.client("bob")

    answer = await bob.post("/subscriptions", fields)

    assert answer.status == code
    assert await server.rig.store.count(Subscription, DEFAULT_TENANT, "") == 0


@pytest.mark.both_stores
@with_server
async def test_the_same_idempotency_key_makes_one_subscription(server: LiveServer) -> None:
    bob = await server.client("bob")
    key = {"Idempotency-Key": "once"}

    first, second = [await bob.post("/subscriptions", {"event_types": ["comment"]}, key) for _ in range(2)]

    assert (first.status, second.status, first.json) == (201, 201, second.json)
    assert len((await bob.get("/subscriptions")).json) == 1


@pytest.mark.both_stores
@with_server
async def test_a_restart_pushes_what_was_not_accepted_and_nothing_twice(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    outbound = HttpOutbound(private=True)
    async with receiving() as receiver:
        async with pushing(server, outbound):
            await subscribed(bob, receiver)
            await say(alice, "one")
            await receiver.until(1)

            async def is_noted() -> bool:
                return bool((await bob.get("/subscriptions")).json[0]["last_attempt"])

            await soon(is_noted)
        await say(alice, "two")
        await server.restart()
        async with pushing(server, outbound):
            await receiver.until(2)

    assert receiver.texts == ["one", "two"]


@with_server
async def test_a_test_arrives_signed_and_its_result_is_kept(server: LiveServer) -> None:
    bob = await server.client("bob")
    async with receiving() as receiver, pushing(server, HttpOutbound(private=True)):
        made = await subscribed(bob, receiver)
        tested = await bob.post(f"/subscriptions/{made['id']}/test")
        (got,) = await receiver.until(1)
        shown = (await bob.get(f"/subscriptions/{made['id']}")).json
        other = await (await server.client("eve")).post(f"/subscriptions/{made['id']}/test")

    assert (tested.status, tested.json["status"], tested.json["error"]) == (200, 200, None)
    document = verify(made["secret"], got.headers, got.body, server.rig.clock.at)
    assert (document["type"], document["data"]["subscription_id"]) == ("webhook.test", made["id"])
    assert shown["last_test"] == tested.json
    assert (shown["waiting"], shown["failed_24h"], shown["last_attempt"]) == (0, 0, None)
    assert other.status == 404
