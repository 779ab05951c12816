"""Bookmarks as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from parley.domain.channel.bookmark import MOST_OPEN, Start
from parley.wire.api.channels import Time

if TYPE_CHECKING:
    from parley.domain.channel.bookmark import Bookmark

Position = Annotated[int, Meta(ge=0, le=2**40 - 1, description="A place in the tenant, as the id of an event says it.")]


class BookmarkOpenIn(Struct, forbid_unknown_fields=True):
    """Where a bookmark begins that is not there yet: before the oldest request that waits for an answer, at what is new
    from now on, or with all that is kept.
    """

    start: Start = Start.UNANSWERED


class BookmarkIn(Struct, forbid_unknown_fields=True):
    """How far its holder is: everything up to `position` is dealt with, except what is still `open`."""

    holder: Annotated[str, Meta(min_length=1, max_length=128)]
    position: Position
    open: Annotated[list[Position], Meta(max_length=MOST_OPEN)] = []


class BookmarkOut(Struct):
    """A bookmark. `holder` is whoever opened it last, `head` the tenant's last position."""

    agent_id: str
    name: str
    position: int
    open: list[int]
    holder: str
    saved_at: Time
    head: int


def bookmark(shown: Bookmark, head: int) -> dict[str, Any]:
    return {
        "agent_id": shown.agent,
        "name": shown.label,
        "position": shown.position,
        "open": shown.open,
        "holder": shown.holder,
        "saved_at": shown.saved_at,
        "head": head,
    }
