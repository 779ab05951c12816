"""A POST that was carried out by a server which died before it stored its answer: sent again, it is answered."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from parley.surfaces.entrance.idempotency import Idempotency
from tests.rigs.team import INTENT, LiveServer, with_server

pytestmark = pytest.mark.both_stores

KEY = {"Idempotency-Key": "k1"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"/intents/{INTENT}/state", {"state": {"report": "done"}}),
        (f"/intents/{INTENT}/status", {"status": "completed"}),
        (f"/intents/{INTENT}/agents", {"agent_id": "bob"}),
        ("/agents/register", {"agent_id": "carol", "role_id": "critic"}),
        ("/agents/bob/bookmarks/main/open", {"start": "now", "process": "7@vm"}),
        ("/intents", {"title": "A new one"}),
    ],
)
@with_server
async def test_an_answer_that_was_lost_is_given_again(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    async def store_nothing(*_: object) -> None: ...

    monkeypatch.setattr(Idempotency, "_store", store_nothing)
    admin = await server.client("", KeyKind.ADMIN)
    headers = {**KEY, "If-Match": '"1"'}

    first = await admin.post(path, body, headers)
    again = await admin.post(path, body, headers)

    assert first.status in (200, 201)
    assert (again.status, again.json) == (first.status, first.json)


@with_server
async def test_who_was_taken_over_before_the_answer_came_is_not_told_that_it_holds_the_bookmark(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store_nothing(*_: object) -> None: ...

    monkeypatch.setattr(Idempotency, "_store", store_nothing)
    bob = await server.client("bob")
    await bob.post("/agents/bob/bookmarks/main/open", {"process": "7@vm"}, KEY)
    await bob.post("/agents/bob/bookmarks/main/open", {"process": "8@vm"})

    again = await bob.post("/agents/bob/bookmarks/main/open", {"process": "7@vm"}, KEY)

    assert (again.status, again.code) == (409, "bookmark_taken")
    assert again.json["detail"].startswith("bob: taken over by pid 8 on host vm")
