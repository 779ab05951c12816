"""Many senders and rival readers at one inbox: everything is processed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.crowd import Crowd

pytestmark = pytest.mark.fault


def run(crowd: Crowd, senders: int, each: int, readers: int) -> None:
    """All senders at once against all readers, until everything is through."""
    try:
        observer = crowd.add_observer()
        crowd.wait_ready(observer)
        for _ in range(readers):
            crowd.add_reader()
        for number in range(senders):
            crowd.add_sender(crowd.agents[number % len(crowd.agents)], each)
        crowd.join("s")
        crowd.finish("r")
        crowd.finish("o")
    finally:
        crowd.abandon()


@pytest.mark.parametrize("lease", ["", "600s"], ids=["bound to the process", "leased"])
def test_nothing_is_lost_doubled_or_torn_between_rival_senders_and_readers(
    tmp_path: Path, lease: str, full: bool
) -> None:
    senders, each, readers = (100, 50, 4) if full else (12, 25, 3)
    crowd = Crowd(tmp_path, 10 if full else 4, lease=lease)

    run(crowd, senders, each, readers)

    assert crowd.violations() == []
    assert crowd.count("send") == crowd.count("claim") == crowd.count("done") == senders * each


@pytest.mark.parametrize("lease", ["", "600s"], ids=["bound to the process", "leased"])
def test_the_mutant_that_claims_after_reading_is_caught(tmp_path: Path, lease: str) -> None:
    """Without the lock and without the ledger's expectation, two readers get one message."""
    for attempt in range(5):
        crowd = Crowd(tmp_path / str(attempt), 2, lease=lease, mutant="claim_after_read")
        run(crowd, 4, 10, 4)
        if any("while" in found or "within the lease" in found for found in crowd.violations()):
            return
    pytest.fail("the mutant was never caught")
