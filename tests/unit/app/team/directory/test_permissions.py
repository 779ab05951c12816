"""What a caller may do with an intent, up to the moment at which it is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from parley.app.team.channels import channels, posting
from parley.app.team.channels.channels import ChannelChange, ChannelDraft
from parley.app.team.directory import access as access_lists
from parley.app.team.directory import roles
from parley.app.team.directory.access import GrantDraft, RequestDraft
from parley.app.team.directory.permissions import assigned, intent_access, stands_on
from parley.app.team.intents import events, intents, tasks
from parley.app.team.intents.intents import IntentDraft
from parley.app.team.intents.tasks import TaskChange, TaskDraft
from parley.app.team.webhooks import subscriptions
from parley.app.team.webhooks.subscriptions import SubscriptionDraft
from parley.domain.channel.post import PostDraft, PostState
from parley.domain.directory.access import Access, AccessPolicy, AccessRequest, Permission
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from parley.domain.directory.intent import IntentStatus, Patch, PatchOp, Task
from parley.domain.errors.errors import Forbidden, Invalid, NotFound
from parley.domain.errors.rules import Denied
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import CrossOrg
from tests.rigs.governed import place, put_policy
from tests.rigs.team import CHANNEL, INTENT, Rig, before_the_commit, with_rig

NOTE = PostDraft(Pattern.NOTIFY, b"{}")


@with_rig
async def test_an_intent_that_a_caller_may_not_know_of_is_not_there(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", Permission.READ),))

    with pytest.raises(NotFound):
        await intent_access(rig.team, rig.caller("carol"), INTENT, Permission.READ)
    with pytest.raises(Forbidden):
        await intent_access(rig.team, rig.caller("bob"), INTENT, Permission.WRITE)
    access = (await intent_access(rig.team, rig.caller("bob"), INTENT, Permission.READ)).access

    assert await stands_on(rig.team, access, rig.caller("carol")) is None


@with_rig
async def test_an_admin_of_the_tenant_may_do_everything(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)

    access = (await intent_access(rig.team, rig.caller("", KeyKind.ADMIN), INTENT, Permission.ADMIN)).access

    assert assigned(access, "bob") is None


# ---------------------------------------------------------------- isolation holds in the commit


async def engineering(rig: Rig) -> None:
    """alice rules an intent of her unit, engineering, with everything on it; the policies keep units apart."""
    await place(rig, "alice", user_id="ann")
    await place(rig, "carol")
    await place(rig, "bob", org_unit="sales")
    await rig.intent(created_by="carol", grants=(rig.grant("alice", Permission.ADMIN), rig.grant("bob")))
    await rig.access(org_unit="engineering", assignments=(rig.assignment("bob"),))
    await rig.channel()
    at = rig.at()
    on_it: dict[str, Any] = {"tenant_id": DEFAULT_TENANT, "intent_id": INTENT}
    await rig.put(Task(id="task_1", title="t", created_by="carol", created_at=at, updated_at=at, **on_it))
    for number in (1, 2):
        request = AccessRequest(
            id=f"areq_{number}", principal_id="dora", permission=Permission.READ, created_at=at, **on_it
        )
        await rig.put(request)


async def engineering_before_there_were_units(rig: Rig) -> None:
    """The same, with an intent that belongs to the unit that its creator is in now."""
    await engineering(rig)
    await rig.access(org_unit="")


async def sales_lets_engineering_in(rig: Rig) -> None:
    """The same, with alice in sales, and a policy that lets units talk."""
    await engineering(rig)
    await place(rig, "alice", org_unit="sales", user_id="ann")
    await put_policy(rig, cross_org=CrossOrg.ALLOW)


async def move_alice(rig: Rig) -> None:
    await place(rig, "alice", org_unit="sales", user_id="ann")


async def move_creator(rig: Rig) -> None:
    await place(rig, "carol", org_unit="sales")


async def keep_apart(rig: Rig) -> None:
    await put_policy(rig, cross_org=CrossOrg.DENY)


RACES = {
    "the agent is moved to another unit": (engineering, move_alice),
    "the creator of an old intent is moved": (engineering_before_there_were_units, move_creator),
    "the policy keeps the units apart": (sales_lets_engineering_in, keep_apart),
}
PATCH = Patch(PatchOp.SET, "a", 1)
VERBS: dict[str, Callable[[Rig, Caller], Awaitable[object]]] = {
    "patch": lambda rig, who: intents.patch(rig.team, who, INTENT, None, (PATCH,)),
    "status": lambda rig, who: intents.set_status(rig.team, who, INTENT, None, IntentStatus.COMPLETED, "done"),
    "assign": lambda rig, who: intents.assign(rig.team, who, INTENT, "dora"),
    "unassign": lambda rig, who: intents.unassign(rig.team, who, INTENT, "bob"),
    "child": lambda rig, who: intents.create(rig.team, who, IntentDraft("t", parent_intent_id=INTENT)),
    "event": lambda rig, who: events.append(rig.team, who, INTENT, "comment", b"{}"),
    "task": lambda rig, who: tasks.create(rig.team, who, INTENT, TaskDraft("t")),
    "change of a task": lambda rig, who: tasks.change(rig.team, who, "task_1", None, TaskChange(title="u")),
    "channel": lambda rig, who: channels.create(rig.team, who, INTENT, ChannelDraft("goals")),
    "change of a channel": lambda rig, who: channels.change(rig.team, who, CHANNEL, ChannelChange(audit=True)),
    "deletion of a channel": lambda rig, who: channels.delete(rig.team, who, CHANNEL),
    "message in a new channel": lambda rig, who: channels.post_by_name(rig.team, who, INTENT, "goals", NOTE),
    "access list": lambda rig, who: access_lists.replace_all(rig.team, who, INTENT, AccessPolicy.OPEN, ()),
    "access entry": lambda rig, who: access_lists.grant(rig.team, who, INTENT, GrantDraft("dora", Permission.READ)),
    "end of an entry": lambda rig, who: access_lists.revoke(rig.team, who, INTENT, "grant_bob"),
    "access request": lambda rig, who: access_lists.request(rig.team, who, INTENT, RequestDraft(Permission.ADMIN)),
    "approval": lambda rig, who: access_lists.approve(rig.team, who, INTENT, "areq_1"),
    "denial": lambda rig, who: access_lists.deny(rig.team, who, INTENT, "areq_2"),
    "subscription": lambda rig, who: subscriptions.create(rig.team, who, SubscriptionDraft(intent_id=INTENT)),
}


@pytest.mark.both_stores
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("verb", VERBS)
@with_rig
async def test_nothing_is_written_on_an_intent_by_who_was_kept_from_it_before_the_commit(
    rig: Rig, verb: str, race: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, change = RACES[race]
    await begin(rig)
    head, entries = await rig.store.head(DEFAULT_TENANT), await rig.store.entries(DEFAULT_TENANT, 0, 100)
    before_the_commit(rig, monkeypatch, change)

    with pytest.raises((NotFound, Forbidden, Invalid)):
        await VERBS[verb](rig, rig.caller("alice"))

    assert await rig.store.head(DEFAULT_TENANT) == head
    assert await rig.store.entries(DEFAULT_TENANT, 0, 100) == entries


@pytest.mark.both_stores
@pytest.mark.parametrize("verb", VERBS)
@with_rig
async def test_a_change_that_does_not_matter_keeps_nothing_from_being_written(
    rig: Rig, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def report_load(rig: Rig) -> None:
        await rig.agent("alice", current_load=3)

    await engineering(rig)
    before_the_commit(rig, monkeypatch, report_load)

    await VERBS[verb](rig, rig.caller("alice"))

    assert await rig.store.entries(DEFAULT_TENANT, 0, 1) or verb in ("event", "message in a new channel")


@pytest.mark.both_stores
@with_rig
async def test_a_new_intent_belongs_to_the_unit_that_its_creator_is_in_when_it_is_written(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engineering(rig)
    people = Caller(DEFAULT_TENANT, "ann", KeyKind.HUMAN, "key_ann", "ann")
    for creator in (rig.caller("alice"), people):
        await place(rig, "alice", user_id="ann")
        before_the_commit(rig, monkeypatch, move_alice)

        intent = await intents.create(rig.team, creator, IntentDraft("t"))

        access = await rig.store.get(Access, DEFAULT_TENANT, intent.id)
        assert access is not None
        assert access.org_unit == "sales"


@pytest.mark.both_stores
@pytest.mark.parametrize("agent", ["alice", "bob"])
@with_rig
async def test_what_waits_for_a_role_reaches_no_holder_of_another_unit(
    rig: Rig, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engineering(rig)
    await place(rig, "bob")
    waiting = await rig.say("alice", to="role:night")
    await rig.role("night", "bob")

    async def move(rig: Rig) -> None:
        await place(rig, agent, org_unit="sales")

    before_the_commit(rig, monkeypatch, move)
    assert await roles.deliver_waiting(rig.team, DEFAULT_TENANT) == 0
    kept = await rig.store.post(DEFAULT_TENANT, waiting.id)
    assert kept is not None
    assert (kept.state, kept.recipients) == (PostState.PENDING, ())


@pytest.mark.both_stores
@with_rig
async def test_a_message_of_an_agent_that_is_registered_in_another_unit_meanwhile_is_denied(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engineering(rig)
    await place(rig, "carol", org_unit="default")
    await rig.access(org_unit="", policy=AccessPolicy.OPEN)

    async def register(rig: Rig) -> None:
        await place(rig, "newcomer", org_unit="sales")

    before_the_commit(rig, monkeypatch, register)
    with pytest.raises(Denied):
        await posting.post(rig.team, rig.caller("newcomer"), CHANNEL, NOTE._replace(to="carol"))
    assert (await rig.store.tally(DEFAULT_TENANT, CHANNEL)).total == 0
