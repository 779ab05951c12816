"""Everything that one commit of the server's store writes: records, messages, receipts, events and ledger entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.directory.callers import ids_created

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from parley.domain.audit.entry import AuditDraft
    from parley.domain.channel.channel import View
    from parley.domain.channel.event import Event, EventDraft
    from parley.domain.channel.post import Post, PostState, Receipt
    from parley.domain.directory.callers import Saved
    from parley.domain.mailbox.ledger import Entry
    from parley.domain.record import Expect, Record


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

    `puts` and `drops` carry the version that they replace; `expects` names records that must not have changed.
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
    expects: tuple[Expect, ...] = ()
    puts: tuple[Record, ...] = ()
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
    saved: Saved | None = None
    audits: tuple[AuditDraft, ...] = ()
    spends: tuple[Spend, ...] = ()
    # Audit entries up to this number lose their documents.
    trim_audit: int = 0
    # The content of these messages is erased; the commit's audit entries add their number to their own `messages`. When
    # all of them were erased before, the commit is refused: `NotFound`. Empty: only records were erased, and the store
    # removes what is left of them from its files.
    erase: tuple[ErasableMessage, ...] | None = None
    # What it creates, by which a repeated request is answered: the ids of messages joined by commas, or of one record.
    created_id: str = ""

    def with_key(self, key_use: Saved) -> TeamChanges:
        """The same commit, which also notes that an idempotency key was used for what it creates."""
        return self._replace(saved=key_use._replace(message_id=self.created_id))


class Committed(NamedTuple):
    """The result of a commit: everything with its place."""

    position: int
    posts: tuple[Post, ...] = ()
    events: tuple[Event, ...] = ()
    puts: tuple[Record, ...] = ()
    # Channels and agents whose waiting requests have to be checked again.
    ended: tuple[str, ...] = ()
    departed: tuple[str, ...] = ()
    # How many messages were erased.
    erased: int = 0
    # Some commits of other nodes were missed: what ended or departed meanwhile is not known.
    missed: bool = False
    # Kinds and ids of records that are no longer there.
    dropped: tuple[tuple[str, str], ...] = ()


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
    newest: bool = False


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
            *[(document_field(name), "=", getattr(self, name)) for name in ("action", "outcome", "conversation_id")],
        ]
        return [test for test in tests if test[2]]
