"""Everything that one commit of the server's store writes: records, messages, receipts, events and ledger entries."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.directory.callers import ids_created
from parley.domain.exchange.exchange import Exchange
from parley.domain.record import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from parley.domain.audit.entry import AuditDraft
    from parley.domain.channel.channel import View
    from parley.domain.channel.event import Event, EventDraft
    from parley.domain.channel.post import Post, PostState, Receipt
    from parley.domain.directory.callers import RenderAnswer, Saved
    from parley.domain.mailbox.ledger import Entry
    from parley.domain.record import Expect, Record
    from parley.domain.store.ground import Ground


class Moved(NamedTuple):
    """A pending message that expires or gets recipients. With recipients it takes a new position and seq, so that no
    cursor misses it.
    """

    message_id: str
    state: PostState
    recipients: tuple[str, ...] | None = None


class Spend(NamedTuple):
    """Counts `amount` towards the limit `most`; a negative amount gives it back.

    The commit counts, and refuses with `Overspent`, so concurrent commits cannot exceed the budget.
    """

    key: str
    most: int
    # The hour or day that the limit is for, as the beginning of a time stamp; empty: no window.
    window: str = ""
    amount: int = 1


class ErasureQuery(NamedTuple):
    """Which messages to erase: those of exchanges, or those of a sender."""

    exchanges: tuple[str, ...] = ()
    sender: str = ""


class ErasableMessage(NamedTuple):
    """A message with content. `scopes` are idempotency scopes whose stored answers repeat the content."""

    message_id: str
    scopes: tuple[str, ...] = ()


def erasable(told_with: Mapping[str, set[str]], uses: Iterable[tuple[str, str]]) -> tuple[ErasableMessage, ...]:
    """Messages with the scopes of the answers that repeat them.

    `told_with` has for each message those whose answer it is part of, `uses` the ids of what a key was used for.
    """
    scopes: dict[str, list[str]] = {}
    for created, scope in uses:
        for message_id in ids_created(created):
            scopes.setdefault(message_id, []).append(scope)
    return tuple(
        [
            ErasableMessage(message_id, tuple([scope for other in others for scope in scopes.get(other, ())]))
            for message_id, others in told_with.items()
        ]
    )


class TeamChanges(NamedTuple):
    """One commit of the server's store within one tenant, written as a whole or not at all.

    `puts` and `drops` carry the version that they replace; `expects` names records that must not have changed. So does
    `ground`, whose versions are checked only when the tenant's generation has moved.
    `ended` are channels that are closed: their unanswered requests and pending messages expire. `purges` are channels
    that are emptied: all their messages are deleted. `departed` are agents whose unanswered requests expire. `moved`
    are pending messages that get recipients or expire. `open_requests` are requests that must be unanswered and not
    expired, or the commit is refused as stale. `answered` are requests that its responses answer beside the ones that
    they name; `handed_on` are requests that do not expire when agents depart, because others answer them.
    Idempotency keys used before `forget_before` are forgotten.
    Posts take the next seqs of their channel, posts and events the next positions of the tenant.
    """

    tenant: str
    posts: tuple[Post, ...] = ()
    # `expects` to `spends`: governed messages fill these, too. The order of the fields counts: `only_posts` and
    # `has_rare_fields` compare slices.
    expects: tuple[Expect, ...] = ()
    puts: tuple[Record, ...] = ()
    # Records as they are stored, under ids that were made for this commit: nothing can be there under them. Exchanges
    # have free names because their conversations are new. No decision about messages rests on these records.
    creates: tuple[Record, ...] = ()
    # Conversations that have no exchange yet, or the commit is refused as stale.
    new_conversations: tuple[str, ...] = ()
    saved: Saved | None = None
    audits: tuple[AuditDraft, ...] = ()
    spends: tuple[Spend, ...] = ()
    # `drops` to `erase`: rare fields, which few commits fill.
    drops: tuple[Record, ...] = ()
    events: tuple[EventDraft, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    moved: tuple[Moved, ...] = ()
    open_requests: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    handed_on: tuple[str, ...] = ()
    purges: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    departed: tuple[str, ...] = ()
    forget_before: str = ""
    entries: tuple[Entry, ...] = ()
    # Audit entries up to this number lose their documents.
    trim_audit: int = 0
    # The content of these messages is erased; the commit's audit entries add their number to their own `messages`. When
    # all of them were erased before, the commit is refused: `NotFound`. Empty: only records were erased, and the store
    # removes what is left of them from its files.
    erase: tuple[ErasableMessage, ...] | None = None
    # What it creates, by which a repeated request is answered: the ids of messages joined by commas, or of one record.
    created_id: str = ""
    ground: Ground | None = None
    # The generation of the keys by which this node admitted the caller without asking other nodes first; 0: it asked.
    # Where it has moved, or the ground has, the commit is refused as stale, and the caller has to be admitted again.
    keys_generation: int = 0
    # Renders the answer that a repeated request gets.
    answer: RenderAnswer | None = None

    @property
    def only_posts(self) -> bool:
        """Whether it writes messages and nothing else, and expects nothing beside its ground: most commits do."""
        return self[_BESIDE_POSTS] == _NOTHING_BESIDE_POSTS

    @property
    def has_rare_fields(self) -> bool:
        """Whether it fills any field from `drops` to `erase`: messages fill none, governed or not."""
        return self[_RARE_FIELDS] != _NO_RARE_FIELDS

    @property
    def stands_alone(self) -> bool:
        """Whether it depends on rows that others in the same transaction would write: then it gets one for itself."""
        return self.has_rare_fields and bool(
            self.moved
            or self.open_requests
            or self.ended
            or self.purges
            or self.departed
            or self.erase is not None
            or self.trim_audit
            or self.forget_before
        )

    def with_creates_checked(self) -> TeamChanges:
        """The same commit, for a store that finds out about everything that it writes at once."""
        if not self.creates:
            return self
        return self._replace(puts=(*self.puts, *[changed(record, version=0) for record in self.creates]), creates=())

    def with_key(self, key_use: Saved, answer: RenderAnswer | None = None) -> TeamChanges:
        """The same commit, which also notes that an idempotency key was used for what it creates, with the answer."""
        return self._replace(saved=key_use._replace(message_id=self.created_id), answer=answer)


class Committed(NamedTuple):
    """The result of a commit: everything with its place. Watchers may get several commits of one tenant as one."""

    position: int
    posts: tuple[Post, ...] = ()
    puts: tuple[Record, ...] = ()
    # Conversations that had no exchange before.
    new_conversations: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    # Channels and agents whose waiting requests have to be checked again.
    ended: tuple[str, ...] = ()
    departed: tuple[str, ...] = ()
    # How many messages were erased.
    erased: int = 0
    # Some commits of other nodes were missed: what ended or departed meanwhile is not known.
    missed: bool = False
    # Kinds and ids of records that are no longer there.
    dropped: tuple[tuple[str, str], ...] = ()


# The fields that a commit leaves empty which only posts messages, and those which a governed message leaves empty.
_BESIDE_POSTS = slice(TeamChanges._fields.index("expects"), TeamChanges._fields.index("created_id"))
_NOTHING_BESIDE_POSTS = TeamChanges("")[_BESIDE_POSTS]
_RARE_FIELDS = slice(TeamChanges._fields.index("drops"), _BESIDE_POSTS.stop)
_NO_RARE_FIELDS = TeamChanges("")[_RARE_FIELDS]
# From this field on a result that is not empty keeps a commit from being merged with others.
_FIRST_UNMERGED = Committed._fields.index("events")
_NOTHING_UNMERGED = Committed(0)[_FIRST_UNMERGED:]


def merge_posts(commits: Iterable[tuple[str, Committed]]) -> list[tuple[str, Committed]]:
    """Tenants and commits for watchers, in order: those in a row that post messages to one tenant become one.

    Beside messages they may have exchanges: what a reader may see does not depend on those.
    """
    merged: list[tuple[str, Committed]] = []
    for (tenant, mergeable), run in groupby(commits, _merge_key):
        results = [committed for _, committed in run]
        merged += [(tenant, committed) for committed in ([_merge(results)] if mergeable else results)]
    return merged


def _merge_key(commit: tuple[str, Committed]) -> tuple[str, bool]:
    """The tenant of a commit, and whether it only posts messages, with their exchanges."""
    tenant, committed = commit
    if not committed.posts or committed[_FIRST_UNMERGED:] != _NOTHING_UNMERGED:
        return tenant, False
    return tenant, all(record.kind == Exchange.kind for record in committed.puts)


def _merge(results: list[Committed]) -> Committed:
    """Commits that post messages, as one."""
    if len(results) == 1:
        return results[0]
    posts, puts, new_conversations = list["Post"](), list["Record"](), list[str]()
    for committed in results:
        posts += committed.posts
        puts += committed.puts
        new_conversations += committed.new_conversations
    return Committed(results[-1].position, tuple(posts), tuple(puts), tuple(new_conversations))


class ReaderPost(NamedTuple):
    """A post as one reader sees it, with the moment of the receipt that counts for that reader."""

    post: Post
    read_at: str


class Query(NamedTuple):
    """Which messages of a channel: those this view may see, after a place or a moment, in order."""

    channel_id: str
    view: View
    now: str
    after_seq: int = 0
    after_time: str = ""
    to: str = ""
    limit: int = 1000
    # From the newest on, down to the oldest.
    newest: bool = False
    # Only messages before this place; 0: all.
    before_seq: int = 0


class ChannelQuery(NamedTuple):
    """Which channels, last active first: of one intent, with a member, of a status, active from a moment on.

    `channels` are those that a reader may see; None: all. `before` is where the page before ended: the moment of the
    last activity, and the id.
    """

    intent_id: str = ""
    member: str = ""
    status: str = ""
    active_since: str = ""
    channels: tuple[str, ...] | None = None
    before: tuple[str, str] = ("", "")
    limit: int = 100


class ConversationQuery(NamedTuple):
    """Which messages of a conversation, in all channels: unexpired, between two positions, in order.

    `exchanges` are those of the conversation: their messages belong to it, whatever they name. `before` is the position
    that the last of them comes before; 0: to the end.
    """

    conversation_id: str
    now: str
    exchanges: tuple[str, ...] = ()
    after: int = 0
    before: int = 0
    newest: bool = False
    limit: int = 100


class ConversationMark(NamedTuple):
    """That a message at a position is part of a conversation, and who may see it."""

    position: int
    conversation_id: str
    channel_id: str
    sender: str
    recipients: tuple[str, ...] | None


# What became of counted messages: the kinds of groups.
DELIVERED, HELD, DENIED = "delivered", "held", "denied"
# Of a channel that evicted messages before they were counted.
UNCOUNTED = "uncounted"


class TrafficQuery(NamedTuple):
    """Which messages are counted: after one position and up to another, sent from one moment on and before another.

    No group lies on both sides of one of the `cuts`, which are positions in between, in order.
    """

    after: int
    through: int
    since: str
    until: str
    cuts: tuple[int, ...] = ()


class TrafficGroup(NamedTuple):
    """How many messages of one channel have the same sender and the same recipients, and when the last was sent.

    `recipients` of None: everyone in the channel. Where they are empty, `to` is a queue. All of them lie after one
    position and up to another. Held and denied ones, whose entries were trimmed, have a side of the audit log in place
    of the channel, and numbers of entries in place of positions.
    """

    kind: str
    place: str
    sender: str
    to: str
    recipients: tuple[str, ...] | None
    number: int
    last_at: str
    after: int
    through: int


class TrafficCount(NamedTuple):
    """Groups of messages, and the channels that evicted messages of the period before these were counted."""

    groups: tuple[TrafficGroup, ...] = ()
    uncounted: tuple[str, ...] = ()


class RecordQuery(NamedTuple):
    """Which records of a kind: of one parent (None: of all), with these values in fields of their documents.

    A field is named by its path (`attributes.user_id`). They come in the order of `order`, a field whose values are
    texts, and of their ids; `newest`: from the end. `after` is where the page before ended: the value of the field of
    `order`, and the id.
    """

    parent: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    order: str = ""
    after: tuple[str, str] = ("", "")
    newest: bool = False
    limit: int = 100

    def conditions(self, field: Callable[[str], str]) -> list[tuple[str, str, str]]:
        """What a column, or a field of the document, has to be: for the query of a store."""
        tests = [] if self.parent is None else [("parent", "=", self.parent)]
        return tests + [(field(path), "=", value) for path, value in self.fields]


class UnansweredQuery(NamedTuple):
    """Which unanswered requests that are still kept: by position, after one (0: from the first or the newest on).

    `waiting` ones can still be answered; the time of `late` ones has passed. Withdrawn ones are neither. `viewers` are
    the agents that sent them or were asked; None: everybody. `agent` has sent it or was asked.
    """

    now: str
    waiting: bool = True
    late: bool = False
    viewers: tuple[str, ...] | None = None
    agent: str = ""
    channel_id: str = ""
    # Only what was asked at this moment or later.
    since: str = ""
    after: int = 0
    newest: bool = False
    limit: int = 100


class FeedScope(NamedTuple):
    """Which part of a tenant's feed: messages of these channels that a viewer may see, and events of these intents.

    `channels` has the position after which messages to everyone are the viewer's, for each channel; None: all of the
    tenant. An empty `viewer` sees all. `addressed`: only what was said to the viewer, not what it said itself.
    """

    channels: Mapping[str, int] | None
    intents: tuple[str, ...] = ()
    viewer: str = ""
    addressed: bool = False


class AuditQuery(NamedTuple):
    """Which entries of the audit log: in order, after one and up to another (0: to the end), of these sides (None: all
    of them).

    `bare` ones come without their documents.
    """

    after: int = 0
    through: int = 0
    limit: int = 1000
    sides: tuple[str, ...] | None = None
    exchange_id: str = ""
    entry_id: str = ""
    since: str = ""
    until: str = ""
    action: str = ""
    outcome: str = ""
    conversation_id: str = ""
    actor: str = ""
    code: str = ""
    message_id: str = ""
    # Messages from one of these two agents to the other.
    pair: tuple[str, str] | None = None
    # Entries of this actor are included on every side.
    or_actor: str = ""
    bare: bool = False
    # The last matching entries instead of the first; still in order.
    newest: bool = False

    def tests(self, document_field: Callable[[str], str]) -> list[tuple[str, str, str]]:
        """What a column, or a field of the document, has to be: for the query of a store."""
        tests = [
            ("exchange <> '' AND exchange", "=", self.exchange_id),  # as its index says it
            ("id", "=", self.entry_id),
            ("at", ">=", self.since),
            ("at", "<", self.until),
            *[(document_field(name), "=", getattr(self, name)) for name in _AUDIT_FACTS],
        ]
        return [test for test in tests if test[2]]

    @property
    def reads_documents(self) -> bool:
        """Whether the document of every entry has to be looked at."""
        return bool(self.or_actor or self.pair or any(getattr(self, name) for name in _AUDIT_FACTS))

    def pair_values(self) -> tuple[str, str, str, str]:
        """For a store's test of the pair: a sender, and its receiver as JSON has it; then the other way round."""
        first, second = self.pair or ("", "")
        return first, f'"{second}"', second, f'"{first}"'


_AUDIT_FACTS = ("action", "outcome", "conversation_id", "actor", "code", "message_id")


class AuditCount(NamedTuple):
    """How many entries of the audit log a span of time has, of one outcome and role; empty for those without."""

    span: str
    outcome: str
    role: str
    entries: int
