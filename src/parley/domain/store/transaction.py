"""One transaction of the server's store, decided before it is written.

    Source: what is there ──> take(changes) ──> Committed, or a refusal      once for each commit
                                   └──> `writes` and the other collections: what the adapter has to write

The rules are here and in no adapter: versions, names, positions, counters, chains, budgets. A commit is refused before
anything of it is collected, so the other commits of the transaction go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.audit.entry import AuditEntry, SideHead, entry_at
from parley.domain.channel.channel import Channel, Tally
from parley.domain.channel.post import PostState
from parley.domain.directory.callers import NO_TENANT, with_answer
from parley.domain.errors.errors import NotFound, Stale
from parley.domain.errors.rules import Overspent
from parley.domain.errors.team import NameTaken
from parley.domain.exchange.exchange import Exchange
from parley.domain.hashes import chained
from parley.domain.mailbox.ledger import canonical
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Committed
from parley.domain.store.ground import moves_generation
from parley.domain.store.source import FREE, ChannelCounters, Head, name_key
from parley.domain.store.writes import (
    EraseContent,
    EvictPosts,
    ExpireChannel,
    ExpirePost,
    ExpireRequests,
    ForgetKeys,
    InsertPosts,
    InsertReceipts,
    MovePost,
    TrimAudit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parley.domain.audit.entry import AuditDraft
    from parley.domain.channel.event import Event, EventDraft
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Saved
    from parley.domain.mailbox.ledger import Entry
    from parley.domain.record import Expect, Record
    from parley.domain.store.changes import ErasableMessage, Moved, Spend, TeamChanges
    from parley.domain.store.source import BudgetKey, LogEnd, NameKey, RecordKey, SideKey, TransactionSource
    from parley.domain.store.writes import Write

# Evicted messages are removed this many at a time. A channel's floor is the seq up to which its messages are evicted;
# readers do not see them from then on.
EVICT_STEP = 64


class Encoders(NamedTuple):
    """How hashed documents are encoded: an event at its position, and an audit entry."""

    event: Callable[[EventDraft, int, int, str], Event]
    entry: Callable[[dict[str, Any]], bytes]


class Transaction:
    """Collects the writes of many commits. Its answers include what it has collected."""

    def __init__(self, source: TransactionSource, encoders: Encoders) -> None:
        self._source = source
        self._encoders = encoders
        self.writes: list[Write] = []
        # Records as they will be, None for those that are dropped; and as they were before the transaction.
        self.records: dict[RecordKey, Record | None] = {}
        self.before: dict[RecordKey, Record | None] = {}
        # Records under new ids, which nobody asks for before they are durable.
        self.created: list[Record] = []
        # Tenants whose generation moves when the transaction is durable.
        self.moved_generations: set[str] = set()
        self.heads: dict[str, Head] = {}
        # Counters of channels by tenant and id; new channels, and dropped ones. A dropped channel may be created again
        # with another row number, so the adapter removes dropped channels first.
        self.channel_counters: dict[tuple[str, str], ChannelCounters] = {}
        self.new_channels: set[tuple[str, str]] = set()
        self.gone_channels: set[tuple[str, str]] = set()
        self.events: list[tuple[int, Event]] = []
        self.entries: list[tuple[int, int, bytes, bytes]] = []
        self.audits: list[tuple[int, AuditEntry]] = []
        self.budgets: dict[BudgetKey, int] = {}
        # Used idempotency keys, by tenant and scope.
        self.saved: dict[tuple[str, str], Saved] = {}
        self.sides: dict[SideKey, SideHead] = {}
        self._names: dict[NameKey, str] = {}
        # Tenants and conversations whose exchanges it writes.
        self._conversations: set[tuple[str, str]] = set()
        self.logs: dict[tuple[str, str], LogEnd] = {}
        # The floors of channels before the transaction.
        self._floors: dict[tuple[str, str], int] = {}
        self._moved: set[str] = set()

    def take(self, changes: TeamChanges) -> Committed:
        """The result of a commit; a `ParleyError` refuses it and leaves no trace."""
        tenant = changes.tenant
        only_posts = changes.only_posts
        has_rare_fields = not only_posts and changes.has_rare_fields
        self._check_ground(changes)
        if not only_posts:
            self._check_beside_posts(changes)
        if has_rare_fields:
            self._check_requests(changes)
        self._check_channels(changes)
        if only_posts:
            posts = tuple([self._post(post, tenant) for post in changes.posts])
            return Committed(self.head(tenant).position, posts)
        erased = self._count_erasable(tenant, changes.erase) if changes.erase else 0
        puts = self._records(changes, tenant)
        posts = tuple([self._post(post, tenant) for post in changes.posts])
        if not has_rare_fields:
            self._take_beside_posts(changes, posts, puts)
            return Committed(self.head(tenant).position, posts, puts, changes.new_conversations)
        posts += tuple([post for moved in changes.moved if (post := self._move(moved, tenant))])
        events = tuple([self._event(draft, tenant) for draft in changes.events])
        self._take_rare_fields(changes)
        self._take_beside_posts(changes, posts, puts, erased)
        return Committed(
            self.head(tenant).position,
            posts,
            puts,
            new_conversations=changes.new_conversations,
            events=events,
            ended=changes.ended + changes.purges,
            departed=changes.departed,
            erased=erased,
            dropped=tuple([(record.kind, record.id) for record in changes.drops]),
        )

    def evicted(self) -> list[EvictPosts]:
        """At the end: evicted messages to remove, of channels where that is at least one more batch.

        Evicted messages are no longer visible, so they may be removed later.
        """
        evictions = []
        for key, floor in self._floors.items():
            counters = self.channel_counters[key]
            if counters.tally.floor // EVICT_STEP > floor // EVICT_STEP:
                evictions.append(EvictPosts(self.head(key[0]).tenant_row, counters.number, counters.tally.floor))
        return evictions

    # ------------------------------------------------------------------ checks: nothing is collected here

    def _check_ground(self, changes: TeamChanges) -> None:
        tenant, ground = changes.tenant, changes.ground
        holds = ground is not None and self._holds(tenant, ground.generation)
        if changes.keys_generation and not (holds and self._holds(NO_TENANT, changes.keys_generation)):
            raise Stale("what the caller was admitted by has changed meanwhile")
        if ground is not None and not holds:
            self._check_expects(tenant, ground.expects)

    def _check_beside_posts(self, changes: TeamChanges) -> None:
        tenant = changes.tenant
        # First of all: a request that was answered before is answered by what is stored, not decided again.
        saved = changes.saved
        # Without an answer the key is only reserved: its answer is stored by a later commit.
        if (
            saved is not None
            and not saved.answer
            and ((tenant, saved.scope) in self.saved or self._source.is_saved(tenant, saved.scope))
        ):
            raise Stale("the idempotency key was used at this moment")
        self._check_expects(tenant, changes.expects)
        for conversation_id in changes.new_conversations:
            self._check_is_new(tenant, conversation_id)
        # Before names and budgets: what changed meanwhile is decided again, and no refusal of it is recorded.
        for record in changes.drops:
            self._check_version((record.tenant_id, record.kind, record.id), record.version)
        for record in changes.puts:
            stored = self._check_version((record.tenant_id, record.kind, record.id), record.version)
            self._check_name(record, stored)
        if changes.spends:
            self._check_spends(tenant, changes.spends)

    def _check_requests(self, changes: TeamChanges) -> None:
        for request_id in changes.open_requests:
            if not self._source.is_open(changes.tenant, request_id):
                facts = {"kind": "message", "id": request_id, "tenant": changes.tenant}
                raise Stale("the request was answered or expired meanwhile", facts=facts)

    def _check_channels(self, changes: TeamChanges) -> None:
        for post in changes.posts:
            if self.record((changes.tenant, Channel.kind, post.channel_id)) is None and not _makes(changes, post):
                raise NotFound.no_such("channel")

    def _holds(self, tenant: str, generation: int) -> bool:
        """Whether no record that decisions rest on has changed since this generation."""
        return tenant not in self.moved_generations and generation == self._source.generation(tenant) != 0

    def _check_expects(self, tenant: str, expects: tuple[Expect, ...]) -> None:
        for expect in expects:
            # Written out, because there are many of them: most are as they were.
            key = (tenant, expect.kind, expect.id)
            held = self.records[key] if key in self.records else self._source.record(key)
            if (0 if held is None else held.version) != expect.version and not expect.holds_for(held):
                self._check_version(key, expect.version)

    def _check_version(self, key: RecordKey, version: int) -> Record | None:
        stored = self.record(key)
        if (stored.version if stored else 0) != version:
            facts = {"kind": key[1], "id": key[2], "tenant": key[0]}
            raise Stale(f"the {key[1]} has changed meanwhile", facts=facts)
        return stored

    def _check_name(self, record: Record, before: Record | None) -> None:
        key = name_key(record)
        if not key[3] or (before is not None and (before.parent, before.name) == key[2:]):
            return
        holder = self._names[key] if key in self._names else self._source.holder(key)
        if holder not in (FREE, record.id):
            raise NameTaken(
                f"there is a {record.kind} called {record.name} already", facts={f"{record.kind}_id": holder}
            )

    def _check_is_new(self, tenant: str, conversation_id: str) -> None:
        if (tenant, conversation_id) in self._conversations or self._source.has_exchange(tenant, conversation_id):
            facts = {"kind": Exchange.kind, "conversation_id": conversation_id, "tenant": tenant}
            raise Stale("an exchange of the conversation was opened meanwhile", facts=facts)

    def _count_erasable(self, tenant: str, messages: tuple[ErasableMessage, ...]) -> int:
        """How many of these messages are not erased yet; refused when there is none."""
        count = self._source.unerased(tenant, messages)
        if not count:
            raise NotFound("nothing was found to erase: it was never said, or erased before")
        return count

    def _check_spends(self, tenant: str, spends: tuple[Spend, ...]) -> None:
        wanted: dict[BudgetKey, int] = {}
        for spend in spends:
            key = (tenant, spend.key, spend.window)
            wanted[key] = wanted.get(key, 0) + spend.amount
            if spend.amount > 0 and self._spent(key) + wanted[key] > spend.most:
                raise Overspent(f"{spend.key}: {spend.most} are spent", facts={"key": spend.key, "most": spend.most})

    # ------------------------------------------------------------------ collecting writes

    def _records(self, changes: TeamChanges, tenant: str) -> tuple[Record, ...]:
        puts = tuple([self._put(record, tenant) for record in changes.puts]) if changes.puts else ()
        if changes.creates:
            self.created += changes.creates
            puts += changes.creates
        for record in puts:
            if record.kind == Exchange.kind:
                self._conversations.add((tenant, record.parent))
        return puts

    def _take_beside_posts(
        self, changes: TeamChanges, posts: tuple[Post, ...], puts: tuple[Record, ...], erased: int = 0
    ) -> None:
        tenant = changes.tenant
        if changes.audits:
            self._audit(tenant, [_with_count(draft, erased) for draft in changes.audits] if erased else changes.audits)
        for spend in changes.spends:
            key = (tenant, spend.key, spend.window)
            self.budgets[key] = max(0, self._spent(key) + spend.amount)
        if changes.saved is not None:
            self._save(tenant, changes.saved, changes.answer(posts, puts) if changes.answer is not None else None)

    def _take_rare_fields(self, changes: TeamChanges) -> None:
        tenant = changes.tenant
        tenant_row = self.head(tenant).tenant_row
        if changes.receipts:
            self.writes.append(InsertReceipts(tenant_row, changes.receipts))
        # Ended channels are closed, purged ones are emptied.
        for channel_id in (*changes.ended, *changes.purges):
            self._end(channel_id, tenant, purge=channel_id in changes.purges)
        for agent in changes.departed:
            self.writes.append(ExpireRequests(tenant_row, agent, changes.handed_on))
        for request_id in changes.answered:
            self._insert().answered.append((tenant_row, request_id))
        for record in changes.drops:
            self._drop(record)
        if changes.entries:
            self._append(tenant, changes.entries)
        if changes.trim_audit:
            self.writes.append(TrimAudit(tenant_row, changes.trim_audit))
        if changes.forget_before:
            self.writes.append(ForgetKeys(changes.forget_before))
        if changes.erase is not None:
            self.writes.append(EraseContent(tenant_row, changes.erase))

    def _save(self, tenant: str, use: Saved, answer: tuple[int, bytes] | None) -> None:
        if answer is not None:
            use = use._replace(status=answer[0], answer=answer[1])
        key = (tenant, use.scope)
        self.saved[key] = with_answer(self.saved.get(key), use)

    def _post(self, post: Post, tenant: str) -> Post:
        key = (tenant, post.channel_id)
        counters = self.counters(key)
        if counters is None:
            raise RuntimeError("the channel was checked before")
        # Unpacked and packed by hand, here and below: this runs for every message.
        pack = tuple.__new__
        tenant_row, position, entries, link, audits = self.head(tenant)
        channel = self.record((tenant, Channel.kind, post.channel_id))
        number, intent_id, seq, (count, last_at, floor) = counters
        position, seq = position + 1, seq + 1
        most = channel.options.max_messages if isinstance(channel, Channel) else seq
        # Setting the clock back does not change the order: within a channel, times never decrease.
        at = post.created_at if post.created_at > last_at else last_at
        placed = post.at_place(position, seq, at)
        self._floors.setdefault(key, floor)
        tally = pack(Tally, (count + 1, at, floor if floor > seq - most else seq - most))
        self.channel_counters[key] = pack(ChannelCounters, (number, intent_id, seq, tally))
        self.heads[tenant] = pack(Head, (tenant_row, position, entries, link, audits))
        insert = self._insert()
        insert.posts.append((tenant_row, number, placed))
        if post.pattern is Pattern.RESPONSE and not post.partial:
            insert.answered.append((tenant_row, post.in_reply_to))
        return placed

    def _insert(self) -> InsertPosts:
        if not self.writes or not isinstance(last := self.writes[-1], InsertPosts):
            self.writes.append(last := InsertPosts([], []))
        return last

    def _move(self, moved: Moved, tenant: str) -> Post | None:
        head = self.head(tenant)
        if moved.state is PostState.EXPIRED:
            self.writes.append(ExpirePost(head.tenant_row, moved.message_id))
            return None
        post = self._source.pending(tenant, moved.message_id)
        counters = self.counters((tenant, post.channel_id)) if post is not None else None
        if post is None or counters is None or post.seq <= counters.tally.floor or post.id in self._moved:
            return None
        self._moved.add(post.id)
        position, seq = head.position + 1, counters.seq + 1
        moved_post = post._replace(position=position, seq=seq, state=moved.state, recipients=moved.recipients)
        self.channel_counters[tenant, post.channel_id] = counters._replace(seq=seq)
        self.heads[tenant] = head._replace(position=position)
        self.writes.append(MovePost(head.tenant_row, moved_post))
        return moved_post

    def _end(self, channel_id: str, tenant: str, *, purge: bool) -> None:
        counters = self.counters((tenant, channel_id))
        if counters is None or self.record((tenant, Channel.kind, channel_id)) is None:
            return
        if purge:
            self._evict_through(tenant, channel_id, counters, counters.seq, purge=True)
        else:
            self.writes.append(ExpireChannel(counters.number))

    def _evict_through(
        self, tenant: str, channel_id: str, counters: ChannelCounters, floor: int, *, purge: bool = False
    ) -> None:
        self.channel_counters[tenant, channel_id] = counters._replace(tally=counters.tally._replace(floor=floor))
        self.writes.append(EvictPosts(self.head(tenant).tenant_row, counters.number, floor, purge))

    def _event(self, draft: EventDraft, tenant: str) -> Event:
        head = self.head(tenant)
        log = (tenant, draft.intent_id)
        sequence, previous = self.logs.get(log) or self._source.log_end(*log)
        event = self._encoders.event(draft, head.position + 1, sequence + 1, previous)
        self.logs[log] = (event.sequence, event.event_hash)
        self.heads[tenant] = head._replace(position=head.position + 1)
        self.events.append((head.tenant_row, event))
        return event

    def _put(self, record: Record, tenant: str) -> Record:
        key = (record.tenant_id, record.kind, record.id)
        before = self.record(key)
        if isinstance(record, Channel):
            self._put_channel(record)
        # With the tenant's position at this change.
        stored = record.with_position(self.head(tenant).position).after(before)
        self._note(key, stored, before)
        if stored.name:
            self._names[name_key(stored)] = stored.id
        return stored

    def _put_channel(self, channel: Channel) -> None:
        """A new channel gets its counters. One that may keep fewer messages than before keeps fewer at once."""
        key = (channel.tenant_id, channel.id)
        if not channel.version:
            self.channel_counters[key] = ChannelCounters(self._source.new_channel(), channel.intent_id, 0, Tally())
            self.new_channels.add(key)
            return
        counters = self.counters(key)
        most = channel.options.max_messages
        if counters is not None and counters.seq - counters.tally.floor > most:
            self._evict_through(*key, counters, counters.seq - most)

    def _drop(self, record: Record) -> None:
        key = (record.tenant_id, record.kind, record.id)
        self._note(key, None, self.record(key))
        if isinstance(record, Channel):
            channel = (record.tenant_id, record.id)
            self.gone_channels.add(channel)
            self.new_channels.discard(channel)
            self._floors.pop(channel, None)

    def _note(self, key: RecordKey, after: Record | None, before: Record | None) -> None:
        if key not in self.records:
            self.before[key] = before
        self.records[key] = after
        if moves_generation(before, after):
            self.moved_generations.add(key[0])
        if before is not None and before.name and (after is None or name_key(after) != name_key(before)):
            self._names[name_key(before)] = FREE

    def _append(self, tenant: str, entries: tuple[Entry, ...]) -> None:
        head = self.head(tenant)
        position, link = head.entry_position, head.entry_link
        for entry in entries:
            position += 1
            document = canonical(position, entry)
            link = chained(link, document)
            self.entries.append((head.tenant_row, position, document, link))
        self.heads[tenant] = head._replace(entry_position=position, entry_link=link)

    def _audit(self, tenant: str, drafts: Sequence[AuditDraft]) -> None:
        tenant_row, position, entries, link, number = self.head(tenant)
        for draft in drafts:
            number += 1
            key = (tenant, draft.side)
            side = self.sides.get(key) or self._source.side(key)
            entry = entry_at(number, draft, tenant, side, self._encoders.entry)
            self.sides[key] = SideHead(entry.seq, entry.entry_hash)
            self.audits.append((tenant_row, entry))
        self.heads[tenant] = Head(tenant_row, position, entries, link, number)

    # ------------------------------------------------------------------ reading: what was collected, else the source

    def head(self, tenant: str) -> Head:
        """The tenant's positions after the commits so far."""
        return self.heads.get(tenant) or self._source.head(tenant)

    def record(self, key: RecordKey) -> Record | None:
        """A record after the commits so far."""
        return self.records[key] if key in self.records else self._source.record(key)

    def counters(self, key: tuple[str, str]) -> ChannelCounters | None:
        """A channel's counters after the commits so far."""
        return self.channel_counters.get(key) or self._source.counters(*key)

    def _spent(self, key: BudgetKey) -> int:
        return self.budgets[key] if key in self.budgets else self._source.spent(key)


def _with_count(draft: AuditDraft, erased: int) -> AuditDraft:
    """An audit entry of an erasure, with the number of erased messages added."""
    return draft._replace(facts={**draft.facts, "messages": draft.facts.get("messages", 0) + erased})


def _makes(changes: TeamChanges, post: Post) -> bool:
    """Whether this commit creates the channel of the post."""
    return any(record.kind == Channel.kind and record.id == post.channel_id for record in changes.puts)
