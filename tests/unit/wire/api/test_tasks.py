"""Tasks as JSON."""

from typing import Any

import msgspec

from parley.domain.directory.intent import Task
from parley.wire.api.tasks import TaskIn, TaskPatch, details_of, task_of

AT = "2026-03-13T14:30:00.000000+00:00"


def a_task(details: dict[str, Any]) -> Task:
    return Task(
        id="k",
        tenant_id="t",
        intent_id="i",
        title="look",
        details=details,
        created_by="a",
        created_at=AT,
        updated_at=AT,
    )


def test_a_task_shows_what_was_said_and_what_is_usual_for_the_rest() -> None:
    task = task_of(a_task({"priority": "high"}))

    assert (task.name, task.priority, task.attempt, task.blocks, task.permissions) == ("look", "high", 1, [], "inherit")


def test_a_task_never_shows_null_where_the_sdk_needs_a_list() -> None:
    names = {*TaskIn.__struct_fields__, *TaskPatch.__struct_fields__}

    assert task_of(a_task(dict.fromkeys(names))) == task_of(a_task({}))


def test_only_what_was_said_about_a_task_is_kept() -> None:
    created = msgspec.convert({"intent_id": "i", "name": "n", "input": None, "unknown": 1}, TaskIn)
    changed = msgspec.convert({"status": "running", "output": {"a": 1}}, TaskPatch)

    assert details_of(created) == {"input": None}
    assert details_of(changed) == {"output": {"a": 1}}
