"""What the clients of a server did and saw, and the rules that all of it together must keep.

The store gives the order (a message's `seq`), so no search is needed: every rule is one pass. A send whose connection
broke may have happened, at most once; one that was refused has not.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

EVERYONE = "*"


class Sight(NamedTuple):
    """A message as somebody saw it: its place, its id, who said it with which number, and its hash."""

    seq: int
    id: str
    sender: str
    number: int
    to: str
    digest: str


@dataclass
class Send:
    """One message that a client tried to say, however often it repeated it under the same key."""

    sender: str
    number: int
    to: str
    began: float
    ended: float = 0.0
    answer: Sight | None = None
    refused: bool = False
    # What the answers said, when there was more than one: they must all be the same message.
    answers: list[Sight] = field(default_factory=list)


class Listing(NamedTuple):
    """One page: what a reader asked for and got."""

    reader: str
    began: float
    after: int
    found: tuple[Sight, ...]
    whole: bool


@dataclass
class Stream:
    """All that one stream saw over all its reconnections, in the order in which it came."""

    reader: str
    seen: list[Sight] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


@dataclass
class History:
    """Everything that happened in one channel."""

    sends: list[Send] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    final: tuple[Sight, ...] = ()


def sight(message: dict[str, Any]) -> Sight:
    """A message of the API as a sight."""
    payload = message["payload"]
    spelled = json.dumps(payload, sort_keys=True).encode()
    to = message["to"] or EVERYONE
    digest = hashlib.sha256(spelled).hexdigest()[:16]
    return Sight(message["seq"], message["id"], message["sender"], payload["n"], to, digest)


def check(history: History) -> list[str]:
    """Every broken rule, in words; empty when all hold."""
    return [
        *_unique(history),
        *_real_time(history),
        *_lost_and_phantom(history),
        *_listings(history),
        *_streams(history),
    ]


def visible(sights: Iterable[Sight], reader: str) -> list[Sight]:
    """What a reader may see."""
    return [one for one in sights if one.to in (EVERYONE, reader) or one.sender == reader]


def _unique(history: History) -> Iterable[str]:
    """I1: one place, one id, one send; all who saw a message saw the same."""
    sources = [
        *(one for send in history.sends for one in send.answers),
        *(one for listing in history.listings for one in listing.found),
        *(one for stream in history.streams for one in stream.seen),
        *history.final,
    ]
    for name, key in (("place", 0), ("id", 1)):
        meanings: dict[object, Sight] = {}
        for one in sources:
            known = meanings.setdefault(one[key], one)
            if known != one:
                yield f"I1: the {name} {one[key]} is two messages: {known} and {one}"
    for (sender, number), count in Counter((one.sender, one.number) for one in history.final).items():
        if count > 1:
            yield f"I4: {sender} said {number} once, it is there {count} times"


def _real_time(history: History) -> Iterable[str]:
    """I2: what was answered before another was begun has the earlier place."""
    answered = sorted((one for one in history.sends if one.answer), key=lambda one: one.answer.seq if one.answer else 0)
    latest = 0.0
    for send in answered:
        if send.ended < latest:
            yield f"I2: {send.sender} {send.number} was answered before one with an earlier place was begun"
        latest = max(latest, send.began)


def _lost_and_phantom(history: History) -> Iterable[str]:
    """I3 and I4: all that was acknowledged is there, and nothing that nobody said or that was refused."""
    there = {(one.sender, one.number): one for one in history.final}
    said = {(one.sender, one.number): one for one in history.sends}
    for key, send in said.items():
        if send.answer is not None and there.get(key) != send.answer:
            yield f"I3: {key} was acknowledged as {send.answer} and is {there.get(key, 'lost')}"
        if send.refused and key in there:
            yield f"I4: {key} was refused and is there"
    for key in there.keys() - said.keys():
        yield f"I4: nobody said {key}"


def _listings(history: History) -> Iterable[str]:
    """I5 and I6: a page is a run of what its reader may see, without gap, after its cursor, and not out of date."""
    readers = {listing.reader for listing in history.listings}
    logs = {reader: visible(history.final, reader) for reader in readers}
    places = {reader: [one.seq for one in log] for reader, log in logs.items()}
    newest = {reader: _newest(history, reader) for reader in readers}
    for listing in history.listings:
        start = bisect_right(places[listing.reader], listing.after)
        if list(listing.found) != logs[listing.reader][start : start + len(listing.found)]:
            yield f"I6: {listing.reader} got a page with a gap after {listing.after}: {listing.found[:3]}..."
        if not listing.whole:
            continue
        last = listing.found[-1].seq if listing.found else listing.after
        moments, highest = newest[listing.reader]
        before = bisect_left(moments, listing.began)
        if before and highest[before - 1] > last:
            yield f"I5: {listing.reader} did not see {highest[before - 1]}, acknowledged before it asked"


def _newest(history: History, reader: str) -> tuple[list[float], list[int]]:
    """When something for the reader was acknowledged, and the highest place that was by then."""
    answered = sorted(
        (send.ended, send.answer.seq)
        for send in history.sends
        if send.answer is not None and send.answer.to in (EVERYONE, reader)
    )
    return [ended for ended, _ in answered], list(accumulate((seq for _, seq in answered), max))


def _streams(history: History) -> Iterable[str]:
    """I7: a stream is the beginning of what its reader may see, over all reconnections, without gap or repeat."""
    for stream in history.streams:
        if any(later <= earlier for earlier, later in zip(stream.positions, stream.positions[1:], strict=False)):
            yield f"I7: the stream of {stream.reader} went back or repeated"
        log = [one for one in visible(history.final, stream.reader) if one.sender != stream.reader]
        yield from _run_of(log, stream)


def _run_of(log: Sequence[Sight], stream: Stream) -> Iterable[str]:
    for at, one in enumerate(stream.seen):
        if at == len(log) or one != log[at]:
            yield f"I7: the stream of {stream.reader} has a gap, a repeat or what is not there at {one}"
            return
