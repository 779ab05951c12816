from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from parley.domain.content.classification import LEVELS, DataItem, OnOver
from parley.domain.content.envelope import Ext, Origin, Purpose, ReplyPolicy, Wishes
from parley.domain.errors.rules import (
    ClassificationExceeded,
    EnvelopeInvalid,
    ExchangeClosed,
    IdentityMismatch,
    LoopDetected,
    MaxRoundsFixed,
    PolicyDenied,
    PolicyUnavailable,
)
from parley.domain.exchange.approval import Cause
from parley.domain.exchange.exchange import Exchange, Outcome, Turn, accepted, escalated
from parley.domain.rules.judge import ALLOW, Deny, Hold
from parley.domain.rules.policy import AppliesTo, CrossOrg, Fragment, with_document
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.ruling import Body, Ruling, _stamped_text, envelope_time, rule
from parley.domain.rules.terms import Terms
from tests.samples.governed import (
    ALICE,
    AT,
    BOB,
    NOTHING_IN_FORCE,
    a_party,
    a_proposal,
    a_rulebook,
    a_snapshot,
    an_approval,
    an_envelope,
    an_exchange,
)

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = LEVELS
BOOK = a_rulebook()


def ruled(book: Rulebook = BOOK, **changes: Any) -> Ruling:  # noqa: ANN401  # what a proposal has
    return rule(a_proposal(**changes), book)


def denial(ruling: Ruling) -> type[Exception]:
    assert isinstance(ruling.verdict, Deny), ruling.verdict
    return type(ruling.verdict.error)


def hold(ruling: Ruling) -> Cause:
    assert isinstance(ruling.verdict, Hold), ruling.verdict
    return ruling.verdict.cause


# ---------------------------------------------------------------- beginning


def test_the_first_message_begins_an_exchange_and_is_its_first_round() -> None:
    ruling = ruled()

    assert ruling.verdict is ALLOW
    exchange = ruling.exchange
    assert (exchange.id, exchange.conversation_id, exchange.initiator, exchange.responder) == (
        "exch_new",
        "conv_new",
        "alice",
        "bob",
    )
    assert (exchange.current_round, exchange.max_rounds, exchange.outcome) == (1, 3, Outcome.IN_PROGRESS)
    assert exchange.transcript == (Turn(1, "alice", "What is the status?"),)
    assert exchange.policy_version == BOOK.label


def test_the_envelope_is_stamped_from_what_is_known_here() -> None:
    sender = a_party("alice", max_classification=CONFIDENTIAL)

    ruling = ruled(sender=sender, wishes=Wishes(purpose=Purpose.INFORMATION_QUERY, classification=PUBLIC))

    assert ruling.envelope == an_envelope(
        conversation_id="conv_new",
        classification=PUBLIC,
        can_share=(PUBLIC, INTERNAL, CONFIDENTIAL),
    )
    assert (ruling.ext.exchange_id, ruling.ext.purpose, ruling.ext.hops, ruling.ext.policy) == (
        "exch_new",
        Purpose.INFORMATION_QUERY,
        1,
        BOOK.label,
    )


@pytest.mark.parametrize(
    ("wishes", "asks", "purpose", "reply_policy", "commits"),
    [
        (Wishes(), True, Purpose.INFORMATION_QUERY, ReplyPolicy.AGENT_OK, False),
        (Wishes(), False, Purpose.INFORMATION_QUERY, ReplyPolicy.NO_REPLY, False),
        (Wishes(purpose=Purpose.INFORMATION_QUERY), False, Purpose.INFORMATION_QUERY, ReplyPolicy.AGENT_OK, False),
        (Wishes(purpose=Purpose.COMMITMENT_REQUEST), True, Purpose.COMMITMENT_REQUEST, ReplyPolicy.AGENT_OK, True),
        (Wishes(purpose=Purpose.MEETING_SCHEDULING), False, Purpose.MEETING_SCHEDULING, ReplyPolicy.HUMAN_ONLY, True),
        (
            Wishes(envelope=an_envelope(reply_policy=ReplyPolicy.NO_REPLY)),
            True,
            Purpose.INFORMATION_QUERY,
            ReplyPolicy.NO_REPLY,
            False,
        ),
        (
            Wishes(envelope=an_envelope(reply_policy=ReplyPolicy.HUMAN_ONLY, requires_commitment=True)),
            True,
            Purpose.MEETING_SCHEDULING,
            ReplyPolicy.HUMAN_ONLY,
            True,
        ),
    ],
)
def test_what_an_exchange_is_for_follows_from_what_was_asked(
    wishes: Wishes, asks: bool, purpose: Purpose, reply_policy: ReplyPolicy, commits: bool
) -> None:
    exchange = ruled(wishes=wishes, asks=asks).exchange

    assert (exchange.purpose, exchange.reply_policy, exchange.requires_commitment) == (purpose, reply_policy, commits)


