"""Notices by their whole way: a message is held over HTTP, and a real receiver hears of it, signed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from parley.adapters.outside.outbound import HttpOutbound
from parley.app.team.webhooks import delivering as webhooks
from parley.app.team.work import sweep
from parley.domain.directory.callers import KeyKind
from parley.wire.api.webhooks import verify
from tests.rigs.notices import SECRET_WORDS, key_of, peopled
from tests.rigs.team import CHANNEL, Client, LiveServer, in_loop, live_server, open_rig, soon
from tests.rigs.webhook_receiver import Receiver, receiving, status

TYPES = ["approval.pending", "approval.reminder", "approval.decided", "exchange.ended"]


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[LiveServer]:
    """A server with alice, who acts for ann, and bob, who acts for ben; it pushes."""
    async with open_rig(tmp_path) as rig, live_server(rig) as server:
        await peopled(rig)
        outbound = HttpOutbound(private=True)
        rig.team.outbound = outbound
        outbound.avoid(server.listener.port)
        work = asyncio.ensure_future(webhooks.deliver_forever(rig.team, outbound))
        try:
            yield server
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def subscribed(client: Client, receiver: Receiver, *types: str) -> dict[str, Any]:
    body = {"webhook_url": receiver.url, "event_types": list(types) or TYPES}
    answer = await client.post("/subscriptions", body)
    assert answer.status == 201, answer.body
    found: dict[str, Any] = answer.json
    return found


async def held(client: Client) -> dict[str, Any]:
    message = {
        "to": "bob",
        "message_type": "request",
        "payload": {"text": SECRET_WORDS},
        "metadata": {"exchange_type": "information_query"},
    }
    answer = await client.post(f"/channels/{CHANNEL}/messages", message)
    assert answer.status == 202, answer.body
    found: dict[str, Any] = answer.json
    return found


@in_loop
async def test_a_person_hears_of_what_waits_and_what_became_of_it_and_the_push_never_holds_the_payload(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as server, receiving() as receiver:
        ann = server.with_key(await key_of(server.rig, "ann"))
        made = await subscribed(ann, receiver)
        waits = await held(await server.client("alice"))
        await sweep.sweep(server.rig.team)
        (first,) = await receiver.until(1)
        decision = {"decision": "reject", "digest": waits["digest"]}
        assert (await ann.post(f"/approvals/{waits['approval']}/decision", decision)).status == 200
        got = await receiver.until(3)

        documents = [verify(made["secret"], one.headers, one.body, server.rig.clock.at) for one in got]

    assert [one["type"] for one in documents] == ["approval.pending", "approval.decided", "exchange.ended"]
    assert first.data["approval"] == waits["approval"]
    assert first.data["expires_at"] == waits["expires_at"]
    assert documents[1]["data"]["decided_by"] == "ann"
    assert documents[2]["data"]["outcome"] == "denied"
    assert "elephant" in SECRET_WORDS
    assert not any(b"elephant" in one.body for one in got)


@in_loop
async def test_an_admin_hears_of_the_whole_tenant_and_another_tenants_admin_of_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, receiving() as receiver, receiving() as foreign:
        await server.rig.tenant("other")
        await subscribed(await server.client("", KeyKind.ADMIN), receiver, "approval.pending")
        await subscribed(await server.client("", KeyKind.ADMIN, "other"), foreign)

        waits = await held(await server.client("alice"))
        await sweep.sweep(server.rig.team)
        (got,) = await receiver.until(1)

    assert got.data["approval"] == waits["approval"]
    assert foreign.got == []


@in_loop
async def test_what_a_receiver_missed_comes_again_under_the_same_id(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, receiving() as receiver:
        receiver.answer = status(503)
        admin = await server.client("", KeyKind.ADMIN)
        made = await subscribed(admin, receiver, "approval.pending")
        await held(await server.client("alice"))
        await sweep.sweep(server.rig.team)

        async def was_tried() -> bool:
            return bool((await admin.get(f"/subscriptions/{made['id']}")).json["tries"])

        await soon(was_tried)
        receiver.answer = status(200)
        server.rig.clock.pass_by(seconds=6)

        first, second = await receiver.until(2)

    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"event_types": ["approval.pending", "channel_message"]}, (422, "invalid")),
        ({"event_types": ["approval.pending"], "intent_id": "intent_1"}, (422, "invalid")),
    ],
)
@in_loop
async def test_what_cannot_be_told_together_is_refused(
    tmp_path: Path, body: dict[str, object], expected: tuple[int, str]
) -> None:
    async with serving(tmp_path) as server:
        admin = await server.client("", KeyKind.ADMIN)

        answer = await admin.post("/subscriptions", {"webhook_url": "http://127.0.0.1:9/", **body})

    assert (answer.status, answer.code) == expected


@in_loop
async def test_a_person_may_not_subscribe_to_what_is_said(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        ann = server.with_key(await key_of(server.rig, "ann"))

        answer = await ann.post("/subscriptions", {"webhook_url": "http://127.0.0.1:9/"})

    assert (answer.status, answer.code) == (403, "scope_required")
