"""Decisions that are remembered with their ground, until the generation of the tenant's records moves.

    look up ── the generation moved, or an access expired ──> decide as if nothing were remembered
       └────── it is still the same ──> commit with the ground, which compares the generation again

What is remembered follows from records alone, so it holds for every message like the one that was decided. Whatever
else a message depends on (its content, the clock, rounds, budgets) is decided anew each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.domain.message.message import Pattern
    from parley.domain.store.ground import Ground

D = TypeVar("D")

_KEPT = 4_096
# Of a decision that rests on more records, looking them up is not what takes long.
_MOST_EXPECTS = 32


class DecisionKey(NamedTuple):
    """Which messages a decision holds for: those of one sender to one addressee in one channel, of one pattern.

    `needs_responder`: they are refused when nobody could get them.
    """

    tenant: str
    sender: str
    channel_id: str
    to: str
    pattern: Pattern
    needs_responder: bool = False


class RememberedDecision(NamedTuple, Generic[D]):
    """What was decided, the records that it rests on, and when the clock ends it; "": never."""

    ground: Ground
    until: str
    outcome: D


class DecisionCache(Generic[D]):
    """Remembered decisions of one process; `generation` is that of a tenant's records now."""

    def __init__(self, generation: Callable[[str], int], limit: int = _KEPT) -> None:
        self.generation = generation
        self._limit = limit
        self._kept: dict[DecisionKey, RememberedDecision[D]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: DecisionKey, now: str) -> RememberedDecision[D] | None:
        """The decision that still holds, or None."""
        decision = self._kept.get(key)
        if decision is None or decision.ground.generation != self.generation(key.tenant):
            return None
        return None if decision.until and decision.until <= now else decision

    def clear(self) -> None:
        """Forget all decisions: each is made anew when it is needed."""
        self._kept.clear()

    def remember(self, key: DecisionKey, decision: RememberedDecision[D]) -> None:
        """Keep a decision, unless it rests on more records than are worth it, or on some that move no generation."""
        ground = decision.ground
        if not ground.generation or len(ground.expects) > _MOST_EXPECTS or not ground.covers_all:
            return
        if len(self._kept) >= self._limit:
            self._kept.clear()
        if self._limit:
            self._kept[key] = decision