def test_what_needs_no_reply_is_over_with_its_delivery() -> None:
    ruling = ruled(wishes=Wishes(), asks=False)

    assert ruling.verdict is ALLOW
    assert ruling.exchange.outcome is Outcome.RESOLVED


@pytest.mark.parametrize(("asked", "rounds"), [(None, 3), (2, 2), (999_999, 3)])
def test_rounds_are_fixed_as_the_fewest_that_anybody_wants(asked: int | None, rounds: int) -> None:
    assert ruled(wishes=Wishes(max_rounds=asked)).exchange.max_rounds == rounds
    claims = an_envelope(max_rounds=asked or 7)
    assert ruled(wishes=Wishes(envelope=claims)).exchange.max_rounds == rounds


@pytest.mark.parametrize(
    ("asked", "end"),
    [
        ("", "2026-03-14T14:30:00.000000+00:00"),
        ("2026-03-13T15:00:00.123456+00:00", "2026-03-13T15:00:00.123000+00:00"),
        ("2027-01-01T00:00:00.000000+00:00", "2026-03-14T14:30:00.000000+00:00"),
    ],
)
def test_an_exchange_ends_when_asked_but_no_later_than_the_policy_says(asked: str, end: str) -> None:
    assert ruled(wishes=Wishes(expires_at=asked)).exchange.expires_at == end


@pytest.mark.parametrize(
    "wishes",
    [
        Wishes(expires_at="2026-03-13T14:30:00.000000+00:00"),
        Wishes(envelope=an_envelope(expires_at="2020-01-01T00:00:00Z")),
    ],
)
def test_an_end_in_the_past_is_an_invalid_envelope(wishes: Wishes) -> None:
    with pytest.raises(EnvelopeInvalid) as refused:
        ruled(wishes=wishes)

    assert [one.field for one in refused.value.problems] == ["expires_at"]


def test_moments_are_spelled_in_utc_to_the_millisecond() -> None:
    assert envelope_time("2026-03-14T14:30:00.123456+00:00") == "2026-03-14T14:30:00.123Z"
    assert envelope_time("2026-03-14T14:30:00+00:00") == "2026-03-14T14:30:00.000Z"


# ---------------------------------------------------------------- going on


def test_the_other_side_goes_on_with_the_same_count() -> None:
    known = accepted(an_exchange(), "alice", "asked", AT, 1)

    ruling = ruled(exchange=known, sender=BOB, receivers=(ALICE,), to="alice", wishes=Wishes())

    assert (ruling.exchange.current_round, ruling.envelope.exchange_round) == (2, 2)
    assert ruling.envelope.conversation_id == "conv-1"


def full() -> Exchange:
    exchange = an_exchange()
    for sender in ("alice", "bob", "alice"):
        exchange = accepted(exchange, sender, "said", AT, 1)
    return exchange


def test_the_fourth_of_three_rounds_is_held_and_there_is_one_escalation() -> None:
    first = ruled(exchange=full(), sender=BOB, receivers=(ALICE,), to="alice")
    again = ruled(exchange=first.exchange, sender=BOB, receivers=(ALICE,), to="alice")

    assert hold(first) is hold(again) is Cause.ROUND_LIMIT
    assert first.exchange.outcome is Outcome.ESCALATED
    assert first.exchange.limit_approval == "appr_new"
    assert again.exchange == first.exchange
    assert first.exchange.current_round == 3


