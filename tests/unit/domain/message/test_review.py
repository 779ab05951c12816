"""The review loop, told by its messages."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import NotFound
from parley.domain.message.findings import open_blocking
from parley.domain.message.message import Kind, Message, Value
from parley.domain.message.review import Review, ReviewClosure, ReviewState, follow_review
from tests.samples.messages import a_message, fields_of

PACKET = "packets/review/pr-55-round-1.yaml"
TWO_BLOCKING: dict[str, object] = {
    "findings": [
        {"id": "finding-001", "severity": "P0", "summary": "race"},
        {"id": "finding-002", "severity": "P1", "summary": "leak"},
    ]
}


def request(*to: str, sender: str = "claude", **fields: Value) -> Message:
    body = fields_of(Kind.REVIEW_REQUEST, **fields)
    return a_message(
        Kind.REVIEW_REQUEST, id="request", sender=sender, to=to or ("codex",), body=body, conversation_id="conv-1"
    )


def feedback(
    round_: int = 1, blocking: int = 2, packet: str = PACKET, *, sender: str = "codex", **fields: Value
) -> Message:
    body = fields_of(Kind.REVIEW_FEEDBACK, round=round_, blocking_count=blocking, findings_packet=packet, **fields)
    return a_message(Kind.REVIEW_FEEDBACK, id=f"feedback-{round_}", sender=sender, to=("claude",), body=body)


def addressed(round_: int = 1, *ids: str, sender: str = "claude", to: tuple[str, ...] = ("codex",)) -> Message:
    body = fields_of(Kind.REVIEW_ADDRESSED, round=round_, addressed_finding_ids=list(ids))
    return a_message(Kind.REVIEW_ADDRESSED, id=f"addressed-{round_}", sender=sender, to=to, body=body)


def lgtm(sender: str = "codex", **fields: Value) -> Message:
    body = fields_of(Kind.REVIEW_LGTM, **fields)
    return a_message(Kind.REVIEW_LGTM, id="lgtm", sender=sender, to=("claude",), body=body)


def follow(*messages: Message, **packets: Mapping[str, object] | str | None) -> Review:
    return follow_review(messages, {PACKET: TWO_BLOCKING, **packets})


def packet_of(*findings: tuple[str, str]) -> dict[str, object]:
    return {"findings": [{"id": name, "severity": severity, "summary": name} for name, severity in findings]}


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


@pytest.mark.parametrize(("turns", "allowed"), [(None, 3), (1, 1), (2, 2), (8, 8), (20, 20), (21, 20)])
def test_rounds_are_three_by_default_and_twenty_at_most(turns: int | None, allowed: int) -> None:
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
    ("path", "packet", "said"),
    [
        (PACKET, None, "does not exist in the project"),
        (PACKET, "not YAML", "cannot be read: not YAML"),
        (PACKET, {}, "has no list of findings"),
        (PACKET, {"findings": "none"}, "has no list of findings"),
        ("https://example.com/pr/5", None, "is a reference, which Parley does not follow"),
        ("gist:0123", None, "is a reference, which Parley does not follow"),
        ("", None, "names no findings packet"),
    ],
)
def test_a_packet_without_findings_says_why_and_never_passes(
    path: str, packet: Mapping[str, object] | str | None, said: str
) -> None:
    review = follow(request(), feedback(blocking=0, packet=path), **{path: packet})

    assert not review.gate_passed
    assert review.findings == ()
    assert said in review.remarks[0]
    assert said in review.reasons[0]


def test_the_reviewer_alone_can_pass_what_only_a_reference_names() -> None:
    told = [request(), feedback(packet="gist:0123"), addressed(1, "a"), lgtm()]

    assert not follow(*told[:3]).gate_passed
    assert (follow(*told).state, follow(*told).gate_passed) == (ReviewState.APPROVED, True)


def test_a_packet_that_nobody_has_never_passes_not_even_after_the_fixes() -> None:
    review = follow(request(), feedback(packet="missing.yaml"), addressed(1, "finding-001"), lgtm())

    assert not review.gate_passed
    assert any("says that the gate passes" in remark for remark in review.remarks)


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
        ((request(max_turns_reviewer=21),), "asks for 21 rounds, 20 are the most"),
        ((request(), lgtm(quality_gate_result="fail")), "says that the gate fails and that it is ready to merge"),
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


def test_free_text_in_place_of_fields_is_followed_but_approves_nothing() -> None:
    free = [message._replace(body="text") for message in (request(), feedback(), addressed(), lgtm())]

    review = follow(*free)

    assert review.state is ReviewState.ADDRESSED
    assert "so it is not an approval" in review.remarks[-1]


@pytest.mark.parametrize(
    ("result", "ready"),
    [
        ("fail", True), ("fail", False), ("pass", False), ("failed", True), ("FAIL", True), ("", True), (None, True),
        ("pass", None), ("pass", "true"), ("pass", "yes, please"), ("pass", 1),
    ],
)  # fmt: skip
def test_only_pass_and_ready_to_merge_is_an_approval(result: str | None, ready: Value) -> None:
    review = follow(request(), lgtm(quality_gate_result=result, merge_ready=ready))

    assert review.state is not ReviewState.APPROVED
    assert not review.approved
    assert review.reasons


def test_what_an_lgtm_said_is_part_of_the_review() -> None:
    refused = follow(request(), lgtm(quality_gate_result="fail", merge_ready=False))
    not_ready = follow(request(), lgtm(merge_ready=False))

    assert (refused.quality_gate_result, refused.merge_ready, refused.gate_passed) == ("fail", False, False)
    assert refused.reasons == ("codex says that the gate fails",)
    assert standing(refused) == ("feedback", 1, "claude", ["review_addressed"])
    assert (not_ready.quality_gate_result, not_ready.merge_ready) == ("pass", False)
    assert not_ready.reasons == ("codex says that it is not ready to merge",)
    assert (follow(request()).quality_gate_result, follow(request()).merge_ready) == ("", None)


def test_a_gate_that_a_reviewer_failed_stays_failed_until_it_speaks_again() -> None:
    refused = [request(), lgtm(quality_gate_result="fail", merge_ready=False), addressed()]

    assert not follow(*refused).gate_passed
    assert standing(follow(*refused)) == ("addressed", 1, "codex", ["review_feedback", "review_lgtm"])
    assert follow(*refused, lgtm()).approved


@pytest.mark.requirement("D-REVIEW-BY-REVIEWER")
def test_findings_are_kept_by_reviewer() -> None:
    packets = {"codex.yaml": packet_of(("F-1", "P0")), "gemini.yaml": packet_of(("F-1", "P3"))}
    told = [
        request("codex", "gemini"),
        feedback(1, 1, "codex.yaml"),
        feedback(1, 0, "gemini.yaml", sender="gemini"),
    ]

    review = follow(*told, **packets)

    assert [(one.reviewer, one.id, one.severity) for one in review.findings] == [
        ("codex", "F-1", "P0"),
        ("gemini", "F-1", "P3"),
    ]
    assert not review.gate_passed
    assert review.remarks == ()
    assert not follow(*told, addressed(1, "F-1", to=("gemini",)), **packets).gate_passed
    assert follow(*told, addressed(1, "F-1", to=("codex",)), **packets).gate_passed


def test_a_finding_is_carried_on_until_it_is_addressed() -> None:
    packets = {"1.yaml": packet_of(("F-1", "P1"), ("F-2", "P1")), "2.yaml": packet_of(("F-3", "P3"))}
    told = [request(), feedback(1, 2, "1.yaml"), addressed(1, "F-1"), feedback(2, 0, "2.yaml")]

    carried = follow(*told, **packets)

    assert [one.id for one in carried.open_findings] == ["F-2", "F-3"]
    assert not carried.gate_passed
    assert follow(*told, lgtm(), **packets).reasons == ("1 blocking open: F-2",)
    assert standing(follow(*told, lgtm(), **packets)) == ("feedback", 2, "claude", ["review_addressed"])
    assert follow(*told, lgtm(), addressed(2, "F-2"), **packets).approved


@pytest.mark.parametrize("status", ["fixed", "wont_fix", "Won't-Fix", "resolved", "closed", "withdrawn", "Withdrawn"])
def test_a_reviewer_resolves_its_own_finding_in_a_later_packet(status: str) -> None:
    later: dict[str, object] = {"findings": [{"id": "F-1", "severity": "P1", "status": status.replace("'", "")}]}
    told = [request(), feedback(1, 1, "1.yaml"), addressed(1), feedback(2, 0, "2.yaml")]

    assert follow(*told, **{"1.yaml": packet_of(("F-1", "P1")), "2.yaml": later}).gate_passed


def test_a_reviewer_reopens_what_was_not_fixed() -> None:
    packets = {"1.yaml": packet_of(("F-1", "P1")), "2.yaml": packet_of(("F-1", "P1"))}

    review = follow(request(), feedback(1, 1, "1.yaml"), addressed(1, "F-1"), feedback(2, 1, "2.yaml"), **packets)

    assert [one.id for one in review.open_findings] == ["F-1"]


def test_an_unnamed_finding_does_not_replace_one_of_an_earlier_round() -> None:
    first: dict[str, object] = {"findings": [{"severity": "P1", "summary": "a race"}]}
    second: dict[str, object] = {"findings": [{"severity": "P3", "summary": "a name"}]}
    told = [request(), feedback(1, 1, "1.yaml"), addressed(1), feedback(2, 0, "2.yaml")]

    review = follow(*told, **{"1.yaml": first, "2.yaml": second})

    assert [(one.id, one.summary) for one in review.open_findings] == [
        ("finding-001", "a race"),
        ("finding-002", "a name"),
    ]


def test_two_findings_of_one_id_are_both_kept() -> None:
    packet: dict[str, object] = {
        "findings": [{"id": "F", "severity": "P0"}, {"id": "F", "severity": "P0", "status": "fixed"}]
    }

    assert not follow(request(), feedback(1, 1), **{PACKET: packet}).gate_passed


def test_a_packet_that_lost_blocking_findings_does_not_pass_before_its_reviewer_speaks() -> None:
    told = [request(), feedback(1, 2, "x.yaml")]
    emptied: dict[str, object] = {"findings": []}

    assert follow(*told, **{"x.yaml": emptied}).reasons[0] == "codex counted 2 blocking, the packet has 0"
    assert not follow(*told, addressed(1), **{"x.yaml": emptied}).gate_passed
    assert follow(*told, addressed(1), lgtm(), **{"x.yaml": emptied}).approved


@pytest.mark.parametrize(
    ("message", "remark"),
    [
        (lgtm("claude"), "ignored: claude is the author and does not review its own change"),
        (lgtm("gemini"), "ignored: gemini was not asked for a review"),
        (feedback(sender="claude"), "ignored: claude is the author"),
        (feedback(sender="gemini", escalation="now"), "ignored: gemini was not asked"),
        (addressed(1, "finding-001", sender="codex", to=("claude",)), "ignored: only the author, claude, addresses"),
        (request("mallory", sender="gemini"), "ignored: only the author, claude, asks for reviews"),
    ],
)
def test_who_has_no_say_is_ignored_with_a_remark(message: Message, remark: str) -> None:
    before, after = follow(request(), feedback()), follow(request(), feedback(), message)

    assert remark in after.remarks[-1]
    assert after._replace(remarks=()) == before._replace(remarks=())


def test_who_spoke_before_the_request_is_no_reviewer() -> None:
    review = follow(lgtm("mallory"), request(), lgtm("mallory"))

    assert (review.state, review.reviewer) == (ReviewState.REQUESTED, "codex")
    assert "mallory was not asked" in review.remarks[-1]


def test_an_author_who_asks_itself_approves_nothing() -> None:
    review = follow(request("claude"), lgtm("claude"))

    assert (review.state, review.reasons) == (ReviewState.UNREQUESTED, ("nobody was asked for a review",))


def test_several_reviewers_have_to_approve_all() -> None:
    told = [request("codex", "gemini"), lgtm("codex")]

    assert standing(follow(*told)) == ("requested", 1, "gemini", ["review_feedback", "review_lgtm"])
    assert follow(*told).reasons == ("gemini has not approved",)
    assert follow(*told, lgtm("gemini")).approved


def test_an_approval_stands_until_its_reviewer_speaks_or_is_asked_again() -> None:
    told = [request("codex", "gemini"), lgtm("codex"), feedback(1, 2, sender="gemini")]
    fixed = [*told, addressed(1, "finding-001", "finding-002", to=("gemini",)), lgtm("gemini")]

    assert follow(*fixed).approved
    assert not follow(*fixed, request("codex")).approved
    assert not follow(*fixed, feedback(1)).approved


def test_rounds_are_counted_by_reviewer() -> None:
    told = [
        request("codex", "gemini", max_turns_reviewer=2),
        feedback(1), addressed(1, "finding-001", "finding-002"), feedback(2),
        feedback(1, sender="gemini"),
    ]  # fmt: skip

    review = follow(*told)

    assert (review.round, review.state, review.remarks) == (2, ReviewState.FEEDBACK, ())


@pytest.mark.parametrize("word", ["max_rounds_exceeded", "reviewer_budget_exceeded", "true", "ask ann"])
def test_feedback_with_an_escalation_escalates(word: str) -> None:
    review = follow(request(), feedback(escalation=word))

    assert (review.state, review.escalation, review.waiting_for) == (ReviewState.ESCALATED, word, "a human")


@pytest.mark.parametrize("word", ["", "none", "False", "no", None])
def test_an_empty_escalation_is_none(word: str | None) -> None:
    assert follow(request(), feedback(escalation=word)).state is ReviewState.FEEDBACK


def test_an_escalated_review_stays_so_whatever_agents_say() -> None:
    escalated = [request(), feedback(escalation="max_rounds_exceeded")]
    rest = [addressed(1, "finding-001", "finding-002"), lgtm(), request(), lgtm()]

    states = {follow(*escalated, *rest[:count]).state for count in range(len(rest) + 1)}

    assert states == {ReviewState.ESCALATED}


@pytest.mark.parametrize("outcome", [ReviewState.APPROVED, ReviewState.REJECTED])
def test_a_person_closes_a_review(outcome: ReviewState) -> None:
    closure = ReviewClosure(outcome, "ann", "read it myself", "2026-03-13T14:30:00Z")
    messages = [request(), feedback(escalation="max_rounds_exceeded")]

    review = follow_review(messages, {PACKET: TWO_BLOCKING}, closure)

    assert (review.state, review.waiting_for, review.expected, review.closure) == (outcome, "", (), closure)
    assert review.approved is (outcome is ReviewState.APPROVED)


@pytest.mark.parametrize("messages", [(), (a_message(Kind.QUESTION),)])
def test_a_conversation_without_a_review_is_refused(messages: tuple[Message, ...]) -> None:
    with pytest.raises(NotFound, match="no review"):
        follow(*messages)


def test_the_gate_of_a_change_that_nobody_reviewed_has_not_passed() -> None:
    review = follow(request())

    assert (review.gate_passed, review.reviewed) == (False, False)


AGENTS = ("claude", "codex", "gemini", "mallory")
PACKETS: dict[str, Mapping[str, object] | str | None] = {
    "empty.yaml": {"findings": []},
    "one.yaml": packet_of(("F-1", "P1")),
    "two.yaml": packet_of(("F-2", "urgent"), ("F-3", "P3")),
    "fixed.yaml": {"findings": [{"id": "F-1", "severity": "P1", "status": "fixed"}]},
    "missing.yaml": None,
    "gist-1": None,
}
said = st.one_of(
    st.builds(
        feedback,
        st.integers(1, 4),
        st.integers(0, 2),
        st.sampled_from(sorted(PACKETS)),
        sender=st.sampled_from(AGENTS),
        escalation=st.sampled_from([None, None, None, "max_rounds_exceeded"]),
    ),
    st.builds(
        lambda ids, sender, to: addressed(1, *ids, sender=sender, to=(to,)),
        st.lists(st.sampled_from(["F-1", "F-2", "F-3"]), max_size=3),
        st.sampled_from(AGENTS),
        st.sampled_from(AGENTS),
    ),
    st.builds(
        lgtm,
        st.sampled_from(AGENTS),
        quality_gate_result=st.sampled_from(["pass", "pass", "fail"]),
        merge_ready=st.sampled_from([True, True, False]),
    ),
    st.builds(lambda to, sender: request(to, sender=sender), st.sampled_from(AGENTS), st.sampled_from(AGENTS)),
)


@given(st.lists(said, max_size=12))
def test_approved_means_that_every_reviewer_said_so_last_and_nothing_blocks(later: list[Message]) -> None:
    messages = [request("codex", "gemini"), *later]

    review = follow_review(messages, PACKETS)

    if review.approved:
        for reviewer in review.reviewers:
            about = [one for one in messages if reviewer.name in (one.sender, *one.to) and _moves(one, reviewer.name)]
            assert about[-1].body == fields_of(Kind.REVIEW_LGTM, quality_gate_result="pass", merge_ready=True)
        assert not open_blocking(review.findings)
        assert (review.reasons, review.merge_ready, review.gate_passed) == ((), True, True)
        assert "claude" not in [reviewer.name for reviewer in review.reviewers]
    else:
        assert review.reasons


def _moves(message: Message, reviewer: str) -> bool:
    """Whether a message is the reviewer's own word, or a request of the author to it."""
    own = message.sender == reviewer and message.kind in (Kind.REVIEW_FEEDBACK, Kind.REVIEW_LGTM)
    return own or (message.sender == "claude" and message.kind is Kind.REVIEW_REQUEST)


