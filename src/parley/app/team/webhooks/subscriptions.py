"""Webhook subscriptions: create, read, enable, disable; and those of an agent's registered endpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.decisions import notices
from parley.app.team.directory.permissions import intent_access
from parley.app.team.retry import committed, put
from parley.app.team.team import ATTEMPTS
from parley.app.team.webhooks import pushing
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.subscription import (
    ENDPOINTS,
    Reason,
    Subscription,
    disabled,
    enabled,
    endpoint_id,
    is_about_notices,
    is_mixed,
    with_secret,
)
from parley.domain.directory.access import Permission
from parley.domain.directory.callers import SYSTEM, KeyKind
from parley.domain.errors.errors import Invalid, NotFound, Problem, Stale
from parley.domain.errors.team import BadTransition, QuotaExceeded, ScopeRequired, TargetForbidden
from parley.domain.mailbox.ledger import Entry
from parley.domain.record import UNSETTLED
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Expect

_SECRET_PREFIX = "whsec_"  # noqa: S105  # what a secret begins with


class SubscriptionDraft(NamedTuple):
    """A proposed subscription; `expires_at` is a stamp."""

    url: str = ""
    intent_id: str = ""
    event_types: tuple[str, ...] = ()
    expires_at: str = ""


async def check_target(team: Team, tenant: str, url: str) -> None:
    """Refuse a forbidden address. It is checked again at each push."""
    if team.outbound is None:
        raise TargetForbidden("this server sends no webhooks")
    try:
        await team.outbound.check(url, tenant)
    except TargetForbidden as refusal:
        problem = Problem(refusal.code, "webhook_url", refusal.message)
        raise TargetForbidden(f"webhook_url: {refusal.message}", problems=(problem,)) from None


async def create(team: Team, caller: Caller, wanted: SubscriptionDraft) -> Subscription:
    """Create a subscription, starting now."""
    about_notices = _check_types(caller, wanted)
    await _access_to(team, caller, wanted)
    if wanted.expires_at and wanted.expires_at <= team.at():
        raise Invalid.because([Problem("invalid", "expires_at", "is in the past")])
    if await team.store.count(Subscription, caller.tenant, "") >= team.limits.webhooks_per_tenant:
        raise QuotaExceeded(f"there are at most {team.limits.webhooks_per_tenant} subscriptions")
    if caller.agent:
        mine = [
            subscription
            for subscription in await team.store.children(Subscription, caller.tenant, "")
            if subscription.subscriber_id == caller.agent
        ]
        if len(mine) >= team.limits.webhooks_per_agent:
            raise QuotaExceeded(f"an agent has at most {team.limits.webhooks_per_agent} subscriptions")
    if wanted.url:
        await check_target(team, caller.tenant, wanted.url)
    subscription = Subscription(
        id=team.new_id("sub"),
        tenant_id=caller.tenant,
        url=wanted.url,
        subscriber_id=caller.agent,
        user_id=caller.user if caller.kind is KeyKind.HUMAN else "",
        key_id=caller.key_id,
        intent_id=wanted.intent_id,
        event_types=wanted.event_types,
        secret=_new_secret(team),
        created_at=team.at(),
        expires_at=wanted.expires_at,
        cursor=await notices.newest(team, caller.tenant) if about_notices else UNSETTLED,
    )
    entry = team.entry(caller, "subscription_created", subscription.id, intent=wanted.intent_id, host=_host(wanted.url))

    async def decide() -> TeamChanges:
        expects = await _access_to(team, caller, wanted)
        return TeamChanges(
            caller.tenant, expects=expects, puts=(subscription,), entries=(entry,), created_id=subscription.id
        )

    return await put(team, caller, decide, Subscription, "intent")


async def _access_to(team: Team, caller: Caller, wanted: SubscriptionDraft) -> tuple[Expect, ...]:
    """What the caller's access to the intent depends on, if there is one; `NotFound` without access."""
    if not wanted.intent_id:
        return ()
    return (await intent_access(team, caller, wanted.intent_id, Permission.READ)).expects


