"""A notice offers exactly the messages that it names, whatever waits beside them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.app.mailbox.attention import InboxNotice, notice
from parley.app.mailbox.kernel import Kernel, drive
from parley.app.mailbox.receipts import offers
from parley.app.mailbox.wake.looks import look_for_wake
from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, Moment, notice_ref
from parley.domain.message.message import Kind, Priority
from parley.domain.receipts import ReceiptState
from parley.wire.model_text import notice_text
from tests.unit.app.mailbox.receipts.recipient import hook, seen_by_sender
from tests.unit.app.rig import Rig

LIMITS = AttentionLimits(per_hour=1_000)
WAKE = "wake"
SEEN_STATES = {ReceiptState.OFFERED, ReceiptState.INJECTED}

kinds = st.sampled_from((Kind.QUESTION, Kind.NOTIFICATION))
priorities = st.sampled_from((Priority.P0, Priority.P2))
batches = st.lists(st.tuples(kinds, priorities), max_size=6)
moments = st.sampled_from((*Moment, WAKE))


def steps_of(rig: Rig, message_id: str) -> list[ReceiptState]:
    return [step.state for step in seen_by_sender(rig, message_id).receipts[0].steps]


def look(kernel: Kernel, moment: str, turn: str, number: int) -> InboxNotice | None:
    if moment == WAKE:
        return drive(look_for_wake(kernel, HookEvent("claude", Moment.STOP, "s1", turn), LIMITS, 720))
    event = HookEvent("claude", Moment(moment), "s1", turn, fingerprint=f"e{number}", carries_notice=True)
    return drive(notice(kernel, event, LIMITS, 720))


@pytest.mark.requirement("D-RECEIPT-TRUTH")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@given(st.lists(st.tuples(batches, moments), min_size=1, max_size=6))
def test_what_is_offered_is_what_the_notice_names(
    home_to_copy: Path, rounds: list[tuple[list[tuple[Kind, Priority]], str]]
) -> None:
    with tempfile.TemporaryDirectory(dir=home_to_copy.parent) as folder:
        rig = Rig(shutil.copytree(home_to_copy, Path(folder) / "home"))
        sent: list[str] = []
        named: set[str] = set()
        turn = 0
        for number, (batch, moment) in enumerate(rounds):
            sent += [rig.send(kind, priority=priority).message.id for kind, priority in batch]
            before = {message: steps_of(rig, message).count(ReceiptState.OFFERED) for message in sent}
            turn += moment == Moment.PROMPT
            kernel = rig.kernel("codex")
            rig.clock.pass_by(seconds=1)

            said = look(kernel, moment, f"t{turn}", number)

            text = notice_text("codex", said.items, said.items) if said is not None else ""
            if said is not None:
                drive(offers.confirm(kernel, said.marks))
            in_text = {message for message in sent if f"[{notice_ref(message)}]" in text}
            named |= in_text
            steps = {message: steps_of(rig, message) for message in sent}
            offered = {message for message in sent if steps[message].count(ReceiptState.OFFERED) > before[message]}
            assert offered == in_text
            assert {message for message in sent if SEEN_STATES & {*steps[message]}} == named
        rig.close()


def test_a_message_that_a_notice_only_counts_stays_queued_when_the_notice_was_seen(rig: Rig) -> None:
    sent = [rig.send(Kind.QUESTION).message.id for _ in range(5)]
    said = hook(rig, Moment.PROMPT)
    assert said is not None
    assert len(said.items) == 5

    hook(rig, Moment.TOOL)

    states = [seen_by_sender(rig, message).state for message in sent]
    assert states == [ReceiptState.INJECTED] * 3 + [ReceiptState.QUEUED] * 2
    assert hook(rig, Moment.TOOL) is None


def test_a_message_that_a_lost_notice_only_counted_is_mentioned_again(rig: Rig) -> None:
    sent = [rig.send(Kind.QUESTION).message.id for _ in range(5)]
    hook(rig, Moment.PROMPT, "t1")

    again = hook(rig, Moment.PROMPT, "t2")

    assert again is not None
    assert [item.id for item in again.items] == sent
    assert steps_of(rig, sent[4]) == []
