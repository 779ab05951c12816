"""What is read of a feed within a scope: positions first, which are few bytes, then what is there, in bounded pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parley.domain.channel.event import CHANNEL_MESSAGE
from parley.domain.channel.feed import FeedItem
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from parley.domain.store.changes import FeedScope

# Maximum bytes of a page: each stream holds one until its reader has taken it.
FEED_BYTES = 4 * 1024 * 1024
_SEARCH_PAGE = 5_000
_POSTS = f"SELECT {rows.POST} FROM post JOIN tally ON tally.number = post.channel WHERE"
# The channels lead, whatever else there is in the tenant: what is hidden costs nothing and shows in no time.
_IN_CHANNELS = (
    "json_each(:channels) AS scope JOIN tally ON tally.id = scope.key AND tally.tenant = :tenant"
    " CROSS JOIN post INDEXED BY post_place ON post.channel = tally.number"
)
_IN_TENANT = "post JOIN tally ON tally.number = post.channel"
_VISIBLE = (
    "(:viewer = '' OR (NOT :addressed AND sender = :viewer) OR instr(recipients, ',' || :viewer || ',')"
    " OR (recipients IS NULL AND post.number > :low + {since}))"
)
_NUMBERS = "SELECT post.number FROM {source} WHERE post.seq > tally.floor AND {visible}"
_EVENTS = (
    "SELECT number FROM event WHERE intent_id IN (SELECT value FROM json_each(:intents))"
    f" AND number > :after AND number <= :high AND event_type <> '{CHANNEL_MESSAGE}'"
)
_UNEXPIRED = "state <> 'expired' AND (expires_at = '' OR expires_at > :now)"


def find_positions(
    db: sqlite3.Connection, tenant: str, low: int, scope: FeedScope, after: int, through: int, limit: int
) -> tuple[tuple[int, ...], int]:
    """See `TeamStore.find_positions`."""
    values = {**_values(tenant, low, scope), "after": low + after, "high": low + through, "limit": limit}
    posts = f"{_numbers(scope)} AND post.number > :after AND post.number <= :high"
    found = db.execute(f"{posts} UNION ALL {_EVENTS} ORDER BY 1 LIMIT :limit", values).fetchall()
    positions = tuple([number & rows.MASK for (number,) in found])
    return positions, positions[-1] if len(positions) == limit else through


def read_positions(db: sqlite3.Connection, low: int, positions: Sequence[int]) -> tuple[tuple[FeedItem, ...], int]:
    """See `TeamStore.read_positions`."""
    numbers = (json.dumps([low + position for position in positions]),)
    chosen = "number IN (SELECT value FROM json_each(?))"
    db.execute("BEGIN")
    try:
        posts, more_posts = fetch_page(
            db.execute(f"{_POSTS} post.seq > tally.floor AND post.{chosen} ORDER BY post.number", numbers)
        )
        events, more_events = fetch_page(
            db.execute(f"SELECT {rows.EVENT} FROM event WHERE {chosen} ORDER BY number", numbers)
        )
    finally:
        db.execute("COMMIT")
    return merge_page((posts, more_posts), (events, more_events), positions[-1])


def merge_page(
    posts: tuple[list[Any], bool], events: tuple[list[Any], bool], last: int
) -> tuple[tuple[FeedItem, ...], int]:
    """Posts and events in order, and up to where that goes: where one was cut off, the other must not run ahead."""
    items = [FeedItem.of_post(rows.post_from_row(row)) for row in posts[0]]
    items += [FeedItem.of_event(rows.event_from_row(row)) for row in events[0]]
    items.sort(key=lambda item: item.position)
    last = min([page[-1][0] & rows.MASK for page, more in (posts, events) if more], default=last)
    return tuple([item for item in items if item.position <= last]), last


def search(
    db: sqlite3.Connection, tenant: str, low: int, scope: FeedScope, text: str, now: str, limit: int
) -> tuple[int, ...]:
    """See `TeamStore.search`. Each message is a statement of its own, so that other threads run in between."""
    values = {**_values(tenant, low, scope), "now": now, "limit": _SEARCH_PAGE}
    sql = f"{_numbers(scope)} AND post.number <= :high AND {_UNEXPIRED} ORDER BY +post.number DESC LIMIT :limit"
    payload_of = "SELECT payload FROM post WHERE number = ?"
    folded_text = text.casefold()
    found: list[int] = []
    while page := db.execute(sql, values).fetchall():
        for (number,) in page:
            row = db.execute(payload_of, (number,)).fetchone()
            if row is not None and folded_text in row[0].decode().casefold():
                found.append(number & rows.MASK)
                if len(found) == limit:
                    return tuple(found)
        values["high"] = page[-1][0] - 1
    return tuple(found)


def find_evicted(
    db: sqlite3.Connection, tenant: str, low: int, scope: FeedScope, after: int
) -> tuple[tuple[str, int], ...]:
    """See `TeamStore.find_evicted`."""
    if scope.channels is None:
        return ()
    sql = (
        "SELECT tally.id, floor FROM json_each(:channels) AS scope"
        " JOIN tally ON tally.id = scope.key AND tally.tenant = :tenant WHERE floor > 0"
        " AND (SELECT post.number FROM post WHERE post.channel = tally.number AND post.seq > floor"
        " ORDER BY post.seq LIMIT 1) > :low + max(:after, scope.value) ORDER BY tally.id"
    )
    values = {"channels": json.dumps(dict(scope.channels)), "tenant": tenant, "low": low, "after": after}
    return tuple(db.execute(sql, values).fetchall())


def fetch_page(cursor: sqlite3.Cursor) -> tuple[list[Any], bool]:
    """Rows until they are a lot to hold in memory, one at least; and whether there may be more."""
    page: list[Any] = []
    size = 0
    for row in cursor:
        page.append(row)
        size += sum([len(value) for value in row if type(value) is bytes])
        if size >= FEED_BYTES:
            return page, True
    return page, False


def _numbers(scope: FeedScope) -> str:
    since, source = ("0", _IN_TENANT) if scope.channels is None else ("scope.value", _IN_CHANNELS)
    bound = "" if scope.channels is not None else " AND post.number > :low"
    return _NUMBERS.format(source=source, visible=_VISIBLE.format(since=since)) + bound


def _values(tenant: str, low: int, scope: FeedScope) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "low": low,
        "high": low | rows.MASK,
        "channels": json.dumps(dict(scope.channels or {})),
        "intents": json.dumps(scope.intents),
        "viewer": scope.viewer,
        "addressed": scope.addressed,
    }