def _check_types(caller: Caller, wanted: SubscriptionDraft) -> bool:
    """Whether it is about approvals and exchanges, which cannot be mixed with messages and events."""
    if is_mixed(wanted.event_types):
        raise Invalid.because([Problem("invalid", "event_types", "notices and messages are subscribed to apart")])
    about_notices = is_about_notices(wanted.event_types)
    if caller.kind is KeyKind.HUMAN and not (about_notices and caller.user):
        raise ScopeRequired("a person subscribes to notices about approvals and exchanges")
    if not about_notices:
        return False
    if wanted.intent_id:
        raise Invalid.because([Problem("invalid", "intent_id", "notices belong to no intent")])
    return True


def _new_secret(team: Team) -> str:
    """256 bits in plain base64, as receivers expect them."""
    return _SECRET_PREFIX + team.ids.secret().replace("-", "+").replace("_", "/") + "="


def _host(url: str) -> str:
    """The host of an address, for the ledger: the rest often contains a secret."""
    return url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


async def list_all(team: Team, caller: Caller, intent_id: str = "") -> list[Subscription]:
    """The caller's subscriptions; a key that sees the whole tenant sees all of them."""
    if intent_id:
        await intent_access(team, caller, intent_id, Permission.READ)
    subscriptions = list(await team.store.children(Subscription, caller.tenant, ""))
    if caller.all_seeing:
        subscriptions += await team.store.children(Subscription, caller.tenant, ENDPOINTS)
    elif caller.agent and caller.kind is not KeyKind.HUMAN:
        endpoint = await team.store.get(Subscription, caller.tenant, endpoint_id(caller.agent))
        subscriptions += [endpoint] if endpoint else []
    return [
        subscription
        for subscription in subscriptions
        if _is_known(subscription, caller) and (not intent_id or subscription.intent_id == intent_id)
    ]


async def get(team: Team, caller: Caller, subscription_id: str) -> Subscription:
    """One subscription. `NotFound` when it belongs to another caller."""
    subscription = await team.store.get(Subscription, caller.tenant, subscription_id)
    if subscription is None or not _is_known(subscription, caller):
        raise NotFound.no_such("subscription")
    return subscription


def _is_known(subscription: Subscription, caller: Caller) -> bool:
    if caller.all_seeing:
        return True
    if caller.kind is KeyKind.HUMAN or subscription.user_id:
        return caller.kind is KeyKind.HUMAN and caller.user != "" and caller.user == subscription.user_id
    return caller.agent != "" and caller.agent == subscription.subscriber_id


async def delete(team: Team, caller: Caller, subscription_id: str) -> None:
    """Delete a subscription."""

    async def decide() -> TeamChanges:
        subscription = await get(team, caller, subscription_id)
        if subscription.endpoint:
            raise BadTransition(
                "it follows the agent's endpoint", hint="switch it off, or register without an endpoint"
            )
        entry = team.entry(caller, "subscription_deleted", subscription.id)
        return TeamChanges(caller.tenant, drops=(subscription,), entries=(entry,))

    await committed(team, caller, decide, "subscription")


async def switch(team: Team, caller: Caller, subscription_id: str, *, active: bool) -> Subscription:
    """Enable or disable a subscription. Enabled, it continues at its cursor with the rights of the caller's key."""
    subscription = await get(team, caller, subscription_id)
    if active and subscription.url:
        await check_target(team, caller.tenant, subscription.url)

    def switched(now: Subscription) -> Subscription:
        if not active:
            return disabled(now, Reason.SWITCHED_OFF)
        if now.user_id and caller.user != now.user_id:
            # Pushes use the rights of the key, and another person has other rights.
            raise ScopeRequired("only the person who made it switches it on")
        if now.expires_at and now.expires_at <= team.at():
            raise BadTransition("its time is up", hint="subscribe again")
        if now.endpoint and now.reason is Reason.NO_ENDPOINT:
            raise BadTransition("the agent has no endpoint", hint="register one")
        return replace(enabled(now), key_id=now.key_id if now.endpoint else caller.key_id)

    return await _change(team, caller, subscription_id, "enabled" if active else "disabled", switched)


