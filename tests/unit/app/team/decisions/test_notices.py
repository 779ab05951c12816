"""Notices for programs come from the audit log: in its order, from a position on, to those whom they concern."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parley.app.team.decisions import approvals, exchanges, notices
from parley.app.team.decisions.approvals import ApprovalDecision
from parley.app.team.webhooks import pushing, subscriptions
from parley.app.team.webhooks.subscriptions import SubscriptionDraft
from parley.app.team.work import sweep
from parley.domain.channel.post import Post
from parley.domain.channel.subscription import Answered, Subscription
from parley.domain.content.envelope import Purpose
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.errors.team import ScopeRequired
from parley.domain.exchange.approval import Approval, Cause, Decision
from parley.domain.exchange.notice import NoticeType, facts_of
from parley.domain.store.changes import AuditQuery, TeamChanges
from parley.wire.api import webhooks as webhook
from tests.rigs.fake_outbound import FakeOutbound
from tests.rigs.notices import SECRET_WORDS, decide, key_of, now, peopled, person, sweep_at, told, waiting
from tests.rigs.team import Rig, with_rig
from tests.rigs.webhooks import push_due

URL = "https://hook.example/"
ALL = tuple(one.value for one in NoticeType)


async def types(rig: Rig, after: int = 0, limit: int = 500) -> list[str]:
    items, _ = await notices.list_after(rig.team, DEFAULT_TENANT, after, limit)
    return [one.notice.type.value for one in items if one.notice is not None]


async def subscribed(rig: Rig, caller: Caller, *event_types: str) -> Subscription:
    return await subscriptions.create(rig.team, caller, SubscriptionDraft(URL, "", event_types or ALL))


async def prepared(rig: Rig) -> FakeOutbound:
    await peopled(rig)
    out = FakeOutbound()
    rig.team.outbound = out
    return out


async def admin(rig: Rig) -> Caller:
    await rig.key("", KeyKind.ADMIN)
    return rig.caller("", KeyKind.ADMIN)


def pushed(out: FakeOutbound) -> list[str]:
    return [one.item.notice.type.value for one in out.pushes if one.item.notice is not None]


@with_rig
async def test_what_begins_to_wait_and_what_is_rejected_is_told_and_so_is_the_end_of_its_exchange(rig: Rig) -> None:
    await peopled(rig)
    approval = await waiting(rig)
    assert await types(rig) == []  # nobody was told yet

    await sweep.sweep(rig.team)
    await decide(rig, approval, Decision.REJECT)

    assert await types(rig) == ["approval.pending", "approval.decided", "exchange.ended"]


@pytest.mark.both_stores
@with_rig
async def test_a_cursor_between_two_notices_of_one_entry_gives_the_second(rig: Rig) -> None:
    await peopled(rig)
    await decide(rig, await waiting(rig), Decision.REJECT)
    items, reached = await notices.list_after(rig.team, DEFAULT_TENANT, 0, 500)

    first, second = [one.position for one in items]

    assert await types(rig, first - 1) == ["approval.decided", "exchange.ended"]
    assert await types(rig, first) == ["exchange.ended"]
    assert await types(rig, second) == await types(rig, reached) == []
    assert reached == await notices.newest(rig.team, DEFAULT_TENANT)


@with_rig
async def test_an_approved_message_tells_the_decision_and_no_end(rig: Rig) -> None:
    await peopled(rig)
    approval = await waiting(rig)

    await decide(rig, approval, Decision.APPROVE)

    assert await types(rig) == ["approval.decided"]


@with_rig
async def test_an_end_without_any_approval_is_told_once_though_both_sides_have_it_on_record(rig: Rig) -> None:
    await peopled(rig)
    said = await told(rig, "Where are the notes?")
    assert isinstance(said, Post)

    await exchanges.close(rig.team, rig.caller("alice"), said.exchange_id, "that is all")

    assert await types(rig) == ["exchange.ended"]


@pytest.mark.both_stores
@with_rig
async def test_an_exchange_that_expires_and_one_that_is_over_when_it_begins_end_once(rig: Rig) -> None:
    await peopled(rig)
    await told(rig, "Where are the notes?")
    await sweep_at(rig, days=2)
    assert await types(rig) == ["exchange.ended"]
    after = await notices.newest(rig.team, DEFAULT_TENANT)

    await rig.say("alice", "for your information", to="bob", **_annotated(rig))

    assert await types(rig, after) == ["exchange.ended"]


@with_rig
async def test_a_closed_exchange_tells_that_nobody_has_to_decide_any_more(rig: Rig) -> None:
    await peopled(rig)
    approval = await waiting(rig)

    await exchanges.close(rig.team, person("ann"), approval.exchange_id, "never mind")

    assert await types(rig) == ["approval.decided", "exchange.ended"]
    (decided, _), _ = await notices.list_after(rig.team, DEFAULT_TENANT, 0, 500)
    assert decided.notice is not None
    assert facts_of(decided.notice)["status"] == "closed"


@with_rig
async def test_a_limit_that_a_person_answers_tells_the_decision_and_the_end(rig: Rig) -> None:
    await peopled(rig)
    approval = await _at_the_limit(rig)
    after = await notices.newest(rig.team, DEFAULT_TENANT)

    saying = ApprovalDecision(Decision.ANSWER, approval.digest, "", b'{"text":"Let us talk tomorrow."}')
    await approvals.decide(rig.team, person("ann"), approval.id, saying)

    assert await types(rig, after) == ["approval.decided", "exchange.ended"]


@with_rig
async def test_whoever_tries_again_at_a_limit_makes_no_second_notice(rig: Rig) -> None:
    await peopled(rig)
    approval = await _at_the_limit(rig)
    await sweep.sweep(rig.team)
    after = await notices.newest(rig.team, DEFAULT_TENANT)

    for _ in range(3):
        await _go_on(rig, approval)
        await sweep.sweep(rig.team)

    assert await types(rig, after) == []


@with_rig
async def test_an_entry_whose_document_was_let_go_of_tells_nothing(rig: Rig) -> None:
    await peopled(rig)
    await waiting(rig)
    await sweep.sweep(rig.team)
    size = await rig.store.audit_size(DEFAULT_TENANT)

    await rig.store.commit(TeamChanges(DEFAULT_TENANT, trim_audit=size))

    assert await notices.list_after(rig.team, DEFAULT_TENANT, 0, 500) == ([], size * 2 + 1)


@with_rig
async def test_a_push_holds_ids_and_reasons_and_never_what_was_said(rig: Rig) -> None:
    out = await prepared(rig)
    await subscribed(rig, await admin(rig))
    approval = await waiting(rig)
    await sweep.sweep(rig.team)
    await decide(rig, approval, Decision.REJECT)

    await push_due(rig.team, out)

    assert pushed(out) == ["approval.pending", "approval.decided", "exchange.ended"]
    bodies = [webhook.body(one.item) for one in out.pushes]
    assert "elephant" in SECRET_WORDS
    assert not any(b"elephant" in one for one in bodies)
    first = json.loads(bodies[0])
    assert first["type"] == "approval.pending"
    assert first["data"]["approval"] == approval.id
    told = {name: first["data"][name] for name in ("cause", "reason", "classification", "expires_at")}
    assert told == {
        "cause": Cause.COMMITMENT.value,
        "reason": approval.reason,
        "classification": "internal",
        "expires_at": approval.expires_at,
    }


@with_rig
async def test_each_is_told_only_what_concerns_it(rig: Rig) -> None:
    out = await prepared(rig)
    for user in ("ann", "ben", "eve"):
        await key_of(rig, user)
    made = {user: await subscribed(rig, person(user)) for user in ("ann", "ben", "eve")}
    approval = await waiting(rig)
    await sweep.sweep(rig.team)
    await decide(rig, approval, Decision.REJECT)

    await push_due(rig.team, out)

    def of(user: str) -> list[str]:
        return [
            one.item.notice.type.value for one in out.pushes if one.id.startswith(made[user].id) and one.item.notice
        ]

    assert of("ann") == ["approval.pending", "approval.decided", "exchange.ended"]
    # Nothing of it ever reached bob.
    assert of("ben") == of("eve") == []
    said = await told(rig, "Where are the notes?")
    assert isinstance(said, Post)
    await exchanges.close(rig.team, rig.caller("alice"), said.exchange_id, "")
    await push_due(rig.team, out)
    assert (of("ben"), of("eve")) == (["exchange.ended"], [])


@pytest.mark.both_stores
@with_rig
async def test_a_subscription_begins_where_it_was_made_and_goes_on_after_a_restart(rig: Rig) -> None:
    out = await prepared(rig)
    await decide(rig, await waiting(rig), Decision.REJECT)
    await subscribed(rig, await admin(rig))
    await push_due(rig.team, out)
    assert out.pushes == []

    await told(rig, "Where are the notes?", "bob", "alice")
    approval = await waiting(rig)
    await sweep.sweep(rig.team)
    await push_due(rig.team, out)
    await decide(rig, approval, Decision.APPROVE)
    await rig.reopen()
    rig.team.outbound = out
    await push_due(rig.team, out)

    assert pushed(out) == ["approval.pending", "approval.decided"]


@with_rig
async def test_what_the_receiver_refuses_is_pushed_again_under_the_same_id_even_as_the_second_of_an_entry(
    rig: Rig,
) -> None:
    out = await prepared(rig)
    await subscribed(rig, await admin(rig))
    await decide(rig, await waiting(rig), Decision.REJECT)
    out.answer = lambda push: Answered(500 if push.item.notice and push.item.notice.exchange else 200)
    await push_due(rig.team, out)
    assert pushed(out) == ["approval.decided", "exchange.ended"]

    out.answer = lambda _: Answered(200)
    rig.clock.pass_by(seconds=5)
    await push_due(rig.team, out)
    await push_due(rig.team, out)

    assert pushed(out) == ["approval.decided", "exchange.ended", "exchange.ended"]
    assert out.pushes[1].id == out.pushes[2].id != out.pushes[0].id


@with_rig
async def test_only_the_types_that_were_asked_for_come_in_either_spelling(rig: Rig) -> None:
    out = await prepared(rig)
    await subscribed(rig, await admin(rig), "exchange_ended")
    await decide(rig, await waiting(rig), Decision.REJECT)

    await push_due(rig.team, out)

    assert pushed(out) == ["exchange.ended"]


@with_rig
async def test_a_subscription_to_everything_that_is_said_gets_no_notices(rig: Rig) -> None:
    out = await prepared(rig)
    await subscriptions.create(rig.team, await admin(rig), SubscriptionDraft(URL))
    await decide(rig, await waiting(rig), Decision.REJECT)

    await push_due(rig.team, out)

    # What the server said to the agent was said, and comes as any message does.
    (push,) = out.pushes
    assert push.item.post is not None
    assert (push.item.post.sender, pushed(out)) == ("system", [])


@with_rig
async def test_a_key_that_was_revoked_ends_its_notices(rig: Rig) -> None:
    out = await prepared(rig)
    made = await subscribed(rig, await admin(rig))
    await waiting(rig)
    await sweep.sweep(rig.team)
    await rig.revoke("", KeyKind.ADMIN)

    found = await pushing.deliver(rig.team, out, DEFAULT_TENANT, made.id)

    assert (found.outcome, out.pushes) == (pushing.PushOutcome.OVER, [])


@with_rig
async def test_notices_and_messages_are_subscribed_to_apart_and_belong_to_no_intent(rig: Rig) -> None:
    await prepared(rig)
    caller = await admin(rig)

    with pytest.raises(Invalid, match="apart"):
        await subscribed(rig, caller, "approval.pending", "channel_message")
    with pytest.raises(Invalid, match="no intent"):
        await subscriptions.create(rig.team, caller, SubscriptionDraft(URL, "intent_1", ("approval.pending",)))


@with_rig
async def test_a_person_subscribes_to_notices_alone_and_sees_only_its_own_subscriptions(rig: Rig) -> None:
    await prepared(rig)
    with pytest.raises(ScopeRequired):
        await subscriptions.create(rig.team, person("ann"), SubscriptionDraft(URL))
    mine = await subscribed(rig, person("ann"), "approval.pending")

    assert [one.id for one in await subscriptions.list_all(rig.team, person("ann"))] == [mine.id]
    assert await subscriptions.list_all(rig.team, person("ben")) == []
    # An agent may have the name of a person.
    assert await subscriptions.list_all(rig.team, rig.caller("ann")) == []
    with pytest.raises(NotFound):
        await subscriptions.delete(rig.team, rig.caller("ann"), mine.id)
    await subscriptions.delete(rig.team, person("ann"), mine.id)


@with_rig
async def test_an_admin_may_switch_a_persons_subscription_off_and_only_the_person_on_again(rig: Rig) -> None:
    await prepared(rig)
    mine = await subscribed(rig, person("ann"))
    ruler = await admin(rig)

    off = await subscriptions.switch(rig.team, ruler, mine.id, active=False)
    with pytest.raises(ScopeRequired):
        await subscriptions.switch(rig.team, ruler, mine.id, active=True)
    on = await subscriptions.switch(rig.team, person("ann"), mine.id, active=True)

    assert (off.pushes, on.pushes, on.key_id) == (False, True, person("ann").key_id)


@with_rig
async def test_the_audit_log_says_of_each_approval_that_its_person_was_told(rig: Rig) -> None:
    await peopled(rig)
    approval = await waiting(rig)
    await sweep.sweep(rig.team)

    (entry,) = await rig.store.audits(DEFAULT_TENANT, AuditQuery(action="approval_told"))

    said = json.loads(entry.document)
    assert (said["approval"], said["user"], said["stage"]) == (approval.id, "ann", "waits")
    assert (entry.side, entry.exchange_id) == ("alice", approval.exchange_id)


async def _at_the_limit(rig: Rig) -> Approval:
    """An exchange of alice and bob that has used up its rounds."""
    said = await told(rig, "Where are the notes?")
    assert isinstance(said, Post)
    exchange = await exchanges.get(rig.team, rig.caller("alice"), said.exchange_id)
    for _ in range(exchange.max_rounds):
        rig.clock.pass_by(seconds=1)
        await _say_on(rig, exchange.conversation_id)
    exchange = await exchanges.get(rig.team, rig.caller("alice"), said.exchange_id)
    found = await rig.store.get(Approval, DEFAULT_TENANT, exchange.limit_approval)
    assert found is not None
    return found


async def _say_on(rig: Rig, conversation_id: str) -> None:
    metadata = {"exchange_type": Purpose.INFORMATION_QUERY.value, "conversation_id": conversation_id}
    await told(rig, "And these notes?", metadata=metadata)


async def _go_on(rig: Rig, approval: Approval) -> None:
    await _say_on(rig, (await now(rig, approval)).conversation_id)


def _annotated(rig: Rig) -> dict[str, Any]:
    """What puts a notify under the rules; it needs no reply."""
    metadata = b'{"classification":"internal"}'
    return {"metadata": metadata, "wishes": rig.team.envelopes.wishes(metadata)}
