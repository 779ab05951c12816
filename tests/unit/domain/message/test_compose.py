"""From Draft to Message: every broken rule is named, and nothing else is changed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from parley.domain.errors.errors import BadAgentName, Invalid
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.message.compose import EMITTED_EXTRAS, check_recipients, compose, normal_pr, warnings
from parley.domain.message.message import Draft, Kind, Message, Priority, Value
from tests.samples.messages import NOW, STRUCTURED, a_draft, a_message, fields_of

ID = "msg-20260313T1430Z-claude-a8f3"


def composed(
    draft: Draft, parent: Message | None = None, limits: Limits = DEFAULT_LIMITS, *, free_form: bool = False
) -> Message:
    return compose(draft, ID, NOW, parent, limits, free_form=free_form)


def refused(draft: Draft, limits: Limits = DEFAULT_LIMITS, *, free_form: bool = False) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as refusal:
        composed(draft, None, limits, free_form=free_form)
    return [(one.code, one.field) for one in refusal.value.problems]


def test_a_draft_becomes_the_message_it_describes() -> None:
    expires = NOW + timedelta(days=1)
    draft = a_draft(
        to=("codex", "gemini"),
        priority=Priority.P0,
        expires_at=expires,
        tag="review",
        related_packet="p-1",
        related_pr="#42",
        conversation_id="conv-1",
        in_reply_to="m0",
        context_keys="- a\n",
        extras={"model": "x"},
    )

    assert composed(draft) == Message(
        ID,
        "claude",
        ("codex", "gemini"),
        Kind.TASK_REQUEST,
        Priority.P0,
        NOW,
        draft.subject,
        draft.body,
        expires,
        "review",
        "p-1",
        "42",
        "conv-1",
        "m0",
        "- a\n",
        {"model": "x"},
    )


def test_fractions_of_a_second_are_dropped_because_no_file_carries_them() -> None:
    at = NOW.replace(microsecond=999_999)

    message = compose(a_draft(expires_at=at + timedelta(hours=1)), ID, at, None)

    assert (message.created_at, message.expires_at) == (NOW, NOW + timedelta(hours=1))


def test_recipients_are_folded_in_order() -> None:
    assert composed(a_draft(to=("b", "a", "b"))).to == ("b", "a")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "con", "x" * 65, "\u0430lice"])
def test_a_bad_name_is_refused_wherever_it_stands(name: str) -> None:
    for draft in (a_draft(sender=name), a_draft(to=("codex", name))):
        with pytest.raises(BadAgentName) as refusal:
            composed(draft)
        assert refusal.value.code == "bad_agent_name"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"to": ()}, ("no_recipient", "to")),
        ({"to": ("codex", "claude")}, ("sender_in_list", "to")),
        ({"subject": ""}, ("missing_field", "subject")),
        ({"subject": " \t"}, ("missing_field", "subject")),
        ({"body": ""}, ("missing_field", "body")),
        ({"body": " \n"}, ("missing_field", "body")),
        ({"body": {}}, ("missing_field", "body")),
        ({"tag": "with space"}, ("bad_channel", "channel")),
        ({"tag": "dots.no"}, ("bad_channel", "channel")),
        ({"tag": "newline\n"}, ("bad_channel", "channel")),
        ({"tag": "\u00fcber"}, ("bad_channel", "channel")),
        ({"related_pr": "PR 42"}, ("bad_related_pr", "related_pr")),
        ({"expires_at": NOW}, ("already_expired", "expires_at")),
        ({"expires_at": NOW - timedelta(seconds=1)}, ("already_expired", "expires_at")),
        ({"extras": {"ocip": "x"}}, ("unknown_field", "ocip")),
        ({"subject": "\ud800"}, ("not_text", "")),
        ({"body": "a\udfffb"}, ("not_text", "")),
        ({"context_keys": "\ud800"}, ("not_text", "")),
        ({"body": {"a": ["\ud800"]}}, ("not_text", "")),
        ({"body": {"\ud800": "a"}}, ("not_text", "")),
        ({"extras": {"model": "\ud800"}}, ("not_text", "")),
        ({"related_packet": "\ud800"}, ("not_text", "")),
        ({"conversation_id": "\ud800"}, ("not_text", "")),
        ({"in_reply_to": "\ud800"}, ("not_text", "")),
    ],
)
def test_a_broken_rule_is_named(changes: dict[str, Any], problem: tuple[str, str]) -> None:
    assert refused(a_draft(**changes)) == [problem]


def test_all_broken_rules_are_named_at_once() -> None:
    draft = a_draft(Kind.REVIEW_LGTM, body="LGTM", subject="", tag="a b", related_pr="x", to=("codex", "claude"))

    assert refused(draft) == [
        ("sender_in_list", "to"),
        ("missing_field", "subject"),
        ("bad_channel", "channel"),
        ("bad_related_pr", "related_pr"),
        ("body_not_structured", "body"),
    ]


@pytest.mark.parametrize(
    ("field", "shown", "most"),
    [
        ("subject", "subject", 200),
        ("tag", "channel", 64),
        ("conversation_id", "conversation_id", 200),
        ("in_reply_to", "parent_message_id", 200),
        ("related_packet", "related_packet", 200),
    ],
)
def test_a_text_at_its_limit_is_sent_and_one_more_refused(field: str, shown: str, most: int) -> None:
    assert getattr(composed(a_draft(**{field: "x" * most})), field) == "x" * most
    assert refused(a_draft(**{field: "x" * (most + 1)})) == [("too_long", shown)]


def test_a_body_of_20000_characters_is_sent_and_one_more_refused() -> None:
    assert composed(a_draft(body="\U0001f600" * 20_000))
    assert refused(a_draft(body="x" * 20_001)) == [("body_too_long", "body")]


def test_ten_recipients_are_reached_and_eleven_refused() -> None:
    assert len(composed(a_draft(to=tuple(f"a{n}" for n in range(10)))).to) == 10
    assert refused(a_draft(to=tuple(f"a{n}" for n in range(11)))) == [("too_many_recipients", "to")]


def test_recipients_named_twice_count_once() -> None:
    assert len(composed(a_draft(to=tuple(f"a{n}" for n in range(10)) * 2)).to) == 10


@pytest.mark.parametrize("words", [500, 501])
def test_context_of_more_than_500_words_is_sent_with_a_warning(words: int) -> None:
    message = composed(a_draft(context_keys="word " * words))

    assert [one.code for one in warnings(message)] == (["long_context"] if words > 500 else [])


def test_limits_can_be_configured() -> None:
    assert refused(a_draft(subject="12345"), limits=Limits(subject_chars=4)) == [("too_long", "subject")]


@pytest.mark.parametrize("kind", [Kind.HANDOFF, Kind.HANDOFF_COMPLETE])
def test_a_handoff_goes_to_exactly_one_agent(kind: Kind) -> None:
    assert refused(a_draft(kind, to=("codex", "gemini"))) == [("point_to_point", "to")]
    assert composed(a_draft(kind)).to == ("codex",)


def test_an_agent_may_write_to_itself_alone() -> None:
    assert composed(a_draft(to=("claude",))).to == ("claude",)
    assert check_recipients(Kind.FOLLOW_UP, "claude", ("claude",), DEFAULT_LIMITS) == []


@pytest.mark.parametrize("kind", STRUCTURED)
def test_a_structured_body_must_be_complete(kind: Kind) -> None:
    assert composed(a_draft(kind)).body == STRUCTURED[kind]
    problems = refused(a_draft(kind, body={"other": "x"}))

    assert {code for code, _ in problems} == {"missing_body_field"}


def test_the_values_of_a_body_take_the_types_of_their_kind() -> None:
    draft = a_draft(Kind.REVIEW_FEEDBACK, body=fields_of(Kind.REVIEW_FEEDBACK, round="2", blocking_count="0"))

    assert composed(draft).body == fields_of(Kind.REVIEW_FEEDBACK, round=2, blocking_count=0)


def test_a_continuation_is_free_text() -> None:
    assert composed(a_draft(Kind.FOLLOW_UP, body="Done.", in_reply_to="m0")).body == "Done."
    assert refused(a_draft(Kind.FOLLOW_UP, body="Done.")) == [("body_not_structured", "body")]
    assert refused(a_draft(Kind.FOLLOW_UP, body=" ", in_reply_to="m0")) == [("missing_field", "body")]


@pytest.mark.parametrize(
    ("priority", "tier", "fits"),
    [
        (None, "P3", True),
        (Priority.P3, "P3", True),
        (Priority.P2, "P2", True),
        (Priority.P0, "P3", False),
        (Priority.P3, "P2", False),
    ],
)
def test_a_follow_up_takes_its_risk_as_priority(priority: Priority | None, tier: str, fits: bool) -> None:
    draft = a_draft(Kind.FOLLOW_UP, priority=priority, body=fields_of(Kind.FOLLOW_UP, risk_tier=tier))

    if fits:
        assert composed(draft).priority.value == tier
    else:
        assert refused(draft) == [("bad_priority", "priority")]


def test_a_priority_that_was_given_stays() -> None:
    parent = a_message(priority=Priority.P0)

    assert composed(a_draft(Kind.REVIEW_LGTM, priority=Priority.P3), parent).priority is Priority.P3
    assert composed(a_draft(Kind.REVIEW_LGTM), parent).priority is Priority.P0
    assert composed(a_draft(Kind.NOTIFICATION), parent).priority is Priority.P2


def test_a_reply_stays_in_the_conversation_of_what_it_answers() -> None:
    parent = a_message(conversation_id="conv-1")

    assert composed(a_draft(in_reply_to=parent.id), parent).conversation_id == "conv-1"
    assert composed(a_draft(in_reply_to=parent.id, conversation_id="conv-2"), parent).conversation_id == "conv-2"
    assert composed(a_draft()).conversation_id == ""


def test_telemetry_is_carried_as_the_text_that_a_file_can_hold() -> None:
    extras = {"turns": 3, "est_cost_usd": "0.12", "model": None, "autonomy_hint": True}

    assert composed(a_draft(extras=extras)).extras == {"turns": "3", "est_cost_usd": "0.12", "autonomy_hint": "true"}


def test_the_fields_written_for_others_are_those_that_were_decided() -> None:
    assert EMITTED_EXTRAS == (
        "autonomy_hint", "model", "turns", "input_tokens", "output_tokens", "wall_time_s", "est_cost_usd"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", ""), ("42", "42"), ("#42", "42"), (" #42 ", "42"), ("PR 42", None), ("##42", None), ("42a", None),
        ("-1", None), ("\u0664\u0662", None), ("ftp://x/pull/42", None), ("1234567890123", None), ("x\n42", None),
        ("https://x", None), ("https:///pull/42", None), ("https://github.com/o/r/pull/4 2", None), ("o/r#42", None),
    ],
)  # fmt: skip
def test_a_pull_request_is_a_number_a_hash_or_a_url(text: str, normal: str | None) -> None:
    assert normal_pr(text) == normal


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/o/r/pull/42",
        "https://github.com/o/r/pull/42/files",
        "https://bitbucket.org/a/b/pull-requests/42",
        "https://gitlab.com/g/p/-/merge_requests/9",
        "http://git.local/o/r/pulls/7/",
    ],
)
def test_the_url_of_a_pull_request_stays_as_it_was_given(url: str) -> None:
    assert composed(a_draft(related_pr=url)).related_pr == url


@pytest.mark.requirement("D-SUBJECT-EMIT")
@pytest.mark.parametrize("subject", ["one\ntwo", "one\r\ntwo", "one\n", "\none", "a\rb", "a\u2028b", "a\x85b", "a\vb"])
def test_a_subject_of_several_lines_is_refused(subject: str) -> None:
    with pytest.raises(Invalid) as refused:
        composed(a_draft(subject=subject))

    assert [(one.code, one.field) for one in refused.value.problems] == [("not_one_line", "subject")]
    assert composed(a_draft(subject=subject), free_form=True).subject == subject


@pytest.mark.parametrize(("tag", "pr"), [("deploy prod", "o/r#42"), ("x" * 65, "PR 42"), ("ä/ö", "42 and 43")])
def test_what_the_parent_has_may_be_sent_again(tag: str, pr: str) -> None:
    parent = a_message(tag=tag, related_pr=pr)

    answer = composed(a_draft(in_reply_to=parent.id, tag=tag, related_pr=pr), parent)

    assert (answer.tag, answer.related_pr) == (tag, pr)
    with pytest.raises(Invalid):
        composed(a_draft(tag=tag, related_pr=pr))


@pytest.mark.parametrize(
    ("kind", "changes", "remark"),
    [
        (Kind.HANDOFF, {"source_agent": "gemini"}, ("contradiction", "body.source_agent")),
        (Kind.HANDOFF, {"target_agent": "gemini"}, ("contradiction", "body.target_agent")),
        (Kind.REVIEW_LGTM, {"quality_gate_result": "fail"}, ("contradiction", "body.merge_ready")),
        (Kind.REVIEW_REQUEST, {"max_turns_reviewer": 21}, ("too_many_rounds", "body.max_turns_reviewer")),
        (Kind.HANDOFF_COMPLETE, {}, ("no_handoff", "parent_message_id")),
    ],
)
def test_what_is_hardly_meant_is_remarked(kind: Kind, changes: dict[str, Value], remark: tuple[str, str]) -> None:
    message = composed(a_draft(kind, body=fields_of(kind, **changes)))

    assert [(one.code, one.field) for one in warnings(message)] == [remark]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (Kind.HANDOFF, {}),
        (Kind.REVIEW_LGTM, {"quality_gate_result": "fail", "merge_ready": False}),
        (Kind.REVIEW_REQUEST, {"max_turns_reviewer": 20}),
        (Kind.HANDOFF_COMPLETE, {}),
    ],
)
def test_what_agrees_with_itself_is_not_remarked(kind: Kind, changes: dict[str, Value]) -> None:
    message = composed(a_draft(kind, body=fields_of(kind, **changes)))

    assert warnings(message, origin=a_message(Kind.HANDOFF)) == []


def test_times_of_other_zones_are_compared_as_moments() -> None:
    eastern = timezone(timedelta(hours=5))
    draft = a_draft(expires_at=datetime(2026, 3, 13, 19, 30, 1, tzinfo=eastern))

    assert composed(draft).expires_at == NOW + timedelta(seconds=1)


def test_a_script_written_for_the_other_tool_may_leave_the_schema_aside() -> None:
    loose = a_draft(Kind.REVIEW_REQUEST, body="please look", expires_at=NOW - timedelta(days=1))

    assert composed(loose, free_form=True).body == "please look"
    assert refused(loose._replace(subject=""), free_form=True) == [("missing_field", "subject")]
    assert refused(loose._replace(body=""), free_form=True) == [("missing_field", "body")]