def test_a_person_speaks_beyond_the_limit_and_is_counted() -> None:
    person = a_party("bob", human=True)

    ruling = ruled(exchange=full(), sender=person, receivers=(ALICE,), to="alice")

    assert ruling.verdict is ALLOW
    assert (ruling.exchange.current_round, ruling.origin) == (4, Origin.HUMAN)


def test_what_was_fixed_stays_so_and_what_is_over_stays_over() -> None:
    with pytest.raises(MaxRoundsFixed):
        ruled(exchange=an_exchange(), wishes=Wishes(max_rounds=2))
    with pytest.raises(ExchangeClosed):
        ruled(exchange=an_exchange(outcome=Outcome.RESOLVED))


def test_a_lie_is_refused_before_anything_is_judged() -> None:
    lie = an_envelope(source_agent=an_envelope().source_agent._replace(user_id="boss"))

    with pytest.raises(IdentityMismatch):
        ruled(NOTHING_IN_FORCE, wishes=Wishes(envelope=lie))


def test_what_could_not_be_read_is_refused_as_it_was_found() -> None:
    problem = EnvelopeInvalid("broken")

    with pytest.raises(EnvelopeInvalid) as refused:
        ruled(wishes=Wishes(problem=problem, meant=True))

    assert refused.value is problem


def test_without_a_policy_nothing_is_allowed() -> None:
    with pytest.raises(PolicyUnavailable):
        ruled(NOTHING_IN_FORCE)


# ---------------------------------------------------------------- denied


def test_a_denial_leaves_the_conversation_of_what_never_began_free() -> None:
    ruling = ruled(receivers=(a_party("bob", org_unit="sales"),))

    assert denial(ruling) is PolicyDenied
    assert (ruling.exchange.outcome, ruling.exchange.reserved, ruling.exchange.name) == (Outcome.DENIED, False, "")
    assert ruling.exchange.current_round == 0


def test_a_denial_ends_what_had_begun() -> None:
    known = accepted(an_exchange(), "alice", "asked", AT, 1)

    ruling = ruled(exchange=known, wishes=Wishes(classification=RESTRICTED))

    assert denial(ruling) is ClassificationExceeded
    assert (ruling.exchange.outcome, ruling.exchange.reserved, ruling.exchange.current_round) == (
        Outcome.DENIED,
        True,
        1,
    )
    assert ruling.exchange.reason == "classification_exceeded"


def test_a_circle_of_agents_ends() -> None:
    heard = accepted(an_exchange(id="exch_0", initiator="zoe", responder="alice", hops=8), "zoe", "x", AT, 8)

    assert denial(ruled(others=(heard,))) is LoopDetected


# ---------------------------------------------------------------- several receivers


SALLY = a_party("sally", org_unit="sales")


def test_what_is_for_many_goes_to_those_who_may_have_it() -> None:
    ruling = ruled(receivers=(BOB, SALLY), to="*")

    assert ruling.verdict is ALLOW
    assert [one.agent for one in ruling.receivers] == ["bob"]
    assert ruling.excluded == (("sally", "policy_denied"),)


def test_what_nobody_may_have_is_denied() -> None:
    assert denial(ruled(receivers=(SALLY, a_party("sam", org_unit="sales")), to="*")) is PolicyDenied


def test_what_is_for_many_waits_when_one_of_them_asks_for_a_person() -> None:
    book = Rulebook(
        with_document(a_snapshot(cross_org=CrossOrg.ALLOW), "org/sales", "", Fragment(cross_org=CrossOrg.APPROVAL))
    )

    ruling = ruled(book, receivers=(BOB, SALLY), to="*")

    assert hold(ruling) is Cause.CROSS_ORG
    assert [one.agent for one in ruling.receivers] == ["bob", "sally"]


def test_the_policy_of_many_is_what_all_of_them_allow() -> None:
    book = Rulebook(with_document(a_snapshot(cross_org=CrossOrg.ALLOW), "org/sales", "", Fragment(max_rounds=1)))

    assert ruled(book, receivers=(BOB, SALLY), to="*").exchange.max_rounds == 1


