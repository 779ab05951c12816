"""Verify hash chains: each event and each ledger entry holds the hash of the one before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.channel.event import CHANNEL_MESSAGE, Event
from parley.domain.mailbox.ledger import GENESIS, chain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.channel.checkpoint import Checkpoint
    from parley.domain.mailbox.ledger import StoredEntry

# The event type of an audited message for the OpenIntent SDK; the hash is over CHANNEL_MESSAGE.
_SDK_SPELLING = "channel.message"


class LogResult(NamedTuple):
    """The result of verifying a log: its length, and the number of the first bad entry (0: none)."""

    tenant: str
    log: str
    kind: str
    length: int
    bad: int = 0
    why: str = ""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "bad": self.bad or None, "why": self.why or None, "valid": not self.bad}


class EventLog:
    """The event log of an intent, from its first event."""

    def __init__(self, tenant: str, intent: str) -> None:
        from parley.wire.proofs.event_log import Chain

        self._tenant = tenant
        self._intent = intent
        self._chain = Chain()
        self._hashes: list[str] = []
        self._problems: list[tuple[int, str]] = []

    def add(self, events: Iterable[Event]) -> None:
        """Add the next events."""
        for event in events:
            self._chain.take(event)
            self._hashes.append(event.event_hash)
            if event.intent_id != self._intent:
                self.add_problem(event.sequence, "belongs to another intent")

    def add_problem(self, sequence: int, why: str) -> None:
        """Record a problem that the hash chain alone does not show."""
        self._problems.append((sequence, why))

    def check_against(self, checkpoint: Checkpoint) -> None:
        """Compare with a checkpoint, which also shows events missing at the end."""
        from parley.domain.channel.checkpoint import encode_digest, merkle_root, raw_digest

        covered = self._hashes[checkpoint.first_sequence - 1 : checkpoint.last_sequence]
        if len(covered) < checkpoint.event_count:
            self.add_problem(len(self._hashes) + 1, f"missing, but checkpoint {checkpoint.id} covers it")
        elif encode_digest(merkle_root([raw_digest(digest) for digest in covered])) != checkpoint.merkle_root:
            self.add_problem(checkpoint.first_sequence, f"differs from checkpoint {checkpoint.id}")

    @property
    def length(self) -> int:
        return len(self._hashes)

    def result(self) -> LogResult:
        """Return the result with the first problem."""
        breaks = [(broken_link.sequence, broken_link.reason) for broken_link in self._chain.breaks] + self._problems
        first = min(breaks, key=lambda problem: problem[0], default=(0, ""))
        return LogResult(self._tenant, self._intent, "events", self.length, *first)


def event_from_api(document: dict[str, Any]) -> Event:
    """Build an event from the server's JSON."""
    if document["event_type"] == _SDK_SPELLING:
        document = {**document, "event_type": CHANNEL_MESSAGE}
    return Event(
        position=0,
        intent_id=document["intent_id"],
        sequence=document["sequence"],
        id=document["id"],
        event_type=document["event_type"],
        actor=document["actor"],
        created_at=document["created_at"],
        trace_id=document.get("trace_id") or "",
        document=json.dumps(document).encode(),
        event_hash=document["event_hash"],
    )


def check_ledger(tenant: str, entries: Iterable[StoredEntry]) -> LogResult:
    """Verify the ledger of a tenant."""
    link, length, bad, why = GENESIS, 0, 0, ""
    for written in entries:
        length += 1
        if not bad and written.position != length:
            bad, why = length, "missing"
        elif not bad and chain(link, written.position, written.entry) != written.link:
            bad, why = length, "hash does not match content"
        link = written.link
    return LogResult(tenant, f"ledger of {tenant}", "ledger", length, bad, why)
