"""Push to one subscription: in order, at least once, and only what its subscriber may see at that moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from parley.app.team.channels import channels
from parley.app.team.channels.channels import ChannelChange
from parley.app.team.directory import roles
from parley.app.team.rules import suspensions
from parley.app.team.webhooks import pushing, subscriptions
from parley.app.team.webhooks.pushing import AT_ONCE, PushOutcome
from parley.app.team.webhooks.subscriptions import SubscriptionDraft
from parley.domain.channel.channel import Channel, ChannelStatus, MemberPolicy, Options
from parley.domain.channel.subscription import (
    SCHEDULE,
    Answered,
    Reason,
    Subscription,
    endpoint_id,
    failed_since_yesterday,
)
from parley.domain.directory.access import Access, AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, KeyKind
from parley.domain.message.message import Pattern
from parley.domain.rules.suspension import Stopped
from parley.domain.store.changes import TeamChanges
from parley.domain.times import stamp
from tests.rigs.fake_outbound import FakeOutbound, text_of
from tests.rigs.team import CHANNEL, INTENT, Rig, with_rig

URL = "https://hook.example/"


async def prepared(rig: Rig, audit: bool = False) -> FakeOutbound:
    """An open intent with a channel, and keys for alice, bob and carol."""
    out = FakeOutbound()
    rig.team.outbound = out
    await rig.intent(agents=("bob", "carol"))
    await rig.channel(options=Options(audit=audit))
    for agent in ("alice", "bob", "carol"):
        await rig.key(agent)
    return out


async def subscribed(
    rig: Rig,
    agent: str = "bob",
    kind: KeyKind = KeyKind.AGENT,
    *,
    intent_id: str = "",
    event_types: tuple[str, ...] = (),
    expires_at: str = "",
) -> Subscription:
    await rig.key(agent, kind)
    wanted = SubscriptionDraft(URL, intent_id, event_types, expires_at)
    return await subscriptions.create(rig.team, rig.caller(agent, kind), wanted)


async def delivered(rig: Rig, made: Subscription, after: int = 0) -> PushOutcome:
    assert isinstance(rig.team.outbound, FakeOutbound)
    found = await pushing.deliver(rig.team, rig.team.outbound, made.tenant_id, made.id, after)
    return found.outcome


async def kept(rig: Rig, made: Subscription) -> Subscription:
    found = await rig.store.get(Subscription, made.tenant_id, made.id)
    assert found is not None
    return found


async def happened(rig: Rig, event_type: str, intent_id: str = INTENT) -> None:
    event = rig.team.event(intent_id, event_type, "alice", b"{}")
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, events=(event,)))


@pytest.mark.both_stores
@with_rig
async def test_what_is_said_after_the_subscription_is_pushed_in_order_and_once(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.say("alice", "before")
    made = await subscribed(rig)
    for number in range(5):
        await rig.say("alice", f"n{number}", to="bob" if number % 2 else "")

    first, second = await delivered(rig, made), await delivered(rig, made)

    assert (first, second) == (PushOutcome.IDLE, PushOutcome.IDLE)
    assert out.texts() == [f"n{number}" for number in range(5)]
    assert (await kept(rig, made)).cursor == out.pushes[-1].item.position


@with_rig
async def test_a_push_carries_the_time_of_its_try_and_every_valid_secret(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    renewed = await subscriptions.renew_secret(rig.team, rig.caller("bob"), made.id)
    said = await rig.say("alice")
    rig.clock.pass_by(minutes=1)

    await delivered(rig, made)

    (push,) = out.pushes
    assert (push.id, push.url, push.at) == (f"{made.id}-{said.id}", URL, rig.clock.at)
    assert push.secrets == (renewed.secret, made.secret)


@pytest.mark.both_stores
@with_rig
async def test_a_restart_goes_on_after_the_last_that_was_accepted(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice", "one")
    await delivered(rig, made)
    await rig.say("alice", "two")

    await rig.reopen()
    rig.team.outbound = out
    await delivered(rig, made)

    assert out.texts() == ["one", "two"]


@with_rig
async def test_what_was_not_accepted_is_pushed_again_under_the_same_id_before_anything_else(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice", "one")
    await rig.say("alice", "two")
    out.answer = lambda _: Answered(500)
    assert await delivered(rig, made) is PushOutcome.WAITS

    out.answer = lambda _: Answered(200)
    assert await delivered(rig, made) is PushOutcome.WAITS
    rig.clock.pass_by(seconds=5)
    assert await delivered(rig, made) is PushOutcome.IDLE

    assert out.texts() == ["one", "one", "two"]
    assert out.pushes[0].id == out.pushes[1].id != out.pushes[2].id
    assert out.pushes[1].at - out.pushes[0].at == timedelta(seconds=5)


@with_rig
async def test_a_receiver_that_fails_for_ever_is_tried_by_the_schedule_and_then_disabled(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice")
    out.answer = lambda _: Answered(500)
    last = await delivered(rig, made)
    for wait in SCHEDULE[1:]:
        rig.clock.at += wait - timedelta(seconds=1)
        assert await delivered(rig, made) is PushOutcome.WAITS
        rig.clock.pass_by(seconds=1)
        last = await delivered(rig, made)

    found = await kept(rig, made)
    assert last is PushOutcome.OVER
    assert [later.at - one.at for one, later in pairwise(out.pushes)] == list(SCHEDULE[1:])
    assert (found.pushes, found.reason) == (False, Reason.FAILED)
    assert [one.number for one in found.attempts] == list(range(1, 11))
    rig.clock.pass_by(days=30)
    assert await delivered(rig, made) is PushOutcome.OVER
    assert len(out.pushes) == 10


@with_rig
async def test_a_receiver_that_is_gone_is_disabled_at_once_and_the_ledger_says_why(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice")
    out.answer = lambda _: Answered(410)

    assert await delivered(rig, made) is PushOutcome.OVER

    last = (await rig.store.entries(DEFAULT_TENANT, 0, 100))[-1].entry
    assert (last.action, last.agent, last.facts["reason"]) == ("subscription_disabled", "system", "gone")
    assert len(out.pushes) == 1


@with_rig
async def test_enabled_again_it_goes_on_with_what_it_missed(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    out.answer = lambda _: Answered(410)
    await rig.say("alice", "one")
    await delivered(rig, made)
    await rig.say("alice", "two")

    out.answer = lambda _: Answered(204)
    await subscriptions.switch(rig.team, rig.caller("bob"), made.id, active=True)
    await delivered(rig, made)

    assert out.texts() == ["one", "one", "two"]


@with_rig
async def test_a_message_between_others_is_not_pushed_to_a_third(rig: Rig) -> None:
    out = await prepared(rig)
    on_the_intent = await subscribed(rig, "bob", intent_id=INTENT)
    on_all = await subscribed(rig, "bob")
    await rig.say("alice", "secret", to="carol")
    await rig.say("alice", "open")

    await delivered(rig, on_the_intent)
    await delivered(rig, on_all)

    assert out.texts() == ["open", "open"]


@with_rig
async def test_a_channel_with_members_is_pushed_to_its_members_only(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.channel("chan_2", "carol", policy=MemberPolicy.EXPLICIT)
    outsider = await subscribed(rig, "bob", intent_id=INTENT)
    member = await subscribed(rig, "carol", intent_id=INTENT)
    await rig.say("alice", "inside", channel_id="chan_2")

    await delivered(rig, outsider)
    assert out.texts() == []
    await delivered(rig, member)
    assert out.texts() == ["inside"]


@with_rig
async def test_who_lost_access_is_pushed_nothing_more(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.access(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"),))
    made = await subscribed(rig, intent_id=INTENT)
    await rig.say("alice", "one")
    await delivered(rig, made)
    await rig.say("alice", "two")

    await rig.access(grants=())
    await delivered(rig, made)

    assert out.texts() == ["one"]


@with_rig
async def test_who_is_suspended_is_pushed_nothing_until_it_is_lifted(rig: Rig) -> None:
    out, admin = await prepared(rig), rig.caller(kind=KeyKind.ADMIN)
    made = await subscribed(rig, intent_id=INTENT)

    await suspensions.suspend(rig.team, admin, Stopped.AGENT, "bob", "")
    await rig.say("alice", "one")
    await delivered(rig, made)
    await suspensions.lift(rig.team, admin, Stopped.AGENT, "bob")
    await rig.say("alice", "two")
    await delivered(rig, made)

    assert out.texts() == ["two"]


@with_rig
async def test_rights_are_looked_at_again_between_two_pushes_of_one_pass(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.access(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"),))
    made = await subscribed(rig, intent_id=INTENT)
    await rig.say("alice", "one")
    await rig.say("alice", "two")

    out.meanwhile = lambda: rig.access(grants=())
    await delivered(rig, made)

    assert out.texts() == ["one"]


@with_rig
async def test_who_was_added_later_is_not_pushed_what_was_said_before(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.access(policy=AccessPolicy.CLOSED)
    made = await subscribed(rig, "carol")
    await rig.say("alice", "before")
    await rig.access(grants=(rig.grant("carol"),))
    await rig.say("alice", "after")

    await delivered(rig, made)

    assert out.texts() == ["after"]


@with_rig
async def test_nothing_of_another_tenant_is_pushed(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.key("bob", KeyKind.SERVICE, "other")
    caller = rig.caller("", KeyKind.SERVICE, "other")
    await rig.key("", KeyKind.SERVICE, "other")
    made = await subscriptions.create(rig.team, caller, SubscriptionDraft(URL))
    await rig.say("alice")

    assert await delivered(rig, made) is PushOutcome.IDLE
    assert out.pushes == []


@with_rig
async def test_a_revoked_key_takes_its_subscriptions_along(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice")

    await rig.revoke("bob")

    assert await delivered(rig, made) is PushOutcome.OVER
    assert ((await kept(rig, made)).reason, out.pushes) == (Reason.KEY_INVALID, [])


@with_rig
async def test_a_key_that_sees_the_whole_tenant_is_pushed_everything(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, "", KeyKind.SERVICE)
    await rig.say("alice", "private", to="bob")
    await happened(rig, "state_patched")

    await delivered(rig, made)

    assert out.texts() == ["private", "state_patched"]


@pytest.mark.both_stores
@with_rig
async def test_events_are_pushed_and_an_audited_message_only_once(rig: Rig) -> None:
    out = await prepared(rig, audit=True)
    made = await subscribed(rig, intent_id=INTENT)
    await rig.say("alice", "said")
    await happened(rig, "status_changed")

    await delivered(rig, made)

    assert out.texts() == ["said", "status_changed"]


@with_rig
async def test_only_the_types_asked_for_are_pushed(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, intent_id=INTENT, event_types=("status.changed",))
    await rig.say("alice")
    await happened(rig, "state_patched")
    await happened(rig, "status_changed")

    await delivered(rig, made)

    assert out.texts() == ["status_changed"]


@with_rig
async def test_an_agents_subscription_has_what_was_said_to_it_and_not_what_it_said(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, "bob")
    await rig.say("bob", "mine")
    await rig.say("alice", "yours", to="bob")

    await delivered(rig, made)

    assert out.texts() == ["yours"]


@pytest.mark.both_stores
@with_rig
async def test_an_expired_message_is_passed_over(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    soon = rig.clock.at + timedelta(seconds=3)
    await rig.say("alice", "old", to="bob", pattern=Pattern.REQUEST, expires_at=soon)
    out.answer = lambda _: Answered(500)
    await delivered(rig, made)
    await rig.say("alice", "new")

    rig.clock.pass_by(seconds=5)
    out.answer = lambda _: Answered(200)
    await delivered(rig, made)

    assert out.texts() == ["old", "new"]


@with_rig
async def test_what_was_purged_while_it_waited_behind_another_is_not_pushed(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.channel("chan_2")
    made = await subscribed(rig)
    await rig.say("alice", "one")
    await rig.say("alice", "two", channel_id="chan_2")

    out.meanwhile = lambda: channels.delete(rig.team, rig.caller("alice"), "chan_2")
    await delivered(rig, made)

    assert out.texts() == ["one"]


@with_rig
async def test_a_request_that_ended_while_it_waited_behind_another_is_not_pushed(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice", "one")
    await rig.say("alice", "two", to="bob", pattern=Pattern.REQUEST)

    closing = ChannelChange(status=ChannelStatus.CLOSED)
    out.meanwhile = lambda: channels.change(rig.team, rig.caller("alice"), CHANNEL, closing)
    await delivered(rig, made)

    assert out.texts() == ["one"]


@with_rig
async def test_a_pending_message_is_pushed_when_somebody_takes_the_role(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice", "who can?", to="role:reviewer", pattern=Pattern.REQUEST)
    await delivered(rig, made)
    assert out.texts() == []

    await rig.role("reviewer", "bob")
    await roles.deliver_waiting(rig.team, DEFAULT_TENANT, role_id="reviewer")
    await delivered(rig, made)

    assert out.texts() == ["who can?"]


@with_rig
async def test_when_its_time_is_up_a_subscription_is_deleted(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, expires_at=stamp(rig.clock.at + timedelta(hours=1)))
    await rig.say("alice")

    rig.clock.pass_by(hours=1)

    assert await delivered(rig, made) is PushOutcome.GONE
    assert (out.pushes, await rig.store.get(Subscription, DEFAULT_TENANT, made.id)) == ([], None)


@with_rig
async def test_a_long_backlog_is_pushed_in_portions(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    for number in range(AT_ONCE + 1):
        await rig.say("alice", str(number))

    assert await delivered(rig, made) is PushOutcome.MORE
    assert len(out.pushes) == AT_ONCE
    assert await delivered(rig, made) is PushOutcome.IDLE
    assert out.texts() == [str(number) for number in range(AT_ONCE + 1)]


@with_rig
async def test_deleted_during_a_push_it_is_over(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice", "one")
    await rig.say("alice", "two")

    out.meanwhile = lambda: subscriptions.delete(rig.team, rig.caller("bob"), made.id)

    assert await delivered(rig, made) is PushOutcome.GONE
    assert out.texts() == ["one"]


@pytest.mark.parametrize("status", [200, 500])
@with_rig
async def test_switched_off_during_a_push_it_stays_off(rig: Rig, status: int) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice", "one")
    await rig.say("alice", "two")

    out.answer = lambda _: Answered(status)
    out.meanwhile = lambda: subscriptions.switch(rig.team, rig.caller("bob"), made.id, active=False)

    assert await delivered(rig, made) is PushOutcome.OVER
    found = await kept(rig, made)
    assert (found.reason, found.next_try, len(out.pushes)) == (Reason.SWITCHED_OFF, "", 1)
    assert (found.cursor == out.pushes[0].item.position) is (status == 200)


@with_rig
async def test_an_endpoint_has_the_messages_to_its_agent(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.agent("bob", endpoint=URL)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")
    made = await rig.store.get(Subscription, DEFAULT_TENANT, endpoint_id("bob"))
    assert made is not None
    await rig.say("alice", "to bob", to="bob")
    await rig.say("alice", "to carol", to="carol")
    await rig.say("alice", "to all")
    await rig.say("bob", "from bob")
    await happened(rig, "state_patched")

    await delivered(rig, made)

    assert out.texts() == ["to bob", "to all"]


@pytest.mark.parametrize("change", [{"endpoint": "https://new.example/"}, {"status": AgentStatus.DEREGISTERED}])
@with_rig
async def test_an_endpoint_that_is_no_longer_registered_is_pushed_nothing(rig: Rig, change: dict[str, Any]) -> None:
    out = await prepared(rig)
    await rig.agent("bob", endpoint=URL)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")
    made = await rig.store.get(Subscription, DEFAULT_TENANT, endpoint_id("bob"))
    assert made is not None
    await rig.say("alice")

    await rig.agent("bob", **change)

    assert await delivered(rig, made) is PushOutcome.OVER
    assert out.pushes == []


@pytest.mark.both_stores
@with_rig
async def test_the_cursor_moves_past_what_is_not_for_it(rig: Rig) -> None:
    await prepared(rig)
    made = await subscribed(rig, intent_id=INTENT)

    await pushing.move_on(rig.team, DEFAULT_TENANT, made.id, 50)
    assert (await kept(rig, made)).cursor == 50
    await pushing.move_on(rig.team, DEFAULT_TENANT, made.id, 40)
    assert (await kept(rig, made)).cursor == 50


@pytest.mark.both_stores
@with_rig
async def test_the_cursor_does_not_move_past_what_waits_for_its_next_try(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice")
    out.answer = lambda _: Answered(500)
    await delivered(rig, made)

    await pushing.move_on(rig.team, DEFAULT_TENANT, made.id, 50)

    assert (await kept(rig, made)).cursor == made.cursor


@with_rig
async def test_a_channel_that_is_gone_from_the_view_leaves_the_rest_in_order(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, intent_id=INTENT)
    await rig.say("alice", "one")
    await rig.say("alice", "two")
    channel = await rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    access = await rig.store.get(Access, DEFAULT_TENANT, INTENT)
    assert channel is not None
    assert access is not None
    await rig.put(replace(channel, policy=MemberPolicy.EXPLICIT))
    await rig.channel("chan_2")
    await rig.say("alice", "three", channel_id="chan_2")

    await delivered(rig, made)

    assert [text_of(one) for one in out.pushes] == ["three"]


@with_rig
async def test_an_endpoint_is_pushed_nothing_once_the_key_that_registered_it_is_revoked(rig: Rig) -> None:
    out = await prepared(rig)
    await rig.agent("bob", endpoint=URL, endpoint_key=rig.caller("bob").key_id)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")
    made = await rig.store.get(Subscription, DEFAULT_TENANT, endpoint_id("bob"))
    assert made is not None
    await rig.say("alice", "one", to="bob")
    await delivered(rig, made)

    await rig.revoke("bob")
    await rig.say("alice", "two", to="bob")

    assert await delivered(rig, made) is PushOutcome.OVER
    assert (await kept(rig, made)).reason is Reason.KEY_INVALID
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")  # a heartbeat does not bring it back
    assert await delivered(rig, made) is PushOutcome.OVER
    assert out.texts() == ["one"]

    await rig.key("bob", KeyKind.SERVICE)
    await rig.agent("bob", endpoint_key=rig.caller("bob", KeyKind.SERVICE).key_id)
    await subscriptions.follow_endpoint(rig.team, DEFAULT_TENANT, "bob")
    await delivered(rig, made)
    assert out.texts() == ["one", "two"]


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("intent_id", "kind", "agent"),
    [("", KeyKind.AGENT, "bob"), (INTENT, KeyKind.AGENT, "bob"), ("", KeyKind.SERVICE, "")],
)
@with_rig
async def test_what_waits_behind_a_subscription_is_counted_until_it_is_accepted(
    rig: Rig, intent_id: str, kind: KeyKind, agent: str
) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, agent, kind, intent_id=intent_id)
    for number in range(3):
        await rig.say("alice", f"n{number}", to="bob")
    out.answer = lambda _: Answered(500)
    await delivered(rig, made)

    before = await pushing.count_waiting(rig.team, await kept(rig, made))
    out.answer = lambda _: Answered(200)
    rig.clock.pass_by(seconds=5)
    await delivered(rig, made)

    assert (before, await pushing.count_waiting(rig.team, await kept(rig, made))) == (3, 0)


@with_rig
async def test_only_what_was_subscribed_to_and_may_be_seen_waits(rig: Rig) -> None:
    await prepared(rig)
    typed = await subscribed(rig, event_types=("comment",), intent_id=INTENT)
    private = await subscribed(rig)
    await rig.say("alice", "to carol", to="carol")
    await rig.say("alice", "to bob", to="bob")
    await happened(rig, "comment")
    await happened(rig, "decision")

    counts = [await pushing.count_waiting(rig.team, await kept(rig, made)) for made in (typed, private)]

    assert counts[0] == 1
    assert counts[1] == len(await _pushed(rig, private))


async def _pushed(rig: Rig, made: Subscription) -> list[str]:
    assert isinstance(rig.team.outbound, FakeOutbound)
    await delivered(rig, made)
    return rig.team.outbound.texts()


@pytest.mark.both_stores
@with_rig
async def test_failed_tries_are_counted_for_a_day(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await rig.say("alice", "one")
    out.answer = lambda _: Answered(500)
    for wait in (0, 5, 301):
        rig.clock.pass_by(seconds=wait)
        await delivered(rig, made)

    counts = []
    for hours in (0, 22, 3):
        rig.clock.pass_by(hours=hours)
        counts.append(failed_since_yesterday(await kept(rig, made), rig.team.now()))

    assert counts == [3, 3, 0]


@with_rig
async def test_a_test_is_signed_and_pushed_at_once_and_moves_nothing(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig)
    await subscriptions.switch(rig.team, rig.caller("bob"), made.id, active=False)
    before = await kept(rig, made)
    out.answer = lambda _: Answered(418)

    tested = await subscriptions.test(rig.team, rig.caller("bob"), made.id)

    (push,) = out.pushes
    assert (push.url, push.secrets, out.texts()) == (URL, (made.secret,), ["webhook.test"])
    assert tested.last_test is not None
    assert (tested.last_test.status, tested.cursor, tested.tries) == (418, before.cursor, before.tries)
    assert failed_since_yesterday(tested, rig.team.now()) == 0
