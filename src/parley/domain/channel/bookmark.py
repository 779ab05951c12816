"""A bookmark: how far an agent has processed its stream, so that a restart misses and repeats nothing.

         open      position
    1 2 [3] 4 [5] 6 7 (8) 9 10 ... head      up to `position` everything is dealt with, except what is `open`

So a slow message does not block the others. The last process to open it holds it. What is processed stays so: neither
does the position go back, nor is anything below it opened again.

A process that opens a bookmark whose holder did not close it counts what it hands out: each time before a handler gets
something that was there before. What has ended its reader too often is not handed out any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from parley.domain.channel.job import LOST_READERS_MAX
from parley.domain.directory.callers import party_name
from parley.domain.errors.errors import BadName, Invalid, Problem
from parley.domain.errors.team import BookmarkTaken
from parley.domain.names import NAME_RULE, is_name
from parley.domain.record import Record
from parley.domain.times import ago, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

# How many messages may be in progress at once.
MOST_OPEN = 1_000
MOST_OF_AN_AGENT = 1_000
# A save that changes nothing is written after this time, so that `saved_at` shows that the holder is alive.
_RENEW_SECONDS = 1.0


class Start(StrEnum):
    """Where a new bookmark begins."""

    UNANSWERED = "unanswered"
    NOW = "now"
    BEGINNING = "beginning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookmark(Record):
    """One bookmark of an agent."""

    kind: ClassVar[str] = "bookmark"

    agent: str
    label: str
    position: int
    open: tuple[int, ...] = ()
    # Its processes were given everything after this position, up to the other one. Below 0: not known yet.
    begin: int = -1
    # How often each open position was counted, as far as it was: pairs of position and count.
    attempts: tuple[tuple[int, int], ...] = ()
    # New at each opening: a process with an older one has lost the bookmark. Empty when it was closed.
    holder: str
    # Which process opened it last, as `PID@HOST`, and when; empty when it did not say so.
    process: str = ""
    opened_at: str = ""
    # Whether the process before had not closed it: it was ended, or it still runs.
    interrupted: bool = False
    saved_at: str

    @property
    def parent(self) -> str:
        return self.agent


def bookmark_id(agent: str, label: str) -> str:
    """The one id of an agent's bookmark; neither name can hold the mark between them."""
    if not is_name(label):
        raise BadName(f"{label[:70]!r} is not a valid name for a bookmark", hint=f"use {NAME_RULE}")
    return f"{party_name(agent)}/{label}"


def first_position(start: Start, head: int, oldest: int | None) -> int:
    """Where it begins. `oldest` is the place of the first thing that waits for this agent, if any does.

    `head` must have been looked up before: a request that came in between is behind it.
    """
    if start is Start.BEGINNING:
        return 0
    return min(head, oldest - 1) if start is Start.UNANSWERED and oldest is not None else head


def has_passed(bookmark: Bookmark, position: int) -> bool:
    """Whether a process of the agent was given what is at a position, and has finished it."""
    return 0 <= bookmark.begin < position <= bookmark.position and position not in bookmark.open


def opened(bookmark: Bookmark, holder: str, process: str, now: str) -> Bookmark:
    """The bookmark with a new holder; the previous one can no longer save."""
    interrupted = bookmark.holder != ""
    return replace(bookmark, holder=holder, process=process, opened_at=now, interrupted=interrupted, saved_at=now)


def check_claim(bookmark: Bookmark, now: str, unless_active: float | None, replaces: str | None) -> None:
    """Refuse to claim from a holder that saved within `unless_active` seconds, or from another one than `replaces`."""
    age = parse_time(now) - parse_time(bookmark.saved_at)
    is_active = unless_active is not None and age.total_seconds() < unless_active
    if is_active or replaces not in (None, bookmark.holder):
        text = f"{bookmark.agent}: held by {_holder_text(bookmark)}, last seen {_ago(bookmark.saved_at, now)}"
        raise BookmarkTaken(text, facts=_facts(bookmark))


