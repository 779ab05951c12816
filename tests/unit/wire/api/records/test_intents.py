"""Intents, tasks and event logs as the API answers with them."""

from __future__ import annotations

import msgspec

from parley.wire.api.records.intents import Event, Task


def test_a_task_of_which_little_is_said_has_empty_lists_of_its_own() -> None:
    document = {"id": "k", "intent_id": "i", "name": "n", "version": 1, "status": "pending", "description": ""}
    at = "2026-03-13T14:30:00Z"

    first, second = (
        msgspec.convert({**document, "created_by": "a", "created_at": at, "updated_at": at}, Task) for _ in range(2)
    )

    assert (first.priority, first.attempt, first.max_attempts, first.permissions) == ("normal", 1, 3, "inherit")
    assert first.depends_on == []
    assert first.depends_on is not second.depends_on


def test_an_event_may_come_without_a_trace() -> None:
    assert set(Event.may_be_absent) < set(Event.__struct_fields__)
