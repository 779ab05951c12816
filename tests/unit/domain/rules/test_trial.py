"""Trials: the same verdict as for a message that is sent, and everything that it depended on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.agents.party import Attributes, Party
from parley.domain.content.classification import Classification, DataItem
from parley.domain.content.envelope import Origin, Purpose, Wishes
from parley.domain.exchange.approval import Cause
from parley.domain.exchange.exchange import Turn
from parley.domain.rules.judge import Allow, Deny, Hold
from parley.domain.rules.policy import CURRENT, AppliesTo, CrossOrg, Fragment, PolicySnapshot, with_document
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.ruling import rule
from parley.domain.rules.trial import Trial, TrialResult, run_trial, run_trial_for_each, verdict_name
from tests.samples.governed import ALICE, BOB, NOTHING_IN_FORCE, a_party, a_proposal, a_rulebook, an_exchange
from tests.samples.messages import PROPERTY
from tests.samples.policies import fragments

SALES = a_party("mia", org_unit="sales")
ASKED = Trial(ALICE, BOB, Purpose.INFORMATION_QUERY)


def sources(found: TrialResult) -> dict[str, str]:
    return {one.check: one.source for one in found.steps}


def results(found: TrialResult) -> dict[str, str]:
    return {one.check: one.result for one in found.steps}


@pytest.mark.parametrize(
    ("trial", "said", "word", "code"),
    [
        (ASKED, {}, "allow", ""),
        (ASKED._replace(receiver=SALES), {}, "deny", "policy_denied"),
        (ASKED._replace(receiver=SALES), {"cross_org": CrossOrg.APPROVAL}, "hold", "cross_org"),
        (ASKED._replace(receiver=SALES), {"cross_org": CrossOrg.ALLOW}, "allow", ""),
        (ASKED._replace(texts=("We promise it.",)), {}, "hold", "commitment"),
        (ASKED._replace(texts=("We promise it.",), origin=Origin.HUMAN), {}, "allow", ""),
        (ASKED._replace(texts=("We promise it.",), origin=Origin.ASSISTED), {}, "allow", ""),
        (ASKED._replace(keywords=("promise",)), {}, "hold", "commitment"),
        (ASKED._replace(classification=Classification.RESTRICTED), {}, "deny", "classification_exceeded"),
        (ASKED._replace(level=Classification.RESTRICTED), {}, "deny", "classification_exceeded"),
        (ASKED._replace(round=4), {}, "hold", "round_limit"),
        (ASKED._replace(round=2, max_rounds=1), {}, "hold", "round_limit"),
        (ASKED._replace(hops=9), {}, "deny", "loop_detected"),
        (ASKED._replace(purpose=Purpose.MEETING_SCHEDULING), {}, "hold", "commitment"),
        (ASKED._replace(requires_commitment=True), {}, "hold", "commitment"),
        (ASKED._replace(data=(Classification.CONFIDENTIAL,)), {}, "deny", "classification_exceeded"),
        (ASKED, {"exchange_types": ()}, "deny", "policy_denied"),
    ],
)
def test_a_trial_comes_to_the_verdict_and_its_code(trial: Trial, said: dict[str, object], word: str, code: str) -> None:
    found = run_trial(trial, a_rulebook(**said))

    assert (found.word, found.code, found.governed) == (word, code, True)
    assert bool(found.why) == (word != "allow")


def test_without_a_policy_nothing_is_allowed() -> None:
    found = run_trial(ASKED, NOTHING_IN_FORCE)

    assert (found.word, found.code, found.policy, found.steps) == ("deny", "policy_unavailable", None, ())
    assert [one.code for one in run_trial_for_each(ASKED, (BOB, SALES), NOTHING_IN_FORCE)] == ["policy_unavailable"] * 2


@pytest.mark.parametrize(
    ("trial", "applies_to", "governed"),
    [
        (Trial(ALICE, BOB), AppliesTo.CROSS_ORG, False),
        (Trial(ALICE, BOB), AppliesTo.ALL, True),
        (Trial(ALICE, SALES), AppliesTo.CROSS_ORG, True),
        (Trial(ALICE, SALES), AppliesTo.ANNOTATED, False),
        (Trial(ALICE, BOB, classification=Classification.INTERNAL), AppliesTo.ANNOTATED, True),
        (Trial(ALICE, BOB, max_rounds=2), AppliesTo.ANNOTATED, True),
        (Trial(ALICE, BOB, data=(Classification.PUBLIC,)), AppliesTo.ANNOTATED, True),
        (Trial(ALICE, BOB, initiates=False), AppliesTo.ANNOTATED, True),
        (ASKED._replace(annotated=False), AppliesTo.ANNOTATED, False),
    ],
)
def test_a_message_that_the_rules_do_not_concern_passes_as_it_is(
    trial: Trial, applies_to: AppliesTo, governed: bool
) -> None:
    found = run_trial(
        trial._replace(texts=("We promise it.",)), a_rulebook(applies_to=applies_to, cross_org=CrossOrg.ALLOW)
    )

    assert (found.governed, found.word) == (governed, "hold" if governed else "allow")
    assert [one.word for one in run_trial_for_each(trial, (trial.receiver,), a_rulebook(applies_to=applies_to))] == (
        [run_trial(trial, a_rulebook(applies_to=applies_to)).word]
    )


def test_data_that_names_no_field_is_blocked_although_the_rest_would_be_withheld() -> None:
    from parley.domain.content.classification import OnOver

    book = a_rulebook(on_over_classified=OnOver.WITHHOLD)
    secret = ASKED._replace(data=(Classification.RESTRICTED,))

    assert run_trial(secret, book).word == "allow"
    assert run_trial(secret._replace(fixed=(Classification.RESTRICTED,)), book).code == "classification_exceeded"


def test_each_step_says_which_document_its_value_is_from() -> None:
    snapshot = PolicySnapshot(id=CURRENT, tenant_id="default")
    for name, fragment in (
        ("enterprise/default", Fragment(enabled=True, hop_limit=7)),
        ("org/sales", Fragment(max_rounds=2, commitment_words=("ship",))),
        ("org/engineering", Fragment(hop_limit=5, commitment_words=("merge",))),
    ):
        snapshot = with_document(snapshot, name, name, fragment)

    found = run_trial(ASKED._replace(receiver=SALES, texts=("Ship it",)), Rulebook(snapshot))

    said = sources(found)
    assert (said["max_rounds"], said["hop_limit"], said["enabled"], said["cross_org"]) == (
        "org/sales",
        "org/engineering",
        "enterprise/default",
        "built in",
    )
    assert said["max_classification (sender)"] == "directory"
    assert results(found)["commitments"] == "ship"
    assert results(found)["cross_org"] == "engineering to sales"


def test_a_round_limit_is_from_whoever_asks_for_the_least() -> None:
    eager = a_party("bob", max_rounds_accepted=1)

    assert sources(run_trial(ASKED._replace(max_rounds=2), a_rulebook()))["max_rounds"] == "message"
    assert sources(run_trial(ASKED._replace(receiver=eager, max_rounds=2), a_rulebook()))["max_rounds"] == "directory"
    assert (
        sources(run_trial(ASKED._replace(max_rounds=9), a_rulebook(max_rounds=3)))["max_rounds"] == "enterprise/default"
    )


def test_who_is_not_in_the_directory_is_named_so() -> None:
    found = run_trial(Trial(Party("ghost"), a_party("mia", team="field")), a_rulebook())

    assert results(found)["sender"] == "not registered, so of default"
    assert results(found)["receiver"] == "engineering/field/mia.h"


def test_a_further_detector_is_asked_too() -> None:
    found = run_trial(ASKED._replace(texts=("sure thing",)), a_rulebook(), (lambda _: ["sure"],))

    assert (found.word, found.keywords) == ("hold", ("sure",))


def test_a_verdict_is_one_word() -> None:
    from parley.domain.errors.rules import PolicyDenied

    assert [verdict_name(one) for one in (Allow(), Hold(Cause.RULE, ""), Deny(PolicyDenied()))] == [
        "allow",
        "hold",
        "deny",
    ]


levels = st.sampled_from(Classification)
parties = st.builds(
    lambda name, org, most, rounds, queries, responds: Party(
        name,
        Attributes(
            org_unit=org,
            user_id=f"{name}.h",
            max_classification=most,
            max_rounds_accepted=rounds,
            can_receive_queries=queries,
            can_auto_respond=responds,
        ),
    ),
    st.just("x"),
    st.sampled_from(["engineering", "sales"]),
    levels,
    st.none() | st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)


@PROPERTY
@given(
    fragment=fragments,
    sender=parties,
    receivers=st.lists(parties, min_size=1, max_size=3),
    purpose=st.sampled_from(Purpose),
    declared=levels,
    data=st.lists(st.tuples(levels, st.booleans()), max_size=2),
    text=st.sampled_from(["hello", "We promise it.", "KD-123456", "4111 1111 1111 1111", "ship"]),
    number=st.integers(0, 4),
    human=st.booleans(),
    asks=st.booleans(),
)
def test_a_trial_comes_to_what_the_message_would(
    fragment: Fragment,
    sender: Party,
    receivers: list[Party],
    purpose: Purpose,
    declared: Classification,
    data: list[tuple[Classification, bool]],
    text: str,
    number: int,
    human: bool,
    asks: bool,
) -> None:
    """The trial and the ruling are two ways to one judgement; here they are compared."""
    book = Rulebook(with_document(PolicySnapshot(id=CURRENT, tenant_id="default"), "enterprise/default", "", fragment))
    to = tuple(one._replace(agent=f"b{index}") for index, one in enumerate(receivers))
    me = sender._replace(agent="a", human=human)
    items = tuple(DataItem("crm", ("text",) if named else (), level) for level, named in data)
    trial = Trial(
        me,
        to[0],
        purpose,
        classification=declared,
        texts=(f'{{"text":"{text}"}}',),
        origin=Origin.HUMAN if human else Origin.AGENT,
        round=number + 1,
        initiates=asks,
        data=tuple(level for level, _ in data),
        fixed=tuple(level for level, named in data if not named),
    )

    begun = rule(a_proposal(sender=me, receivers=to, to="b0", wishes=Wishes(purpose=purpose)), book).exchange_before
    known = an_exchange(
        initiator="a" if asks else "b0",
        responder="b0" if asks else "a",
        purpose=purpose,
        reply_policy=begun.reply_policy,
        requires_commitment=begun.requires_commitment,
        max_rounds=begun.max_rounds,
        current_round=number,
        transcript=tuple(Turn(one + 1, "b0", "") for one in range(number)),
    )
    proposal = a_proposal(
        sender=me,
        receivers=to,
        to="b0",
        wishes=Wishes(classification=declared, data=items),
        body={"text": text},
        exchange=known,
    )
    ruling = rule(proposal, book)
    found = run_trial_for_each(trial, to, book)

    passing = [one for one in found if one.word != "deny"]
    word = "deny" if not passing else "hold" if any(one.word == "hold" for one in passing) else "allow"
    if ruling.body is None:  # else the words of what was taken out are not looked at
        assert word == verdict_name(ruling.verdict)
        assert [one.code for one in found if one.word == "deny"] == [code for _, code in ruling.excluded]
