"""What agents see of their tenant, kept until an access list or a channel of the tenant changes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.channel.channel import Channel
from parley.domain.channel.participation import Participant
from parley.domain.directory.access import Access

if TYPE_CHECKING:
    from parley.domain.store.changes import Committed

# Agents whose sight is kept, and the largest that is.
_KEPT = 256
_KEPT_ITEMS = 2_000


class VisibleParts(NamedTuple):
    """The channels that an agent may read, with the position from which on it sees messages to everyone, and from
    which on they are delivered to it; and the intents it is assigned to.
    """

    channels: dict[str, int]
    heard: dict[str, int]
    intents: tuple[str, ...]


class SightCache:
    """By tenant and agent. An access that runs out stays in here: whoever shows a message looks at it once more."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[int, VisibleParts]] = {}
        # How often the rights of a tenant changed.
        self._generations: Counter[str] = Counter()
        self._positions: dict[str, int] = {}

    def publish(self, tenant: str, committed: Committed) -> None:
        """Note a change of rights."""
        self._positions[tenant] = committed.position
        changed = committed.missed or committed.ended
        if changed or any(isinstance(record, Access | Channel | Participant) for record in committed.puts):
            self._generations[tenant] += 1

    def position(self, tenant: str) -> int | None:
        """Up to where everything that was committed in a tenant is known here; None before the first commit."""
        return self._positions.get(tenant)

    def generation(self, tenant: str) -> int:
        """A number that changes with the rights of a tenant."""
        return self._generations[tenant]

    def get(self, tenant: str, agent: str) -> VisibleParts | None:
        """What an agent sees, if that is known."""
        generation, sight = self._kept.get((tenant, agent), (-1, None))
        known = tenant in self._positions and generation == self._generations[tenant]
        return sight if known else None

    def keep(self, tenant: str, agent: str, generation: int, sight: VisibleParts) -> None:
        """Keep what was found while the rights were of that generation."""
        if 2 * len(sight.channels) + len(sight.intents) <= _KEPT_ITEMS:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[tenant, agent] = (generation, sight)
