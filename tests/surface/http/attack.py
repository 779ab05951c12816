"""What every attack must leave behind: a refusal in the one form there is, nothing stored, and a server that runs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.team_rig import Answer, LiveServer


def refusal(answer: Answer) -> tuple[int, str]:
    """Status and code of a refusal, which is a problem document and tells nothing about the inside."""
    assert answer.headers["content-type"] == "application/problem+json", answer
    document = answer.json
    assert document["status"] == answer.status < 500
    assert {"type", "title", "status", "code", "detail", "message", "errors"} <= document.keys()
    for word in ("Traceback", "sqlite", "SELECT", ".py"):
        assert word not in answer.body.decode()
    return answer.status, document["code"]


def stored(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything in the store, but for what the server notes about its own requests."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: db.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # our own tables
    db.close()
    return found


@asynccontextmanager
async def nothing_happens(server: LiveServer) -> AsyncIterator[None]:
    """What is done meanwhile is not stored, and the next request is answered."""
    before = stored(server.rig.path)
    yield
    assert stored(server.rig.path) == before
    assert (await server.with_key("").get("/healthz")).json == {"status": "ok"}


def spelled(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
