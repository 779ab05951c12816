"""In which order waiting messages are handled, and what a priority means for it."""

from __future__ import annotations

from itertools import permutations

import pytest

from parley.domain.mailbox.delivery import order_key
from parley.domain.message.message import Kind, Priority
from tests.conformance.oacp import FORMAT, accepted, fields_written, sent
from tests.samples.messages import a_draft, a_file

EARLY, LATE = '"2026-03-13T14:00:00Z"', '"2026-03-13T15:00:00Z"'


def handled(*files: bytes) -> list[str]:
    """The ids of some message files in the order in which they are handled, however they lie there."""
    orders = set()
    for lying in permutations(files):
        headings = [FORMAT.heading(content) for content in lying]
        headings.sort(key=lambda one: order_key(one.priority, one.kind, one.created_at, one.id))
        orders.add(tuple(heading.id for heading in headings))
    assert len(orders) == 1
    return list(orders.pop())


@pytest.mark.requirement("S1-ORDER-PRIORITY", "D-ORDER")
def test_priority_comes_first() -> None:
    files = [a_file(id=p, priority=p, created_at_utc=EARLY if p == "P3" else LATE) for p in ("P0", "P1", "P2", "P3")]

    assert handled(*files) == ["P0", "P1", "P2", "P3"]


@pytest.mark.requirement("S1-ORDER-TYPE", "D-ORDER")
@pytest.mark.parametrize("first", ["task_request", "review_request"])
@pytest.mark.parametrize("other", sorted(set(Kind) - {Kind.TASK_REQUEST, Kind.REVIEW_REQUEST}))
def test_requests_for_work_and_review_come_before_other_types_of_the_same_priority(first: str, other: Kind) -> None:
    work = a_file(id="work", type=first, created_at_utc=LATE)
    older = a_file(id="other", type=other.value, created_at_utc=EARLY)
    urgent = a_file(id="urgent", type=other.value, priority="P1", created_at_utc=LATE)

    assert handled(work, older, urgent) == ["urgent", "work", "other"]


@pytest.mark.requirement("S1-ORDER-TYPE")
def test_between_task_and_review_requests_age_decides() -> None:
    task = a_file(id="task", created_at_utc=LATE)
    review = a_file(id="review", type="review_request", created_at_utc=EARLY)

    assert handled(task, review) == ["review", "task"]


@pytest.mark.requirement("S1-ORDER-AGE", "D-ORDER")
def test_the_oldest_comes_first_by_the_moment_and_not_by_its_spelling() -> None:
    early = a_file(id="b", created_at_utc='"2026-03-13T16:00:00+02:00"')
    late = a_file(id="a", created_at_utc='"2026-03-13T15:00:00Z"')

    assert handled(early, late) == ["b", "a"]


@pytest.mark.requirement("D-ORDER")
def test_the_id_decides_last() -> None:
    assert handled(*(a_file(id=name) for name in ("m2", "m1", "m3"))) == ["m1", "m2", "m3"]


@pytest.mark.parametrize(
    ("priority", "before", "after"),
    [
        pytest.param("P0", [], ["P1", "P2", "P3"], marks=pytest.mark.requirement("S2-PRIORITY-P0")),
        pytest.param("P1", ["P0"], ["P2", "P3"], marks=pytest.mark.requirement("S2-PRIORITY-P1")),
        pytest.param("P2", ["P0", "P1"], ["P3"], marks=pytest.mark.requirement("S2-PRIORITY-P2")),
        pytest.param("P3", ["P0", "P1", "P2"], [], marks=pytest.mark.requirement("S2-PRIORITY-P3")),
    ],
)
def test_a_priority_has_its_place_among_the_four(priority: str, before: list[str], after: list[str]) -> None:
    waiting = [a_file(id=other.value, priority=other.value, type="question") for other in Priority]

    order = handled(*waiting)

    assert (order[: order.index(priority)], order[order.index(priority) + 1 :]) == (before, after)
    assert accepted(a_file(priority=priority)).priority.value == priority
    assert fields_written(a_draft(priority=Priority(priority)))["priority"] == priority


@pytest.mark.requirement("S2-PRIORITY-P2", "S2-PRIORITY-P3")
def test_most_messages_are_p2_and_what_was_deferred_is_p3() -> None:
    assert sent(a_draft(Kind.TASK_REQUEST)).priority is Priority.P2
    assert sent(a_draft(Kind.FOLLOW_UP)).priority is Priority.P3  # its risk_tier


@pytest.mark.requirement("S2-PRIORITY-OMITTED", "D-PRIORITY-ACCEPT")
@pytest.mark.parametrize("kind", Kind)
def test_a_message_without_priority_is_p2(kind: Kind) -> None:
    content = a_file(without="priority", type=kind.value)

    assert accepted(content).priority is Priority.P2
    assert FORMAT.heading(content).priority == "P2"


@pytest.mark.requirement("D-PRIORITY-EMIT")
@pytest.mark.parametrize("kind", Kind)
def test_the_priority_is_always_written(kind: Kind) -> None:
    assert fields_written(a_draft(kind))["priority"] in {"P0", "P1", "P2", "P3"}
