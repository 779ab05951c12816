"""A crew on two nodes without a balancer: kills of nodes and agents neither lose nor double a report."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fault.postgres.crew import Crew, Report, expected_text, problems
from tests.fault.postgres.nodes import several

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # Connections are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Longer than the silence after which an agent is shown as dead.
_DOWN_SECONDS = 330.0
GOOD = Report("topic 1", "completed", expected_text("topic 1"), 1, 1, 0, 0.5)


def _figures(reports: list[Report]) -> str:
    seconds = sorted(report.seconds for report in reports)
    whole = sum(report.status == "completed" for report in reports)
    return f"{whole} of {len(reports)} reports; median {seconds[len(seconds) // 2]:.1f} s, slowest {seconds[-1]:.1f} s"


def test_every_report_is_written_once_while_nodes_and_agents_are_killed(tmp_path: Path, dsn: str, full: bool) -> None:
    given, node_kills, agent_kills = (40, 20, 32) if full else (8, 3, 5)

    async def play() -> list[Report]:
        crew = Crew(tmp_path, nodes, seed=1)
        try:
            await crew.run(given, node_kills, agent_kills)
            reports = await crew.reports()
            assert [agent.name for agent in crew.agents if agent.has_ended] == []
            return reports
        finally:
            await crew.close()

    with several(tmp_path, dsn, 2) as nodes:
        reports = asyncio.run(play())
    print(f"{node_kills} kills of nodes, {agent_kills} of agents: {_figures(reports)}")

    assert problems(reports, given) == []


def test_reports_are_written_after_everything_was_down(tmp_path: Path, dsn: str, full: bool) -> None:
    given = 8

    async def play() -> list[Report]:
        crew = Crew(tmp_path, nodes, seed=1)
        try:
            await crew.start_agents()
            for number in range(given):
                await crew.order(f"topic {number}")
            await crew.kill_everything()
            await asyncio.sleep(_DOWN_SECONDS if full else 0.0)
            await crew.start_everything()
            await crew.wait_for_all()
            return await crew.reports()
        finally:
            await crew.close()

    with several(tmp_path, dsn, 2) as nodes:
        reports = asyncio.run(play())
    print(f"everything down for {_DOWN_SECONDS if full else 0:g} s: {_figures(reports)}")

    assert problems(reports, given) == []


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (GOOD._replace(status="active"), "lost"),
        (GOOD._replace(text="topic 1:"), "wrong"),
        (GOOD._replace(writes=2), "doubled"),
        (GOOD._replace(completions=2), "doubled"),
        (GOOD._replace(failures=1), "failed"),
    ],
)
def test_a_lost_or_doubled_report_is_found_out(report: Report, says: str) -> None:
    assert problems([GOOD], 1) == []
    assert says in problems([report], 1)[0]
    assert problems([GOOD], 2) == ["1 of 2 were ordered"]
