"""Access, on a real server."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.domain.errors.errors import NotFound
from parley.sdk.client.access import AsyncAccess
from parley.wire.api.records.intents import AccessList
from tests.rigs.team import INTENT, LiveServer, with_server
from tests.unit.sdk.client.recorded import public_methods, recorded


@with_server
async def test_access_is_given_taken_asked_for_and_decided(server: LiveServer) -> None:
    later = server.rig.clock.at + timedelta(hours=1)
    async with recorded(server, "alice") as alice, recorded(server, "bob") as bob:
        closed = await alice.set_acl(INTENT, "closed")
        assert closed == AccessList(intent_id=INTENT, default_policy="closed", entries=[])
        with pytest.raises(NotFound):
            await bob.get_intent(INTENT)

        granted = await alice.grant_access(INTENT, "bob", "write", reason="helps", expires_at=later)
        assert (granted.permission, granted.granted_by, granted.expires_at) == ("write", "alice", later)
        assert (await alice.get_acl(INTENT)).entries == [granted]
        assert (await bob.get_intent(INTENT)).id == INTENT
        [kept] = (await alice.set_acl(INTENT, "closed", [granted])).entries
        assert (kept.principal_id, kept.expires_at) == ("bob", later)
        assert await alice.revoke_access(INTENT, kept.id) is None

        asked = await bob.request_access(INTENT, "write", "to help", capabilities=["python"])
        assert [one.id for one in await alice.list_access_requests(INTENT)] == [asked.id]
        assert (await alice.deny_access(INTENT, asked.id, reason="not now")).decision_reason == "not now"
        again = await bob.request_access(INTENT)
        approved = await alice.approve_access(INTENT, again.id, permission="read", expires_at=later)
        assert (approved.status, approved.decided_by) == ("approved", "alice")
        assert (await bob.get_intent(INTENT)).id == INTENT
        assert alice.called | bob.called >= public_methods(AsyncAccess)
