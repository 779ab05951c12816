from __future__ import annotations

import pytest

from parley.domain.content.classification import LEVELS, Classification
from parley.domain.content.envelope import Origin, Purpose, ReplyPolicy, Source, Wishes
from parley.domain.errors.rules import (
    ClassificationExceeded,
    CommitForbidden,
    EnvelopeInvalid,
    ExpiryFixed,
    IdentityMismatch,
    MaxRoundsFixed,
    MessageTypeForbidden,
    RoundMismatch,
)
from parley.domain.exchange.exchange import Exchange
from parley.domain.rules.stamping import check_claims, check_fixed
from tests.samples.governed import ALICE, TENANT, an_envelope, an_exchange

TRUE = Source("alice", "alice.h", "engineering", TENANT)


def check(origin: Origin = Origin.AGENT, exchange: Exchange | None = None, **claims: object) -> None:
    check_claims(an_envelope(**claims), TRUE, origin, ALICE.attributes, exchange)


def test_an_envelope_that_says_the_truth_passes() -> None:
    check()
    check(exchange=an_exchange(current_round=2), exchange_round=3)
    check(can_share=())


@pytest.mark.parametrize("field", Source._fields)
def test_nobody_is_somebody_else(field: str) -> None:
    with pytest.raises(IdentityMismatch) as refused:
        check(source_agent=TRUE._replace(**{field: "other"}))

    assert refused.value.facts == {"field": field}


@pytest.mark.parametrize("origin", list(Origin))
@pytest.mark.parametrize("claimed", list(Origin))
def test_a_key_sends_messages_of_its_kind_only(origin: Origin, claimed: Origin) -> None:
    if origin is claimed:
        check(origin, message_type=claimed)
        return
    with pytest.raises(MessageTypeForbidden):
        check(origin, message_type=claimed)


def test_an_agent_never_says_that_it_can_commit_and_a_person_may() -> None:
    with pytest.raises(CommitForbidden):
        check(can_commit=True)
    check(Origin.HUMAN, message_type=Origin.HUMAN, can_commit=True)


@pytest.mark.parametrize("level", LEVELS)
def test_what_may_be_shared_is_what_the_directory_says(level: Classification) -> None:
    if level.rank <= ALICE.attributes.max_classification.rank:
        check(can_share=(level,))
        return
    with pytest.raises(ClassificationExceeded):
        check(can_share=(level,))


@pytest.mark.parametrize(("known", "claimed", "fits"), [(0, 1, True), (0, 2, False), (2, 3, True), (2, 1, False)])
def test_the_round_is_counted_by_us(known: int, claimed: int, fits: bool) -> None:
    exchange = an_exchange(current_round=known) if known else None
    if fits:
        check(exchange=exchange, exchange_round=claimed)
        return
    with pytest.raises(RoundMismatch) as refused:
        check(exchange=exchange, exchange_round=claimed)
    assert refused.value.facts == {"exchange_round": known + 1}


# ---------------------------------------------------------------- what is fixed


def test_who_says_nothing_or_the_same_again_changes_nothing() -> None:
    check_fixed(Wishes(), an_exchange())
    check_fixed(
        Wishes(
            purpose=Purpose.INFORMATION_QUERY,
            max_rounds=3,
            conversation_id="conv-1",
            # Within the millisecond that an envelope can tell.
            expires_at="2026-03-14T14:30:00.000400+00:00",
            envelope=an_envelope(),
        ),
        an_exchange(),
    )


@pytest.mark.parametrize("rounds", [1, 2, 4, 999_999])
def test_the_number_of_rounds_is_fixed(rounds: int) -> None:
    for wishes in (Wishes(max_rounds=rounds), Wishes(envelope=an_envelope(max_rounds=rounds))):
        with pytest.raises(MaxRoundsFixed) as refused:
            check_fixed(wishes, an_exchange())
        assert refused.value.facts == {"max_rounds": 3}


def test_the_end_is_fixed() -> None:
    for wishes in (
        Wishes(expires_at="2026-03-14T14:30:00.001000+00:00"),
        Wishes(envelope=an_envelope(expires_at="2026-03-14T14:29:59.999Z")),
    ):
        with pytest.raises(ExpiryFixed):
            check_fixed(wishes, an_exchange())


def test_another_spelling_of_the_end_is_the_same_end() -> None:
    check_fixed(Wishes(envelope=an_envelope(expires_at="2026-03-14T15:30:00+01:00")), an_exchange())


@pytest.mark.parametrize(
    ("field", "wishes"),
    [
        ("exchange_type", Wishes(purpose=Purpose.COMMITMENT_REQUEST)),
        ("reply_policy", Wishes(envelope=an_envelope(reply_policy=ReplyPolicy.NO_REPLY))),
        ("requires_commitment", Wishes(envelope=an_envelope(requires_commitment=True))),
        ("conversation_id", Wishes(conversation_id="conv-2")),
        ("conversation_id", Wishes(envelope=an_envelope(conversation_id="conv-2"))),
    ],
)
def test_what_an_exchange_is_about_is_fixed(field: str, wishes: Wishes) -> None:
    with pytest.raises(EnvelopeInvalid) as refused:
        check_fixed(wishes, an_exchange())

    assert [one.field for one in refused.value.problems] == [field]
