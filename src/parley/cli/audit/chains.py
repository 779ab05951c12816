"""Are the logs whole? Each event and entry holds the hash of the one before; here they are computed again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.channel.event import CHANNEL_MESSAGE, Event
from parley.domain.mailbox.ledger import GENESIS, chain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.channel.checkpoint import Checkpoint
    from parley.domain.mailbox.ledger import StoredEntry

# How a server spells the type of an audited message for the OpenIntent SDK; the hash is over the other spelling.
_SDK_SPELLING = "channel.message"


class LogResult(NamedTuple):
    """One log: how many links were looked at, and the number of the first bad one (0: none)."""

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
    """An intent's events, from the first on."""

    def __init__(self, tenant: str, intent: str) -> None:
        from parley.wire.proofs.event_log import Chain

        self._tenant = tenant
        self._intent = intent
        self._chain = Chain()
        self._hashes: list[str] = []
        self._problems: list[tuple[int, str]] = []

    def add(self, events: Iterable[Event]) -> None:
        """The next events."""
        for event in events:
            self._chain.take(event)
            self._hashes.append(event.event_hash)
            if event.intent_id != self._intent:
                self.add_problem(event.sequence, "it belongs to another intent")

    def add_problem(self, sequence: int, why: str) -> None:
        """What the links alone do not show."""
        self._problems.append((sequence, why))

    def check_against(self, checkpoint: Checkpoint) -> None:
        """A checkpoint knows what it covered: also what is missing at the end."""
        from parley.domain.channel.checkpoint import encode_digest, merkle_root, raw_digest

        covered = self._hashes[checkpoint.first_sequence - 1 : checkpoint.last_sequence]
        if len(covered) < checkpoint.event_count:
            self.add_problem(len(self._hashes) + 1, f"it is missing, but the checkpoint {checkpoint.id} covers it")
        elif encode_digest(merkle_root([raw_digest(digest) for digest in covered])) != checkpoint.merkle_root:
            self.add_problem(checkpoint.first_sequence, f"the checkpoint {checkpoint.id} says otherwise")

    @property
    def length(self) -> int:
        return len(self._hashes)

    def result(self) -> LogResult:
        """What came out."""
        breaks = [(broken_link.sequence, broken_link.reason) for broken_link in self._chain.breaks] + self._problems
        first = min(breaks, key=lambda problem: problem[0], default=(0, ""))
        return LogResult(self._tenant, self._intent, "events", self.length, *first)


def event_from_api(document: dict[str, Any]) -> Event:
    """An event as a server gave it, to be checked like one from the store."""
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
    """A tenant's ledger from its first entry on."""
    link, length, bad, why = GENESIS, 0, 0, ""
    for written in entries:
        length += 1
        if not bad and written.position != length:
            bad, why = length, "it is missing"
        elif not bad and chain(link, written.position, written.entry) != written.link:
            bad, why = length, "its hash does not fit its content"
        link = written.link
    return LogResult(tenant, f"ledger of {tenant}", "ledger", length, bad, why)