# ---------------------------------------------------------------- content


CARD = "4111 1111 1111 1111"


def cleared() -> dict[str, Any]:
    """Two who may tell each other everything."""
    receivers = (a_party("bob", max_classification=RESTRICTED),)
    return {"sender": a_party("alice", max_classification=RESTRICTED), "receivers": receivers}


def test_what_is_found_in_the_content_raises_the_level_and_never_lowers_it() -> None:
    found = ruled(**cleared(), wishes=Wishes(classification=PUBLIC), body={"t": f"card {CARD}"})
    plain = ruled(**cleared(), wishes=Wishes(classification=CONFIDENTIAL), body={"t": "hello"})

    assert (found.level, found.envelope.classification) == (RESTRICTED, RESTRICTED)
    assert [one.name for one in found.detections] == ["payment_card"]
    assert plain.level is CONFIDENTIAL


def test_content_marked_public_that_is_not_is_denied() -> None:
    assert denial(ruled(wishes=Wishes(classification=PUBLIC), body={"t": f"card {CARD}"})) is ClassificationExceeded


@pytest.mark.parametrize("number", [4111111111111111, "4111111111111111"])
def test_a_card_number_without_quotes_is_found_however_the_body_is_looked_at(number: object) -> None:
    body = {"card": number}

    taken_apart = ruled(wishes=Wishes(classification=PUBLIC), body=body)
    as_json = ruled(wishes=Wishes(classification=PUBLIC), body=body, texts=lambda shown: (json.dumps(shown),))

    assert denial(taken_apart) is denial(as_json) is ClassificationExceeded


def marked(value: Any, mark: str) -> Iterator[Any]:  # noqa: ANN401
    """The value with the mark in place of one text, for each text in it that is not one of a list of ours."""
    if isinstance(value, Enum) or not isinstance(value, str | tuple):
        return
    if isinstance(value, str):
        yield mark
        return
    made = type(value)._make if hasattr(value, "_make") else tuple
    for place, part in enumerate(value):
        for changed in marked(part, mark):
            yield made((*value[:place], changed, *value[place + 1 :]))


def test_every_text_in_the_stamps_of_a_message_is_looked_at_unless_it_is_known_to_be_ours() -> None:
    item = DataItem("crm", ("name",), PUBLIC, "who it is")
    ext = Ext("exch_new", Purpose.INFORMATION_QUERY, 1, BOOK.label, "appr_1", "ann", "c2ln", (item,), (item,), "over")
    ruling = ruled()
    proposal, begun = a_proposal(), ruling.exchange_before
    terms = Terms(proposal.tenant, proposal.sender, proposal.receivers, BOOK)
    planted = [(ruling.envelope, changed) for changed in marked(ext, "we-promise")]
    planted += [(changed, ext) for changed in marked(ruling.envelope, "we-promise")]

    overlooked = [pair for pair in planted if "we-promise" not in _stamped_text(proposal, terms, begun, *pair)]

    assert len(planted) == 7 + 12  # seven texts in an envelope, twelve in what stands beside it
    assert overlooked == []


@pytest.mark.parametrize(
    ("wishes", "looked_at"),
    [
        (Wishes(), False),
        (Wishes(conversation_id="we-promise"), True),
        (Wishes(envelope=an_envelope(conversation_id="we-promise")), True),
    ],
)
def test_the_name_of_a_conversation_is_looked_at_where_its_sender_chose_it(wishes: Wishes, looked_at: bool) -> None:
    ruling = ruled(wishes=wishes)
    begun = an_exchange(conversation_id="we-promise", version=1, current_round=1)

    assert ruling.keywords == (("promise",) if looked_at else ())
    assert ruled(wishes=wishes._replace(envelope=None), exchange=begun).keywords == ()


def test_the_name_of_a_conversation_of_which_nothing_was_delivered_is_looked_at_again() -> None:
    # The first message was held for its name. The second one must not get past because of the first.
    held = an_exchange(conversation_id="we-promise", version=1, current_round=0)

    assert ruled(wishes=Wishes(conversation_id="we-promise"), exchange=held).keywords == ("promise",)


