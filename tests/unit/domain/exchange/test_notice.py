"""When somebody is told, and what a notice says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from parley.domain.content.envelope import Purpose, ReplyPolicy
from parley.domain.exchange.approval import Approval, ApprovalStatus, Cause
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.exchange.notice import (
    Notice,
    NoticeStage,
    NoticeType,
    facts_of,
    letter,
    next_notice,
    stage_due,
    stage_told,
    stages,
)
from parley.domain.times import stamp

BEGIN = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)


def at(**span: float) -> str:
    return stamp(BEGIN + timedelta(**span))


def approval(hours: float = 24) -> Approval:
    return Approval(
        id="appr_1",
        tenant_id="default",
        cause=Cause.COMMITMENT,
        reason="it commits",
        agent="alice",
        user="ann",
        to="bob",
        classification="internal",
        digest="d",
        policy_version="v1",
        created_at=at(),
        expires_at=at(hours=hours),
    )


def test_a_day_has_three_moments() -> None:
    assert stages(at(), at(hours=24)) == [
        (at(), NoticeStage.WAITS),
        (at(hours=12), NoticeStage.HALF_WAY),
        (at(hours=23), NoticeStage.LAST_HOUR),
    ]


def test_the_moments_are_in_order_however_short_the_time_and_an_hour_has_no_last_one() -> None:
    assert [one for _, one in stages(at(), at(minutes=90))] == [
        NoticeStage.WAITS,
        NoticeStage.LAST_HOUR,
        NoticeStage.HALF_WAY,
    ]
    assert [one for _, one in stages(at(), at(minutes=60))] == [NoticeStage.WAITS, NoticeStage.HALF_WAY]


@pytest.mark.parametrize("hours", [0.01, 1, 1.5, 2, 3, 24, 720])
def test_each_stage_is_due_once_when_somebody_looks_every_minute(hours: float) -> None:
    one, told = approval(hours), []
    moments = [at(hours=hours * part / 1000) for part in range(1000)]
    for now in moments:
        stage = stage_due(one, now)
        assert (stage is not None) == (next_notice(one) != "" and next_notice(one) <= now)
        if stage is not None:
            told.append(stage)
            one = replace(one, told_at=now)
            assert stage_told(one) is stage

    assert told[0] is NoticeStage.WAITS
    assert len(set(told)) == len(told)
    assert NoticeStage.LAST_HOUR in told or hours <= 1
    assert next_notice(one) == ""


def test_an_approval_is_due_at_its_next_notice_or_at_its_end_and_never_when_it_is_decided() -> None:
    one = approval()
    dues = [one.due]
    for told_at in (at(), at(hours=12), at(hours=23)):
        dues.append(replace(one, told_at=told_at).due)

    assert dues == [at(), at(hours=12), at(hours=23), at(hours=24)]
    assert all(first < second for first, second in pairwise(dues))
    assert replace(one, told_at=at(), mail_again=at(minutes=1)).due == at(minutes=1)
    assert replace(one, status=ApprovalStatus.APPROVED).due == ""


def test_before_anything_was_told_what_counts_as_told_is_the_first() -> None:
    assert stage_told(approval()) is NoticeStage.WAITS


def test_a_letter_says_why_until_when_and_how_to_decide() -> None:
    found = letter(approval(), NoticeStage.WAITS)

    assert found.subject == "alice to bob: commitment waits for you until 2026-03-14T14:30:00Z"
    assert "parley approvals approve appr_1" in found.body
    assert "it commits (commitment)" in found.body
    assert (found.urgent, found.expires_at) == (False, at(hours=24))
    last = letter(approval(), NoticeStage.LAST_HOUR)
    assert (last.subject.partition(":")[0], last.urgent) == ("Reminder", True)


def test_a_decision_says_who_decided_and_a_reminder_how_late_it_is() -> None:
    over = replace(approval(), status=ApprovalStatus.APPROVED, decided_by="ann", decided_at=at(hours=1))

    decided = facts_of(Notice("aud_1", NoticeType.DECIDED, at(), approval=over))
    reminder = facts_of(Notice("aud_2", NoticeType.REMINDER, at(), approval=approval(), stage="half_way"))

    assert (decided["status"], decided["decided_by"], decided["decided_at"]) == ("approved", "ann", at(hours=1))
    assert (reminder["status"], reminder["stage"]) == ("pending", "half_way")
    assert "decided_by" not in reminder


def test_an_end_says_how_and_after_how_many_rounds_but_nothing_that_was_said() -> None:
    exchange = Exchange(
        id="exch_1",
        tenant_id="default",
        conversation_id="conv_1",
        initiator="alice",
        responder="bob",
        purpose=Purpose.INFORMATION_QUERY,
        reply_policy=ReplyPolicy.AGENT_OK,
        requires_commitment=False,
        max_rounds=3,
        current_round=2,
        outcome=Outcome.RESOLVED,
        started_at=at(),
        expires_at=at(hours=24),
        ended_at=at(hours=1),
        ended_by="alice",
        reason="closed",
    )

    facts = facts_of(Notice("aud_1", NoticeType.ENDED, at(), exchange=exchange))

    assert (facts["outcome"], facts["currentRound"], facts["ended_by"]) == ("resolved", 2, "alice")
    assert "transcript" not in facts
