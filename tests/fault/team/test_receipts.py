"""Receipts of a server that is killed at any moment: none is ahead of the truth, and no proof is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.team.receipts import play
from tests.rigs.process import ServerProcess

pytestmark = [pytest.mark.fault, pytest.mark.slow]


# The second one takes its time between a claim and the answer to it, so that most kills fall between them.
@pytest.mark.parametrize("gap", ["", "answer_claims_late"])
def test_a_killed_server_says_no_more_than_its_readers_have_proved(
    tmp_path: Path, full: bool, gap: str, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("randomly_seed", 0)
    longest = 0.4 if gap else 0.05
    scene, ends = play(ServerProcess(tmp_path / "data", mutant=gap), seed, 50 if full else 3, longest)

    print(f"{scene.kills} kills, {len(ends)} messages")
    assert (scene.ahead, scene.behind) == ([], [])
    assert ends == ["acted"] * len(ends)


def test_a_server_that_takes_a_claim_for_a_proof_is_caught(tmp_path: Path) -> None:
    scene, _ = play(ServerProcess(tmp_path / "data", mutant="take_claims_for_proofs"), 1, 5, 0.4)

    assert scene.ahead