@pytest.mark.parametrize("place", ["source", "fields", "description"])
def test_everything_that_is_said_about_data_is_looked_at(place: str) -> None:
    said: dict[str, Any] = {"source": "crm", "fields": ("name",), "description": ""}
    words, key = "We promise it", "AK" + "IAIOSFODNN7EXAMPLE"
    items = [DataItem(**{**said, place: (text,) if place == "fields" else text}, classification=PUBLIC)
             for text in (words, key)]  # fmt: skip

    assert ruled(wishes=Wishes(data=(items[0],))).keywords == ("promise",)
    assert denial(ruled(wishes=Wishes(data=(items[1],)))) is ClassificationExceeded


def test_said_twice_the_higher_level_counts() -> None:
    lower = Wishes(classification=PUBLIC, envelope=an_envelope(classification=CONFIDENTIAL))
    upper = Wishes(classification=CONFIDENTIAL, envelope=an_envelope(classification=PUBLIC))

    assert ruled(**cleared(), wishes=lower).level is CONFIDENTIAL
    assert ruled(**cleared(), wishes=upper).level is CONFIDENTIAL


SECRET = DataItem("hr", ("salary",), RESTRICTED, "what bob earns")
PLAIN = DataItem("crm", ("name",), PUBLIC)
BODY = {"name": "Bob", "salary": 100}


def with_data(on_over: OnOver, *items: DataItem, body: Body | None = None) -> Ruling:
    return ruled(
        a_rulebook(on_over_classified=on_over), wishes=Wishes(data=items or (PLAIN, SECRET)), body=body or BODY
    )


def test_data_above_the_ceiling_blocks_the_message() -> None:
    ruling = with_data(OnOver.BLOCK)

    assert denial(ruling) is ClassificationExceeded
    assert ruling.body is None
    assert ruling.withheld == (SECRET,)


def test_which_data_is_above_what_may_be_shared_is_said_and_nothing_of_what_it_says() -> None:
    many = tuple(DataItem(f"crm{n}", (), RESTRICTED, "the margin") for n in range(5))

    ruling = with_data(OnOver.BLOCK, *many)

    assert isinstance(ruling.verdict, Deny)
    assert ruling.verdict.error.message == (
        "it holds data above what may be shared here: crm0 is restricted, crm1 is restricted, crm2 is restricted,"
        " 2 more; at most internal may be shared"
    )


@pytest.mark.parametrize(
    ("on_over", "body"),
    [(OnOver.WITHHOLD, {"name": "Bob"}), (OnOver.REDACT, {"name": "Bob", "salary": "[redacted]"})],
)
def test_or_it_is_taken_out_and_recorded(on_over: OnOver, body: dict[str, Any]) -> None:
    ruling = with_data(on_over)

    assert ruling.verdict is ALLOW
    assert (ruling.body, ruling.shared, ruling.withheld, ruling.ceiling) == (body, (PLAIN,), (SECRET,), INTERNAL)
    assert "100" not in ruling.summary


@pytest.mark.parametrize("on_over", [OnOver.WITHHOLD, OnOver.REDACT])
def test_what_cannot_be_taken_out_blocks_whatever_the_policy_says(on_over: OnOver) -> None:
    assert denial(with_data(on_over, body="Bob earns 100")) is ClassificationExceeded
    assert denial(with_data(on_over, DataItem("hr", (), RESTRICTED))) is ClassificationExceeded


def test_what_was_taken_out_holds_nothing_up() -> None:
    body = {"name": "Bob", "salary": f"we promise {CARD}"}

    ruling = with_data(OnOver.WITHHOLD, body=body)

    assert (ruling.verdict, ruling.level, ruling.keywords) == (ALLOW, INTERNAL, ())


def test_data_above_the_declared_level_is_above_the_ceiling_too() -> None:
    ruling = ruled(wishes=Wishes(classification=PUBLIC, data=(DataItem("crm", ("name",), INTERNAL),)))

    assert denial(ruling) is ClassificationExceeded
    assert ruling.ceiling is PUBLIC


