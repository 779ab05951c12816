"""What a hook says about an inbox, and that it is on record before it is said."""

from __future__ import annotations

from parley.app.mailbox import claims
from parley.app.mailbox.attention import InboxNotice, notice
from parley.app.mailbox.kernel import Kernel, drive
from parley.domain.mailbox.attention import AgentSession
from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, Moment
from parley.domain.message.message import Kind
from tests.unit.app.rig import HALF_AN_HOUR, Rig, claimed


def noticed(kernel: Kernel, moment: Moment, session: str = "s1", turn: str = "t1") -> InboxNotice | None:
    return drive(notice(kernel, HookEvent("claude", moment, session, turn), AttentionLimits(), 720))


def ids(found: InboxNotice | None) -> list[str]:
    return [item.id for item in found.items] if found is not None else []


def test_with_an_empty_inbox_the_ledger_is_not_opened(rig: Rig) -> None:
    kernel = rig.kernel("codex")

    assert noticed(kernel, Moment.START) is None
    assert kernel._store is None


def test_what_waits_is_said_once_and_the_session_is_on_record(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    kernel.holder = lambda: "4711:99:here"

    assert ids(noticed(kernel, Moment.START)) == [sent.message.id]
    assert noticed(rig.kernel("codex"), Moment.PROMPT) is None
    assert ids(noticed(rig.kernel("codex"), Moment.PROMPT, session="s2")) == [sent.message.id]

    sessions = drive(rig.stores["codex"].records(AgentSession))
    assert {(one.harness, one.session) for one in sessions} == {("claude", "s1"), ("claude", "s2")}
    assert "4711:99:here" in {one.process for one in sessions}


def test_what_is_claimed_or_expired_is_not_mentioned(rig: Rig) -> None:
    rig.send(Kind.QUESTION)
    claimed(rig.kernel("codex"))

    assert noticed(rig.kernel("codex"), Moment.START) is None


def test_an_answer_to_this_agent_is_mentioned_between_tools(rig: Rig) -> None:
    question = rig.send(Kind.QUESTION)
    rig.send(Kind.NOTIFICATION, sender="codex", to=("claude",), in_reply_to=question.message.id)
    rig.send(Kind.NOTIFICATION, sender="gemini", to=("claude",))

    (mentioned,) = (noticed(rig.kernel("claude"), Moment.TOOL) or InboxNotice(())).items

    assert mentioned.sender == "codex"


def test_an_agent_that_answers_goes_on_and_one_that_does_not_is_let_go(rig: Rig) -> None:
    rig.send(Kind.QUESTION)
    rig.send(Kind.QUESTION)
    first = noticed(rig.kernel("codex"), Moment.STOP)
    assert first is not None
    assert first.goes_on
    assert noticed(rig.kernel("codex"), Moment.STOP) is None

    message = drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR))
    assert message is not None
    drive(claims.done(rig.kernel("codex"), message.message.id))
    second = noticed(rig.kernel("codex"), Moment.STOP)

    assert second is not None
    assert (second.goes_on, len(second.items)) == (True, 1)
