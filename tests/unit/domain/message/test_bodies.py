"""What a kind finds in a body."""

from __future__ import annotations

import pytest

from parley.domain.message.bodies import (
    check_body,
    default_priority,
    default_reply,
    is_inside,
    is_structured,
    lookup,
    shape_body,
)
from parley.domain.message.kinds import Kind, Priority, Shape
from parley.domain.message.message import Value
from tests.samples.messages import STRUCTURED, a_body, a_message, fields_of


def codes(kind: Kind, body: Value, in_reply_to: str = "") -> list[tuple[str, str]]:
    assert isinstance(body, str | dict)
    return [(one.code, one.field) for one in check_body(kind, body, in_reply_to=in_reply_to)]


def with_field(kind: Kind, name: str, value: Value) -> dict[str, Value]:
    """The sample body of `kind` with the value at a dotted name changed, or taken away with None."""
    body = fields_of(kind)
    inner = body
    *path, last = name.split(".")
    for part in path:
        deeper = inner[part]
        assert isinstance(deeper, dict)
        inner = deeper
    inner.pop(last, None)
    if value is not None:
        inner[last] = value
    return body


FIELDS = [(kind, field) for kind in Kind for field in kind.spec.fields]
NAMED = [pytest.param(kind, field, id=f"{kind}.{field.name}") for kind, field in FIELDS]


def test_there_is_a_sample_of_every_structured_body() -> None:
    assert {kind for kind in Kind if is_structured(kind)} == set(STRUCTURED)


@pytest.mark.parametrize("kind", Kind)
def test_an_ordinary_body_leaves_nothing_to_say(kind: Kind) -> None:
    assert check_body(kind, a_body(kind)) == []


@pytest.mark.parametrize(("kind", "field"), NAMED)
def test_a_missing_field_is_named_when_it_is_required(kind: Kind, field: object) -> None:
    name, required = getattr(field, "name", ""), getattr(field, "required", None)
    expected = [("missing_body_field", f"body.{name}")] if required else []

    assert codes(kind, with_field(kind, name, None)) == expected
    assert codes(kind, with_field(kind, name, "")) == expected


WRONG: dict[Shape, list[Value]] = {
    Shape.TEXT: [7, True, ["a"], {"a": "b"}],
    Shape.PATH: [7, ["a"], "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "a/.", ".."],
    Shape.INTEGER: ["one", "1.5", True, -1, ["1"], {}],
    Shape.BOOLEAN: ["maybe", 1, ["true"], "1"],
    Shape.LIST: ["text", {"a": "b"}, 7],
    Shape.FULL_LIST: ["text", {"a": "b"}, 7, []],
}


@pytest.mark.parametrize(("kind", "field"), NAMED)
def test_a_field_of_another_type_is_named(kind: Kind, field: object) -> None:
    name, shape = getattr(field, "name", ""), getattr(field, "shape", Shape.TEXT)
    for value in WRONG[shape]:
        assert codes(kind, with_field(kind, name, value)) == [("bad_body_field", f"body.{name}")], value


def test_an_empty_list_is_enough_where_the_specification_asks_only_for_a_list() -> None:
    assert (
        codes(Kind.REVIEW_ADDRESSED, fields_of(Kind.REVIEW_ADDRESSED, touched_files=[], addressed_finding_ids=[])) == []
    )


@pytest.mark.parametrize(
    ("kind", "name", "choices"),
    [
        (Kind.FOLLOW_UP, "source_type", ["review", "task", "deploy", "incident", "other"]),
        (Kind.FOLLOW_UP, "risk_tier", ["P2", "P3"]),
        (Kind.REVIEW_LGTM, "quality_gate_result", ["pass", "fail"]),
    ],
)
def test_a_choice_is_one_of_those_listed(kind: Kind, name: str, choices: list[str]) -> None:
    for choice in choices:
        assert codes(kind, with_field(kind, name, choice)) == []
    for other in ("P0", "P1", "Pass", "anything"):
        assert codes(kind, with_field(kind, name, other)) == [("bad_body_field", f"body.{name}")]


@pytest.mark.parametrize(
    ("kind", "name", "least"),
    [
        (Kind.REVIEW_FEEDBACK, "round", 1),
        (Kind.REVIEW_FEEDBACK, "blocking_count", 0),
        (Kind.REVIEW_ADDRESSED, "round", 1),
        (Kind.REVIEW_REQUEST, "max_turns_reviewer", 1),
        (Kind.REVIEW_REQUEST, "max_runtime_s_reviewer", 1),
    ],
)
def test_a_number_has_its_least_value(kind: Kind, name: str, least: int) -> None:
    assert codes(kind, with_field(kind, name, least)) == []
    assert codes(kind, with_field(kind, name, least - 1)) == [("bad_body_field", f"body.{name}")]


def test_all_gaps_are_named_at_once() -> None:
    assert codes(Kind.REVIEW_FEEDBACK, {"round": 0}) == [
        ("missing_body_field", "body.findings_packet"),
        ("bad_body_field", "body.round"),
        ("missing_body_field", "body.blocking_count"),
    ]


@pytest.mark.parametrize("kind", STRUCTURED)
def test_text_is_no_structured_body(kind: Kind) -> None:
    assert codes(kind, "free text") == [("body_not_structured", "body")]


def test_only_a_follow_up_with_a_parent_may_be_free_text() -> None:
    assert codes(Kind.FOLLOW_UP, "free text", in_reply_to="m0") == []
    assert codes(Kind.REVIEW_LGTM, "free text", in_reply_to="m0") == [("body_not_structured", "body")]


@pytest.mark.parametrize("kind", sorted(set(Kind) - set(STRUCTURED)))
@pytest.mark.parametrize("body", ["free text", {"any": "field"}])
def test_a_free_kind_takes_anything(kind: Kind, body: Value) -> None:
    assert codes(kind, body) == []


@pytest.mark.parametrize("path", ["a", "packets/findings/x.yaml", "..a/b..c", "a b/\u00fc"])
def test_a_packet_lies_inside_the_project(path: str) -> None:
    assert is_inside(path)
    assert codes(Kind.REVIEW_FEEDBACK, fields_of(Kind.REVIEW_FEEDBACK, findings_packet=path)) == []


def test_a_dotted_name_reaches_into_a_mapping() -> None:
    body: dict[str, Value] = {"a": {"b": ["c"]}, "x": "text"}

    assert lookup(body, "a.b") == ["c"]
    assert lookup(body, "a.z") is None
    assert lookup(body, "x.y") is None


@pytest.mark.parametrize(
    ("text", "number"), [
        ("1", 1), ("+2", 2), ("-3", -3), ("007", 7), ("1.0", "1.0"), ("1_0", "1_0"), ("\u0661", "\u0661"),
        ("1" * 10, "1" * 10),
    ]
)  # fmt: skip
def test_a_number_is_read_from_digits_alone(text: str, number: Value) -> None:
    assert shape_body(Kind.REVIEW_FEEDBACK, {"round": text})["round"] == number


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("true", True), ("YES", True), ("On", True), ("false", False), ("no", False), ("OFF", False), ("1", "1"),
        (True, True),
    ],
)  # fmt: skip
def test_a_truth_is_read_from_its_words(text: Value, truth: Value) -> None:
    assert shape_body(Kind.HANDOFF_COMPLETE, {"tests_run": text})["tests_run"] == truth


