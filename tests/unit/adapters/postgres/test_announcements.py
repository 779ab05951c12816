"""When the other nodes are told of commits: at once, and while many follow one another only now and then."""

from __future__ import annotations

import asyncio

import pytest

from parley.adapters.postgres import nodes as announcing
from parley.adapters.postgres.nodes import Announcements
from tests.rigs.team import in_loop


class Sent:
    """What was sent so far."""

    def __init__(self) -> None:
        self.announcements = Announcements(self._send)
        self.payloads: list[str] = []

    def _send(self) -> None:
        self.payloads.append(self.announcements.take())


@in_loop
async def test_a_commit_is_announced_at_once() -> None:
    sent = Sent()

    for revision in (1, 2):
        sent.announcements.add("acme", revision)

    assert sent.payloads == ["acme:1", "acme:2"]


@in_loop
async def test_commits_that_follow_one_another_are_announced_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "_ANNOUNCE_SECONDS", 3600.0)
    sent = Sent()
    sent.announcements.add("acme", 1)

    for revision in (2, 3, 4):
        sent.announcements.add("acme", revision, more_follows=True)
    sent.announcements.add("other", 1, more_follows=True)
    assert (sent.payloads, len(sent.announcements)) == (["acme:1"], 2)
    sent.announcements.add("acme", 5)  # the last one

    assert (sent.payloads, len(sent.announcements)) == (["acme:1", "acme:5,other:1"], 0)
    sent.announcements.close()


@in_loop
async def test_the_first_of_many_is_announced_at_once_and_the_others_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "_ANNOUNCE_SECONDS", 0.001)
    sent = Sent()
    for revision in (1, 2, 3):
        sent.announcements.add("acme", revision, more_follows=True)

    while len(sent.announcements):  # noqa: ASYNC110  # a timer ends it
        await asyncio.sleep(0)

    assert sent.payloads[0] == "acme:1"
    assert sent.payloads[-1] == "acme:3"
