"""Waiting until an inbox changes, for the next message, for the answer to one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from parley.app.mailbox import claims, sending, waiting
from parley.app.mailbox.kernel import drive
from parley.domain.mailbox.ledger import MailboxChanges, StoredMessage
from parley.domain.message.message import Kind
from tests.rigs.settled_files import settle
from tests.samples.messages import a_draft
from tests.unit.app.rig import HALF_AN_HOUR, Rig, claimed


class Pauses:
    """Lets time pass instead of sleeping, and acts in place of one pause."""

    def __init__(self, rig: Rig, turn: int = 0, act: Callable[[], object] = bool) -> None:
        self._rig, self._turn, self._act = rig, turn, act
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._rig.clock.pass_by(seconds=seconds)
        if len(self.seconds) == self._turn:
            self._act()


def test_a_wait_ends_when_an_inbox_changes_and_else_after_a_second(rig: Rig) -> None:
    kernels = [rig.kernel("codex"), rig.kernel("gemini")]
    pauses = Pauses(rig, 3, lambda: rig.send(to=("gemini",)))
    inbox_wait = waiting.InboxWait(kernels, pauses)

    assert inbox_wait.until_changed() == pytest.approx(3 * waiting.POLL_SECONDS)
    assert inbox_wait.until_changed() == pytest.approx(1.0)
    assert inbox_wait.until_changed(0.1) == pytest.approx(0.1)


def test_what_arrives_between_two_waits_ends_the_second_at_once(rig: Rig) -> None:
    inbox_wait = waiting.InboxWait([rig.kernel("codex")], Pauses(rig))
    inbox_wait.until_changed(0.1)
    rig.send()

    assert inbox_wait.until_changed() == pytest.approx(waiting.POLL_SECONDS)


def test_the_next_message_is_waited_for(rig: Rig) -> None:
    pauses = Pauses(rig, 30, rig.send)

    looked = drive(waiting.next_message(rig.kernel("codex"), HALF_AN_HOUR, 60, pauses))

    assert looked.claimed is not None
    assert len(pauses.seconds) == 30


def test_a_claim_that_ends_during_the_wait_is_handed_over(rig: Rig) -> None:
    rig.send()
    first = claimed(rig.kernel("codex"), timedelta(seconds=10))

    looked = drive(waiting.next_message(rig.kernel("codex"), HALF_AN_HOUR, 60, Pauses(rig)))

    assert looked.claimed is not None
    assert (looked.claimed.message.id, looked.claimed.tries) == (first.message.id, 2)


def test_a_wait_for_nothing_ends_after_its_time(rig: Rig) -> None:
    pauses = Pauses(rig)

    looked = drive(waiting.next_message(rig.kernel("codex"), HALF_AN_HOUR, 5, pauses))

    assert looked.claimed is None
    assert sum(pauses.seconds) == pytest.approx(5, abs=0.1)


def test_files_that_are_refused_during_the_wait_are_named_once(rig: Rig) -> None:
    pauses = Pauses(rig, 2, lambda: (rig.path("codex") / "bad.yaml").write_text("from: [\n"))

    looked = drive(waiting.next_message(rig.kernel("codex"), HALF_AN_HOUR, 30, pauses))

    assert [refused.file for refused in looked.refused if refused.place == "dead_letter"] == ["bad.yaml"]


def answer(rig: Rig, message_id: str, sender: str = "codex") -> None:
    draft = a_draft(Kind.NOTIFICATION, sender=sender, to=("claude",), in_reply_to=message_id)
    drive(sending.send(rig.kernel(sender), draft))


def next_answer(rig: Rig, message_id: str, pauses: Pauses, known: tuple[str, ...] = ()) -> waiting.Answer | None:
    kernel = rig.kernel("claude")
    # Two changes of a folder within one tick of the kernel's clock look like one.
    settle(rig.path("claude"))
    deadline = waiting.Deadline(kernel, 60)
    return drive(waiting.next_answer(kernel, message_id, HALF_AN_HOUR, deadline, pauses, known))


def test_an_answer_is_claimed_and_other_messages_are_not(rig: Rig) -> None:
    question = rig.send(Kind.QUESTION).message
    rig.send(to=("claude",), sender="gemini")
    pauses = Pauses(rig, 7, lambda: answer(rig, question.id))

    found = next_answer(rig, question.id, pauses)

    assert found is not None
    assert found.claimed is not None
    assert (found.message.sender, found.message.in_reply_to, len(pauses.seconds)) == ("codex", question.id, 7)
    assert claimed(rig.kernel("claude")).message.sender == "gemini"


def test_without_an_answer_the_wait_ends(rig: Rig) -> None:
    question = rig.send(Kind.QUESTION).message

    assert next_answer(rig, question.id, Pauses(rig)) is None


def test_an_answer_that_another_reader_has_taken_is_returned_once_without_a_claim(rig: Rig) -> None:
    question = rig.send(Kind.QUESTION).message
    answer(rig, question.id)
    taken = claimed(rig.kernel("claude")).message
    drive(claims.done(rig.kernel("claude"), taken.id))

    assert next_answer(rig, question.id, Pauses(rig)) == waiting.Answer(taken, None)
    assert next_answer(rig, question.id, Pauses(rig), (taken.id,)) is None


def test_an_answer_that_waits_for_a_person_is_no_answer(rig: Rig) -> None:
    """It is in the ledger and was not handed over."""
    question = rig.send(Kind.QUESTION).message
    answer(rig, question.id)
    taken = claimed(rig.kernel("claude"))
    content = (rig.path("claude") / taken.file).read_bytes()
    rig.stores.pop("claude")
    kernel = rig.kernel("claude")
    drive(kernel.store.commit(MailboxChanges(messages=(StoredMessage(taken.message, content, "held"),))))
    (rig.path("claude") / taken.file).unlink()

    assert next_answer(rig, question.id, Pauses(rig)) is None
