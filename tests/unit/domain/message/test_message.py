"""A message is a fact."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.domain.message.message import (
    DEFAULT_PRIORITY,
    KINDS,
    PRIORITIES,
    Kind,
    Message,
    Priority,
    search_text,
    texts_in,
)
from tests.samples.messages import NOW, a_message


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        a_message().subject = "other"  # type: ignore[misc]


def test_there_are_twelve_kinds_and_four_priorities_by_name() -> None:
    assert len(Kind) == len(KINDS) == 12
    assert all(KINDS[kind.value] is kind for kind in Kind)
    assert [PRIORITIES[name] for name in ("P0", "P1", "P2", "P3")] == list(Priority)
    assert DEFAULT_PRIORITY is Priority.P2


def test_the_text_of_a_priority_sorts_by_urgency() -> None:
    assert sorted(priority.value for priority in reversed(Priority)) == ["P0", "P1", "P2", "P3"]


@pytest.mark.parametrize(
    ("expires_in", "expired"), [
        (None, False), (timedelta(seconds=1), False), (timedelta(0), True), (-timedelta(1), True),
    ]
)  # fmt: skip
def test_a_message_expires_at_its_moment(expires_in: timedelta | None, expired: bool) -> None:
    message: Message = a_message(expires_at=NOW + expires_in if expires_in is not None else None)

    assert message.expired(NOW) is expired


def test_every_text_in_a_value_is_found() -> None:
    assert texts_in({"a": ["b", {"c": "d"}, 1, None, True], "e": "f"}) == ["a", "b", "c", "d", "e", "f"]
    assert texts_in("x") == ["x"]
    assert texts_in(7) == texts_in(None) == []


def test_a_search_sees_subject_id_and_body_without_case() -> None:
    message = a_message(id="MSG-1", subject="Straße", body={"KEY": ["VALUE"]})

    assert search_text(message) == "strasse\nmsg-1\nkey\nvalue"
