"""What people decide, on a real server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from parley.domain.errors.rules import ApprovalDecided, ApprovalStale, MessageHeld, Suspended
from parley.sdk.client.approvals import AsyncApprovals
from parley.wire.api.records.rules import Approval, Exchange
from tests.rigs.governed import put_policy, two_agents
from tests.rigs.team import CHANNEL, LiveServer, live_server, open_rig
from tests.unit.sdk.client.recorded import Recorded, admin, public_methods, recorded

QUERY = {"exchange_type": "information_query"}
STOPPING = {"list_suspensions", "preview_suspension", "suspend", "lift_suspension"}


async def held(alice: Recorded, text: str) -> str:
    """Say what needs a person; the approval's id."""
    with pytest.raises(MessageHeld) as error:
        await alice.send_message(CHANNEL, None, "bob", "request", {"text": text}, metadata=QUERY)
    return str(error.value.facts["approval"])


async def decisions(server: LiveServer) -> None:
    await two_agents(server.rig)
    await put_policy(server.rig)
    async with recorded(server, "alice") as alice, admin(server) as boss:
        secret = (await boss.create_key("human", user_id="ann")).key
        async with recorded(server, key=secret) as ann:
            first = await ann.get_approval(await held(alice, "We promise one."))
            assert isinstance(first, Approval)
            assert (first.agent, first.status, first.barred) == ("alice", "pending", None)
            assert first.detected_keywords == first["detectedKeywords"] == ["promise"]
            assert [one.id for one in await ann.list_approvals("pending", limit=5)] == [first.id]
            (summary,) = await ann.list_approvals(agent="alice", order="expiring", summary=True)
            assert (summary.id, summary.summary, summary.payload) == (first.id, "We promise one.", None)
            assert await ann.list_approvals(user="ben", to="bob", cause="commitment", before=first.id) == []
            assert (await ann.count_approvals("pending", agent="alice")).count == 1
            expanded = (await ann.get_approval(first.id, expand="exchange")).exchange
            assert (expanded and expanded.outcome, first.exchange) == ("escalated", None)
            assert first.decisions == ["approve", "reject", "answer"]

            server.rig.team.approval_links = True
            links = [await ann.create_approval_link(first), await ann.create_approval_link(first.id)]
            assert {link.approval for link in links} == {first.id}
            assert all(link.path.startswith("/console/a/pal_") and link.path not in repr(link) for link in links)

            approved = await ann.approve(first, "fine")
            assert (approved.status, approved.note, approved.decided_by) == ("approved", "fine", "ann")
            with pytest.raises(ApprovalDecided):
                await ann.reject(first)

            second = await ann.get_approval(await held(alice, "We promise two."))
            with pytest.raises(ApprovalStale):
                await ann.approve(Approval(**{**dict(second), "digest": first.digest}))
            assert (await ann.reject(second, "no")).status == "rejected"
            third = await ann.get_approval(await held(alice, "We promise three."))
            assert (await ann.answer(third, {"text": "I say it."})).status == "answered"
            fourth = await ann.get_approval(await held(alice, "We promise four."))
            assert (await ann.decide(fourth, "reject")).status == "rejected"

            exchanges = await alice.list_exchanges(agent="alice", limit=10)
            [one] = [exchange for exchange in exchanges if exchange.exchange_id == first.exchange_id]
            assert isinstance(one, Exchange)
            whole = await alice.get_exchange(one.exchange_id)
            assert {**one.to_dict(), "messages": whole.to_dict()["messages"]} == whole.to_dict()
            assert whole.messages is not None
            assert [message.sender for message in whole.messages] == ["alice"]
            day = (await alice.list_exchanges(pair=("bob", "alice"), since=one.started_at, order="newest"))[0]
            assert day.initiator == "alice"
            assert [turn.sender for turn in one.transcript] == ["alice"]
            closed = await alice.close_exchange(one.exchange_id, "done")
            assert closed.ended_at is not None
            assert ann.called | alice.called | STOPPING >= public_methods(AsyncApprovals)


async def stopping(server: LiveServer) -> None:
    await two_agents(server.rig)
    await put_policy(server.rig)
    async with recorded(server, "alice") as alice, admin(server) as boss:
        assert (await boss.preview_suspension("agent", "alice")).agents == 1
        until = server.rig.clock.at + timedelta(hours=1)
        stopped = await boss.suspend("agent", "alice", "talks too much", until=until)
        assert (stopped.what, stopped.name, stopped.reason) == ("agent", "alice", "talks too much")
        assert stopped.until == until
        assert await boss.list_suspensions() == [stopped]
        with pytest.raises(Suspended):
            await alice.send_message(CHANNEL, None, "bob", "request", {"text": "Hello"}, metadata=QUERY)

        assert await boss.lift_suspension("agent", "alice") is None
        assert await boss.list_suspensions() == []
        assert await alice.send_message(CHANNEL, None, "bob", "request", {"text": "Hello"}, metadata=QUERY)
        assert boss.called >= STOPPING


@pytest.mark.parametrize("story", [decisions, stopping])
def test_a_person_decides_and_an_admin_stops(story: object, tmp_path: Path) -> None:
    async def told() -> None:
        async with asyncio.timeout(30), open_rig(tmp_path) as rig, live_server(rig) as server:
            await story(server)  # type: ignore[operator]

    asyncio.run(told())
