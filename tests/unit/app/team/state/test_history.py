"""The last ten minutes of a server: counted by steps, in bounded memory, and heard of by the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.app.team.state.history import OTHER_CODES, STEP_SECONDS, STEPS_MAX, NodeHistory
from parley.app.team.work import background
from parley.domain.store.node import Node, NodeSample
from tests.rigs.node import two_nodes
from tests.rigs.team import in_loop

BEGAN = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def test_a_step_has_the_highest_values_and_what_was_answered_in_it() -> None:
    history = NodeHistory()
    history.observe(later(0), Node("a", queue=3, lag=1, streams=2))
    history.count_request()
    history.observe(later(4), Node("a", queue=1, lag=5, streams=2))
    history.count_request("not_found")
    history.observe(later(11), Node("a"))

    first, second = history.samples(later(12))

    assert first == NodeSample(int(BEGAN.timestamp()), 3, 5, 2, 2, {"not_found": 1})
    assert second == NodeSample(int(later(10).timestamp()))


@given(st.lists(st.tuples(st.floats(0, 3_600), st.integers(0, 9), st.sampled_from(["", "a", "b"])), max_size=200))
def test_no_more_than_ten_minutes_are_kept_and_what_is_kept_is_in_order(
    seen: list[tuple[float, int, str]],
) -> None:
    history = NodeHistory()
    for seconds, queue, code in sorted(seen):
        history.observe(later(seconds), Node("a", queue=queue))
        history.count_request(code)
    samples = history.samples(later(3_600))

    assert len(samples) <= STEPS_MAX
    assert [sample.at for sample in samples] == sorted({sample.at for sample in samples})
    assert all(sample.at % STEP_SECONDS == 0 for sample in samples)
    assert sum(sample.requests for sample in samples) <= len(seen)
    assert all(sum(sample.refusals.values()) <= sample.requests for sample in samples)


def test_codes_beyond_the_most_frequent_are_counted_together() -> None:
    history = NodeHistory()
    history.observe(later(0), Node("a"))
    for number in range(20):
        for _ in range(number + 1):
            history.count_request(f"code_{number}")

    (sample,) = history.samples(later(1))

    assert len(sample.refusals) == 9
    assert sum(sample.refusals.values()) == sample.requests == 210
    assert sample.refusals[OTHER_CODES] == sum(range(1, 13))


@pytest.mark.both_stores
@in_loop
async def test_the_history_of_a_node_is_known_to_the_others_from_its_heartbeat(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        a.team.nodes.history.observe(a.team.now(), Node("a", queue=4))
        a.team.nodes.history.count_request("rate_limited")
        await background.heartbeat(a.team)

        report = await b.team.nodes.report(b.team.nodes.node(1.0, 0))

        (heard,) = [node.history for node in report.nodes if node.name == "a"]
        assert heard == a.team.nodes.history.samples(a.team.now())
        assert [(sample.queue, sample.requests, sample.refusals) for sample in heard] == [(4, 1, {"rate_limited": 1})]
