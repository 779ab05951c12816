"""Subscriptions: who may ask for webhooks, and who sees which."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from parley.app.team.webhooks import subscriptions
from parley.app.team.webhooks.subscriptions import SubscriptionDraft
from parley.domain.channel.subscription import Reason, Subscription, endpoint_id
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, KeyKind
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.errors.team import BadTransition, QuotaExceeded, TargetForbidden
from parley.domain.times import stamp
from tests.rigs.fake_outbound import FORBIDDEN, FakeOutbound
from tests.rigs.team import INTENT, Rig, with_rig

URL = "https://hook.example/"


async def subscribed(
    rig: Rig, agent: str = "bob", url: str = URL, intent_id: str = "", expires_at: str = ""
) -> Subscription:
    rig.team.outbound = rig.team.outbound or FakeOutbound()
    return await subscriptions.create(rig.team, rig.caller(agent), SubscriptionDraft(url, intent_id, (), expires_at))


async def endpoint(rig: Rig, agent: str = "bob") -> Subscription | None:
    return await rig.store.get(Subscription, DEFAULT_TENANT, endpoint_id(agent))


async def actions(rig: Rig) -> list[str]:
    return [one.entry.action for one in await rig.store.entries(DEFAULT_TENANT, 0, 100)]


@with_rig
async def test_a_subscription_begins_at_this_moment_with_a_secret_of_256_bits(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    said = await rig.say("alice")

    made = await subscribed(rig)

    assert (made.cursor, made.subscriber_id, made.pushes) == (said.position, "bob", True)
    assert len(base64.b64decode(made.secret.removeprefix("whsec_"), validate=True)) == 32
    assert await actions(rig) == ["subscription_created"]


@with_rig
async def test_no_two_subscriptions_share_a_secret(rig: Rig) -> None:
    assert (await subscribed(rig)).secret != (await subscribed(rig)).secret


@with_rig
async def test_the_ledger_keeps_the_host_of_an_address_and_none_of_its_secrets(rig: Rig) -> None:
    await subscribed(rig, url="https://hook.example:8443/T0/token?key=token")
    await rig.agent("bob", endpoint="https://me:token@hook.example?key=token")
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")

    facts = [one.entry.facts for one in await rig.store.entries(DEFAULT_TENANT, 0, 100)]

    assert [one["host"] for one in facts] == ["hook.example:8443", "hook.example"]
    assert "token" not in str(facts)


@with_rig
async def test_a_forbidden_address_is_refused_and_nothing_is_kept(rig: Rig) -> None:
    with pytest.raises(TargetForbidden) as refused:
        await subscribed(rig, url=FORBIDDEN)

    assert [one.field for one in refused.value.problems] == ["webhook_url"]
    assert await subscriptions.list_all(rig.team, rig.caller("bob")) == []


@with_rig
async def test_a_server_that_sends_no_webhooks_takes_no_address(rig: Rig) -> None:
    with pytest.raises(TargetForbidden, match="sends no webhooks"):
        await subscriptions.create(rig.team, rig.caller("bob"), SubscriptionDraft(URL))


@with_rig
async def test_a_subscription_without_an_address_is_kept_and_pushes_nothing(rig: Rig) -> None:
    made = await subscriptions.create(rig.team, rig.caller("bob"), SubscriptionDraft())

    assert not made.pushes


@with_rig
async def test_an_intent_that_one_may_not_know_of_cannot_be_subscribed_to(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)

    with pytest.raises(NotFound, match="no such intent"):
        await subscribed(rig, intent_id=INTENT)
    with pytest.raises(NotFound, match="no such intent"):
        await subscribed(rig, intent_id="intent_nowhere")
    assert (await subscribed(rig, "alice", intent_id=INTENT)).intent_id == INTENT


@with_rig
async def test_an_end_in_the_past_is_refused(rig: Rig) -> None:
    with pytest.raises(Invalid, match="expires_at"):
        await subscribed(rig, expires_at=rig.at())


@with_rig
async def test_a_tenant_has_at_most_so_many(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(webhooks_per_tenant=2)
    await subscribed(rig)
    await subscribed(rig, "carol")

    with pytest.raises(QuotaExceeded, match="at most 2"):
        await subscribed(rig)


@with_rig
async def test_one_agent_does_not_take_all_of_them(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(webhooks_per_agent=1)
    await subscribed(rig)

    with pytest.raises(QuotaExceeded, match="an agent has at most 1"):
        await subscribed(rig)
    await subscribed(rig, "carol")


@with_rig
async def test_anothers_subscription_is_as_good_as_none(rig: Rig) -> None:
    made = await subscribed(rig)
    others = [rig.caller("carol"), rig.caller("bob", tenant="other"), rig.caller(kind=KeyKind.HUMAN)]

    for caller in others:
        assert await subscriptions.list_all(rig.team, caller) == []
        for refused in (
            subscriptions.get(rig.team, caller, made.id),
            subscriptions.delete(rig.team, caller, made.id),
            subscriptions.switch(rig.team, caller, made.id, active=False),
            subscriptions.renew_secret(rig.team, caller, made.id),
        ):
            with pytest.raises(NotFound, match="no such subscription"):
                await refused


@with_rig
async def test_a_key_that_sees_the_whole_tenant_sees_all_of_them(rig: Rig) -> None:
    made = [await subscribed(rig), await subscribed(rig, "carol")]
    await rig.agent("dave", endpoint=URL)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "dave")

    found = await subscriptions.list_all(rig.team, rig.caller(kind=KeyKind.ADMIN))

    assert [one.id for one in found] == [*(one.id for one in made), endpoint_id("dave")]


@with_rig
async def test_a_list_can_be_for_one_intent(rig: Rig) -> None:
    await rig.intent()
    await subscribed(rig)
    made = await subscribed(rig, intent_id=INTENT)

    assert await subscriptions.list_all(rig.team, rig.caller("bob"), INTENT) == [made]


@with_rig
async def test_a_deleted_subscription_is_gone(rig: Rig) -> None:
    made = await subscribed(rig)

    await subscriptions.delete(rig.team, rig.caller("bob"), made.id)

    with pytest.raises(NotFound):
        await subscriptions.get(rig.team, rig.caller("bob"), made.id)
    assert await actions(rig) == ["subscription_created", "subscription_deleted"]


@with_rig
async def test_switched_off_and_on_it_goes_on_in_the_name_of_the_new_key(rig: Rig) -> None:
    made = await subscribed(rig)

    off = await subscriptions.switch(rig.team, rig.caller("bob"), made.id, active=False)
    on = await subscriptions.switch(rig.team, rig.caller("bob", KeyKind.SERVICE), made.id, active=True)

    assert (off.pushes, off.reason) == (False, Reason.SWITCHED_OFF)
    assert (on.pushes, on.reason, on.cursor) == (True, Reason.NONE, made.cursor)
    assert on.key_id == rig.caller("bob", KeyKind.SERVICE).key_id


@with_rig
async def test_an_address_is_judged_again_when_it_is_switched_on(rig: Rig) -> None:
    made = await subscribed(rig)
    rig.team.outbound = None

    with pytest.raises(TargetForbidden):
        await subscriptions.switch(rig.team, rig.caller("bob"), made.id, active=True)


@with_rig
async def test_what_has_run_out_is_not_switched_on(rig: Rig) -> None:
    made = await subscribed(rig, expires_at=stamp(rig.clock.at + timedelta(hours=1)))
    rig.clock.pass_by(hours=1)

    with pytest.raises(BadTransition, match="time is up"):
        await subscriptions.switch(rig.team, rig.caller("bob"), made.id, active=True)


@with_rig
async def test_a_renewed_secret_is_another_and_the_old_one_stays_a_day(rig: Rig) -> None:
    made = await subscribed(rig)

    renewed = await subscriptions.renew_secret(rig.team, rig.caller("bob"), made.id)

    assert renewed.secrets(rig.at()) == (renewed.secret, made.secret)
    assert renewed.secret != made.secret


@with_rig
async def test_a_registered_endpoint_is_followed_from_its_position_on(rig: Rig) -> None:
    await rig.agent("bob", endpoint=URL)

    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob", 7)

    found = await endpoint(rig)
    assert found is not None
    assert (found.url, found.subscriber_id, found.cursor, found.pushes) == (URL, "bob", 7, True)
    assert await subscriptions.list_all(rig.team, rig.caller("bob")) == [found]


@with_rig
async def test_an_agent_without_an_endpoint_has_no_subscription(rig: Rig) -> None:
    await rig.agent("bob")

    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "nobody")

    assert await endpoint(rig) is None


@with_rig
async def test_an_endpoint_that_moves_takes_along_what_waits(rig: Rig) -> None:
    await rig.agent("bob", endpoint=URL)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob", 7)
    before = await endpoint(rig)

    await rig.agent("bob", endpoint="https://new.example/")
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob", 9)

    after = await endpoint(rig)
    assert before is not None
    assert after is not None
    assert (after.url, after.cursor, after.secret) == ("https://new.example/", 7, before.secret)


@pytest.mark.parametrize("change", [{"endpoint": ""}, {"status": AgentStatus.DEREGISTERED}])
@with_rig
async def test_an_agent_that_leaves_is_pushed_nothing_and_begins_anew_when_it_returns(
    rig: Rig, change: dict[str, Any]
) -> None:
    await rig.agent("bob", endpoint=URL)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob", 7)

    await rig.agent("bob", **change)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob", 8)
    gone = await endpoint(rig)
    rig.team.outbound = FakeOutbound()
    with pytest.raises(BadTransition):
        await subscriptions.switch(rig.team, rig.caller("bob"), endpoint_id("bob"), active=True)
    await rig.agent("bob", endpoint=URL, status=AgentStatus.ACTIVE)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob", 9)
    back = await endpoint(rig)

    assert gone is not None
    assert back is not None
    assert (gone.pushes, gone.reason) == (False, Reason.NO_ENDPOINT)
    assert (back.pushes, back.cursor, back.secret) == (True, 9, gone.secret)


@with_rig
async def test_what_was_switched_off_stays_off_however_often_the_agent_is_heard_of(rig: Rig) -> None:
    await rig.agent("bob", endpoint=URL)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")
    await subscriptions.switch(rig.team, rig.caller("bob"), endpoint_id("bob"), active=False)

    await rig.agent("bob", last_heartbeat_at=rig.at())
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")

    found = await endpoint(rig)
    assert found is not None
    assert not found.pushes


@with_rig
async def test_a_subscription_that_follows_an_endpoint_is_not_deleted(rig: Rig) -> None:
    await rig.agent("bob", endpoint=URL)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")

    with pytest.raises(BadTransition, match="follows the agent's endpoint"):
        await subscriptions.delete(rig.team, rig.caller("bob"), endpoint_id("bob"))
