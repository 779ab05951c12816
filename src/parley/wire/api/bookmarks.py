"""Bookmarks as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from parley.domain.channel.bookmark import MOST_OPEN, Start
from parley.wire.api.records.directory import Bookmark
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from parley.domain.channel.bookmark import Bookmark as StoredBookmark

Position = Annotated[int, Meta(ge=0, le=2**40 - 1, description="A place in the tenant, as the id of an event says it.")]


class BookmarkOpenIn(Struct, forbid_unknown_fields=True):
    """Where a new bookmark starts: before the oldest unanswered request, at the head, or at the oldest stored item.

    `process`, as `PID@HOST`, is shown to the process that held the bookmark before. With `unless_active`, a bookmark
    that its holder saved within this many seconds is not claimed (409); with `replaces`, only that of this holder is.
    """

    start: Start = Start.UNANSWERED
    process: Annotated[str, Meta(pattern=r"^(?:[0-9]{1,10}@[A-Za-z0-9._-]{1,255})?$")] = ""
    unless_active: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    replaces: Annotated[str, Meta(max_length=128)] | None = None


class BookmarkIn(Struct, forbid_unknown_fields=True):
    """The read position of the holder: all items up to `position` are finished, except those in `open`.

    `started` are open items that the holder is about to process. Only those that it found when it opened an
    `interrupted` bookmark need be named. An item that is started a sixth time is not in `open` of the answer: it is a
    dead letter. `close` ends the holding, when the process stops.
    """

    holder: Annotated[str, Meta(min_length=1, max_length=128)]
    position: Position
    open: Annotated[list[Position], Meta(max_length=MOST_OPEN)] = []
    started: Annotated[list[Position], Meta(max_length=MOST_OPEN)] = []
    close: bool = False


def bookmark_of(stored: StoredBookmark, head: int) -> Bookmark:
    counts = dict(stored.attempts)
    attempts = [counts.get(position, 0) for position in stored.open]
    return fill_record(Bookmark, stored, agent_id=stored.agent, name=stored.label, head=head, attempts=attempts)
