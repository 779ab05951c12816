"""Jobs: who has one, who had it, and when it is dead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.job import (
    ATTEMPTS_MAX,
    DEAD,
    DEAD_LETTERS_KEPT,
    LOST_READERS_MAX,
    OPEN,
    Job,
    JobState,
    buried,
    check_lease,
    claimed,
    enqueue,
    extended,
    failed,
    handed_on,
    job_id,
    released,
    retried,
    why_dead,
)
from parley.domain.channel.post import Post, PostState
from parley.domain.errors.errors import Conflict, LeaseLost
from parley.domain.message.message import Pattern
from parley.domain.times import stamp

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
AT = stamp(NOW)


def a_post(to: str, pattern: Pattern = Pattern.NOTIFY, message_id: str = "msg_1") -> Post:
    return Post(
        message_id, "chan_1", "alice", to, pattern, "", b"{}", b"{}", AT, "", PostState.PENDING, ("bob",), "intent_1"
    )


def a_job() -> Job:
    return enqueue("default", [a_post("any:coder")])[1][0]


def test_only_messages_to_any_holder_become_jobs_at_the_positions_of_their_commit() -> None:
    given_posts = [a_post("bob"), a_post("any:coder", message_id="msg_2"), a_post("any:coder", message_id="msg_3")]
    posts, jobs = enqueue("default", given_posts)

    assert posts[0] == given_posts[0]
    assert [(post.recipients, post.state) for post in posts[1:]] == [((), PostState.DELIVERED)] * 2
    assert [(job.id, job.with_position(10).position, job.eligible) for job in jobs] == [
        ("msg_2", 12, ("bob",)),
        ("msg_3", 13, ("bob",)),
    ]
    assert jobs[0].with_position(10).with_position(99).position == 12


def test_a_job_is_found_by_its_message_and_the_mail_of_an_agent_by_both() -> None:
    assert job_id("msg_1", "any:coder") == "msg_1"
    assert job_id("msg_1", "bob") == "msg_1@bob"


def test_a_lease_belongs_to_one_agent_and_ends_with_the_job() -> None:
    job = claimed(a_job(), "bob", "secret", 30, NOW)

    assert check_lease(job, "bob", "secret") is job
    for agent, lease in (("carol", "secret"), ("bob", "guess"), ("bob", "")):
        with pytest.raises(LeaseLost, match="bob has it now"):
            check_lease(job, agent, lease)
    for ended in (released(job, NOW), failed(job, "no", 5, NOW), failed(job, "no", None, NOW), None):
        with pytest.raises(LeaseLost):
            check_lease(ended, "bob", "secret")


def test_a_lease_is_extended_from_now() -> None:
    job = extended(claimed(a_job(), "bob", "secret", 30, NOW), 60, NOW + timedelta(seconds=20))

    assert (job.lease_seconds, job.until) == (60, stamp(NOW + timedelta(seconds=80)))


def test_a_dead_letter_is_listed_apart_and_can_be_retried() -> None:
    dead = failed(claimed(a_job(), "bob", "secret", 30, NOW), "no disk", None, NOW)
    again = retried(dead, NOW)

    assert (dead.parent, dead.error, dead.due) == (DEAD, "no disk", stamp(NOW + DEAD_LETTERS_KEPT))
    assert (again.parent, again.state, again.attempts) == (OPEN, JobState.WAITING, 0)
    with pytest.raises(Conflict, match="not dead"):
        retried(again, NOW)


def test_a_handler_that_asks_for_it_again_and_again_does_not_get_it_for_ever() -> None:
    job = a_job()
    for _ in range(ATTEMPTS_MAX):
        job = failed(claimed(job, "bob", "secret", 30, NOW), "not yet", 0, NOW)

    assert job.state is JobState.DEAD
    assert job.error == f"it was claimed {ATTEMPTS_MAX} times, at last: not yet"


@given(st.lists(st.sampled_from(["claim", "release", "fail", "lose", "give up"]), max_size=60))
def test_only_readers_that_end_and_failures_count(steps: list[str]) -> None:
    job, attempts, lost = a_job(), 0, 0
    for step in steps:
        if job.state is JobState.WAITING or step in ("claim", "lose"):
            if reason := why_dead(job):
                assert reason == f"its reader ended {LOST_READERS_MAX} times"
                job, lost = buried(handed_on(job), reason, NOW), lost + 1
                break
            lost += job.state is JobState.CLAIMED
            attempts += 1
            job = claimed(job, "bob", "secret", 30, NOW)
        elif step == "release":
            attempts -= 1
            job = released(job, NOW)
        elif step == "fail":
            job = failed(job, "no", 1, NOW)
        else:
            job = failed(job, "no", None, NOW)
            break
        assert lost < LOST_READERS_MAX
    assert (job.attempts, job.lost_readers) == (attempts, lost)
    assert job.state is JobState.DEAD or lost < LOST_READERS_MAX
