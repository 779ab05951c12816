"""Policies, on a real server."""

from __future__ import annotations

import pytest

from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import PolicyInvalid
from parley.sdk.client.policies import AsyncRules
from parley.wire.api.records.rules import Policy
from tests.rigs.governed import place
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.client.recorded import admin, public_methods

TEXT = "agent-to-agent:\n  enabled: true\n"


@with_server
async def test_a_policy_is_put_into_force_explained_tried_and_taken_out(server: LiveServer) -> None:
    await place(server.rig, "alice", user_id="ann")
    await place(server.rig, "bob", user_id="ben")
    async with admin(server) as boss:
        made = await boss.put_policy("enterprise", "default", TEXT)
        assert isinstance(made, Policy)
        assert (made.scope, made.name, made.text, made.rules) == ("enterprise", "default", TEXT, {"enabled": True})
        assert await boss.get_policy("enterprise", "default") == made

        listed = await boss.list_policies(texts=True)
        assert (listed.label, listed.policies, listed.broken) == (made.label, [made], [])
        assert (await boss.list_policies(made.label)).label == made.label
        in_force = await boss.effective_policy("alice")
        assert (in_force.agent, in_force.org_unit, in_force.user_id) == ("alice", "engineering", "ann")
        assert in_force.policy is not None
        first = (await boss.policy_history())[-1].label
        assert (await boss.policy_history())[0].label == made.label
        assert (await boss.effective_policy("alice", at=first)).label == first
        assert (await boss.policy_differences(first)).new_label == made.label
        assert (await boss.traffic(by="user")).pairs == []

        told = await boss.explain("alice", "bob", "We promise it.", exchange_type="information_query")
        assert (told.verdict, told.detected_keywords) == ("hold", ["promise"])
        assert told.steps
        tried = await boss.replay({"enterprise/default": TEXT}, limit=10)
        assert (tried.messages, tried.changes, tried.next) == (0, [], None)

        assert (await boss.delete_policy("enterprise", "default")).policies == []
        with pytest.raises(NotFound):
            await boss.get_policy("enterprise", "default")
        assert boss.called >= public_methods(AsyncRules)


@with_server
async def test_a_policy_that_cannot_be_read_is_refused_with_line_and_key(server: LiveServer) -> None:
    async with admin(server) as boss:
        with pytest.raises(PolicyInvalid) as refused:
            await boss.put_policy("enterprise", "default", "agent-to-agent:\n  enabeld: true\n")

    assert "enabeld" in str(refused.value)
