import json
from typing import Any

import msgspec
import pytest

from parley.domain.directory.access import Access, AccessRequest, Assignment, Grant, Permission
from parley.domain.directory.intent import Intent, Patch, PatchOp, Task
from parley.domain.errors.errors import Invalid
from parley.wire.api import intents as openintent
from parley.wire.api.intents import (
    AccessRequestOut,
    AclOut,
    AssignmentOut,
    IntentIn,
    IntentOut,
    StateIn,
    TaskIn,
    TaskOut,
    TaskPatch,
)

AT = "2026-03-13T14:30:00.000000+00:00"


def fits(document: dict[str, Any], kind: type[msgspec.Struct]) -> bool:
    """Whether it is what the published schema says, no field more or less."""
    msgspec.json.decode(json.dumps(document), type=kind)
    return set(document) == set(kind.__struct_fields__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-13T14:30:00Z", AT),
        ("2026-03-13T15:30:00+01:00", AT),
        ("2026-03-13T15:30:00 01:00", AT),
        ("2026-03-13T14:30:00", AT),
        ("2026-03-13T14:30:00.000000", AT),
        ("2026-03-13 14:30:00", AT),
        ("", ""),
        (None, ""),
    ],
)
def test_a_time_without_an_offset_is_utc(text: str | None, expected: str) -> None:
    assert openintent.moment(text, "since") == expected


@pytest.mark.parametrize("text", ["soon", "2026-13-01T00:00:00Z", "1e400", "0001-01-01T00:00:00+23:59"])
def test_what_is_no_time_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        openintent.moment(text, "since")

    assert refused.value.problems[0].field == "since"


def test_a_state_sets_each_of_its_fields_before_the_patches() -> None:
    given = msgspec.json.decode(b'{"patches":[{"op":"remove","path":"a/b"}],"state":{"a":1}}', type=StateIn)

    assert openintent.patches_of(given) == (Patch(PatchOp.SET, "a", 1), Patch(PatchOp.REMOVE, "a/b"))


@pytest.mark.parametrize("name", ["a/b", "", "/"])
def test_a_field_of_a_state_is_no_path(name: str) -> None:
    with pytest.raises(Invalid):
        openintent.patches_of(StateIn(state={name: 1}))


def test_an_intent_has_every_field_that_the_sdk_reads() -> None:
    intent = Intent(id="i", tenant_id="t", version=3, title="T", created_by="alice", created_at=AT, updated_at=AT)

    document = openintent.intent(intent)

    assert fits(document, IntentOut)
    assert (document["version"], document["depends_on"], document["parent_intent_id"]) == (3, [], None)


@pytest.mark.parametrize("field", ["id", "tenant_id", "version", "governance_policy"])
def test_an_intent_is_created_with_nothing_that_the_server_decides(field: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"title": "T", field: "x"}, IntentIn)


def test_access_has_every_field_that_the_sdk_reads() -> None:
    grant = Grant(id="g", principal_id="bob", permission=Permission.READ, granted_by="alice", granted_at=AT)
    access = Access(id="i", tenant_id="t", created_by="alice", grants=(grant,))
    asked = AccessRequest(
        id="r", tenant_id="t", intent_id="i", principal_id="bob", permission=Permission.READ, created_at=AT
    )

    assert fits(openintent.acl(access), AclOut)
    assert fits(openintent.access_request(asked), AccessRequestOut)
    assert fits(openintent.assignment("i", Assignment(agent_id="bob", assigned_at=AT)), AssignmentOut)
    assert openintent.grant("i", grant)["expires_at"] is None


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


def test_a_task_has_every_field_that_the_sdk_reads() -> None:
    document = openintent.task(a_task({"priority": "high"}))

    assert fits(document, TaskOut)
    assert (document["name"], document["priority"], document["attempt"], document["blocks"]) == ("look", "high", 1, [])


def test_a_task_never_shows_null_where_the_sdk_needs_a_list() -> None:
    nothing = dict.fromkeys(openintent.task(a_task({})))
    details = {
        name: None for name in nothing if name in TaskIn.__struct_fields__ or name in TaskPatch.__struct_fields__
    }

    assert fits(openintent.task(a_task(details)), TaskOut)


def test_only_what_was_said_about_a_task_is_kept() -> None:
    created = msgspec.convert({"intent_id": "i", "name": "n", "input": None, "unknown": 1}, TaskIn)
    changed = msgspec.convert({"status": "running", "output": {"a": 1}}, TaskPatch)

    assert openintent.details_of(created) == {"input": None}
    assert openintent.details_of(changed) == {"output": {"a": 1}}
