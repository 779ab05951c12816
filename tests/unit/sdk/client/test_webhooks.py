"""Webhooks, on a real server."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.domain.errors.errors import NotFound
from parley.sdk.client.webhooks import AsyncWebhooks
from parley.wire.api.records.channels import NewSubscription, Subscription
from tests.rigs.fake_outbound import FakeOutbound
from tests.rigs.team import INTENT, LiveServer, with_server
from tests.unit.sdk.client.recorded import public_methods, recorded


@with_server
async def test_a_webhook_is_asked_for_looked_at_switched_and_ended(server: LiveServer) -> None:
    server.rig.team.outbound = FakeOutbound()
    later = server.rig.clock.at + timedelta(days=1)
    async with recorded(server, "alice") as alice:
        made = await alice.subscribe(
            "https://example.com/hook", intent_id=INTENT, event_types=["channel_message"], expires_at=later
        )
        assert isinstance(made, NewSubscription)
        assert made.secret.startswith("whsec_")
        assert (made.intent_id, made.event_types, made.expires_at) == (INTENT, ["channel_message"], later)

        found = await alice.get_subscription(made.id)
        assert type(found) is Subscription
        assert await alice.list_subscriptions(INTENT) == [found]
        assert await alice.list_attempts(made.id) == []
        assert (await alice.test_subscription(made.id)).status == 200
        assert not (await alice.switch_subscription(made.id, active=False)).active
        assert (await alice.renew_secret(made.id)).secret != made.secret
        assert await alice.unsubscribe(made.id) is None
        with pytest.raises(NotFound):
            await alice.get_subscription(made.id)
        assert alice.called >= public_methods(AsyncWebhooks)
