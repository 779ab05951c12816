import msgspec
import pytest

from parley.domain.directory.access import Assignment
from parley.domain.directory.intent import Intent, Patch, PatchOp
from parley.domain.errors.errors import Invalid
from parley.wire.api import intents as openintent
from parley.wire.api.intents import IntentIn, StateIn

AT = "2026-03-13T14:30:00.000000+00:00"


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


def test_an_intent_is_shown_with_lists_that_are_never_null() -> None:
    stored = Intent(id="i", tenant_id="t", version=3, title="T", created_by="alice", created_at=AT, updated_at=AT)

    intent = openintent.intent_of(stored)

    assert (intent.version, intent.depends_on, intent.parent_intent_id) == (3, [], None)


def test_an_assignment_without_an_id_gets_one() -> None:
    assert openintent.assignment_of("i", Assignment(agent_id="bob", assigned_at=AT)).id == "i:bob"


@pytest.mark.parametrize("field", ["id", "tenant_id", "version", "governance_policy"])
def test_an_intent_is_created_with_nothing_that_the_server_decides(field: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"title": "T", field: "x"}, IntentIn)