# ---------------------------------------------------------------- commitments


@pytest.mark.parametrize(
    "body",
    [
        {"text": "We promise it."},
        {"deep": [{"er": "I ap\u200bprove"}]},
        {"Deadline": 1},
        {"text": "\uff23\uff2f\uff2e\uff26\uff29\uff32\uff2d"},
    ],
)
def test_words_of_a_commitment_are_held_wherever_they_stand(body: dict[str, Any]) -> None:
    ruling = ruled(body=body)

    assert hold(ruling) is Cause.COMMITMENT
    assert len(ruling.keywords) == 1
    assert (ruling.exchange.outcome, ruling.exchange.holds) == (Outcome.ESCALATED, ("appr_new",))
    assert ruling.exchange.current_round == 0


def test_a_person_may_promise() -> None:
    ruling = ruled(sender=a_party("alice", human=True), body={"text": "We promise it."})

    assert (ruling.verdict, ruling.keywords, ruling.origin) == (ALLOW, (), Origin.HUMAN)
    # It needs no capability for that: those are what programs have.
    assert not ruling.envelope.can_commit


def test_the_words_are_all_told_when_something_else_holds_the_message() -> None:
    ruling = ruled(wishes=Wishes(purpose=Purpose.COMMITMENT_REQUEST), body={"text": "Can you allocate and confirm?"})

    assert ruling.verdict == Hold(Cause.COMMITMENT, "The exchange requires a commitment. Human approval required.")
    assert ruling.keywords == ("allocate", "confirm")


def test_a_further_detector_can_only_add() -> None:
    detectors = (lambda texts: ["swear"] if any("swear" in one for one in texts) else [],)

    assert ruled(body={"text": "I swear"}, detectors=detectors).keywords == ("swear",)
    assert ruled(body={"text": "We promise"}, detectors=detectors).keywords == ("promise",)
    assert ruled(body={"text": "hello"}, detectors=detectors).verdict is ALLOW


# ---------------------------------------------------------------- approved


def test_what_a_person_approved_goes_out_as_assisted_and_takes_its_round() -> None:
    held = escalated(accepted(an_exchange(), "alice", "asked", AT, 1), "appr_1")

    ruling = ruled(exchange=held, body={"text": "We promise it."}, approval=an_approval())

    assert ruling.verdict is ALLOW
    assert ruling.origin is ruling.envelope.message_type is Origin.ASSISTED
    assert ruling.envelope.can_commit
    assert ruling.ext.approval_id == "appr_1"
    assert (ruling.exchange.outcome, ruling.exchange.holds, ruling.exchange.current_round) == (
        Outcome.IN_PROGRESS,
        (),
        2,
    )


def test_the_round_that_it_claimed_when_it_was_held_has_passed() -> None:
    known = accepted(escalated(an_exchange(), "appr_1"), "bob", "something else", AT, 1)
    claims = an_envelope(exchange_round=1)

    ruling = ruled(exchange=known, wishes=Wishes(envelope=claims), approval=an_approval())

    assert ruling.envelope.exchange_round == 2


def test_an_approval_does_not_make_a_denied_message_pass() -> None:
    held = escalated(an_exchange(), "appr_1")

    ruling = ruled(exchange=held, receivers=(a_party("bob", org_unit="sales"),), approval=an_approval())

    assert denial(ruling) is PolicyDenied
    assert ruling.exchange.outcome is Outcome.DENIED


def test_whose_own_message_waited_it_is_still_that_persons() -> None:
    person = a_party("alice", human=True)
    book = a_rulebook(cross_org=CrossOrg.APPROVAL, applies_to=AppliesTo.ALL)

    waiting = ruled(book, sender=person, receivers=(SALLY,), to="sally")
    after = ruled(
        book, sender=person, receivers=(SALLY,), to="sally", exchange=waiting.exchange, approval=an_approval()
    )

    assert hold(waiting) is Cause.CROSS_ORG
    assert (after.verdict, after.origin) == (ALLOW, Origin.HUMAN)
