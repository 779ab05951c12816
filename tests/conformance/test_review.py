"""The review loop as the specification and the decisions tell it."""

from __future__ import annotations

import pytest

from parley.domain.message.findings import blocks, gate, read_findings
from parley.domain.message.message import Kind, Message, Value
from parley.domain.message.review import ReviewClosure, ReviewState, follow_review
from tests.conformance.oacp import refusals, reply_to, sent
from tests.samples.messages import a_draft, fields_of

PACKET = "packets/review/pr-55-round-1.yaml"
NO_FINDINGS: dict[str, dict[str, object] | str | None] = {PACKET: {"findings": []}}
REQUEST = sent(a_draft(Kind.REVIEW_REQUEST, conversation_id="conv-20260313-claude-001"))


def then(before: Message, kind: Kind, **fields: Value) -> Message:
    """The next message of the loop: author and reviewer take turns, each answering the last."""
    sender = "claude" if kind in {Kind.REVIEW_REQUEST, Kind.REVIEW_ADDRESSED} else "codex"
    to = "codex" if sender == "claude" else "claude"
    draft = reply_to(before, fields_of(kind, **fields), kind, sender=sender)._replace(to=(to,))
    return sent(draft, before, suffix=f"{len(before.id):04d}")


def round_of(number: int, before: Message) -> list[Message]:
    feedback = then(before, Kind.REVIEW_FEEDBACK, round=number, blocking_count=0)
    return [feedback, then(feedback, Kind.REVIEW_ADDRESSED, round=number, addressed_finding_ids=[])]


@pytest.mark.requirement("S3-REVIEW-LIFECYCLE")
def test_a_review_goes_from_request_over_feedback_and_addressed_to_lgtm() -> None:
    feedback, addressed = round_of(1, REQUEST)
    story = [REQUEST, feedback, addressed, then(addressed, Kind.REVIEW_LGTM)]

    states = [follow_review(story[: count + 1], NO_FINDINGS).state for count in range(len(story))]

    assert states == [ReviewState.REQUESTED, ReviewState.FEEDBACK, ReviewState.ADDRESSED, ReviewState.APPROVED]
    assert follow_review(story, NO_FINDINGS).remarks == ()


@pytest.mark.requirement("D-REVIEW-SEQUENCE")
def test_a_new_request_opens_the_next_round() -> None:
    feedback, addressed = round_of(1, REQUEST)
    again = then(addressed, Kind.REVIEW_REQUEST)
    second = round_of(2, again)
    story = [REQUEST, feedback, addressed, again, *second, then(second[-1], Kind.REVIEW_LGTM)]

    rounds = [follow_review(story[: count + 1], NO_FINDINGS).round for count in range(len(story))]

    assert rounds == [1, 1, 1, 2, 2, 2, 2]
    assert follow_review(story, NO_FINDINGS).remarks == ()
    assert follow_review(story, NO_FINDINGS).state is ReviewState.APPROVED


@pytest.mark.requirement("D-REVIEW-DIRECT")
def test_feedback_or_lgtm_may_follow_the_fixes_directly() -> None:
    feedback, addressed = round_of(1, REQUEST)
    story = [REQUEST, feedback, addressed]

    more = follow_review([*story, then(addressed, Kind.REVIEW_FEEDBACK, round=2, blocking_count=0)], NO_FINDINGS)
    done = follow_review([*story, then(addressed, Kind.REVIEW_LGTM)], NO_FINDINGS)

    assert (more.state, more.round, more.remarks) == (ReviewState.FEEDBACK, 2, ())
    assert (done.state, done.round, done.remarks) == (ReviewState.APPROVED, 1, ())


@pytest.mark.requirement("D-REVIEW-ONE-CONVERSATION")
def test_the_whole_review_is_one_conversation() -> None:
    feedback, addressed = round_of(1, REQUEST)
    again = then(addressed, Kind.REVIEW_REQUEST)
    story = [REQUEST, feedback, addressed, again, then(again, Kind.REVIEW_LGTM)]

    assert {message.conversation_id for message in story} == {"conv-20260313-claude-001"}
    assert follow_review(story, NO_FINDINGS).conversation_id == "conv-20260313-claude-001"


