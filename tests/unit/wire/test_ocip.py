from __future__ import annotations

import json
from typing import Any

import pytest

from parley.domain.content.classification import Classification, DataItem
from parley.domain.content.envelope import Ext, Purpose, Wishes
from parley.domain.errors.rules import EnvelopeInvalid
from parley.wire import ocip
from parley.wire.ocip import OcipFormat, envelope_document, ext_document, read_envelope, wishes_of
from tests.samples.governed import an_envelope

# As the specification prints it.
EXAMPLE: dict[str, Any] = {
    "version": "1.0",
    "message_type": "agent-generated",
    "source_agent": {
        "instance_id": "agent-abc-123",
        "user_id": "alice",
        "org_unit": "engineering",
        "tenant_id": "acme-corp",
    },
    "classification": "internal",
    "conversation_id": "conv-789-xyz",
    "exchange_round": 1,
    "max_rounds": 3,
    "capabilities": {"can_commit": False, "can_share": ["public", "internal"]},
    "reply_policy": "agent-ok",
    "requires_commitment": False,
    "expires_at": "2026-03-14T10:00:00.000Z",
}


def changed(path: str, value: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(EXAMPLE))
    *way, last = path.split(".")
    inner = document
    for step in way:
        inner = inner[step]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return document


GONE = object()


def fields(path: str = "", within: dict[str, Any] = EXAMPLE) -> list[str]:
    found = []
    for name, value in within.items():
        found.append(path + name)
        if isinstance(value, dict):
            found += fields(f"{path}{name}.", value)
    return found


def test_the_envelope_of_the_specification_is_read_and_written_the_same() -> None:
    assert len(fields()) == 17
    assert envelope_document(read_envelope(EXAMPLE)) == EXAMPLE
    assert list(envelope_document(read_envelope(EXAMPLE))) == list(EXAMPLE)


def problem(document: object) -> str:
    with pytest.raises(EnvelopeInvalid) as refused:
        read_envelope(document)
    (one,) = refused.value.problems
    return str(one.field)


@pytest.mark.parametrize("field", fields())
def test_a_missing_field_is_named(field: str) -> None:
    assert problem(changed(field, GONE)) == field


@pytest.mark.parametrize("wrong", [None, 7, "", [], {}, True, 1.5, "x" * 300])
@pytest.mark.parametrize("field", fields())
def test_a_wrong_type_is_named_and_never_becomes_a_default(field: str, wrong: object) -> None:
    fine = {
        "exchange_round": wrong == 7,
        "max_rounds": wrong == 7,
        "capabilities.can_share": wrong == [],
        "capabilities.can_commit": wrong is True,
        "requires_commitment": wrong is True,
    }
    # True and 1 are the same to Python.
    if fine.get(field) and not (field in ("exchange_round", "max_rounds") and wrong is True):
        read_envelope(changed(field, wrong))
        return
    found = problem(changed(field, wrong))
    assert found == field or found.startswith(f"{field}.")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("version", "2.0"),
        ("version", "1"),
        ("version", "1.0.0"),
        ("version", " 1.0"),
        ("version", "1.\u0661"),
        ("message_type", "Human"),
        ("message_type", "human "),
        ("classification", "secret"),
        ("classification", "PUBLIC"),
        ("conversation_id", "../x y"),
        ("conversation_id", "x" * 129),
        ("conversation_id", "a\n"),
        ("exchange_round", 0),
        ("exchange_round", -1),
        ("exchange_round", "1"),
        ("exchange_round", True),
        ("max_rounds", 0),
        ("max_rounds", 10**9),
        ("max_rounds", True),
        ("capabilities.can_share", ["public", "all"]),
        ("capabilities.can_share", ["public"] * 5),
        ("capabilities.can_share", "public"),
        ("reply_policy", "anyone"),
        ("requires_commitment", "false"),
        ("requires_commitment", 0),
        ("expires_at", "tomorrow"),
        ("expires_at", "2026-03-14T10:00:00"),
        ("expires_at", "2026-02-30T10:00:00Z"),
        ("expires_at", 1773482400),
    ],
)
def test_a_wrong_value_is_named(field: str, wrong: object) -> None:
    assert problem(changed(field, wrong)) == field


@pytest.mark.parametrize("field", ["extra", "source_agent.extra", "capabilities.extra"])
def test_a_field_too_many_is_named(field: str) -> None:
    assert problem(changed(field, 1)) == field


@pytest.mark.parametrize("document", [None, [], "x", 1, True])
def test_what_is_no_object_is_no_envelope(document: object) -> None:
    assert problem(document) == "ocip"


# ---------------------------------------------------------------- wishes


def test_metadata_without_a_word_of_ours_asks_for_nothing() -> None:
    assert wishes_of({}) is None
    other = wishes_of({"note": "x", "priority": 1})
    assert other is None or not other.annotated


def test_everything_that_a_sender_may_ask_for_is_read() -> None:
    wishes = wishes_of(
        {
            "exchange_type": "meeting_scheduling",
            "classification": "restricted",
            "conversation_id": "conv-1",
            "max_rounds": 2,
            "expires_at": "2026-03-14T11:00:00+01:00",
            "data": [
                {"source": "crm", "fields": ["a.b"], "classification": "internal", "description": "d" * 300},
                {"source": "hr"},
            ],
            "parent_message_id": "msg_1",
        }
    )

    assert wishes == Wishes(
        purpose=Purpose.MEETING_SCHEDULING,
        classification=Classification.RESTRICTED,
        conversation_id="conv-1",
        max_rounds=2,
        expires_at="2026-03-14T10:00:00.000000+00:00",
        # What has no level is as secret as can be.
        data=(
            DataItem("crm", ("a.b",), Classification.INTERNAL, "d" * 200),
            DataItem("hr", (), Classification.RESTRICTED, ""),
        ),
        parent_message_id="msg_1",
    )