@given(st.lists(said, max_size=12))
def test_what_an_outsider_says_changes_nothing_but_the_remarks(later: list[Message]) -> None:
    asked = [one for one in later if not (one.kind is Kind.REVIEW_REQUEST and "mallory" in one.to)]
    inside = [one for one in asked if one.sender != "mallory"]
    first = request("codex", "gemini")

    with_it, without = follow_review([first, *asked], PACKETS), follow_review([first, *inside], PACKETS)

    assert with_it._replace(remarks=()) == without._replace(remarks=())


@given(st.lists(said, max_size=12))
def test_once_escalated_no_message_ends_it(later: list[Message]) -> None:
    messages = [request("codex", max_turns_reviewer=2), *later]
    states = [follow_review(messages[: count + 1], PACKETS).state for count in range(len(messages))]

    if ReviewState.ESCALATED in states:
        assert set(states[states.index(ReviewState.ESCALATED) :]) == {ReviewState.ESCALATED}


@given(st.lists(said, max_size=12))
def test_an_open_blocking_finding_never_vanishes(later: list[Message]) -> None:
    messages = [request("codex", "gemini"), *later]
    open_ids: set[tuple[str, str]] = set()
    for count, message in enumerate(messages):
        now_open = {
            (one.reviewer, one.id) for one in open_blocking(follow_review(messages[: count + 1], PACKETS).findings)
        }
        gone = open_ids - now_open
        by_author = message.kind is Kind.REVIEW_ADDRESSED and message.sender == "claude"
        by_reviewer = message.kind is Kind.REVIEW_FEEDBACK and {who for who, _ in gone} == {message.sender}
        assert not gone or by_author or by_reviewer
        open_ids = now_open
