from typing import Any

import pytest

from parley.domain.channel.event import RESERVED, SDK_TYPES
from parley.domain.directory.intent import (
    DEEPEST_PATH,
    INTENT_MOVES,
    RESOLVED,
    TASK_OVER,
    Intent,
    IntentStatus,
    Patch,
    PatchOp,
    TaskStatus,
    check_move,
    check_version,
    patched,
    task_event,
)
from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import BadTransition, VersionMismatch

S = IntentStatus
ALLOWED = {
    (S.DRAFT, S.ACTIVE),
    (S.DRAFT, S.ABANDONED),
    (S.ACTIVE, S.BLOCKED),
    (S.ACTIVE, S.COMPLETED),
    (S.ACTIVE, S.ABANDONED),
    (S.BLOCKED, S.ACTIVE),
    (S.BLOCKED, S.ABANDONED),
}


def allowed(now: IntentStatus, then: IntentStatus) -> bool:
    try:
        check_move(now, then)
    except BadTransition:
        return False
    return True


def test_an_intent_makes_exactly_the_moves_of_its_table() -> None:
    assert {(now, then) for now in S for then in S if allowed(now, then)} == ALLOWED
    assert {status for status, moves in INTENT_MOVES.items() if not moves} == RESOLVED


def an_intent(version: int) -> Intent:
    return Intent(id="i", tenant_id="t", version=version, title="t", created_by="a", created_at="", updated_at="")


def test_a_change_for_another_version_is_told_the_current_one() -> None:
    check_version(an_intent(3), 3)
    check_version(an_intent(3), None)

    with pytest.raises(VersionMismatch) as refused:
        check_version(an_intent(3), 2)

    assert refused.value.facts == {"current_version": 3}


@pytest.mark.parametrize(
    ("state", "patch", "result"),
    [
        ({}, Patch(PatchOp.SET, "a", 1), {"a": 1}),
        ({"a": 1}, Patch(PatchOp.SET, "a", None), {"a": None}),
        ({}, Patch(PatchOp.SET, "/a//b/", 1), {"a": {"b": 1}}),
        ({"a": {"c": 2}}, Patch(PatchOp.SET, "a/b", 1), {"a": {"c": 2, "b": 1}}),
        ({}, Patch(PatchOp.APPEND, "a", 1), {"a": [1]}),
        ({"a": [1]}, Patch(PatchOp.APPEND, "a", [2]), {"a": [1, [2]]}),
        ({"a": {"b": [1]}}, Patch(PatchOp.APPEND, "a/b", 2), {"a": {"b": [1, 2]}}),
        ({"a": 1, "b": 2}, Patch(PatchOp.REMOVE, "a"), {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, Patch(PatchOp.REMOVE, "a/b"), {"a": {"c": 2}}),
        ({"b": 1}, Patch(PatchOp.REMOVE, "a"), {"b": 1}),
        ({"b": 1}, Patch(PatchOp.REMOVE, "a/b"), {"b": 1}),
    ],
)
def test_a_patch_does_one_thing(state: dict[str, Any], patch: Patch, result: dict[str, Any]) -> None:
    assert patched(state, [patch]) == result


def test_patches_follow_each_other_and_leave_the_old_state_alone() -> None:
    state = {"a": {"list": [1]}}

    new = patched(state, [Patch(PatchOp.APPEND, "a/list", 2), Patch(PatchOp.SET, "b", 1), Patch(PatchOp.REMOVE, "b")])

    assert new == {"a": {"list": [1, 2]}}
    assert state == {"a": {"list": [1]}}


@pytest.mark.parametrize(
    ("state", "patch"),
    [
        ({}, Patch(PatchOp.SET, "/", 1)),
        ({"a": 1}, Patch(PatchOp.SET, "a/b", 1)),
        ({"a": [1]}, Patch(PatchOp.REMOVE, "a/0")),
        ({"a": "text"}, Patch(PatchOp.APPEND, "a", 1)),
        ({}, Patch(PatchOp.SET, "/".join("a" * (DEEPEST_PATH + 1)), 1)),
    ],
)
def test_a_path_that_leads_nowhere_is_refused_by_its_number(state: dict[str, Any], patch: Patch) -> None:
    with pytest.raises(Invalid) as refused:
        patched(state, [Patch(PatchOp.SET, "fine", 1), patch])

    assert refused.value.problems[0].field == "patches[1].path"


def test_a_path_may_be_as_deep_as_the_limit() -> None:
    patched({}, [Patch(PatchOp.SET, "/".join("a" * DEEPEST_PATH), 1)])


@pytest.mark.parametrize("now", sorted(TASK_OVER))
def test_a_task_that_is_over_stays_so(now: TaskStatus) -> None:
    for then in TaskStatus:
        with pytest.raises(BadTransition):
            task_event(now, then)


def test_every_step_of_a_task_has_a_name_that_the_sdk_knows() -> None:
    going = set(TaskStatus) - TASK_OVER

    names = {task_event(now, then) for now in going for then in TaskStatus}

    assert names <= SDK_TYPES
    assert names - RESERVED == {"task.progress", "task.retrying"}
    assert task_event(TaskStatus.BLOCKED, TaskStatus.RUNNING) == "task.unblocked"
    assert task_event(TaskStatus.BLOCKED, TaskStatus.FAILED) == "task.failed"
