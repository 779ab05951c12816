"""Webhook subscriptions over HTTP: create, list, get, enable, disable, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.webhooks import pushing, subscriptions
from parley.app.team.webhooks.subscriptions import SubscriptionDraft
from parley.domain.channel.subscription import failed_since_yesterday
from parley.domain.errors.errors import Invalid, Problem
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json
from parley.wire.api import webhooks as webhook
from parley.wire.api.records.channels import Attempt, NewSubscription, Subscription, SubscriptionSecret
from parley.wire.api.webhooks import SubscriptionIn, SubscriptionPatch

if TYPE_CHECKING:
    from parley.domain.channel.subscription import Subscription as StoredSubscription


async def create(call: Call) -> Response:
    body: SubscriptionIn = call.body
    if body.portfolio_id:
        raise Invalid.because([Problem("unknown", "portfolio_id", "there are no portfolios here")])
    wanted = SubscriptionDraft(
        body.webhook_url or "",
        body.intent_id or "",
        tuple(body.event_types or ()),
        webhook.moment(body.expires_at),
    )
    new_subscription = await subscriptions.create(call.team, await call.speaker(body.subscriber_id), wanted)
    return json(201, webhook.new_subscription_of(new_subscription))


async def list_page(call: Call) -> Response:
    if call.query.get("portfolio_id"):
        return json(200, [])
    page = await subscriptions.list_all(call.team, call.caller, call.query.get("intent_id", ""))
    return json(200, [await _document(call, subscription) for subscription in page])


async def get(call: Call) -> Response:
    subscription = await subscriptions.get(call.team, call.caller, call.params["subscription_id"])
    return json(200, await _document(call, subscription))


async def _document(call: Call, subscription: StoredSubscription) -> Subscription:
    waiting = await pushing.count_waiting(call.team, subscription)
    return webhook.subscription_of(subscription, waiting, failed_since_yesterday(subscription, call.team.now()))


async def attempts(call: Call) -> Response:
    subscription = await subscriptions.get(call.team, call.caller, call.params["subscription_id"])
    return json(200, webhook.attempts_of(subscription))


async def switch(call: Call) -> Response:
    body: SubscriptionPatch = call.body
    subscription_id = call.params["subscription_id"]
    subscription = await subscriptions.switch(call.team, call.caller, subscription_id, active=body.active)
    return json(200, await _document(call, subscription))


async def test(call: Call) -> Response:
    subscription = await subscriptions.test(call.team, call.caller, call.params["subscription_id"])
    return json(200, webhook.test_of(subscription))


async def renew_secret(call: Call) -> Response:
    subscription = await subscriptions.renew_secret(call.team, call.caller, call.params["subscription_id"])
    return json(200, webhook.secret_of(subscription))


async def delete(call: Call) -> Response:
    await subscriptions.delete(call.team, call.caller, call.params["subscription_id"])
    return Response(204)


_TAG = "subscriptions"
_ONE = "/subscriptions/{subscription_id}"
ROUTES = (
    Route(
        "POST",
        "/subscriptions",
        create,
        "Create a webhook subscription; the secret is shown only once",
        _TAG,
        {201: NewSubscription},
        scope=EVERYBODY,
        body=SubscriptionIn,
        written=webhook.new_subscription_of,
    ),
    Route(
        "GET",
        "/subscriptions",
        list_page,
        "List your subscriptions",
        _TAG,
        {200: list[Subscription]},
        scope=EVERYBODY,
        query=(
            Param("intent_id", "Only subscriptions to this intent."),
            Param("portfolio_id", "Portfolios are not supported: the list is empty."),
        ),
    ),
    Route("GET", _ONE, get, "Get a subscription", _TAG, {200: Subscription}, scope=EVERYBODY),
    Route(
        "GET",
        _ONE + "/attempts",
        attempts,
        "List the latest delivery attempts",
        _TAG,
        {200: list[Attempt]},
        scope=EVERYBODY,
    ),
    Route(
        "POST",
        _ONE + "/test",
        test,
        "Push a test to the address of a subscription",
        _TAG,
        {200: Attempt},
        scope=EVERYBODY,
        written=webhook.test_of,
    ),
    Route(
        "PATCH",
        _ONE,
        switch,
        "Enable or disable a subscription",
        _TAG,
        {200: Subscription},
        scope=EVERYBODY,
        body=SubscriptionPatch,
    ),
    Route(
        "POST",
        _ONE + "/secret",
        renew_secret,
        "Create a new signing secret, which is shown only once",
        _TAG,
        {200: SubscriptionSecret},
        scope=EVERYBODY,
        written=webhook.secret_of,
    ),
    Route("DELETE", _ONE, delete, "Unsubscribe", _TAG, {204: None}, scope=EVERYBODY),
)
