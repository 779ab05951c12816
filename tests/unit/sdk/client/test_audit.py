"""The audit log, on a real server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from parley.sdk.client.audit import AsyncAudit
from tests.rigs.governed import put_policy, two_agents
from tests.rigs.team import CHANNEL, LiveServer, live_server, open_rig
from tests.unit.sdk.client.recorded import admin, public_methods, recorded


async def looked_at(server: LiveServer) -> None:
    await two_agents(server.rig)
    await put_policy(server.rig)
    async with recorded(server, "alice") as alice, admin(server) as boss:
        query = {"exchange_type": "information_query"}
        sent = await alice.send_message(CHANNEL, None, "bob", "request", {"text": "Hello"}, metadata=query)

        page = await boss.list_audit(limit=1)
        assert len(page.entries) == 1
        assert page.next is not None
        rest = await boss.list_audit(after=page.next, side="alice")
        assert all(entry.side == "alice" for entry in rest.entries)

        between = await boss.list_audit(pair=("bob", "alice"), actor="alice", code=None)
        assert between.entries
        explained = await boss.explain_audit(between.entries[0].number)
        assert (explained.outcome, explained.agrees) == ("delivered", True)
        state = await boss.audit_state()
        assert (state.verified_to, state.broken_at) == (state.size, None)
        assert sum([count.sent for count in (await boss.count_audit("day")).counts]) == 1

        lines = [json.loads(line) async for line in boss.export_audit()]
        assert lines[0]["parley_audit"] == 1
        checkpoints = await boss.audit_checkpoints(limit=10)
        assert checkpoints.checkpoints[-1] == await boss.audit_checkpoint()
        assert await boss.audit_checkpoint(checkpoints.checkpoints[-1].size) == checkpoints.checkpoints[-1]
        proof = await boss.audit_proof(page.entries[0].number)
        assert proof.entry.entry_hash == page.entries[0].entry_hash

        erased = await boss.erase(agent_id="alice")
        assert erased.messages == 1
        assert (await boss.get_message(CHANNEL, sent.id)).payload != {"text": "Hello"}
        assert boss.called >= public_methods(AsyncAudit)


def test_the_audit_log_is_read_taken_along_proved_and_erased(tmp_path: Path) -> None:
    async def told() -> None:
        async with asyncio.timeout(30), open_rig(tmp_path) as rig, live_server(rig) as server:
            await looked_at(server)

    asyncio.run(told())
