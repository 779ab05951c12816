"""The verifiable log: an event as it is served, its hash, and the check of a whole chain."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import rfc8785

from parley.domain.channel.checkpoint import encode_digest
from parley.domain.channel.event import CHANNEL_MESSAGE, SDK_CHANNEL_MESSAGE, Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.channel.event import EventDraft

_EXACT = 2**53 - 1


def event_hash(document: dict[str, Any]) -> str:
    """The hash of an event as it is served: over its canonical JSON without the hash itself."""
    hashed = {name: value for name, value in document.items() if name != "event_hash"}
    return encode_digest(hashlib.sha256(canonical(hashed)).digest())


def canonical(document: Any) -> bytes:  # noqa: ANN401  # whatever JSON holds
    """RFC 8785 JSON. All its numbers are doubles, so an integer that no double holds is spelled as the nearest one."""
    try:
        return rfc8785.dumps(document)
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(_as_doubles(document))


def _as_doubles(value: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    if isinstance(value, dict):
        return {name: _as_doubles(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_doubles(item) for item in value]
    return float(value) if type(value) is int and abs(value) > _EXACT else value


def appended(draft: EventDraft, position: int, sequence: int, previous: str) -> Event:
    """The draft at its place in its intent's log."""
    document: dict[str, Any] = {
        "id": draft.id,
        "intent_id": draft.intent_id,
        "event_type": draft.event_type,
        "actor": draft.actor,
        "payload": msgspec.json.decode(draft.payload),
        "created_at": draft.created_at,
        "sequence": sequence,
        "previous_event_hash": previous or None,
    }
    if draft.trace_id:
        document["trace_id"] = draft.trace_id
    if draft.parent_event_id:
        document["parent_event_id"] = draft.parent_event_id
    if draft.proof:
        document["proof"] = msgspec.json.decode(draft.proof)
    document["event_hash"] = event_hash(document)
    return Event(
        position=position,
        intent_id=draft.intent_id,
        sequence=sequence,
        id=draft.id,
        event_type=draft.event_type,
        actor=draft.actor,
        created_at=draft.created_at,
        trace_id=draft.trace_id,
        document=msgspec.json.encode(document),
        event_hash=document["event_hash"],
    )


def served(event: Event, *, sdk_names: bool = False) -> bytes:
    """The event as it is listed. For the SDK, one type has the SDK's spelling; the hash stays over ours."""
    if not sdk_names or event.event_type != CHANNEL_MESSAGE:
        return event.document
    # The type stands before the payload, and nothing before it can hold these characters.
    ours, theirs = (b'"event_type":"%b"' % name.encode() for name in (CHANNEL_MESSAGE, SDK_CHANNEL_MESSAGE))
    return event.document.replace(ours, theirs, 1)


class Break(NamedTuple):
    """A place where the chain does not hold, and why."""

    sequence: int
    event_id: str
    reason: str


class Chain:
    """Checks a log, event by event: that nothing is missing, every link fits, and every hash is right."""

    def __init__(self, *, trusting: bool = False) -> None:
        """A `trusting` one begins anywhere, and believes that its first event continues what came before."""
        self._trusting = trusting
        self._previous = ""
        self.first = 0
        self.last = 0
        self.count = 0
        self.breaks: list[Break] = []

    @property
    def valid(self) -> bool:
        return not self.breaks

    def take_all(self, events: Iterable[Event]) -> None:
        """Look at the next events."""
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Look at the next event."""
        document: dict[str, Any] = msgspec.json.decode(event.document)
        if self._trusting and not self.count:
            self.last, self._previous = event.sequence - 1, document.get("previous_event_hash") or ""
        if event.sequence != self.last + 1:
            self._broken(event, f"the event before is number {self.last}")
        if (document.get("previous_event_hash") or "") != self._previous:
            self._broken(event, "it does not continue the event before")
        if document.get("sequence") != event.sequence or document.get("id") != event.id:
            self._broken(event, "it is kept in the place of another")
        if event_hash(document) != document.get("event_hash") or event.event_hash != document.get("event_hash"):
            self._broken(event, "hash does not match content")
        self.first = self.first or event.sequence
        self.last, self._previous = event.sequence, event.event_hash
        self.count += 1

    def _broken(self, event: Event, reason: str) -> None:
        self.breaks.append(Break(event.sequence, event.id, reason))