def test_a_whole_envelope_is_one_of_the_wishes() -> None:
    wishes = wishes_of({"ocip": EXAMPLE})

    assert wishes is not None
    assert wishes.envelope == read_envelope(EXAMPLE)
    assert wishes.annotated


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"exchange_type": "chat"}, "exchange_type"),
        ({"exchange_type": None}, "exchange_type"),
        ({"classification": "top"}, "classification"),
        ({"ocip": None}, "ocip"),
        ({"ocip": {}}, "version"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_rounds": "3"}, "max_rounds"),
        ({"data": {}}, "data"),
        ({"data": [1]}, "data[0]"),
        ({"data": [{"source": "a"}, {"fields": []}]}, "data[1]"),
        ({"data": [{"source": "a", "secret": 1}]}, "data[0]"),
        ({"data": [{"source": 1}]}, "data[0].source"),
        ({"data": [{"source": "a", "fields": "b"}]}, "data[0].fields"),
        ({"data": [{"source": "a", "fields": [""]}]}, "data[0].fields"),
        ({"data": [{"source": "a", "description": 1}]}, "data[0].description"),
        ({"data": [{"source": "a"}] * 101}, "data"),
        ({"exchange_type": "information_query", "conversation_id": ""}, "conversation_id"),
        ({"exchange_type": "information_query", "expires_at": "soon"}, "expires_at"),
        ({"exchange_type": "information_query", "parent_message_id": 1}, "parent_message_id"),
    ],
)
def test_what_cannot_be_read_is_a_refusal_that_names_the_field(metadata: dict[str, Any], field: str) -> None:
    wishes = wishes_of(metadata)

    assert wishes is not None
    assert wishes.annotated
    assert wishes.problem is not None
    assert [one.field for one in wishes.problem.problems] == [field]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("classification", "public"),
        ("conversation_id", "conv-2"),
        ("max_rounds", 2),
        ("expires_at", "2026-03-14T10:00:01Z"),
        ("exchange_type", "commitment_request"),
    ],
)
def test_who_says_something_twice_says_the_same(field: str, value: object) -> None:
    wishes = wishes_of({"ocip": EXAMPLE, field: value})

    assert wishes is not None
    assert wishes.problem is not None
    assert [one.field for one in wishes.problem.problems] == [field]


@pytest.mark.parametrize("metadata", [{"conversation_id": 7}, {"expires_at": 30}, {"parent_message_id": {}}])
def test_where_other_programs_mean_something_else_it_is_a_refusal_only_under_the_rules(
    metadata: dict[str, Any],
) -> None:
    wishes = wishes_of(metadata)

    assert wishes is not None
    assert not wishes.annotated
    assert wishes.problem is not None


def test_who_says_what_only_we_say_asks_to_be_stamped() -> None:
    wishes = wishes_of({"ocip_ext": {"approval": {"id": "appr_1", "by": "boss"}}})

    assert wishes is not None
    assert (wishes.annotated, wishes.problem) == (True, None)


# ---------------------------------------------------------------- stamping

EXT = Ext("exch_1", Purpose.INFORMATION_QUERY, 2, "1-abc")


def stamped(
    metadata: dict[str, Any], ext: Ext = EXT, label: str = "by an AI", data: tuple[DataItem, ...] = ()
) -> dict[str, Any]:
    spelled = json.dumps(metadata).encode() if metadata else b"{}"
    found = json.loads(OcipFormat().stamped(spelled, an_envelope(), ext, label, data))
    assert isinstance(found, dict)
    return found


def test_whatever_a_sender_wrote_in_our_place_is_gone_and_the_rest_is_kept() -> None:
    forged = {"ocip": EXAMPLE, "ocip_ext": {"approval": {"by": "boss"}}, "disclosure": "a human", "note": "kept"}

    assert stamped(forged) == {
        "note": "kept",
        "ocip": envelope_document(an_envelope()),
        "ocip_ext": {
            "exchange_id": "exch_1",
            "exchange_type": "information_query",
            "hops": 2,
            "policy_version": "1-abc",
            "disclosure": {"ai": True, "label": "by an AI"},
        },
        "disclosure": "by an AI",
    }


def test_a_persons_message_has_no_label_not_even_a_forged_one() -> None:
    found = stamped({"disclosure": "by an AI"}, label="")

    assert "disclosure" not in found
    assert found["ocip_ext"]["disclosure"] is None


def test_an_approved_message_says_who_approved_it() -> None:
    ext = EXT._replace(approval_id="appr_1", approved_by="ann")

    assert stamped({}, ext)["ocip_ext"]["approval"] == {"id": "appr_1", "by": "ann"}
    assert stamped({}, ext._replace(signature="s"))["ocip_ext"]["approval"]["signature"] == "s"
    assert "approval" not in ext_document(EXT, "")


def test_only_data_that_may_pass_is_declared() -> None:
    item = DataItem("crm", ("a",), Classification.PUBLIC)

    assert stamped({"data": ["whatever"]}, data=(item,))["data"] == [ocip.item_document(item)]
    assert stamped({"data": ["whatever"]})["data"] == []
    assert "data" not in stamped({})


def test_bodies_and_wishes_are_json() -> None:
    form = OcipFormat()

    assert form.body(form.payload({"text": "日本"})) == {"text": "日本"}
    assert form.wishes(b"{}") is None
    assert form.wishes(b'{"max_rounds":2}') == Wishes(max_rounds=2)
