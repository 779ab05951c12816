"""Accept liberally: what costs nobody the message is a doubt, not a problem."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.message.bodies import check_body
from parley.domain.message.message import Kind, Priority, Reading, Value
from parley.wire.oacp.format import OacpFormat
from parley.wire.oacp.read import OPTIONAL, REQUIRED
from parley.wire.yaml.write import mapping_text, quoted
from tests.samples.messages import a_file, fields_of

FORMAT = OacpFormat()


def inspect(content: bytes, limits: Limits = DEFAULT_LIMITS) -> Reading:
    return OacpFormat(limits).inspect(content)


def problems(content: bytes) -> list[tuple[str, str]]:
    return [(one.code, one.field) for one in inspect(content).problems]


def doubts(content: bytes) -> list[tuple[str, str]]:
    reading = inspect(content)
    assert reading.message is not None, reading.problems
    return [(one.code, one.field) for one in reading.doubts]


def test_a_plain_message_leaves_no_doubt() -> None:
    reading = inspect(a_file())

    assert (reading.problems, reading.doubts) == ([], [])
    assert reading.message is not None
    assert reading.message.body == "Add rate limiting to the /api/v1/* routes.\nToken bucket.\n"


@pytest.mark.parametrize("name", ["id", "from", "to", "type", "created_at_utc", "subject", "body"])
def test_a_file_without_a_required_field_is_no_message(name: str) -> None:
    assert (("missing_field", name)) in problems(a_file(without=name))


@pytest.mark.parametrize("name", ["id", "from_", "to", "type", "created_at_utc", "subject"])
@pytest.mark.parametrize("nothing", ['""', "", "~"])
def test_an_empty_required_field_is_a_missing_one(name: str, nothing: str) -> None:
    assert problems(a_file(**{name: nothing})) == [("missing_field", name.rstrip("_"))]


def test_an_empty_list_names_nobody() -> None:
    assert problems(a_file(to="[]")) == [("missing_field", "to")]


WRONG = ("{}", "[]", "[[]]", "[{}]", "{a: b}", "[a]", "[a, {}]", "[null]", '[""]', "{a: {b: c}}")
# What is no text and yet a value of the field.
ALLOWED = {
    "to": {"[a]"},
    "body": {"{}", "{a: b}", "{a: {b: c}}"},
    "context_keys": {one for one in WRONG if one[0] == "["},
}


@pytest.mark.parametrize("name", [*REQUIRED, *OPTIONAL])
@pytest.mark.parametrize("value", WRONG)
@pytest.mark.requirement("D-READ-TYPES")
def test_a_field_of_the_wrong_type_makes_a_bad_file_that_names_it(name: str, value: str) -> None:
    content = a_file(**{"from_" if name == "from" else name: value})

    if value in ALLOWED.get(name, ()):
        assert inspect(content).message is not None
        return
    assert {field for _, field in problems(content)} == {name}
    with pytest.raises(Invalid, match=f"{name}: "):
        FORMAT.heading(content)


def test_a_body_without_fields_is_an_empty_one() -> None:
    assert ("missing_field", "body") in doubts(a_file(body="{}"))


def test_a_missing_priority_is_p2_and_a_doubt() -> None:
    reading = inspect(a_file(without="priority"))

    assert reading.message is not None
    assert reading.message.priority is Priority.P2
    assert doubts(a_file(without="priority")) == [("missing_field", "priority")]


def test_an_empty_body_is_a_doubt() -> None:
    assert doubts(a_file(body='""')) == [("missing_field", "body")]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("id", "[a]", ("bad_field", "id")),
        ("id", '"' + "x" * 201 + '"', ("too_long", "id")),
        ("conversation_id", "x" * 201, ("too_long", "conversation_id")),
        ("parent_message_id", "x" * 201, ("too_long", "parent_message_id")),
        ("from_", "../x", ("bad_agent_name", "from")),
        ("from_", "[claude]", ("bad_field", "from")),
        ("to", "a/b", ("bad_agent_name", "to")),
        ("to", "[a, [b]]", ("bad_agent_name", "to")),
        ("to", "[a, ~]", ("bad_agent_name", "to")),
        ("to", "{a: b}", ("bad_agent_name", "to")),
        ("type", "chat", ("bad_type", "type")),
        ("type", "Handoff", ("bad_type", "type")),
        ("type", "[handoff]", ("bad_field", "type")),
        ("priority", "P4", ("bad_priority", "priority")),
        ("priority", "p1", ("bad_priority", "priority")),
        ("priority", "[P1]", ("bad_field", "priority")),
        ("created_at_utc", "yesterday", ("bad_time", "created_at_utc")),
        ("created_at_utc", "2026-03-13", ("bad_time", "created_at_utc")),
        ("created_at_utc", "{a: b}", ("bad_field", "created_at_utc")),
        ("subject", "[a]", ("bad_field", "subject")),
        ("body", "[a]", ("bad_field", "body")),
        ("channel", "[a]", ("bad_field", "channel")),
        ("related_packet", "{a: b}", ("bad_field", "related_packet")),
        ("context_keys", "{a: b}", ("bad_field", "context_keys")),
    ],
)
def test_what_cannot_be_understood_is_one_problem(name: str, value: str, problem: tuple[str, str]) -> None:
    assert problems(a_file(**{name: value})) == [problem]


@pytest.mark.parametrize("name", ["id", "conversation_id", "parent_message_id"])
def test_an_id_of_200_characters_is_taken(name: str) -> None:
    assert doubts(a_file(**{name: "x" * 200})) == []


@pytest.mark.parametrize(
    ("name", "value", "doubt"),
    [
        ("expires_at", "tomorrow", ("bad_time", "expires_at")),
        ("subject", "x" * 201, ("too_long", "subject")),
        ("channel", "x" * 65, ("too_long", "channel")),
        ("body", '"' + "x" * 20_001 + '"', ("body_too_long", "body")),
        ("context_keys", '"' + "word " * 501 + '"', ("long_context", "context_keys")),
        ("related_pr", "the big one", ("bad_related_pr", "related_pr")),
        ("subject", r'"one\ntwo"', ("not_one_line", "subject")),
        ("created_at_utc", "2026-03-13T14:30:00", ("no_time_zone", "created_at_utc")),
        ("created_at_utc", "2026-03-13T16:30:00+02:00", ("local_time", "created_at_utc")),
        ("expires_at", "2026-03-13T14:30:00", ("no_time_zone", "expires_at")),
        ("to", "[" + ", ".join(f"a{n}" for n in range(11)) + "]", ("too_many_recipients", "to")),
        ("to", "[codex, claude]", ("sender_in_list", "to")),
    ],
)
def test_a_breach_that_costs_nobody_the_message_is_a_doubt(name: str, value: str, doubt: tuple[str, str]) -> None:
    assert doubts(a_file(**{name: value})) == [doubt]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subject", "x" * 200),
        ("channel", "x" * 64),
        ("body", '"' + "x" * 20_000 + '"'),
        ("context_keys", '"' + "word " * 500 + '"'),
        ("to", "[" + ", ".join(f"a{n}" for n in range(10)) + "]"),
        ("to", "claude"),
    ],
)
def test_a_field_at_its_limit_leaves_no_doubt(name: str, value: str) -> None:
    assert doubts(a_file(**{name: value})) == []


def test_recipients_are_folded_in_order() -> None:
    reading = inspect(a_file(to="[b, a, b, c, a]"))

    assert reading.message is not None
    assert reading.message.to == ("b", "a", "c")


@pytest.mark.parametrize("offset", ["2026-03-13T16:30:00+02:00", "2026-03-13T14:30:00.25Z", "2026-03-13 14:30:00z"])
def test_times_are_read_in_every_rfc_3339_spelling(offset: str) -> None:
    reading = inspect(a_file(created_at_utc=offset))

    assert reading.message is not None
    assert reading.message.created_at.replace(microsecond=0) == datetime(2026, 3, 13, 14, 30, tzinfo=UTC)


def test_a_bad_expiry_is_none() -> None:
    reading = inspect(a_file(expires_at="tomorrow"))

    assert reading.message is not None
    assert reading.message.expires_at is None


def test_context_keys_given_as_a_list_become_lines() -> None:
    reading = inspect(a_file(context_keys='\n  - "pr:42"\n  - file\n  - pr: 42\n    by: [a, b]'))

    assert reading.message is not None
    assert reading.message.context_keys == "- pr:42\n- file\n- pr: 42; by: a, b"


@pytest.mark.parametrize(
    ("kind", "changes", "doubt"),
    [
        (Kind.FOLLOW_UP, {"risk_tier": "P3"}, ("priority_mismatch", "priority")),
        (Kind.HANDOFF, {"target_agent": "gemini"}, ("contradiction", "body.target_agent")),
        (Kind.REVIEW_LGTM, {"quality_gate_result": "fail"}, ("contradiction", "body.merge_ready")),
        (Kind.REVIEW_REQUEST, {"max_turns_reviewer": 21}, ("too_many_rounds", "body.max_turns_reviewer")),
        (Kind.HANDOFF, {"artifacts_to_review": [""]}, ("bad_body_field", "body.artifacts_to_review")),
        (Kind.HANDOFF, {"artifacts_to_review": [None, " "]}, ("bad_body_field", "body.artifacts_to_review")),
        (Kind.HANDOFF_COMPLETE, {"tests_run": " "}, ("bad_body_field", "body.tests_run")),
    ],
)
def test_a_body_that_contradicts_its_message_is_a_doubt(
    kind: Kind, changes: dict[str, Value], doubt: tuple[str, str]
) -> None:
    body = quoted(mapping_text(fields_of(kind, **changes)))

    assert doubts(a_file(type=kind.value, priority="P1", body=body)) == [doubt]


def test_text_about_tests_is_accepted_from_others_and_not_sent() -> None:
    body = fields_of(Kind.HANDOFF_COMPLETE, tests_run="make test")

    assert doubts(a_file(type="handoff_complete", body=quoted(mapping_text(body)))) == []
    assert [problem.field for problem in check_body(Kind.HANDOFF_COMPLETE, body)] == ["body.tests_run"]


def test_unknown_fields_are_kept_in_their_shape() -> None:
    reading = inspect(a_file(ocip="{a: [b]}", model="x", note='""'))

    assert reading.message is not None
    assert reading.message.extras == {"ocip": {"a": ["b"]}, "model": "x", "note": ""}


@pytest.mark.parametrize("as_text", [True, False])
def test_a_structured_body_is_the_same_as_text_and_as_a_mapping(as_text: bool) -> None:
    body = fields_of(Kind.REVIEW_FEEDBACK)
    text = mapping_text(body)
    written = quoted(text) if as_text else "\n" + "".join(f"  {line}\n" for line in text.splitlines())

    reading = inspect(a_file(type="review_feedback", body=written.rstrip("\n")))

    assert reading.message is not None
    assert reading.message.body == body
    assert reading.doubts == []


def test_a_structured_body_with_a_gap_is_a_doubt() -> None:
    text = quoted(mapping_text(fields_of(Kind.REVIEW_FEEDBACK, round=None)))

    assert doubts(a_file(type="review_feedback", body=text)) == [("missing_body_field", "body.round")]


def test_free_text_of_a_structured_kind_is_kept_with_a_doubt() -> None:
    content = a_file(type="review_request", body='"PR #42: please look"')

    assert doubts(content) == [("body_not_structured", "body")]
    assert FORMAT.decode(content).body == "PR #42: please look"


def test_a_hostile_text_in_a_structured_body_stays_text() -> None:
    content = a_file(type="review_request", body='"a: &x b\\nc: *x\\n"')

    assert FORMAT.decode(content).body == "a: &x b\nc: *x\n"


def test_a_mapping_of_a_free_kind_is_kept_as_fields() -> None:
    assert FORMAT.decode(a_file(body="{a: b, n: 1}")).body == {"a": "b", "n": "1"}


@pytest.mark.parametrize(
    ("parent", "body", "doubt"),
    [
        ("m0", '"Note: done"', []),
        ("m0", '"Thanks"', []),
        ("m0", "{owner: claude}", ["missing_body_field"] * 5),
        ("", '"Thanks"', ["body_not_structured"]),
        ("", '"Note: done"', ["missing_body_field"] * 6),
    ],
)
def test_only_free_text_with_a_parent_continues_a_conversation(parent: str, body: str, doubt: list[str]) -> None:
    content = a_file(type="follow_up", parent_message_id=f'"{parent}"', body=body)

    assert [code for code, _ in doubts(content)] == doubt


def test_a_complete_follow_up_is_read_as_fields_also_with_a_parent() -> None:
    body = fields_of(Kind.FOLLOW_UP)

    message = FORMAT.decode(a_file(type="follow_up", parent_message_id="m0", body=quoted(mapping_text(body))))

    assert message.body == body


@pytest.mark.parametrize("kind", ["handoff", "handoff_complete"])
def test_a_broadcast_handoff_is_a_doubt(kind: str) -> None:
    text = quoted(mapping_text(fields_of(Kind(kind))))

    assert doubts(a_file(type=kind, to="[codex, gemini]", body=text)) == [("point_to_point", "to")]
