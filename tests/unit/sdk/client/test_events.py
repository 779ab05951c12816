"""Logs, on a real server."""

from __future__ import annotations

from datetime import timedelta

from parley.sdk.client.events import AsyncEvents
from parley.wire.api.records.intents import Event
from tests.rigs.team import INTENT, LiveServer, with_server
from tests.unit.sdk.client.recorded import admin, public_methods, recorded

TRACE = "0af7651916cd43dd8448eb211c80319c"


@with_server
async def test_a_log_is_written_read_traced_checked_and_proved(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice, admin(server) as boss:
        first = await alice.log_event(INTENT, "comment", {"text": "one"}, trace_id=TRACE)
        assert isinstance(first, Event)
        assert (first.event_type, first.actor, first.payload) == ("comment", "alice", {"text": "one"})
        before = await boss.make_checkpoint(INTENT)
        second = await alice.log_event(INTENT, "comment", parent_event_id=first.id)
        await alice.log_event(INTENT, "remark")

        assert await alice.get_event(INTENT, second.id) == second
        assert await alice.list_events(INTENT, event_type="comment", limit=10) == [first, second]
        assert (await alice.list_events(INTENT, after=first.sequence))[0] == second
        assert await alice.list_events(INTENT, since=second.created_at + timedelta(seconds=1)) == []
        assert await alice.trace(TRACE) == [first]
        assert (await alice.verify_events(INTENT)).valid

        after = await boss.make_checkpoint(INTENT)
        assert await alice.get_checkpoint(after.checkpoint_id) == after
        assert {one.checkpoint_id for one in await alice.list_checkpoints(INTENT)} == {
            before.checkpoint_id,
            after.checkpoint_id,
        }
        proof = await alice.prove_event(after.checkpoint_id, second.id)
        assert (proof.event_hash, proof.merkle_root) == (second.event_hash, after.merkle_root)
        assert [step.position for step in proof.proof_hashes] == ["right"]
        assert (await alice.compare_checkpoints(before.checkpoint_id, after.checkpoint_id)).consistent
        assert alice.called | boss.called >= public_methods(AsyncEvents)
