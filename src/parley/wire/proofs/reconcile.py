"""Two sides' logs laid beside each other: what one says it sent and the other does not say it got; pure.

alice: outgoing to bob, exchange 7, round 1, digest d1  <──>  bob: incoming from alice, exchange 7, round 1, digest d1
alice: outgoing to bob, exchange 7, round 2, digest d2  <──>  nothing: bob's log lacks it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from parley.wire.proofs.audit_log import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DELIVERED = "delivered"
_COMPARED = ("exchange_id", "round", "digest", "classification")


class DeliveryClaim(NamedTuple):
    """What one side's log tells about one message to one receiver."""

    number: int
    side: str
    sent: bool
    sender: str
    receiver: str
    exchange_id: str
    round: int
    digest: str
    classification: str
    message_id: str

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        """What both sides tell alike."""
        return (self.sender, self.receiver, self.exchange_id, self.round, self.digest)


class Difference(NamedTuple):
    """One message that only one log has, or of which they tell different things."""

    kind: str
    sender: str
    receiver: str
    exchange_id: str
    round: int
    message_id: str
    # The entries' numbers in the two logs; 0: it has none.
    first: int
    second: int
    why: str

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()


class Log(NamedTuple):
    """What a log tells, and which sides it speaks for."""

    name: str
    sides: frozenset[str]
    claims: tuple[DeliveryClaim, ...]


class _Facts(Struct):
    side: str
    outcome: str = ""
    role: str = ""
    sender: str = ""
    receivers: list[str] = []
    exchange_id: str = ""
    round: int = 0
    content_digest: str = ""
    classification: str = ""
    message_id: str = ""


_decode = msgspec.json.Decoder(_Facts).decode


def deliveries_in(number: int, document: bytes) -> tuple[DeliveryClaim, ...]:
    """What an entry tells about messages that were delivered; nothing when it is about something else."""
    try:
        facts = _decode(document)
    except UNREADABLE:
        return ()
    if facts.outcome != DELIVERED or facts.role not in ("sender", "receiver"):
        return ()
    sent = facts.role == "sender"
    return tuple(
        DeliveryClaim(
            number,
            facts.side,
            sent,
            facts.sender,
            receiver,
            facts.exchange_id,
            facts.round,
            facts.content_digest,
            facts.classification,
            facts.message_id,
        )
        for receiver in (facts.receivers if sent else [facts.side])
    )


def log_of(name: str, entries: Iterable[tuple[int, bytes]], sides: Sequence[str] | None) -> Log:
    """A log by its entries; which sides it speaks for is said, or follows from the entries."""
    claims = tuple(claim for number, document in entries for claim in deliveries_in(number, document))
    return Log(name, frozenset(claim.side for claim in claims) if sides is None else frozenset(sides), claims)


def reconcile(first: Log, second: Log) -> tuple[int, list[Difference]]:
    """How many messages both logs tell alike, and every one that they do not. One log may be both."""
    same, differences = _compared(first, second, flipped=False)
    if first.name != second.name:
        more, other = _compared(second, first, flipped=True)
        same, differences = same + more, differences + other
    return same, sorted(
        differences,
        key=lambda difference: (difference.exchange_id, difference.round, difference.sender, difference.receiver),
    )


def _compared(sending: Log, receiving: Log, *, flipped: bool) -> tuple[int, list[Difference]]:
    """What one log says was sent against what the other says was received."""
    sent = [claim for claim in sending.claims if claim.sent and claim.receiver in receiving.sides]
    got: dict[tuple[str, str, str, int, str], list[DeliveryClaim]] = {}
    for claim in receiving.claims:
        if not claim.sent and claim.sender in sending.sides:
            got.setdefault(claim.key, []).append(claim)
    same, lonely, differences = 0, [], []
    for claim in sent:
        match = got.get(claim.key)
        if not match:
            lonely.append(claim)
            continue
        other = match.pop()
        same += 1
        if (claim.classification, claim.message_id) != (other.classification, other.message_id):
            same -= 1
            differences.append(_different(claim, other, flipped=flipped))
    left: dict[tuple[str, str], list[DeliveryClaim]] = {}
    for claim in (claim for group in got.values() for claim in group):
        left.setdefault((claim.message_id, claim.receiver), []).append(claim)
    for claim in lonely:
        near = left.get((claim.message_id, claim.receiver))
        if near:
            differences.append(_different(claim, near.pop(), flipped=flipped))
        else:
            differences.append(_missing(claim, receiving.name, flipped=flipped))
    differences += [_missing(claim, sending.name, flipped=flipped) for group in left.values() for claim in group]
    return same, differences


def _missing(claim: DeliveryClaim, lacking: str, *, flipped: bool) -> Difference:
    # The first log is the one that sends, unless they were looked at the other way round.
    in_first = claim.sent != flipped
    numbers = (claim.number, 0) if in_first else (0, claim.number)
    return Difference("missing", *_named(claim), *numbers, f"{lacking} lacks it")


def _different(sent: DeliveryClaim, got: DeliveryClaim, *, flipped: bool) -> Difference:
    first, second = (got, sent) if flipped else (sent, got)
    fields = [name for name in (*_COMPARED, "message_id") if getattr(first, name) != getattr(second, name)]
    why = "; ".join(f"{name}: {getattr(first, name)} or {getattr(second, name)}" for name in fields)
    return Difference("different", *_named(sent), first.number, second.number, why)


def _named(claim: DeliveryClaim) -> tuple[str, str, str, int, str]:
    return (claim.sender, claim.receiver, claim.exchange_id, claim.round, claim.message_id)
