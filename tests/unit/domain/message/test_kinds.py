"""The kinds of message as one declaration."""

from __future__ import annotations

import pytest

from parley.domain.message.kinds import GOES_FIRST, KINDS, PRIORITIES, Kind, Pattern, Priority


def test_a_kind_is_its_name() -> None:
    assert {kind.value: Kind(kind.value) for kind in Kind} == KINDS
    assert all(kind == kind.value and str(kind) == kind.value for kind in Kind)
    assert all(name.lower() == kind.value for name, kind in Kind.__members__.items())


@pytest.mark.parametrize("kind", Kind)
def test_the_answers_of_a_kind_are_kinds(kind: Kind) -> None:
    assert [answer.value for answer in kind.answers] == list(kind.spec.answers)


@pytest.mark.parametrize("kind", Kind)
def test_only_a_kind_that_needs_no_answer_has_none(kind: Kind) -> None:
    assert kind.answers or kind.spec.pattern is not Pattern.REQUEST


@pytest.mark.parametrize("kind", Kind)
def test_a_field_is_declared_once(kind: Kind) -> None:
    names = [field.name for field in kind.spec.fields]

    assert len(names) == len(set(names))


def test_requests_for_work_go_first() -> None:
    assert {Kind.TASK_REQUEST, Kind.REVIEW_REQUEST} == GOES_FIRST


def test_priorities_are_found_by_name() -> None:
    assert {priority.value: priority for priority in Priority} == PRIORITIES