def taken_over(bookmark: Bookmark, now: str) -> BookmarkTaken:
    """What a previous holder is told: which process has the bookmark, and since when."""
    since = f", {_ago(bookmark.opened_at, now)}" if bookmark.opened_at else ""
    return BookmarkTaken(f"{bookmark.agent}: taken over by {_holder_text(bookmark)}{since}", facts=_facts(bookmark))


def _holder_text(bookmark: Bookmark) -> str:
    pid, _, host = bookmark.process.partition("@")
    return f"pid {pid} on host {host}" if host else "another process"


def _ago(at: str, now: str) -> str:
    return ago(parse_time(at), parse_time(now))


def _facts(bookmark: Bookmark) -> dict[str, object]:
    shown = {"process": bookmark.process or None, "opened_at": bookmark.opened_at or None}
    return {"agent": bookmark.agent, "bookmark": bookmark.label, "holder": bookmark.holder, **shown}


def saved(
    bookmark: Bookmark,
    holder: str,
    position: int,
    still: Iterable[int],
    head: int,
    now: str,
    *,
    started: Iterable[int] = (),
) -> Bookmark:
    """The bookmark with everything processed except `still`; the same object when nothing is to be written.

    `started` are open positions that are about to be handed out, which is counted.
    """
    if holder != bookmark.holder:
        raise taken_over(bookmark, now)
    positions = frozenset(still)
    problems = [*_wrong(bookmark, position, head), *_wrong_open(positions, position)]
    if problems:
        raise Invalid.because(problems)
    # A late or reordered save never moves a bookmark back.
    left = tuple(
        sorted(
            open_position
            for open_position in positions
            if open_position > bookmark.position or open_position in bookmark.open
        )
    )
    begin = bookmark.begin if bookmark.begin >= 0 else bookmark.position
    counted = dict(bookmark.attempts)
    for begun in frozenset(started) & {*left}:
        counted[begun] = counted.get(begun, 0) + 1
    attempts = tuple(sorted((place, count) for place, count in counted.items() if place in left))
    if (position, left, attempts) == (bookmark.position, bookmark.open, bookmark.attempts) and _is_fresh(bookmark, now):
        return bookmark
    return replace(bookmark, position=position, open=left, begin=begin, attempts=attempts, saved_at=now)


def without_dead(bookmark: Bookmark) -> tuple[Bookmark, tuple[int, ...]]:
    """The bookmark without what has ended its reader too often, and the positions of that."""
    dead = tuple([place for place, count in bookmark.attempts if count > LOST_READERS_MAX])
    if not dead:
        return bookmark, ()
    left = tuple([place for place in bookmark.open if place not in dead])
    attempts = tuple([pair for pair in bookmark.attempts if pair[0] not in dead])
    return replace(bookmark, open=left, attempts=attempts), dead


def closed(bookmark: Bookmark) -> Bookmark:
    """The bookmark of a process that stops in good order. What it leaves open has not ended it."""
    return replace(bookmark, holder="", attempts=())


def _is_fresh(bookmark: Bookmark, now: str) -> bool:
    return (parse_time(now) - parse_time(bookmark.saved_at)).total_seconds() < _RENEW_SECONDS


def _wrong(bookmark: Bookmark, position: int, head: int) -> list[Problem]:
    if position < bookmark.position:
        return [Problem("invalid", "position", f"is below {bookmark.position}: a bookmark does not go back")]
    return [Problem("invalid", "position", f"is above {head}: that is not written yet")] if position > head else []


def _wrong_open(still: frozenset[int], position: int) -> list[Problem]:
    problems = []
    if still and (max(still) > position or min(still) < 1):
        problems.append(Problem("invalid", "open", "holds only places up to the position, from 1 on"))
    if len(still) > MOST_OPEN:
        problems.append(Problem("too_many", "open", f"at most {MOST_OPEN} places"))
    return problems
