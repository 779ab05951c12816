"""The live stream of the console's pages, where it is refused."""

from __future__ import annotations

import asyncio

import pytest

from parley.domain.directory.callers import KeyKind
from parley.surfaces.http import api
from tests.conformance.ocip.governed import pair
from tests.rigs.team import AT_ONCE, LiveServer, with_server
from tests.rigs.visitor import Visitor, person_signed_in, signed_in

LIVE = "/console/live"


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("?topics=suspensions", 403, "scope_required"),
        ("?topics=channel:nowhere", 404, "not_found"),
        ("?topics=nonsense", 422, "invalid"),
        ("?after=nonsense", 422, "invalid"),
        ("?seat=bob", 403, "sender_mismatch"),
    ],
)
@with_server
async def test_a_stream_that_is_refused_is_refused_at_once(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, query: str, status: int, code: str
) -> None:
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 3600)
    await pair(server)
    visitor = await person_signed_in(server, "ann")

    async with asyncio.timeout(AT_ONCE):
        refused = await visitor.open(LIVE + query)
        away = await Visitor(server).open(LIVE + query)

    assert (refused.status, refused.code) == (status, code)
    assert (away.status, away.code) == (401, "unauthorized")


@with_server
async def test_an_auditor_is_refused_once_for_what_it_may_not_follow(server: LiveServer) -> None:
    visitor = await signed_in(server, KeyKind.AUDITOR)

    refused = await visitor.open(LIVE + "?topics=agents")

    metrics = (await (await server.client("", KeyKind.ADMIN)).get("/metrics")).body.decode()
    assert (refused.status, refused.code) == (403, "scope_required")
    assert [line for line in metrics.split("\n") if "/live" in line and "403" in line and line.endswith(" 1")]
