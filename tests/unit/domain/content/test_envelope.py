from __future__ import annotations

import pytest

from parley.domain.content.classification import Classification, DataItem
from parley.domain.content.envelope import (
    SEMANTICS,
    Envelope,
    Origin,
    Purpose,
    ReplyPolicy,
    Wishes,
    disclosure_of,
    purpose_of,
)
from tests.samples.governed import an_envelope


@pytest.mark.parametrize(
    ("purpose", "reply_policy", "commits"),
    [
        (Purpose.INFORMATION_QUERY, ReplyPolicy.AGENT_OK, False),
        (Purpose.COMMITMENT_REQUEST, ReplyPolicy.AGENT_OK, True),
        (Purpose.MEETING_SCHEDULING, ReplyPolicy.HUMAN_ONLY, True),
    ],
)
def test_a_purpose_says_who_may_answer_and_whether_a_commitment_is_asked_for_and_is_known_by_it_again(
    purpose: Purpose, reply_policy: ReplyPolicy, commits: bool
) -> None:
    assert SEMANTICS[purpose] == (reply_policy, commits)
    assert purpose_of(reply_policy, requires_commitment=commits) is purpose


@pytest.mark.parametrize("reply_policy", list(ReplyPolicy))
def test_without_a_commitment_it_is_a_query_whoever_may_answer(reply_policy: ReplyPolicy) -> None:
    assert purpose_of(reply_policy, requires_commitment=False) is Purpose.INFORMATION_QUERY


def test_an_envelope_has_the_fields_of_the_specification() -> None:
    # Seventeen with the two objects, and with their parts.
    parts = {"can_commit", "can_share"}
    plain = set(Envelope._fields) - parts

    assert len(plain | {"capabilities"}) + len(parts) + 4 == 17
    assert an_envelope().version == "1.0"


@pytest.mark.parametrize(
    "wishes",
    [
        Wishes(purpose=Purpose.INFORMATION_QUERY),
        Wishes(classification=Classification.PUBLIC),
        Wishes(max_rounds=1),
        Wishes(data=(DataItem("crm", (), Classification.PUBLIC),)),
        Wishes(envelope=an_envelope()),
        Wishes(meant=True),
    ],
)
def test_a_sender_puts_a_message_under_the_rules_by_what_only_they_know(wishes: Wishes) -> None:
    assert wishes.annotated


@pytest.mark.parametrize(
    "wishes", [Wishes(), Wishes(conversation_id="c"), Wishes(expires_at="t"), Wishes(parent_message_id="msg_1")]
)
def test_what_other_programs_say_too_puts_nothing_under_the_rules(wishes: Wishes) -> None:
    assert not wishes.annotated


def test_only_a_persons_message_has_no_label() -> None:
    assert disclosure_of(Origin.AGENT, "by an AI") == "by an AI"
    assert disclosure_of(Origin.ASSISTED, "by an AI") == "by an AI"
    assert disclosure_of(Origin.HUMAN, "by an AI") == ""
