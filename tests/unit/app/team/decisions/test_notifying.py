"""People are told what waits for them: at once, half-way and an hour before the end; each once, and none is lost."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from parley.app.team.decisions import notifying
from parley.app.team.rules import policies
from parley.app.team.state.outside import NoticeState
from parley.app.team.work import sweep
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import DiskFull, Invalid, ParleyError, Unavailable
from parley.domain.errors.rules import MessageHeld, PolicyDenied
from parley.domain.exchange.approval import ApprovalStatus, Decision
from parley.domain.rules.policy import Fragment
from parley.domain.store.changes import AuditQuery, Committed, TeamChanges
from parley.domain.times import from_stamp
from tests.rigs.log_records import logged_by
from tests.rigs.notices import SECRET_WORDS, FakeNotifier, decide, now, peopled, sweep_at, told, waiting
from tests.rigs.team import Rig, with_rig


async def with_notifier(rig: Rig) -> FakeNotifier:
    await peopled(rig)
    notifier = FakeNotifier()
    rig.team.notices = NoticeState(notifier)
    return notifier


async def stages(rig: Rig) -> list[str]:
    """What the audit log says was told."""
    entries = await rig.store.audits(DEFAULT_TENANT, AuditQuery(action="approval_told"))
    return [json.loads(one.document)["stage"] for one in entries]


@with_rig
async def test_whom_a_held_message_waits_for_is_told_by_the_next_sweep_and_not_again(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    approval = await waiting(rig)

    for _ in range(3):
        await sweep.sweep(rig.team)

    ((user, letter),) = notifier.carried
    assert user == "ann"
    assert f"parley approvals show {approval.id}" in letter.body
    assert approval.reason in letter.body
    assert letter.expires_at == approval.expires_at
    assert await stages(rig) == ["waits"]
    assert (await now(rig, approval)).told_at == rig.at()


@with_rig
async def test_a_letter_never_holds_what_would_be_said(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    await waiting(rig)

    await sweep.sweep(rig.team)

    assert "elephant" in SECRET_WORDS
    assert all("elephant" not in letter.body + letter.subject for _, letter in notifier.carried)


@with_rig
async def test_a_person_is_reminded_half_way_and_an_hour_before_the_end_each_time_once(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    approval = await waiting(rig)
    hours = (from_stamp(approval.expires_at) - from_stamp(approval.created_at)).total_seconds() / 3600
    await sweep.sweep(rig.team)

    await sweep_at(rig, hours=hours / 2 - 0.1)
    assert notifier.subjects == [("ann", False)]
    await sweep_at(rig, hours=0.1)
    await sweep_at(rig, hours=0.1)
    assert notifier.subjects == [("ann", False), ("ann", True)]
    assert (await now(rig, approval)).reminded_at != ""
    await sweep_at(rig, hours=hours / 2 - 0.1 - 1.1)
    assert len(notifier.carried) == 2
    await sweep_at(rig, hours=0.1)
    await sweep_at(rig, hours=0.5)

    assert notifier.subjects == [("ann", False), ("ann", True), ("ann", True)]
    assert [letter.urgent for _, letter in notifier.carried] == [False, False, True]
    assert await stages(rig) == ["waits", "half_way", "last_hour"]


@with_rig
async def test_at_its_end_an_approval_is_denied_and_nobody_is_told_any_more(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    approval = await waiting(rig)
    await sweep.sweep(rig.team)

    await sweep_at(rig, days=30)

    assert (await now(rig, approval)).status is ApprovalStatus.EXPIRED
    assert len(notifier.carried) == 1


@with_rig
async def test_who_was_away_for_long_is_told_only_the_last_of_what_was_missed(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    approval = await waiting(rig)
    left = from_stamp(approval.expires_at) - from_stamp(approval.created_at)

    await sweep_at(rig, seconds=left.total_seconds() - 600)
    await sweep_at(rig, minutes=1)

    assert notifier.subjects == [("ann", True)]
    assert await stages(rig) == ["last_hour"]


@with_rig
async def test_what_was_decided_reminds_nobody(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    approval = await waiting(rig)
    await sweep.sweep(rig.team)

    await decide(rig, approval, Decision.REJECT)
    await sweep_at(rig, days=30)

    assert len(notifier.carried) == 1


@pytest.mark.both_stores
@with_rig
async def test_a_restart_before_anybody_was_told_loses_no_notification_and_one_after_it_repeats_none(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    await waiting(rig)
    await rig.reopen()
    rig.team.notices = NoticeState(notifier)
    await sweep.sweep(rig.team)
    assert len(notifier.carried) == 1

    await rig.reopen()
    rig.team.notices = NoticeState(notifier)
    await sweep.sweep(rig.team)

    assert len(notifier.carried) == 1


@with_rig
async def test_a_crash_between_the_letter_and_its_mark_brings_the_letter_twice(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifier = await with_notifier(rig)
    approval = await waiting(rig)

    async def full(_: TeamChanges) -> Committed:
        raise DiskFull("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(rig.store, "commit", full)
        for _ in range(3):
            with pytest.raises(Unavailable):
                await notifying.tell(rig.team, DEFAULT_TENANT, approval.id)
    # The same process knows what it has carried; the next one cannot.
    assert len(notifier.carried) == 1
    await rig.reopen()
    rig.team.notices = NoticeState(notifier)

    await sweep.sweep(rig.team)
    await sweep.sweep(rig.team)

    assert len(notifier.carried) == 2


@with_rig
async def test_a_mailbox_that_cannot_be_reached_is_logged_and_tried_again_while_messages_go_on(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = await with_notifier(rig)
    notifier.broken["ann"] = Unavailable("the disk of the mailbox is full")
    await waiting(rig)

    with caplog.at_level(logging.WARNING, "parley.notices"):
        await sweep.sweep(rig.team)
        await sweep.sweep(rig.team)
    assert len(logged_by("parley.notices", caplog)) == 1
    assert await stages(rig) == ["waits"]
    await told(rig, "Where are the notes?", "bob", "alice")
    del notifier.broken["ann"]
    await sweep_at(rig, seconds=59)
    assert notifier.carried == []
    await sweep_at(rig, seconds=1)
    await sweep_at(rig, minutes=5)

    assert notifier.subjects == [("ann", False)]
    assert await stages(rig) == ["waits"]


@pytest.mark.parametrize("refusal", [PolicyDenied("no"), MessageHeld("it waits"), Invalid("no letter")])
@with_rig
async def test_a_letter_that_the_mailboxes_rules_refuse_is_logged_and_not_tried_again(
    rig: Rig, caplog: pytest.LogCaptureFixture, refusal: ParleyError
) -> None:
    notifier = await with_notifier(rig)
    notifier.broken["ann"] = refusal
    approval = await waiting(rig)

    with caplog.at_level(logging.WARNING, "parley.notices"):
        await sweep.sweep(rig.team)
        await sweep_at(rig, minutes=5)

    assert len(logged_by("parley.notices", caplog)) == 1
    assert (await now(rig, approval)).mail_again == ""


@with_rig
async def test_who_has_no_mailbox_is_no_failure(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    notifier.people = ()
    approval = await waiting(rig)

    await sweep.sweep(rig.team)

    assert (await now(rig, approval)).mail_again == ""
    assert (await now(rig, approval)).told_at != ""


@with_rig
async def test_without_mailboxes_it_is_still_on_record_that_it_waits(rig: Rig) -> None:
    await peopled(rig)
    await waiting(rig)

    await sweep.sweep(rig.team)

    assert await stages(rig) == ["waits"]


@with_rig
async def test_with_four_eyes_only_those_are_told_who_may_decide(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    notifier.people = ("ann", "zoe", "yan")
    four_eyes = Fragment(enabled=True, self_approval=False, approvers=("zoe", "ann", "yan"))
    await policies.put(rig.team, rig.caller("", KeyKind.ADMIN), "enterprise", "default", "text", four_eyes)
    await waiting(rig)

    await sweep.sweep(rig.team)

    assert {user for user, _ in notifier.carried} == {"yan", "zoe"}
    assert len(notifier.carried) == 2


@with_rig
async def test_what_somebody_decides_meanwhile_is_not_overwritten(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    approval = await waiting(rig)
    notify = notifier.notify

    async def slowly(user: str, letter: object) -> bool:
        await decide(rig, approval, Decision.REJECT)
        return await notify(user, letter)  # type: ignore[arg-type]

    notifier.notify = slowly  # type: ignore[method-assign]

    await sweep.sweep(rig.team)

    assert (await now(rig, approval)).status is ApprovalStatus.REJECTED
    assert await stages(rig) == []


@with_rig
async def test_an_approval_that_is_not_there_is_told_to_nobody(rig: Rig) -> None:
    notifier = await with_notifier(rig)
    approval = await waiting(rig)

    await notifying.tell(rig.team, DEFAULT_TENANT, "appr_of_nobody")
    await rig.put(replace(approval, version=1, told_at=rig.at()))
    await notifying.tell(rig.team, DEFAULT_TENANT, approval.id)

    assert notifier.carried == []