@pytest.mark.requirement("D-REVIEW-ROUNDS")
@pytest.mark.parametrize(("turns", "allowed"), [(None, 3), (1, 1), (3, 3), (8, 8), (20, 20), (21, 20)])
def test_three_rounds_are_the_default_twenty_the_most_and_then_a_human_decides(turns: int | None, allowed: int) -> None:
    request = sent(a_draft(Kind.REVIEW_REQUEST, body=fields_of(Kind.REVIEW_REQUEST, max_turns_reviewer=turns)))
    story = [request]
    for number in range(1, allowed + 1):
        story += round_of(number, story[-1])

    within = follow_review(story, NO_FINDINGS)
    beyond = follow_review([*story, then(story[-1], Kind.REVIEW_REQUEST)], NO_FINDINGS)

    assert (within.rounds_allowed, within.state) == (allowed, ReviewState.ADDRESSED)
    assert (beyond.state, beyond.waiting_for) == (ReviewState.ESCALATED, "a human")


@pytest.mark.requirement("D-REVIEW-BLOCKING")
@pytest.mark.parametrize(
    ("severity", "without_a_word", "if_the_reviewer_says_so"),
    [("P0", True, True), ("P1", True, True), ("P2", False, True), ("P3", False, False)],
)
def test_p0_and_p1_block_p2_by_judgment_p3_never(
    severity: str, without_a_word: bool, if_the_reviewer_says_so: bool
) -> None:
    assert (blocks(severity, False), blocks(severity, True)) == (without_a_word, if_the_reviewer_says_so)
    findings = read_findings({"findings": [{"severity": severity, "blocking": "true"}]})
    assert findings is not None
    assert findings[0].blocking is if_the_reviewer_says_so


@pytest.mark.requirement("D-REVIEW-NITS")
def test_p3_findings_become_nits() -> None:
    packet: dict[str, object] = {
        "findings": [{"severity": "P3", "summary": "rename rl"}, {"severity": "P2", "summary": "no nit"}]
    }
    feedback = then(REQUEST, Kind.REVIEW_FEEDBACK, round=1, blocking_count=0)

    review = follow_review([REQUEST, feedback, then(feedback, Kind.REVIEW_LGTM, nits=["wording"])], {PACKET: packet})

    assert review.nits == ("wording", "rename rl")
    assert review.gate_passed


@pytest.mark.requirement("D-REVIEW-GATE")
@pytest.mark.parametrize(
    ("finding", "passes"),
    [
        ({"severity": "P0"}, False),
        ({"severity": "P0", "status": "fixed"}, True),
        ({"severity": "P1"}, False),
        ({"severity": "P1", "status": "resolved"}, True),
        ({"severity": "P2", "blocking": "true"}, False),
        ({"severity": "P2", "blocking": "true", "status": "fixed"}, True),
        ({"severity": "P2"}, True),
        ({"severity": "P3", "blocking": "true"}, True),
    ],
)
def test_the_gate_passes_when_no_p0_and_nothing_blocking_is_open(finding: dict[str, str], passes: bool) -> None:
    assert gate(read_findings({"findings": [finding]})) is passes
    assert gate(read_findings({"findings": []})) is True


@pytest.mark.requirement("D-REVIEW-PACKET-PATH")
@pytest.mark.parametrize("path", ["/etc/passwd", "../other/packet.yaml", "packets/../../x.yaml", "packets//x.yaml"])
def test_a_findings_packet_is_a_relative_path_inside_the_project(path: str) -> None:
    outside = a_draft(Kind.REVIEW_FEEDBACK, body=fields_of(Kind.REVIEW_FEEDBACK, findings_packet=path))

    assert refusals(outside) == {("bad_body_field", "body.findings_packet")}
    assert sent(a_draft(Kind.REVIEW_FEEDBACK)).body == fields_of(Kind.REVIEW_FEEDBACK, findings_packet=PACKET)


@pytest.mark.requirement("D-REVIEW-GATE-NO-LIST")
@pytest.mark.parametrize("packet", [None, {}, {"findings": "none"}, {"findings": {"a": "b"}}, {"result": "pass"}])
def test_a_findings_file_without_a_list_does_not_pass(packet: dict[str, object] | None) -> None:
    feedback = then(REQUEST, Kind.REVIEW_FEEDBACK, round=1, blocking_count=0)

    assert gate(read_findings(packet)) is False
    assert not follow_review([REQUEST, feedback], {PACKET: packet}).gate_passed


def said_by(sender: str, message: Message) -> Message:
    return message._replace(sender=sender)


@pytest.mark.requirement("S3-REVIEW-LGTM-FAIL")
@pytest.mark.parametrize(("result", "ready"), [("fail", True), ("fail", False), ("pass", False)])
def test_fail_or_not_ready_is_no_approval(result: str, ready: bool) -> None:
    lgtm = then(REQUEST, Kind.REVIEW_LGTM, quality_gate_result=result, merge_ready=ready)

    review = follow_review([REQUEST, lgtm], {})

    assert review.state is ReviewState.FEEDBACK
    assert (review.quality_gate_result, review.merge_ready, review.approved) == (result, ready, False)


