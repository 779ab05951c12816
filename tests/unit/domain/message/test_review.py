"""The review loop, told by its messages."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.message.message import Kind, Message, Value
from parley.domain.message.review import Finding, Review, ReviewState, blocks, follow_review, gate, read_findings
from tests.samples.messages import a_message, fields_of

PACKET = "packets/review/pr-55-round-1.yaml"
TWO_BLOCKING: dict[str, object] = {
    "findings": [
        {"id": "finding-001", "severity": "P0", "summary": "race"},
        {"id": "finding-002", "severity": "P1", "summary": "leak"},
    ]
}


def request(**fields: Value) -> Message:
    body = fields_of(Kind.REVIEW_REQUEST, **fields)
    return a_message(Kind.REVIEW_REQUEST, id="request", body=body, conversation_id="conv-1")


def feedback(round_: int = 1, blocking: int = 2, packet: str = PACKET) -> Message:
    body = fields_of(Kind.REVIEW_FEEDBACK, round=round_, blocking_count=blocking, findings_packet=packet)
    return a_message(Kind.REVIEW_FEEDBACK, id=f"feedback-{round_}", sender="codex", to=("claude",), body=body)


def addressed(round_: int = 1, *ids: str) -> Message:
    body = fields_of(Kind.REVIEW_ADDRESSED, round=round_, addressed_finding_ids=list(ids))
    return a_message(Kind.REVIEW_ADDRESSED, id=f"addressed-{round_}", body=body)


def lgtm(**fields: Value) -> Message:
    body = fields_of(Kind.REVIEW_LGTM, **fields)
    return a_message(Kind.REVIEW_LGTM, id="lgtm", sender="codex", to=("claude",), body=body)


def follow(*messages: Message, **packets: Mapping[str, object] | None) -> Review:
    return follow_review(messages, {PACKET: TWO_BLOCKING, **packets})


def standing(review: Review) -> tuple[str, int, str, list[str]]:
    return review.state.value, review.round, review.waiting_for, [kind.value for kind in review.expected]


def test_the_loop_goes_from_request_to_approval_in_one_round() -> None:
    told = [request(), feedback(), addressed(1, "finding-001", "finding-002"), lgtm()]

    assert standing(follow(*told[:1])) == ("requested", 1, "codex", ["review_feedback", "review_lgtm"])
    assert standing(follow(*told[:2])) == ("feedback", 1, "claude", ["review_addressed"])
    after = ["review_feedback", "review_lgtm"]
    assert standing(follow(*told[:3])) == ("addressed", 1, "codex", after)
    assert standing(follow(*told)) == ("approved", 1, "", [])
    assert follow(*told).remarks == ()


def test_author_and_reviewer_are_those_of_the_request() -> None:
    review = follow(request(), feedback())

    assert (review.author, review.reviewer, review.conversation_id) == ("claude", "codex", "conv-1")


def test_an_approval_may_come_at_once() -> None:
    assert standing(follow(request(), lgtm())) == ("approved", 1, "", [])


def test_feedback_right_after_the_fixes_opens_the_next_round() -> None:
    review = follow(request(), feedback(1), addressed(1, "finding-001"), feedback(2))

    assert standing(review) == ("feedback", 2, "claude", ["review_addressed"])
    assert review.remarks == ()


def test_a_new_request_opens_the_next_round() -> None:
    review = follow(request(), feedback(1), addressed(1, "finding-001", "finding-002"), request())

    assert standing(review) == ("requested", 2, "codex", ["review_feedback", "review_lgtm"])
    assert review.remarks == ()


@pytest.mark.parametrize(("turns", "allowed"), [(None, 2), (1, 1), (2, 2), (3, 3), (8, 3)])
def test_rounds_are_two_by_default_and_three_at_most(turns: int | None, allowed: int) -> None:
    messages = [request(max_turns_reviewer=turns)]
    for number in range(1, allowed + 1):
        messages += [feedback(number), addressed(number, "finding-001", "finding-002")]
    within = follow(*messages)
    beyond = follow(*messages, feedback(allowed + 1))

    assert (within.state, within.round, within.rounds_allowed) == (ReviewState.ADDRESSED, allowed, allowed)
    assert (beyond.state, beyond.round) == (ReviewState.ESCALATED, allowed + 1)
    assert standing(beyond)[2:] == ("a human", [])
    assert [remark for remark in beyond.remarks if "a human decides" in remark]


def test_a_request_past_the_limit_is_escalated_and_stays_so() -> None:
    messages = [request(max_turns_reviewer=1), feedback(), addressed(), request(), feedback(2), addressed(2)]
    review = follow(*messages)

    assert review.state is ReviewState.ESCALATED
    assert sum("a human decides" in remark for remark in review.remarks) == 1


def test_only_the_first_request_sets_the_number_of_rounds() -> None:
    review = follow(request(max_turns_reviewer=1), feedback(), addressed(), request(max_turns_reviewer=3))

    assert (review.rounds_allowed, review.state) == (1, ReviewState.ESCALATED)


def test_addressed_findings_are_resolved_and_the_others_stay_open() -> None:
    review = follow(request(), feedback(), addressed(1, "finding-001"))

    assert [one.id for one in review.open_findings] == ["finding-002"]
    assert [one.id for one in review.findings] == ["finding-001", "finding-002"]
    assert not review.gate_passed
    assert follow(request(), feedback(), addressed(1, "finding-001", "finding-002")).gate_passed


def test_a_finding_that_the_packet_calls_fixed_stays_so() -> None:
    packet: dict[str, object] = {"findings": [{"id": "f1", "severity": "P1", "status": "fixed"}]}

    review = follow(request(), feedback(blocking=0), addressed(1), **{PACKET: packet})

    assert review.open_findings == ()
    assert review.gate_passed


@pytest.mark.parametrize(
    ("severity", "flag", "blocking"),
    [
        ("P0", False, True), ("P1", False, True), ("P2", False, False), ("P2", True, True), ("P3", False, False),
        ("P3", True, False), ("CRITICAL", True, True), ("CRITICAL", False, False),
    ],
)  # fmt: skip
def test_p0_and_p1_block_p2_by_judgment_and_p3_never(severity: str, flag: bool, blocking: bool) -> None:
    assert blocks(severity, flag) is blocking


def test_a_packet_is_read_with_everything_it_leaves_out() -> None:
    packet: Mapping[str, object] = {
        "findings": [
            {"id": "a", "severity": "p1", "status": "Fixed", "summary": "s"},
            {"severity": "P2", "blocking": "Yes", "description": "d"},
            {"severity": "P2", "blocking": "no", "status": "wont_fix"},
            "just a text",
        ]
    }

    assert read_findings(packet) == (
        Finding("a", "P1", True, True, "s"),
        Finding("finding-002", "P2", True, False, "d"),
        Finding("finding-003", "P2", False, True, ""),
        Finding("finding-004", "P2", False, False, "just a text"),
    )


@pytest.mark.parametrize("packet", [None, {}, {"findings": None}, {"findings": "none"}, {"findings": {}}])
def test_a_packet_without_a_list_of_findings_never_passes(packet: Mapping[str, object] | None) -> None:
    assert read_findings(packet) is None
    assert gate(read_findings(packet)) is False
    review = follow(request(), feedback(blocking=0), **{PACKET: packet})
    assert not review.gate_passed
    assert review.findings == ()
    assert "has no list of findings" in review.remarks[0]


def test_a_packet_that_nobody_has_never_passes_not_even_after_the_fixes() -> None:
    review = follow(request(), feedback(packet="missing.yaml"), addressed(1, "finding-001"), lgtm())

    assert not review.gate_passed
    assert any("says that the gate passes" in remark for remark in review.remarks)


@pytest.mark.parametrize(
    ("severity", "flag", "resolved", "passes"),
    [
        ("P0", False, False, False),
        ("P0", False, True, True),
        ("P1", False, False, False),
        ("P2", True, False, False),
        ("P2", True, True, True),
        ("P2", False, False, True),
        ("P3", True, False, True),
    ],
)
def test_the_gate_passes_when_nothing_that_blocks_is_open(
    severity: str, flag: bool, resolved: bool, passes: bool
) -> None:
    finding = Finding("f", severity, blocks(severity, flag), resolved, "")

    assert gate((finding,)) is passes
    assert gate(()) is True


def test_an_open_p0_fails_the_gate_even_if_somebody_says_that_it_does_not_block() -> None:
    assert not gate((Finding("f", "P0", False, False, ""),))


def test_open_p3_findings_become_nits_beside_those_of_the_approval() -> None:
    small: dict[str, object] = {
        "findings": [
            {"id": "f1", "severity": "P3", "summary": "rename rl"},
            {"id": "f2", "severity": "P3", "status": "fixed", "summary": "typo"},
            {"id": "f3", "severity": "P3"},
            {"id": "f4", "severity": "P2", "summary": "not small"},
        ]
    }

    review = follow(request(), feedback(blocking=0), lgtm(nits=["wording", "rename rl"]), **{PACKET: small})

    assert review.nits == ("wording", "rename rl", "f3")
    assert review.gate_passed
    assert review.remarks == ()


def test_an_approval_against_open_findings_is_remarked() -> None:
    assert "says that the gate passes, but findings are open" in follow(request(), feedback(), lgtm()).remarks[0]
    assert follow(request(), feedback(), lgtm(quality_gate_result="fail", merge_ready=False)).remarks == ()


@pytest.mark.parametrize(
    ("messages", "remark"),
    [
        ((request(), request()), "a new request while the last one was still open"),
        ((request(), feedback(), request()), "a new request while the last one was still open"),
        ((request(), feedback(), feedback()), "feedback was given twice in one round"),
        ((request(), feedback(round_=3)), "says round 3, but this is round 1"),
        ((request(), feedback(blocking=5)), "says 5 blocking, the packet has 2"),
        ((request(), addressed()), "there was no feedback to address"),
        ((request(), feedback(), addressed(1, "finding-009")), "unknown findings finding-009"),
        ((lgtm(),), "no review was requested before"),
    ],
)
def test_what_does_not_fit_is_remarked_and_does_not_stop_the_loop(messages: tuple[Message, ...], remark: str) -> None:
    assert any(remark in one for one in follow(*messages).remarks)


def test_a_review_that_starts_in_the_middle_still_knows_who_is_who() -> None:
    review = follow(feedback())

    assert (review.author, review.reviewer, review.round) == ("claude", "codex", 1)
    assert standing(review) == ("feedback", 1, "claude", ["review_addressed"])


def test_other_messages_in_the_conversation_are_passed_over() -> None:
    assert follow(request(), a_message(Kind.QUESTION), feedback(), a_message(Kind.NOTIFICATION)).remarks == ()


def test_free_text_in_place_of_fields_is_followed_as_far_as_it_goes() -> None:
    free = [message._replace(body="text") for message in (request(), feedback(), addressed(), lgtm())]

    assert follow(*free).state is ReviewState.APPROVED


@pytest.mark.parametrize("messages", [(), (a_message(Kind.QUESTION),)])
def test_a_conversation_without_a_review_is_refused(messages: tuple[Message, ...]) -> None:
    with pytest.raises(Invalid, match="no review"):
        follow(*messages)


def test_the_gate_of_a_change_that_nobody_reviewed_has_not_passed() -> None:
    review = follow(request())

    assert (review.gate_passed, review.reviewed) == (False, False)
