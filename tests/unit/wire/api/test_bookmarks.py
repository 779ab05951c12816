"""Bookmarks as JSON."""

from __future__ import annotations

import msgspec

from parley.domain.channel.bookmark import Bookmark, Start
from parley.wire.api.bookmarks import BookmarkOpenIn, BookmarkOut, bookmark

AT = "2026-03-13T14:30:00.000000+00:00"


def test_a_bookmark_is_shown_as_its_schema_says() -> None:
    mark = Bookmark(
        id="bob/main", tenant_id="t", agent="bob", label="main", position=9, open=(4, 6), holder="hold_1", saved_at=AT
    )

    shown = msgspec.convert(msgspec.json.decode(msgspec.json.encode(bookmark(mark, 12))), BookmarkOut)

    assert shown == BookmarkOut("bob", "main", 9, [4, 6], "hold_1", AT, 12)


def test_who_says_nothing_begins_with_what_is_unanswered() -> None:
    assert msgspec.convert({}, BookmarkOpenIn).start is Start.UNANSWERED
