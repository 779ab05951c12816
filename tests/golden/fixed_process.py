"""Give commands that run in this process a clock that stands still, and ids that are counted."""

from __future__ import annotations

import itertools

import pytest

from parley.adapters.process import SystemClock, SystemIds
from tests.rigs.team import CountedIds, FakeClock

# Far from those that a server counts: an id says who made it.
FIRST_ID = 5_000


def fix_process(patch: pytest.MonkeyPatch, clock: FakeClock, first_id: int = FIRST_ID) -> None:
    """All commands that follow ask this clock, and count their ids together."""
    ids = CountedIds(first_id)
    secrets = itertools.count(first_id)
    patch.setattr(SystemClock, "now", lambda _: clock.now())
    patch.setattr(SystemIds, "suffix", lambda _, length: ids.suffix(length))
    patch.setattr(SystemIds, "token", lambda _: ids.token())
    patch.setattr(SystemIds, "ulid", lambda _: ids.ulid())
    patch.setattr(SystemIds, "secret", lambda _: f"{next(secrets):043d}")
