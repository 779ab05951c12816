"""A reply finishes what it answers in its own commit, and a crash or a refusal leaves nothing half done."""

from __future__ import annotations

import pytest

from parley.app.mailbox import claims, find, read, sending, sweep
from parley.app.mailbox.kernel import Kernel, drive
from parley.domain.errors.errors import LeaseLost, ParleyError
from parley.domain.mailbox.delivery import DeliveryKey, Status
from parley.domain.mailbox.listing import Sent
from parley.domain.message.message import Kind
from tests.samples.messages import a_draft
from tests.unit.app.rig import HALF_AN_HOUR, Rig, claimed


def reply(kernel: Kernel, ref: str, *, keep_open: bool = False, token: str | None = None) -> Sent:
    draft = a_draft(Kind.NOTIFICATION, sender=kernel.agent, to=(), subject="", body="Yes.")
    return drive(sending.reply(kernel, ref, draft, kind_given=False, keep_open=keep_open, token=token))


def status_of(rig: Rig, agent: str, message_id: str) -> list[tuple[Status, str]]:
    deliveries = drive(rig.stores[agent].find_deliveries(agent, message_id))
    return [(delivery.status, delivery.reason) for delivery in deliveries]


def commit_only(rig: Rig, ref: str) -> None:
    """A reply of codex whose process died right after its commit."""
    kernel = rig.kernel("codex")
    answered = drive(find.find(kernel, ref))
    draft = a_draft(Kind.NOTIFICATION, sender="codex", to=(), subject="", body="Yes.")
    draft = sending.answer(draft, answered.message, kernel.limits, kind_given=False)
    closes = sending.ClosedMessage(answered)
    parents = sending.Parents(answered.message)
    drive(sending._commit(kernel, draft, parents, "", free_form=False, closes=closes))


def test_a_reply_finishes_a_claimed_message_in_its_commit(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    claimed(kernel)

    answer = reply(kernel, sent.message.id)

    assert answer.finished == sent.message.id
    assert (rig.files("codex"), rig.files("codex", "inbox/archive")) == ([], [sent.file])
    assert status_of(rig, "codex", sent.message.id) == [(Status.DONE, "archived")]
    assert drive(read.inbox(rig.kernel("codex"))) == []
    first, *_ = [e for e in drive(rig.stores["codex"].entries(0, 100)) if e.entry.action == "sent"]
    done, *_ = [e for e in drive(rig.stores["codex"].entries(0, 100)) if e.entry.action == "done"]
    assert done.position == first.position + 1


def test_a_reply_finishes_a_message_that_nobody_claimed(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)

    assert reply(rig.kernel("codex"), sent.message.id).finished == sent.message.id
    assert rig.files("codex") == []
    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None


def test_a_reply_that_keeps_the_message_open_finishes_nothing(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    claimed(kernel)

    assert reply(kernel, sent.message.id, keep_open=True).finished == ""
    assert status_of(rig, "codex", sent.message.id) == [(Status.CLAIMED, "")]


def test_a_second_reply_finishes_nothing_more(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    reply(kernel, sent.message.id)

    assert reply(kernel, sent.message.id).finished == ""
    assert status_of(rig, "codex", sent.message.id) == [(Status.DONE, "archived")]


def test_a_sender_who_adds_to_its_own_message_finishes_nothing(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)

    assert reply(rig.kernel("claude"), sent.message.id).finished == ""
    assert len(rig.files("codex")) == 2


def test_a_reader_that_lost_its_claim_sends_no_second_answer(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    first, second = rig.kernel("codex"), rig.kernel("codex")
    lost = claimed(first).lease.token
    rig.clock.pass_by(hours=1)
    token = claimed(second).lease.token

    reply(second, sent.message.id, token=token)
    with pytest.raises(LeaseLost):
        reply(first, sent.message.id, token=lost)

    assert len(rig.files("claude")) == 1


def test_a_claim_of_the_process_is_let_go_with_the_reply(rig: Rig) -> None:
    rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    message = claimed(kernel, None)

    reply(kernel, message.message.id, token=message.lease.token)

    assert kernel.held == {}


def test_after_a_crash_the_next_command_carries_the_reply_and_puts_the_message_away(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    claimed(rig.kernel("codex"))
    commit_only(rig, sent.message.id)
    assert (len(rig.files("codex")), rig.files("claude")) == (1, [])

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None

    assert (rig.files("codex"), len(rig.files("claude"))) == ([], 1)
    assert status_of(rig, "codex", sent.message.id) == [(Status.DONE, "archived")]


def test_a_reply_that_its_recipient_refuses_gives_the_message_back(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex", limits=rig.kernel("codex").limits._replace(inbox_messages=1))
    claimed(kernel)
    rig.send(Kind.NOTIFICATION, sender="gemini", to=("claude",))

    with pytest.raises(ParleyError):
        reply(kernel, sent.message.id)

    assert status_of(rig, "codex", sent.message.id) == [(Status.DELIVERED, "")]
    assert claimed(rig.kernel("codex")).message.id == sent.message.id


def test_a_message_that_its_owner_moves_back_after_the_reply_is_handed_out_again(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    reply(kernel, sent.message.id)
    (rig.path("codex", "inbox/archive") / sent.file).rename(rig.path("codex") / sent.file)

    assert claimed(rig.kernel("codex")).message.id == sent.message.id


def test_the_claim_of_a_process_that_has_ended_is_over_and_its_try_counts(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    first, second = rig.kernel("codex"), rig.kernel("codex")
    first.holder = lambda: "4711:99:here"
    held = claimed(first)
    assert held.lease.holder == "4711:99:here"
    assert drive(claims.claim_next(second, HALF_AN_HOUR)) is None

    second.has_ended = lambda holder: holder == "4711:99:here"
    again = claimed(second)

    assert (again.message.id, again.tries) == (sent.message.id, 2)
    assert "released" in rig.actions("codex")


def test_the_claim_of_a_process_that_runs_is_left_alone(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    kernel.holder = lambda: "4711:99:here"
    held = claimed(kernel)

    drive(sweep.sweep(rig.kernel("codex")))

    key = DeliveryKey(sent.message.id, drive(find.find(kernel, sent.message.id)).digest, "codex")
    delivery = drive(rig.stores["codex"].delivery(key))
    assert delivery is not None
    assert delivery.lease == held.lease
