"""Many who want one file name: the first has it, and the others are told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fault.history import look
from tests.fault.stage import Outcome, Stage, agent_folder, make_home

pytestmark = pytest.mark.fault

RIVALS, NAMES = 4, 40


def race(tmp_path: Path, mutant: str = "", *, use_tmpfile: bool = True) -> tuple[list[Outcome], list[str]]:
    """Processes of tools that name their files by the minute deliver at once; what each was told, and what is there."""
    agents = [f"agent{number}" for number in range(RIVALS)]
    home = make_home(tmp_path / "home", [*agents, "reader"])
    stages = [Stage(tmp_path / agent, mutant) for agent in agents]
    files = {agent: [(f"20260313T14{n:02d}Z_any_task.yaml", f"{agent}-{n}") for n in range(NAMES)] for agent in agents}

    def deliver(stage: Stage, agent: str) -> Outcome:
        return stage.act("deliver", home, agent, files=files[agent], to=["reader"], use_tmpfile=use_tmpfile)

    with ThreadPoolExecutor(RIVALS) as pool:
        outcomes = list(pool.map(deliver, stages, agents))
    for stage in stages:
        stage.__exit__(None, None, None)
    return outcomes, look(agent_folder(home, "reader")).inbox


@pytest.mark.parametrize("use_tmpfile", [True, False], ids=["unnamed file", "temporary name"])
def test_of_many_who_deliver_under_one_name_the_first_has_it(tmp_path: Path, use_tmpfile: bool) -> None:
    outcomes, there = race(tmp_path, use_tmpfile=use_tmpfile)

    acknowledged = [tag for outcome in outcomes for tag in outcome.acknowledged]
    assert sorted(acknowledged) == sorted(there)
    assert len(there) == NAMES
    assert {code for outcome in outcomes for code in outcome.errors} == {"name_exists"}


def test_the_mutant_that_renames_instead_of_linking_is_caught(tmp_path: Path) -> None:
    outcomes, there = race(tmp_path, "rename_instead_of_link")

    acknowledged = [tag for outcome in outcomes for tag in outcome.acknowledged]
    assert set(acknowledged) - set(there)
