"""The webhooks of the console: those in trouble first, their tries, and forms that switch and test one."""

from __future__ import annotations

from typing import Any

from parley.domain.channel.subscription import Answered
from tests.rigs.fake_outbound import FakeOutbound
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import signed_in, text_of
from tests.rigs.webhooks import push_due

HOSTILE = "https://hooks.example/<script>alert(1)</script>"


async def subscribed(server: LiveServer, agent: str, url: str) -> dict[str, Any]:
    answer = await (await server.client(agent)).post("/subscriptions", {"webhook_url": url})
    assert answer.status == 201, answer.body
    document: dict[str, Any] = answer.json
    return document


@with_server
async def test_subscriptions_in_trouble_stand_first_with_what_waits_behind_them(server: LiveServer) -> None:
    outbound = FakeOutbound(lambda push: Answered(500) if "broken" in push.url else Answered(200))
    server.rig.team.outbound = outbound
    await subscribed(server, "bob", "https://fine.example/")
    broken = await subscribed(server, "bob", "https://broken.example/")
    alice = await server.client("alice")
    await alice.post("/channels/chan_1/messages", {"sender": "alice", "to": "bob", "payload": {"text": "hello"}})
    await push_due(server.rig.team, outbound)
    visitor = await signed_in(server)

    page = text_of(await visitor.open("/console/webhooks"))
    detail = text_of(await visitor.open(f"/console/webhooks/{broken['id']}"))

    assert page.index("https://broken.example/") < page.index("https://fine.example/")
    assert "https://broken.example/ bob failing 1 1 500" in page
    assert "https://fine.example/ bob active 0 0 200" in page
    assert "Failing: 1 try of one item failed. Next try:" in detail
    assert "Last tries When Answer Try Item" in detail


@with_server
async def test_an_admin_switches_a_subscription_and_sends_a_test(server: LiveServer) -> None:
    outbound = FakeOutbound(lambda _: Answered(0, "timeout"))
    server.rig.team.outbound = outbound
    path = f"/console/webhooks/{(await subscribed(server, 'bob', HOSTILE))['id']}"
    visitor = await signed_in(server)

    sent = await visitor.send(path, {"act": "test"})
    tested = await visitor.open(path)
    await visitor.send(path, {"act": "disable"})
    disabled = await visitor.open(path)
    await visitor.send(path, {"act": "enable"})
    enabled = await visitor.open(path)

    assert (sent.status, sent.headers["location"], len(outbound.pushes)) == (303, path, 1)
    assert "The last test failed timeout" in text_of(tested)
    assert "Disabled: disabled by hand." in text_of(disabled)
    assert "State active" in text_of(enabled)
    assert "<script>alert" not in enabled.body.decode()


@with_server
async def test_what_is_refused_is_said_above_the_subscription(server: LiveServer) -> None:
    server.rig.team.outbound = FakeOutbound()
    path = f"/console/webhooks/{(await subscribed(server, 'bob', 'https://a.example/'))['id']}"
    visitor = await signed_in(server)
    server.rig.team.outbound = None

    answer = await visitor.send(path, {"act": "test"})

    assert answer.status == 422
    assert ("Not done: " in text_of(answer), "this server sends no webhooks" in text_of(answer)) == (True, True)


@with_server
async def test_without_webhooks_the_page_says_how_to_subscribe(server: LiveServer) -> None:
    page = await (await signed_in(server)).open("/console/webhooks")

    assert "There are no webhooks." in text_of(page)
    assert "/api/v1/subscriptions" in text_of(page)
