"""The stream that tells a page that a mailbox has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parley import Mailbox, wiring
from parley.settings import load
from parley.surfaces.console.live import STREAMS_MAX, OpenStreams
from parley.surfaces.mailbox_console import live
from parley.surfaces.mailbox_console.live import ChangeStream


def test_a_page_is_told_of_a_new_message_and_a_fifth_page_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(live, "_LOOKS_BETWEEN_SIGNS", 100_000)
    wiring.create_project(str(tmp_path), "demo", ("claude", "codex"))
    project, streams = wiring.open_project_reader(str(tmp_path), "demo", load({})), OpenStreams()

    async def story() -> list[bytes]:
        first, *others = [ChangeStream(project, streams) for _ in range(STREAMS_MAX)]
        begun = await anext(first)
        with Mailbox("demo", agent="claude", home=tmp_path) as claude:
            claude.send("codex", "notification", "Hello", "Hello")
        changed = await asyncio.wait_for(anext(first), 30)
        fifth = [piece async for piece in ChangeStream(project, streams)]
        for stream in (first, *others):
            await stream.aclose()
            await stream.aclose()
        assert streams.enter("reader")
        return [begun, changed, *fifth]

    pieces = asyncio.run(story())

    assert pieces == [b": open\n\n", b"event: changed\ndata: {}\n\n", b"event: changed\ndata: {}\n\nretry: 5000\n\n"]
