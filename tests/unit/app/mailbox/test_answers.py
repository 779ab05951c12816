"""Who owes an answer, told from files and ledger; and what was answered already."""

from __future__ import annotations

import pytest

from parley.app.mailbox import answers, claims, sending
from parley.app.mailbox.kernel import drive
from parley.domain.message.message import Kind
from tests.samples.messages import a_draft, a_file
from tests.unit.app.rig import Rig, claimed


def owed(rig: Rig) -> list[tuple[str, str, bool]]:
    return [(one.item.id, one.agent, one.late) for one in drive(answers.waiting(rig.kernel("claude")))]


def answer(rig: Rig, message_id: str) -> str:
    draft = a_draft(Kind.NOTIFICATION, sender="codex", to=(), subject="")
    return drive(sending.reply(rig.kernel("codex"), message_id, draft, kind_given=True)).message.id


def test_nobody_owes_an_answer_to_a_notification(rig: Rig) -> None:
    rig.send(Kind.NOTIFICATION)

    assert owed(rig) == []


def test_a_question_is_owed_until_it_is_answered_and_late_after_two_days(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    assert owed(rig) == [(sent.id, "codex", False)]
    rig.clock.pass_by(hours=49)
    assert owed(rig) == [(sent.id, "codex", True)]

    answer(rig, sent.id)

    assert owed(rig) == []


@pytest.mark.parametrize("delete", [False, True])
def test_an_answer_counts_when_it_is_archived_or_only_in_the_ledger(rig: Rig, delete: bool) -> None:
    sent = rig.send(Kind.QUESTION).message
    answer(rig, sent.id)
    kernel = rig.kernel("claude")
    drive(claims.done(kernel, claimed(kernel).message.id, delete=delete))

    assert owed(rig) == []


def test_an_answer_that_another_tool_dropped_counts(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    content = a_file(id="x", from_="codex", to="claude", type="notification", parent_message_id=sent.id)
    (rig.path("claude") / "x.yaml").write_bytes(content)

    assert owed(rig) == []


@pytest.mark.parametrize("conversation", [True, False], ids=["in a conversation", "without one"])
def test_the_ledger_knows_what_was_answered(rig: Rig, conversation: bool) -> None:
    changes = {"conversation_id": "conv-x"} if conversation else {}
    (rig.path("codex") / "x.yaml").write_bytes(a_file(id="x", type="question", **changes))
    kernel = rig.kernel("codex")
    message = claimed(kernel).message
    assert drive(answers.answered_by(kernel, message)) == []

    ids = [answer(rig, "x")]

    assert drive(answers.answered_by(rig.kernel("codex"), message)) == ids
