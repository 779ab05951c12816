"""Bookmarks as JSON."""

from __future__ import annotations

import msgspec

from parley.domain.channel.bookmark import Bookmark, Start
from parley.wire.api.bookmarks import BookmarkOpenIn, bookmark_of

AT = "2026-03-13T14:30:00.000000+00:00"


def test_a_bookmark_is_shown_with_the_head_of_the_stream() -> None:
    mark = Bookmark(
        id="bob/main", tenant_id="t", agent="bob", label="main", position=9, open=(4, 6), holder="hold_1", saved_at=AT
    )

    assert bookmark_of(mark, 12).to_dict() == {
        "agent_id": "bob",
        "name": "main",
        "position": 9,
        "open": [4, 6],
        "attempts": [0, 0],
        "holder": "hold_1",
        "process": None,
        "opened_at": None,
        "interrupted": False,
        "saved_at": AT,
        "head": 12,
    }


def test_who_says_nothing_begins_with_what_is_unanswered() -> None:
    assert msgspec.convert({}, BookmarkOpenIn).start is Start.UNANSWERED
