"""What every attack must leave behind: a refusal in the one form there is, nothing stored, and a server that runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.rigs.behind_the_server import tables
from tests.rigs.team import Answer, LiveServer


def refusal(answer: Answer) -> tuple[int, str]:
    """Status and code of a refusal, which is a problem document and tells nothing about the inside."""
    assert answer.headers["content-type"] == "application/problem+json", answer
    document = answer.json
    assert document["status"] == answer.status < 500
    assert {"type", "title", "status", "code", "detail", "message", "errors"} <= document.keys()
    for word in ("Traceback", "sqlite", "postgres", "SELECT", ".py"):
        assert word not in answer.body.decode()
    return answer.status, document["code"]


@asynccontextmanager
async def nothing_happens(server: LiveServer) -> AsyncIterator[None]:
    """What is done meanwhile is not stored, and the next request is answered."""
    before = tables(server.rig)
    yield
    assert tables(server.rig) == before
    assert (await server.with_key("").get("/healthz")).json == {"status": "ok"}


def spelled(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
