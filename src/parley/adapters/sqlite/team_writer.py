"""The one writer of the team's store: a thread that commits what has queued up in one transaction.

    loop:   submit ──> queue            ┌──────────── one transaction ────────────┐
    thread:            take all ──> check 1, apply 1, check 2, apply 2, ... ──> fsync ──> answer all at once
    loop:                                                                            <── tell the watchers, wake

A refusal is found before anything of its change is written, so the others in the transaction go on. An error of the
disk, or in one of the changes, takes the whole transaction back; then each change is tried alone.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from itertools import chain
from typing import TYPE_CHECKING, Any

from parley.adapters.sqlite import team_erase
from parley.adapters.sqlite import team_rows as rows
from parley.adapters.sqlite.file import as_parley
from parley.adapters.sqlite.team_audit import AuditWriter
from parley.adapters.sqlite.team_known import UNKNOWN, Head, Place
from parley.adapters.sqlite.team_records import RecordWriter
from parley.domain.changes import GENESIS, canonical, chained
from parley.domain.channel import Channel, Tally
from parley.domain.errors import NotFound, ParleyError, Stale, Unavailable
from parley.domain.message import Pattern
from parley.domain.post import PostState
from parley.domain.team_changes import Committed, Moved, TeamChanges
from parley.wire.event_log import appended

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable

    from parley.adapters.sqlite.team_known import Known, RecordKey
    from parley.domain.changes import Entry
    from parley.domain.event import Event, EventDraft
    from parley.domain.post import Post
    from parley.domain.record import Record
    from parley.domain.team_changes import Blank

_MOST_AT_ONCE = 512
# Evicted messages are removed from the file this many at a time; readers stop at the floor at once.
_EVICT_STEP = 64
# A log longer than this is cut by the writer itself, because under constant load nobody else gets the chance.
_LONGEST_LOG = 64 * 1024 * 1024

_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# All rows in one statement: each statement lets go of the interpreter and has to wait for it again.
_MOST_ROWS = 64
_INSERTS = [f"INSERT INTO post VALUES {', '.join([_ROW] * size)}" for size in range(_MOST_ROWS + 1)]

Outcome = Committed | Exception
# A change that cannot be written as it is: its own fault, which must not stop the writer.
_UNFIT = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


class TeamWriter:
    """Owns the writing connection and its thread."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: str,
        known: Known,
        on_commit: Callable[[str, Committed], None],
        log_bytes: Callable[[], int],
    ) -> None:
        self._db = db
        self._path = path
        self._known = known
        self._on_commit = on_commit
        self._log_bytes = log_bytes
        # What the loop has gathered in its present round, and what it has handed over.
        self._gathered: list[tuple[TeamChanges, Future[Committed]]] = []
        self._queue: queue.SimpleQueue[list[tuple[TeamChanges, Future[Committed]]] | None] = queue.SimpleQueue()
        self._loop: AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="parley-writer", daemon=True)
        self._closed = False
        # Of the running transaction; merged into what is known after it is durable.
        self._records: dict[RecordKey, Record | None] = {}
        self._places: dict[str, Place] = {}
        self._heads: dict[str, Head] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._answered: list[tuple[str]] = []
        self._audit = AuditWriter(db)
        self._kept = RecordWriter(db)
        # Something was erased, and the log still has it.
        self._erased = False

    def start(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._thread.start()

    def submit(self, changes: TeamChanges) -> Future[Committed]:
        """Queue a change; the future is done when it is durable."""
        if self._loop is None or self._closed:
            raise Unavailable("the store is closed")
        future: Future[Committed] = self._loop.create_future()
        if not self._gathered:
            # What comes in one round shares a transaction, and the threads do not fight for the interpreter.
            self._loop.call_soon(self._hand_over)
        self._gathered.append((changes, future))
        return future

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    def end(self) -> None:
        """Take nothing more; what is queued is still committed. Call it where `submit` is called."""
        if not self._closed and self._loop is not None:
            self._closed = True
            self._hand_over()
            self._queue.put(None)

    def join(self) -> None:
        """Wait for the last commit, and let go of the file."""
        if self._loop is not None:
            self._thread.join()
        self._db.close()

    def _run(self) -> None:
        running = True
        while running:
            work: list[tuple[TeamChanges, Future[Committed]]] = []
            while running and not (work and (len(work) >= _MOST_AT_ONCE or self._queue.empty())):
                given = self._queue.get()
                running = given is not None
                work += given or ()
            if work:
                self._settle(work)
                self._cut_log()

    def _settle(self, batch: list[tuple[TeamChanges, Future[Committed]]]) -> None:
        try:
            outcomes = self._commit([changes for changes, _ in batch])
        except (sqlite3.Error, OSError, *_UNFIT) as error:
            if len(batch) > 1:
                for one in batch:
                    self._settle([one])
                return
            outcomes = [as_parley(error, self._path) if isinstance(error, sqlite3.Error | OSError) else error]
        done = [(changes.tenant, future, what) for (changes, future), what in zip(batch, outcomes, strict=True)]
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._deliver, done)

    def _deliver(self, done: list[tuple[str, Future[Committed], Outcome]]) -> None:
        for tenant, future, outcome in done:
            if isinstance(outcome, Committed):
                self._on_commit(tenant, outcome)
                if not future.done():
                    future.set_result(outcome)
            elif not future.done():
                future.set_exception(outcome)

    def _cut_log(self) -> None:
        if self._erased or self._log_bytes() > _LONGEST_LOG:
            try:
                (busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._erased = self._erased and bool(busy)
            except sqlite3.Error:
                return  # a reader is in the way, or the disk is full: the log goes on growing until it can be cut

    def _commit(self, batch: list[TeamChanges]) -> list[Outcome]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._records.update(dict.fromkeys(self._kept.look_ahead(batch, self._is_known)))
            outcomes = [self._try(changes) for changes in batch]
            self._kept.flush()
            self._flush()
            self._audit.flush()
            self._db.executemany(
                "UPDATE tenant SET head = ?, entry_position = ?, entry_link = ?, audit_number = ? WHERE number = ?",
                [(*head[1:], head.number) for head in self._heads.values()],
            )
            self._db.execute("COMMIT")
            self._audit.done()
            self._known.records.update(self._records)
            self._known.places.update(self._places)
            self._known.heads.update(self._heads)
            self._known.trim()
            return outcomes
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        finally:
            self._records, self._places, self._heads = {}, {}, {}
            self._rows.clear()
            self._answered.clear()
            self._audit.clear()
            self._kept.clear()

    def _try(self, changes: TeamChanges) -> Outcome:
        try:
            self._check(changes)
        except ParleyError as refusal:
            return refusal
        return self._apply(changes)

    # ------------------------------------------------------------------ checks: nothing is written here

    def _check(self, changes: TeamChanges) -> None:
        tenant, known = changes.tenant, self._known.records
        for expect in changes.expects:
            # Written out, because there are many of them: most are known and as they were.
            key = (tenant, expect.kind, expect.id)
            held = known.get(key) if key not in self._records else None
            if held is None or held.version != expect.version:
                self._check_version(*key, expect.version)
        for record in changes.drops:
            self._check_version(record.tenant_id, record.kind, record.id, record.version)
        for record in changes.puts:
            found = self._check_version(record.tenant_id, record.kind, record.id, record.version)
            self._kept.check_name(record, found)
        if changes.saved is not None and not changes.saved.answer:
            query = "SELECT 1 FROM saved WHERE scope = ?"
            if self._db.execute(query, (changes.saved.scope,)).fetchone():
                raise Stale("the idempotency key was used at this moment")
        if changes.spends:
            self._audit.check(changes.tenant, changes.spends)
        if changes.blank is not None and changes.blank.needed:
            self._check_blank(changes.tenant, changes.blank)
        for post in changes.posts:
            if self._record(changes.tenant, Channel.kind, post.channel_id) is None and not _makes(changes, post):
                raise NotFound("there is no such channel")

    def _check_version(self, tenant: str, kind: str, record_id: str, version: int) -> Record | None:
        found = self._record(tenant, kind, record_id)
        if (found.version if found else 0) != version:
            raise Stale(f"the {kind} has changed meanwhile", facts={"kind": kind, "id": record_id, "tenant": tenant})
        return found

    # ------------------------------------------------------------------ writes

    def _apply(self, changes: TeamChanges) -> Committed:
        puts = tuple(self._put(record, changes.tenant) for record in changes.puts)
        posts = tuple(self._post(post, changes.tenant) for post in changes.posts)
        if changes.moved:
            self._flush()
            posts += tuple(post for one in changes.moved if (post := self._move(one, changes.tenant)))
        events = tuple(self._event(draft, changes.tenant) for draft in changes.events) if changes.events else ()
        self._apply_rest(changes)
        done = Committed(
            self._head(changes.tenant).position, posts, events, puts, changes.ended + changes.purges, changes.departed
        )
        return done._replace(blanked=self._blank(changes.tenant, changes.blank)) if changes.blank else done

    def _apply_rest(self, changes: TeamChanges) -> None:
        """What is not part of the usual message."""
        if changes.receipts:
            self._flush()
            self._db.executemany("INSERT OR IGNORE INTO receipt VALUES (?, ?, ?)", changes.receipts)
        for channel_id in (*changes.ended, *changes.purges):
            self._end(channel_id, changes.tenant, purge=channel_id in changes.purges)
        for agent in changes.departed:
            self._flush()
            low = self._head(changes.tenant).number << rows.SHIFT
            self._db.execute(
                "UPDATE post SET state = 'expired' WHERE pattern = 'request' AND answered = 0 AND addressee = ?"
                " AND number BETWEEN ? AND ? AND state <> 'expired'",
                (agent, low, low | rows.MASK),
            )
        for record in changes.drops:
            self._drop(record)
        if changes.entries:
            self._append(changes.tenant, changes.entries)
        if changes.audits:
            self._heads[changes.tenant] = self._audit.append(changes.tenant, self._head(changes.tenant), changes.audits)
        if changes.spends:
            self._audit.spend(changes.tenant, changes.spends)
        if changes.let_go:
            self._audit.let_go(self._head(changes.tenant).number, changes.let_go)
        if changes.saved is not None:
            self._db.execute("INSERT OR REPLACE INTO saved VALUES (?, ?, ?, ?, ?, ?, ?)", changes.saved)
        if changes.forget_before:
            self._db.execute("DELETE FROM saved WHERE at < ?", (changes.forget_before,))
            self._audit.forget(changes.forget_before)

    def _post(self, post: Post, tenant: str) -> Post:
        place = self._place(post.channel_id)
        if place is None:
            raise RuntimeError("the channel was checked before")
        head = self._head(tenant)
        channel = self._record(tenant, Channel.kind, post.channel_id)
        number, intent_id, seq, (count, last_at, floor) = place
        seq += 1
        most = channel.options.max_messages if isinstance(channel, Channel) else seq
        floor = max(floor, seq - most)
        # Whoever sets the clock back moves no order: within a channel time does not fall.
        at = max(post.created_at, last_at)
        placed = post._replace(position=head.position + 1, seq=seq, created_at=at)
        self._places[post.channel_id] = Place(number, intent_id, seq, Tally(count + 1, at, floor))
        self._heads[tenant] = head._replace(position=head.position + 1)
        self._rows.append(rows.post_to_row(placed, head.number, number))
        if post.pattern is Pattern.RESPONSE:
            self._answered.append((post.in_reply_to,))
        return placed

    def _flush(self) -> None:
        """Write the posts that were gathered, with few calls for many rows."""
        if not self._rows:
            return
        for start in range(0, len(self._rows), _MOST_ROWS):
            some = self._rows[start : start + _MOST_ROWS]
            self._db.execute(_INSERTS[len(some)], tuple(chain.from_iterable(some)))
        self._rows.clear()
        if self._answered:
            self._db.executemany("UPDATE post SET answered = 1 WHERE id = ? AND answered = 0", self._answered)
            self._answered.clear()
        counters = [
            (place.tally.total, place.seq, place.tally.last_at, place.tally.floor, place.number)
            for place in self._places.values()
        ]
        self._db.executemany("UPDATE tally SET count = ?, seq = ?, last_at = ?, floor = ? WHERE number = ?", counters)
        for channel_id, place in self._places.items():
            known = self._known.places.get(channel_id)
            if place.tally.floor // _EVICT_STEP > (known.tally.floor if known else 0) // _EVICT_STEP:
                self._evict(place)

    def _evict(self, place: Place) -> None:
        below = (place.number, place.tally.floor)
        self._db.execute(
            "DELETE FROM receipt WHERE post_id IN (SELECT id FROM post WHERE channel = ? AND seq <= ?)", below
        )
        self._db.execute("DELETE FROM post WHERE channel = ? AND seq <= ?", below)

    def _move(self, moved: Moved, tenant: str) -> Post | None:
        if moved.state is PostState.EXPIRED:
            self._db.execute(
                "UPDATE post SET state = 'expired' WHERE id = ? AND state <> 'expired' AND answered = 0"
                " AND number >> ? = ?",
                (moved.message_id, rows.SHIFT, self._head(tenant).number),
            )
            return None
        query = f"SELECT {rows.POST} FROM post JOIN tally ON tally.number = post.channel WHERE post.id = ?"
        row = self._db.execute(
            f"{query} AND state = 'pending' AND post.seq > tally.floor", (moved.message_id,)
        ).fetchone()
        if row is None:
            return None
        post = rows.post_from_row(row)
        place, head = self._place(post.channel_id), self._head(tenant)
        if place is None or row[0] >> rows.SHIFT != head.number:
            return None
        position, seq = head.position + 1, place.seq + 1
        self._db.execute(
            "UPDATE post SET number = ?, seq = ?, state = ?, recipients = ? WHERE id = ?",
            (
                head.number << rows.SHIFT | position,
                seq,
                moved.state.value,
                rows.joined(moved.recipients),
                moved.message_id,
            ),
        )
        self._db.execute("UPDATE tally SET seq = ? WHERE number = ?", (seq, place.number))
        self._places[post.channel_id] = place._replace(seq=seq)
        self._heads[tenant] = head._replace(position=position)
        return post._replace(position=position, seq=seq, state=moved.state, recipients=moved.recipients)

    def _end(self, channel_id: str, tenant: str, *, purge: bool) -> None:
        self._flush()
        place = self._place(channel_id)
        if place is None or self._record(tenant, Channel.kind, channel_id) is None:
            return
        if not purge:
            self._db.execute(
                "UPDATE post SET state = 'expired' WHERE channel = ? AND state <> 'expired'"
                " AND (state = 'pending' OR (pattern = 'request' AND answered = 0))",
                (place.number,),
            )
            return
        placed = place._replace(tally=place.tally._replace(floor=place.seq))
        self._evict(placed)
        self._db.execute("UPDATE tally SET floor = ? WHERE number = ?", (place.seq, place.number))
        self._places[channel_id] = placed

    def _check_blank(self, tenant: str, blank: Blank) -> None:
        self._flush()  # what others have said in this transaction counts
        low = self._head(tenant).number << rows.SHIFT
        if not team_erase.has_posts(self._db, low, low | rows.MASK, blank):
            raise NotFound("nothing was found to erase: it was never said, or erased before")

    def _blank(self, tenant: str, blank: Blank) -> int:
        self._flush()
        self._erased = True
        low = self._head(tenant).number << rows.SHIFT
        return team_erase.blank_posts(self._db, low, low | rows.MASK, blank)

    def _event(self, draft: EventDraft, tenant: str) -> Event:
        head = self._head(tenant)
        query = "SELECT sequence, hash FROM event WHERE intent_id = ? ORDER BY sequence DESC LIMIT 1"
        sequence, previous = self._db.execute(query, (draft.intent_id,)).fetchone() or (0, "")
        event = appended(draft, head.position + 1, sequence + 1, previous)
        self._db.execute(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows.event_to_row(event, head.number)
        )
        self._heads[tenant] = head._replace(position=head.position + 1)
        return event

    def _put(self, record: Record, tenant: str) -> Record:
        if isinstance(record, Channel):
            if record.version:
                self._lower(record)
            else:
                self._db.execute(
                    "INSERT INTO tally (tenant, id, intent, count, seq, last_at, floor) VALUES (?, ?, ?, 0, 0, '', 0)",
                    (record.tenant_id, record.id, record.intent_id),
                )
        settled = record.settled(self._head(tenant).position)
        kept = self._kept.put(settled, self._record(record.tenant_id, record.kind, record.id))
        self._records[record.tenant_id, record.kind, record.id] = kept
        return kept

    def _lower(self, channel: Channel) -> None:
        """A channel that may keep fewer messages than before keeps fewer at once."""
        place = self._place(channel.id)
        if place is None or place.seq - place.tally.floor <= channel.options.max_messages:
            return
        self._flush()
        lowered = place._replace(tally=place.tally._replace(floor=place.seq - channel.options.max_messages))
        self._db.execute("UPDATE tally SET floor = ? WHERE number = ?", (lowered.tally.floor, place.number))
        self._evict(lowered)
        self._places[channel.id] = lowered

    def _drop(self, record: Record) -> None:
        key = (record.tenant_id, record.kind, record.id)
        self._kept.drop(record, self._record(*key))
        if isinstance(record, Channel):
            self._db.execute("DELETE FROM tally WHERE id = ?", (record.id,))
        self._records[key] = None

    def _append(self, tenant: str, entries: tuple[Entry, ...]) -> None:
        head = self._head(tenant)
        position, link = head.entry_position, head.entry_link
        for entry in entries:
            position += 1
            document = canonical(position, entry)
            link = chained(link, document)
            self._db.execute("INSERT INTO entry VALUES (?, ?, ?, ?)", (head.number, position, document.decode(), link))
        self._heads[tenant] = head._replace(entry_position=position, entry_link=link)

    # ------------------------------------------------------------------ what is known, this transaction first

    def _record(self, tenant: str, kind: str, record_id: str) -> Record | None:
        key = (tenant, kind, record_id)
        if key in self._records:
            return self._records[key]
        if (held := self._known.records.get(key, UNKNOWN)) is not UNKNOWN:  # one step: the loop may forget it meanwhile
            return held  # type: ignore[return-value]
        query = "SELECT version, document FROM record WHERE tenant = ? AND kind = ? AND id = ?"
        row = self._db.execute(query, key).fetchone()
        found = rows.record_from_row(self._known.kinds[kind], *row) if row else None
        self._records[key] = found
        return found

    def _is_known(self, key: RecordKey) -> bool:
        return key in self._known.records

    def _place(self, channel_id: str) -> Place | None:
        place = self._places.get(channel_id) or self._known.places.get(channel_id)
        if place is None:
            query = "SELECT number, intent, seq, count, last_at, floor FROM tally WHERE id = ?"
            row = self._db.execute(query, (channel_id,)).fetchone()
            if row is None:
                return None
            place = Place(row[0], row[1], row[2], Tally(*row[3:]))
            self._places[channel_id] = place
        return place

    def _head(self, tenant: str) -> Head:
        head = self._heads.get(tenant) or self._known.heads.get(tenant)
        if head is None:
            query = "SELECT number, head, entry_position, entry_link, audit_number FROM tenant WHERE id = ?"
            row = self._db.execute(query, (tenant,)).fetchone()
            if row is None:
                insert = "INSERT INTO tenant (id, head, entry_position, entry_link) VALUES (?, 0, 0, ?)"
                row = (self._db.execute(insert, (tenant, GENESIS)).lastrowid, 0, 0, GENESIS, 0)
            head = Head(*row)
            self._heads[tenant] = head
        return head


def _makes(changes: TeamChanges, post: Post) -> bool:
    """Whether the post's channel begins with it."""
    return any(one.kind == Channel.kind and one.id == post.channel_id for one in changes.puts)