@pytest.mark.requirement("S3-REVIEW-LGTM-ASKED")
@pytest.mark.parametrize("sender", ["claude", "gemini"])
def test_only_a_reviewer_who_was_asked_approves(sender: str) -> None:
    review = follow_review([REQUEST, said_by(sender, then(REQUEST, Kind.REVIEW_LGTM))], {})

    assert review.state is ReviewState.REQUESTED
    assert "ignored" in review.remarks[0]


@pytest.mark.requirement("S3-REVIEW-REQUEST-SEVERAL")
def test_findings_of_several_reviewers_are_kept_and_all_have_to_approve() -> None:
    request = REQUEST._replace(to=("codex", "gemini"))
    packets: dict[str, dict[str, object] | str | None] = {
        "codex.yaml": {"findings": [{"id": "F-1", "severity": "P0"}]},
        "gemini.yaml": {"findings": [{"id": "F-1", "severity": "P3"}]},
    }
    codex = then(request, Kind.REVIEW_FEEDBACK, round=1, blocking_count=1, findings_packet="codex.yaml")
    gemini = then(request, Kind.REVIEW_FEEDBACK, round=1, blocking_count=0, findings_packet="gemini.yaml")
    story = [request, codex, said_by("gemini", gemini)]

    both = follow_review(story, packets)
    one = follow_review([*story, said_by("gemini", then(gemini, Kind.REVIEW_LGTM))], packets)

    assert ([finding.reviewer for finding in both.findings], both.gate_passed) == (["codex", "gemini"], False)
    assert (one.state, one.waiting_for) == (ReviewState.FEEDBACK, "claude")


@pytest.mark.requirement("S3-REVIEW-FEEDBACK-REFERENCE")
def test_a_reference_is_named_as_one_and_does_not_pass_unread() -> None:
    feedback = then(REQUEST, Kind.REVIEW_FEEDBACK, round=1, blocking_count=0, findings_packet="gist-0123")

    review = follow_review([REQUEST, feedback], {"gist-0123": None})

    assert not review.gate_passed
    assert "is a reference" in review.remarks[0]


@pytest.mark.requirement("D-REVIEW-CARRIED")
def test_a_blocking_finding_is_carried_on_until_it_is_addressed() -> None:
    packets: dict[str, dict[str, object] | str | None] = {
        "1.yaml": {"findings": [{"id": "F-1", "severity": "P1"}, {"id": "F-2", "severity": "P1"}]},
        "2.yaml": {"findings": [{"id": "F-3", "severity": "P3"}]},
    }
    first = then(REQUEST, Kind.REVIEW_FEEDBACK, round=1, blocking_count=2, findings_packet="1.yaml")
    fixed = then(first, Kind.REVIEW_ADDRESSED, round=1, addressed_finding_ids=["F-1"])
    second = then(fixed, Kind.REVIEW_FEEDBACK, round=2, blocking_count=0, findings_packet="2.yaml")
    story = [REQUEST, first, fixed, second]

    assert [finding.id for finding in follow_review(story, packets).open_findings] == ["F-2", "F-3"]
    assert not follow_review(story, packets).gate_passed
    rest = then(second, Kind.REVIEW_ADDRESSED, round=2, addressed_finding_ids=["F-2"])
    assert follow_review([*story, rest], packets).gate_passed


@pytest.mark.requirement("D-REVIEW-SEVERITY-WORDS")
@pytest.mark.parametrize(
    ("word", "passes"), [("critical", False), ("blocker", False), ("major", False), ("urgent", False), ("nit", True)]
)
def test_words_for_a_severity_are_mapped_and_an_unknown_one_blocks(word: str, passes: bool) -> None:
    assert gate(read_findings({"findings": [{"severity": word}]})) is passes


@pytest.mark.requirement("D-REVIEW-ESCALATED")
def test_an_escalated_review_stays_so_until_a_person_closes_it() -> None:
    feedback = then(REQUEST, Kind.REVIEW_FEEDBACK, round=1, blocking_count=0, escalation="max_rounds_exceeded")
    story = [REQUEST, feedback, then(feedback, Kind.REVIEW_LGTM)]
    closure = ReviewClosure(ReviewState.APPROVED, "ann", "read it", "2026-03-13T14:30:00Z")

    assert follow_review(story, NO_FINDINGS).state is ReviewState.ESCALATED
    assert follow_review(story, NO_FINDINGS, closure).state is ReviewState.APPROVED
