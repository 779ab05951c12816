"""Receipts over PostgreSQL: a server that is killed says no more than its readers have proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.team.receipts import play
from tests.rigs.process import ServerProcess

pytestmark = [pytest.mark.fault, pytest.mark.slow]


def test_a_killed_server_says_no_more_than_its_readers_have_proved(
    tmp_path: Path, dsn: str, full: bool, request: pytest.FixtureRequest
) -> None:
    server = ServerProcess(tmp_path / "data", mutant="answer_claims_late", store=dsn)
    seed = request.config.getoption("randomly_seed", 0)
    scene, ends = play(server, seed, 50 if full else 3, 0.4)

    print(f"{scene.kills} kills, {len(ends)} messages")
    assert (scene.ahead, scene.behind) == ([], [])
    assert ends == ["acted"] * len(ends)


def test_a_server_that_takes_a_claim_for_a_proof_is_caught(tmp_path: Path, dsn: str) -> None:
    server = ServerProcess(tmp_path / "data", mutant="take_claims_for_proofs", store=dsn)
    scene, _ = play(server, 1, 5, 0.4)

    assert scene.ahead
