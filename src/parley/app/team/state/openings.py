"""What an ordinary message writes, as the next one like it will write it.

    decided:   "Is it done?"  ──> Opening, without ids, times and content
    the next:  "And now?"     ──> the same Opening, filled in; its content is inspected like every other's

An `Opening` is of a message that opens an exchange, a `Continuation` of one that goes on with it. Messages are alike
that have the same terms, the same metadata but for the name of their conversation, and the same key; and go on with
exchanges that stand alike.
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


class OpeningKey(NamedTuple):
    """Which messages under the same terms are alike: of the same metadata, by the same key."""

    metadata: bytes
    wishes: Wishes | None
    actor: str
    key_id: str
    # Of a message that goes on with an exchange: how that stands. Where a message names its conversation, its metadata
    # and wishes are without the name.
    shape: tuple[Any, ...] = ()


class Moment(NamedTuple):
    """What openings of one round of the event loop share: when their exchanges end, and the hour of their budget."""

    now: datetime
    expires_at: str
    # As envelopes have it.
    envelope_expires_at: bytes
    spends: tuple[Spend, ...]


class Opening:
    """What an ordinary message writes that opens an exchange."""

    __slots__ = ("_moment", "beside", "ends", "entries", "exchange", "like", "metadata", "spends")

    # The fields of an exchange that differ between two openings.
    VARYING = ("id", "conversation_id", "transcript", "started_at", "expires_at", "ended_at")

    def __init__(
        self,
        like: Post,
        exchange: Exchange,
        metadata: bytes,
        beside: tuple[str, ...],
        entries: tuple[EntryTemplate, ...],
        spends: tuple[Spend, ...],
    ) -> None:
        # As it was delivered, and the exchange as it is stored after it.
        self.like = like
        self.exchange = RecordTemplate(exchange, self.VARYING)
        # Whether the exchange is over with it.
        self.ends = exchange.over
        # With a %b for the conversation, the end of the exchange and the id of the exchange, in this order. Where the
        # sender names the conversation, there is another one for the name before them.
        self.metadata = metadata
        # What is inspected beside the content.
        self.beside = beside
        self.entries = entries
        self.spends = spends
        self._moment: Moment | None = None

    def moment(self, now: datetime, at: str, terms: Terms) -> Moment:
        """What follows from the time; found out once for all that happens at it."""
        moment = self._moment
        if moment is None or moment.now is not now:
            expires_at = latest_expiry(now, terms)
            spends = tuple([spend._replace(window=hour_of(at)) for spend in self.spends])
            moment = self._moment = Moment(now, expires_at, envelope_time(expires_at).encode(), spends)
        return moment


class Continuation:
    """What an ordinary message writes that goes on with an exchange of its conversation."""

    __slots__ = ("after", "beside", "entries", "like", "metadata", "round", "spends")

    def __init__(
        self,
        like: Post,
        exchange: Exchange,
        after: dict[str, Any],
        metadata: bytes,
        beside: tuple[str, ...],
        entries: tuple[EntryTemplate, ...],
        spends: tuple[Spend, ...],
    ) -> None:
        self.like = like
        # The round that it takes, and what else becomes of the exchange.
        self.round = exchange.current_round + 1
        self.after = after
        # With a %b for the name of the conversation, the same in the envelope, the end and the id of the exchange.
        self.metadata = metadata
        self.beside = beside
        self.entries = entries
        self.spends = spends

    def spends_at(self, at: str) -> tuple[Spend, ...]:
        """What it uses of a budget in this hour."""
        return tuple([spend._replace(window=hour_of(at)) for spend in self.spends])


M = TypeVar("M", Opening, Continuation)


class LikeMessages(Generic[M]):
    """What messages under the same terms write, by what makes them alike. Kept when one comes that is like another."""

    __slots__ = ("_kept", "_seen")

    def __init__(self) -> None:
        self._kept: dict[OpeningKey, M] = {}
        self._seen: set[OpeningKey] = set()

    def find(self, key: OpeningKey) -> M | None:
        """What messages with this key write, if it is kept."""
        return self._kept.get(key)

    def is_repeated(self, key: OpeningKey) -> bool:
        """Whether a message like this one was decided lately; notes this one."""
        if len(key.metadata) > _METADATA_MAX_BYTES:
            return False
        repeated = key in self._seen
        if not repeated:
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            self._seen.add(key)
        return repeated

    def keep(self, key: OpeningKey, like: M) -> None:
        """Keep what the messages to come will write."""
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[key] = like