async def test(team: Team, caller: Caller, subscription_id: str) -> Subscription:
    """Push a test to the address of a subscription, whatever its state; the subscription with the result."""
    subscription = await get(team, caller, subscription_id)
    if not subscription.url:
        raise BadTransition("it has no address", hint="its subscriber reads a stream")
    await check_target(team, caller.tenant, subscription.url)
    attempt = await pushing.send_test(team, subscription)
    return await _change(team, caller, subscription_id, "tested", lambda now: replace(now, last_test=attempt))


async def renew_secret(team: Team, caller: Caller, subscription_id: str) -> Subscription:
    """Create a new signing secret; the old one stays valid for a day."""
    secret = _new_secret(team)
    return await _change(
        team, caller, subscription_id, "secret_renewed", lambda now: with_secret(now, secret, team.now())
    )


async def _change(
    team: Team, caller: Caller, subscription_id: str, action: str, change: Callable[[Subscription], Subscription]
) -> Subscription:
    async def decide() -> TeamChanges:
        changed = change(await get(team, caller, subscription_id))
        entry = team.entry(caller, f"subscription_{action}", changed.id)
        return TeamChanges(caller.tenant, puts=(changed,), entries=(entry,))

    return await put(team, caller, decide, Subscription, "subscription")


def follows(record: AgentRecord, subscription: Subscription | None) -> bool:
    """Whether the subscription matches the agent's registered endpoint."""
    if record.gone or not record.endpoint:
        return subscription is None or subscription.reason is Reason.NO_ENDPOINT
    return (
        subscription is not None
        and subscription.url == record.endpoint
        and subscription.reason is not Reason.NO_ENDPOINT
        # Registered again with another key after its key was revoked.
        and (subscription.reason is not Reason.KEY_INVALID or subscription.key_id == record.endpoint_key)
    )


async def follow_endpoint(team: Team, tenant: str, agent: str, position: int = UNSETTLED) -> None:
    """Create, update or disable the subscription of an agent's registered endpoint."""
    for _ in range(ATTEMPTS):
        record = await team.store.get(AgentRecord, tenant, agent)
        subscription = await team.store.get(Subscription, tenant, endpoint_id(agent))
        if record is None or follows(record, subscription):
            return
        if record.gone or not record.endpoint:
            assert subscription is not None  # noqa: S101  # else it stands as it should
            changed = disabled(subscription, Reason.NO_ENDPOINT)
        elif subscription is None:
            changed = _endpoint(team, record, position)
        else:
            # Waiting messages go to a changed endpoint; messages from a time without an endpoint are not pushed.
            cursor = position if subscription.reason is Reason.NO_ENDPOINT else subscription.cursor
            changed = replace(enabled(subscription), url=record.endpoint, key_id=record.endpoint_key, cursor=cursor)
        facts = {"agent": agent, "host": _host(changed.url), "state": changed.state.value}
        entry = Entry("endpoint_followed", team.at(), SYSTEM, changed.id, "", facts)
        try:
            await team.store.commit(TeamChanges(tenant, puts=(changed,), entries=(entry,)))
        except Stale:
            continue
        return


def _endpoint(team: Team, record: AgentRecord, position: int) -> Subscription:
    return Subscription(
        id=endpoint_id(record.id),
        tenant_id=record.tenant_id,
        url=record.endpoint,
        subscriber_id=record.id,
        endpoint=True,
        key_id=record.endpoint_key,
        secret=_new_secret(team),
        created_at=team.at(),
        cursor=position,
    )
