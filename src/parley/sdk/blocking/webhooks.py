# Written by tools/gen_client.py from sdk/client/webhooks.py. Change that, then run: make docs
"""Webhooks: what the server pushes where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import lists_of, timestamp_of, without_none
from parley.wire.api.records.channels import Attempt, NewSubscription, Subscription, SubscriptionSecret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.sdk.client.fields import Moment


class Webhooks(Area):
    """What a client does with webhooks."""

    def subscribe(
        self,
        webhook_url: str | None = None,
        *,
        intent_id: str | None = None,
        event_types: Iterable[str] | None = None,
        subscriber_id: str | None = None,
        expires_at: Moment | None = None,
    ) -> NewSubscription:
        """Have something pushed to an address; the secret that signs it is shown this once.

        Without `intent_id` it is what is said to you; without `event_types` all of that; without an address it goes to
        the agent's own endpoint.
        """
        body = without_none(webhook_url=webhook_url, intent_id=intent_id, subscriber_id=subscriber_id)
        body |= without_none(expires_at=timestamp_of(expires_at)) | lists_of(event_types=event_types)
        return self._fetch(NewSubscription, "POST", "subscriptions", body=body)

    def list_subscriptions(self, intent_id: str | None = None) -> list[Subscription]:
        """Your subscriptions, for one intent or for all."""
        query = {"intent_id": intent_id}
        return self._fetch(list[Subscription], "GET", "subscriptions", query=query)

    def get_subscription(self, subscription_id: str) -> Subscription:
        """A subscription, and how it goes."""
        return self._fetch(Subscription, "GET", "subscriptions", subscription_id)

    def list_attempts(self, subscription_id: str) -> list[Attempt]:
        """The last tries to push something."""
        return self._fetch(list[Attempt], "GET", "subscriptions", subscription_id, "attempts")

    def test_subscription(self, subscription_id: str) -> Attempt:
        """Have a test pushed to its address, whatever its state; the result says what the receiver answered."""
        return self._fetch(Attempt, "POST", "subscriptions", subscription_id, "test")

    def switch_subscription(self, subscription_id: str, *, active: bool) -> Subscription:
        """Switch a subscription on, which gives it all its tries again, or off."""
        body = {"active": active}
        return self._fetch(Subscription, "PATCH", "subscriptions", subscription_id, body=body)

    def renew_secret(self, subscription_id: str) -> SubscriptionSecret:
        """Sign by a new secret, which is shown this once; the old one signs beside it for a day."""
        path = ("subscriptions", subscription_id, "secret")
        return self._fetch(SubscriptionSecret, "POST", *path)

    def unsubscribe(self, subscription_id: str) -> None:
        """End a subscription."""
        self._tell("DELETE", "subscriptions", subscription_id)
