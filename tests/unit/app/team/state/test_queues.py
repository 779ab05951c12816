"""The index of open jobs: which one is next, for whom."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from parley.app.team.state.queues import Claimer, Queues, TenantQueues
from parley.domain.channel.job import Job, JobState
from parley.domain.directory.callers import Holder, Role
from parley.domain.store.changes import Committed
from tests.rigs.team import FakeClock

AT = "2026-03-13T14:30:00.000000+00:00"
PLACE = ("any:coder", "chan_1")


def a_job(position: int, version: int = 1, **fields: object) -> Job:
    job = Job(
        id=f"msg_{position}",
        tenant_id="default",
        version=version,
        queue="any:coder",
        item_id=f"msg_{position}",
        position=position,
        channel_id="chan_1",
        queued_at=AT,
        changed_at=AT,
    )
    return replace(job, **fields)  # type: ignore[arg-type]


def with_jobs(*positions: int) -> TenantQueues:
    queues = TenantQueues(FakeClock())
    for position in positions:
        queues.put(a_job(position))
    return queues


@given(st.lists(st.integers(1, 1_000), unique=True, max_size=30), st.lists(st.booleans(), max_size=60))
def test_jobs_come_in_the_order_of_their_positions_whatever_is_given_back(
    positions: list[int], given_back: list[bool]
) -> None:
    queues = with_jobs(*positions)
    choices = iter(given_back)
    order = []
    while (entry := queues.reserve([PLACE])) is not None:
        if next(choices, False):
            queues.give_back(entry)
            continue
        order.append(entry.position)
    assert order == sorted(positions)


def test_an_older_version_of_a_job_changes_nothing() -> None:
    queues = with_jobs()
    queues.put(a_job(1, version=2, state=JobState.CLAIMED, lease_seconds=30.0))
    queues.put(a_job(1, version=1))

    assert queues.reserve([PLACE]) is None


def test_a_reserved_job_that_has_another_version_is_not_given_back() -> None:
    queues = with_jobs(1)
    entry = queues.reserve([PLACE])
    assert entry is not None
    queues.put(a_job(1, version=2, state=JobState.CLAIMED, lease_seconds=30.0))
    queues.give_back(entry)

    assert queues.reserve([PLACE]) is None


def test_an_extended_lease_ends_later() -> None:
    clock = FakeClock()
    queues = TenantQueues(clock)
    queues.put(a_job(1, state=JobState.CLAIMED, lease_seconds=30.0))
    clock.pass_by(seconds=20)
    queues.put(a_job(1, version=2, state=JobState.CLAIMED, lease_seconds=30.0))
    clock.pass_by(seconds=20)
    assert queues.channels_of(["any:coder"]) == set()
    clock.pass_by(seconds=10)

    assert queues.channels_of(["any:coder"]) == {PLACE}
    assert queues.counts()["any:coder"]["waiting"] == 1


def test_a_claimer_that_does_not_take_its_job_passes_it_on() -> None:
    queues = with_jobs()
    claimers = [Claimer(asyncio.Event()) for _ in range(3)]
    for claimer in claimers:
        claimer.queues = frozenset({"any:coder"})
        queues.enter(claimer)
    queues.put(a_job(1))
    assert [claimer.called for claimer in claimers] == [True, False, False]
    queues.leave(claimers[0])

    assert [claimer.called for claimer in claimers] == [False, True, False]


@given(st.lists(st.integers(0, 2), max_size=40))
def test_a_job_that_nobody_may_have_wakes_each_reader_once(order: list[int]) -> None:
    queues = with_jobs()
    claimers = [Claimer(asyncio.Event(), f"reader {number}") for number in range(3)]
    for claimer in claimers:
        claimer.queues = frozenset({"any:coder"})
        queues.enter(claimer)
    queues.put(a_job(1))
    calls = [0, 0, 0]
    for number in [*order, 0, 1, 2, 0, 1, 2]:
        if not claimers[number].called:
            continue
        calls[number] += 1
        entry = queues.reserve([PLACE])
        assert entry is not None
        queues.give_back(entry, declined_by=claimers[number].reader)
        queues.pass_on(claimers[number])

    assert calls == [1, 1, 1]
    assert not any(claimer.called for claimer in claimers)


def test_a_claimer_that_is_awake_looks_again_for_a_job_that_was_given_back_meanwhile() -> None:
    queues = with_jobs(1)
    claimer = Claimer(asyncio.Event(), "bob")
    claimer.queues, claimer.called = frozenset({"any:coder"}), True
    queues.enter(claimer)
    entry = queues.reserve([PLACE])  # by another one
    assert entry is not None
    queues.give_back(entry)

    assert claimer.event.is_set()


def test_an_agent_takes_from_its_own_queue_and_from_those_of_its_roles() -> None:
    queues = with_jobs()
    queues.set_role(Role(id="coder", tenant_id="default", holders=(Holder(agent="bob", since=1),)))

    assert queues.queues_of("bob") == {"bob", "any:coder"}
    assert queues.queues_of("carol") == {"carol"}


def test_commits_move_the_index_and_a_gap_makes_it_load_again() -> None:
    all_queues = Queues(FakeClock())
    queues = all_queues.begin("default")
    assert all_queues.get("default") is None  # not loaded yet
    queues.loaded = True
    all_queues.publish("default", Committed(1, puts=(a_job(1, state=JobState.CLAIMED, lease_seconds=9.0),)))
    all_queues.publish("default", Committed(2, dropped=(("job", "msg_1"), ("role", "x"))))
    assert all_queues.counts() == {"any:coder": {"waiting": 0, "claimed": 0, "done": 1}}
    all_queues.publish("default", Committed(3, missed=True))

    assert all_queues.get("default") is None
