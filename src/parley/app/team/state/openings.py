"""Templates of what ordinary governed messages write.

    decided:   "Is it done?"  ──> Opening, without ids, times and content
    the next:  "And now?"     ──> the same Opening, filled in; its content is inspected like every other's

An `Opening` is the template of a message that opens an exchange, a `Continuation` that of a message or an answer that
continues one. Two messages use the same template if they have the same terms and the same `TemplateKey`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from parley.app.rules.messages import hour_of
from parley.domain.record import RecordTemplate
from parley.domain.rules.ruling import envelope_time, latest_expiry

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.audit.entry import EntryTemplate
    from parley.domain.channel.post import Post
    from parley.domain.content.envelope import Wishes
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.rules.terms import Terms
    from parley.domain.store.changes import Spend

_KEPT = 64
# Longer metadata is seldom the same twice.
_METADATA_MAX_BYTES = 1024


class TemplateKey(NamedTuple):
    """Which messages under the same terms share a template: those with the same metadata, by the same key."""

    # Metadata and wishes are without the name of the conversation, where the message has one.
    metadata: bytes
    wishes: Wishes | None
    actor: str
    key_id: str
    # The state of the exchange that the message continues, without what differs from exchange to exchange.
    shape: tuple[Any, ...] = ()


class Moment(NamedTuple):
    """What openings of one round of the event loop share: the end of their exchanges, and the hour of their budget."""

    now: datetime
    expires_at: str
    # As envelopes have it.
    envelope_expires_at: bytes
    spends: tuple[Spend, ...]


class Opening:
    """What is written by an ordinary message that opens an exchange."""

    __slots__ = ("_moment", "beside", "ends", "entries", "exchange", "metadata", "post", "spends")

    # The fields of an exchange that differ between two openings.
    VARYING = ("id", "conversation_id", "transcript", "started_at", "expires_at", "ended_at")

    def __init__(
        self,
        post: Post,
        exchange: Exchange,
        metadata: bytes,
        beside: tuple[str, ...],
        entries: tuple[EntryTemplate, ...],
        spends: tuple[Spend, ...],
    ) -> None:
        # The message as it was delivered, and the exchange as it is stored after it.
        self.post = post
        self.exchange = RecordTemplate(exchange, self.VARYING)
        # Whether the exchange is over with it.
        self.ends = exchange.over
        # With a %b each for the conversation, the end of the exchange and the id of the exchange, in this order. Where
        # the sender names the conversation, another %b before them is for that name.
        self.metadata = metadata
        # What is inspected beside the content.
        self.beside = beside
        self.entries = entries
        self.spends = spends
        self._moment: Moment | None = None

    def moment(self, now: datetime, at: str, terms: Terms) -> Moment:
        """What follows from the current time; computed once for each round of the event loop."""
        moment = self._moment
        if moment is None or moment.now is not now:
            expires_at = latest_expiry(now, terms)
            spends = tuple([spend._replace(window=hour_of(at)) for spend in self.spends])
            moment = self._moment = Moment(now, expires_at, envelope_time(expires_at).encode(), spends)
        return moment


class Continuation:
    """What is written by an ordinary message or answer that continues an exchange."""

    __slots__ = ("after", "beside", "entries", "metadata", "post", "round", "spends")

    def __init__(
        self,
        post: Post,
        exchange: Exchange,
        after: dict[str, Any],
        metadata: bytes,
        beside: tuple[str, ...],
        entries: tuple[EntryTemplate, ...],
        spends: tuple[Spend, ...],
    ) -> None:
        self.post = post
        # The round that the message takes, and the other fields of the exchange that change.
        self.round = exchange.current_round + 1
        self.after = after
        # As that of an opening.
        self.metadata = metadata
        self.beside = beside
        self.entries = entries
        self.spends = spends

    def spends_at(self, at: str) -> tuple[Spend, ...]:
        """What the message uses of a budget in this hour."""
        return tuple([spend._replace(window=hour_of(at)) for spend in self.spends])


M = TypeVar("M", Opening, Continuation)


class MessageTemplates(Generic[M]):
    """The templates of messages under the same terms, by their keys; for keys that come more than once."""

    __slots__ = ("_kept", "_seen")

    def __init__(self) -> None:
        self._kept: dict[TemplateKey, M] = {}
        self._seen: set[TemplateKey] = set()

    def find(self, key: TemplateKey) -> M | None:
        """The template of messages with this key, if there is one."""
        return self._kept.get(key)

    def is_repeated(self, key: TemplateKey) -> bool:
        """Whether a message with this key was decided lately; notes the key."""
        if len(key.metadata) > _METADATA_MAX_BYTES:
            return False
        repeated = key in self._seen
        if not repeated:
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            self._seen.add(key)
        return repeated

    def keep(self, key: TemplateKey, template: M) -> None:
        """Keep the template for the messages to come."""
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[key] = template
