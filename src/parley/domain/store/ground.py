"""The ground of a decision: the records that it rests on, as of one generation of their tenant.

A tenant's generation is a number that moves with every change of a record that decisions about messages rest on. The
commit compares it: where it is the one that was read before the decision, none of those records changed. Where it
moved, every version is checked. So no message is ever accepted on a stale ground.

Generations live in the memory of one process. A number is never used for two states of a tenant's records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.audit.checkpoint import AuditCheckpoint, AuditMark
from parley.domain.channel.bookmark import Bookmark
from parley.domain.channel.checkpoint import Checkpoint, LogMark
from parley.domain.channel.job import Job
from parley.domain.channel.request import RequestMark, RequestState
from parley.domain.channel.timer import Timer
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange

if TYPE_CHECKING:
    from parley.domain.record import Expect, Record

# Kinds that change with messages, jobs and the clock. A decision that depends on one names it in `expects`, which are
# always checked. A kind that is not listed here moves the generation.
_NO_GROUND: frozenset[str] = frozenset(
    kind.kind
    for kind in (
        Approval,
        AuditCheckpoint,
        AuditMark,
        Bookmark,
        Checkpoint,
        Exchange,
        Job,
        LogMark,
        RequestMark,
        RequestState,
        Timer,
    )
)


class Ground(NamedTuple):
    """The generation that was read before the records of a decision, and the versions of these records."""

    generation: int
    expects: tuple[Expect, ...]

    @property
    def covers_all(self) -> bool:
        """Whether a change of any of these records would move the generation."""
        return _NO_GROUND.isdisjoint([expect.kind for expect in self.expects])


def moves_generation(before: Record | None, after: Record | None) -> bool:
    """Whether a change of a record, as it is kept, may change decisions about messages; a heartbeat may not."""
    record = after if after is not None else before
    if record is None or record.kind in _NO_GROUND:
        return False
    return before is None or after is None or after.decisive_version == after.version