@pytest.mark.parametrize(
    ("pr", "shaped"),
    [("42", "#42"), ("#42", "#42"), (42, "#42"), ("https://x/pull/42", "https://x/pull/42"), ("42a", "42a")],
)
def test_a_finished_handoff_names_its_pull_request_with_a_hash(pr: Value, shaped: str) -> None:
    assert shape_body(Kind.HANDOFF_COMPLETE, {"pr": pr})["pr"] == shaped
    assert shape_body(Kind.REVIEW_REQUEST, {"pr": pr})["pr"] == str(pr)


def test_list_items_become_lines_of_text() -> None:
    items: list[Value] = ["a", 7, True, None, {"file": "x.py", "why": ["b", "c"]}, ["d", "e"]]

    shaped = shape_body(Kind.HANDOFF, {"artifacts_to_review": items, "context_bundle": {"files_touched": items}})

    lines = ["a", "7", "true", "", "file: x.py; why: b, c", "d, e"]
    assert shaped == {"artifacts_to_review": lines, "context_bundle": {"files_touched": lines}}


def test_unknown_fields_are_kept_as_text_and_nothing_as_nothing() -> None:
    body: dict[str, Value] = {"n": 1, "t": True, "none": None, "deep": {"x": [1, {"y": False}]}, "round": "x"}

    assert shape_body(Kind.REVIEW_FEEDBACK, body) == {
        "n": "1",
        "t": "true",
        "deep": {"x": ["1", {"y": "false"}]},
        "round": "x",
    }


@pytest.mark.parametrize("kind", STRUCTURED)
def test_shaping_twice_changes_nothing(kind: Kind) -> None:
    once = shape_body(kind, fields_of(kind))

    assert shape_body(kind, once) == once == STRUCTURED[kind]


@pytest.mark.parametrize("kind", Kind)
def test_the_default_answer_is_one_of_those_expected(kind: Kind) -> None:
    answers = kind.answers

    assert default_reply(kind) is (answers[0] if answers else Kind.NOTIFICATION)


INHERITING = {
    Kind.HANDOFF_COMPLETE,
    Kind.REVIEW_FEEDBACK,
    Kind.REVIEW_ADDRESSED,
    Kind.REVIEW_LGTM,
    Kind.BRAINSTORM_FOLLOWUP,
}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("priority", Priority)
def test_an_answer_is_as_urgent_as_what_it_answers(kind: Kind, priority: Priority) -> None:
    parent = a_message(priority=priority)

    chosen = default_priority(kind, a_body(kind), parent)

    assert chosen is (priority if kind in INHERITING else default_priority(kind, a_body(kind), None))


def test_without_a_word_a_message_has_the_priority_typical_of_its_kind() -> None:
    chosen = {kind: default_priority(kind, a_body(kind), None) for kind in Kind}

    assert {kind for kind, priority in chosen.items() if priority is Priority.P1} == {Kind.HANDOFF, Kind.REVIEW_REQUEST}
    assert {kind for kind, priority in chosen.items() if priority is Priority.P3} == {
        Kind.FOLLOW_UP
    }  # by its risk_tier
    assert Priority.P0 not in chosen.values()


@pytest.mark.parametrize(("tier", "priority"), [("P2", Priority.P2), ("P3", Priority.P3)])
def test_a_follow_up_is_as_urgent_as_its_risk(tier: str, priority: Priority) -> None:
    assert default_priority(Kind.FOLLOW_UP, fields_of(Kind.FOLLOW_UP, risk_tier=tier), a_message()) is priority


def test_a_follow_up_in_free_text_is_p2() -> None:
    assert default_priority(Kind.FOLLOW_UP, "text", a_message(priority=Priority.P0)) is Priority.P2
