"""A message counts as injected by what follows its notice, and is offered again when nothing does."""

from __future__ import annotations

import pytest

from parley.app.mailbox import claims, read
from parley.app.mailbox.attention import notice
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.receipts import offers
from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, Moment, notice_ref
from parley.domain.mailbox.ledger import MailboxChanges
from parley.domain.message.message import Kind
from parley.domain.receipts import OFFER_LASTS, ReceiptState
from parley.domain.times import stamp
from tests.unit.app.mailbox.receipts.recipient import hook, receipts_of, seen_by_sender
from tests.unit.app.rig import HALF_AN_HOUR, Rig


def test_a_hook_that_died_before_its_notice_was_out_proves_nothing(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    hook(rig, Moment.PROMPT, printed=False)

    hook(rig, Moment.TOOL)

    assert seen_by_sender(rig, sent.id).state == ReceiptState.OFFERED


def test_what_was_not_proved_is_offered_again_in_the_next_turn(rig: Rig) -> None:
    sent = rig.send(Kind.NOTIFICATION).message
    hook(rig, Moment.PROMPT, "t1")

    again = hook(rig, Moment.PROMPT, "t2")

    assert again is not None
    assert [step.state for step in seen_by_sender(rig, sent.id).receipts[0].steps] == ["offered", "queued", "offered"]
    hook(rig, Moment.STOP, "t2")
    assert seen_by_sender(rig, sent.id).state == ReceiptState.INJECTED
    assert hook(rig, Moment.PROMPT, "t3") is None


def test_the_end_of_a_session_takes_its_offers_back(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    hook(rig, Moment.PROMPT)

    assert hook(rig, Moment.END) is None

    assert seen_by_sender(rig, sent.id).state == ReceiptState.QUEUED


def test_an_offer_without_evidence_lapses(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    hook(rig, Moment.PROMPT)

    rig.clock.pass_by(minutes=OFFER_LASTS.total_seconds() / 60)

    assert seen_by_sender(rig, sent.id).state == ReceiptState.QUEUED


@pytest.mark.parametrize("carries_it", [True, False])
def test_an_offer_that_wakes_counts_from_the_prompt_that_names_its_message(rig: Rig, carries_it: bool) -> None:
    sent = rig.send(Kind.QUESTION).message
    refs = frozenset({notice_ref(sent.id) if carries_it else "zzzz"})
    kernel = rig.kernel("codex")
    items = drive(read.inbox(kernel))
    idle = HookEvent("claude", Moment.STOP, "s1", "t0", fingerprint="idle")
    marks = offers.wake_marks(idle, items, stamp(rig.clock.at))
    drive(kernel.store.commit(MailboxChanges(watched=marks)))
    offers.record_wake(kernel, idle, items)
    drive(offers.confirm(kernel, marks))

    states = []
    for moment, turn in ((Moment.STOP, "t0"), (Moment.PROMPT, "t1"), (Moment.STOP, "t1")):
        fields = {"fingerprint": moment + turn, "carries_notice": True, "carried_refs": refs}
        event = HookEvent("claude", moment, "s1", turn, **fields)  # type: ignore[arg-type]
        drive(notice(rig.kernel("codex"), event, AttentionLimits(per_hour=0), 720))
        states.append(seen_by_sender(rig, sent.id).state)

    assert states == ["offered", "offered", "injected" if carries_it else "offered"]


def test_with_nothing_waiting_nothing_is_written(rig: Rig) -> None:
    for moment in Moment:
        hook(rig, moment)
    drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR))

    assert not receipts_of(rig).exists()
