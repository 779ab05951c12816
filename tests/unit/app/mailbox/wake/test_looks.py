"""One session is woken for a message, and it is on record before."""

from __future__ import annotations

from parley.app.mailbox.attention import InboxNotice, notice
from parley.app.mailbox.kernel import Kernel, drive
from parley.app.mailbox.wake import sessions
from parley.app.mailbox.wake.looks import look_for_prompt, look_for_wake
from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, Moment
from parley.domain.message.message import Kind
from tests.unit.app.rig import Rig, claimed

LIMITS = AttentionLimits()


def an_event(session: str = "s1", moment: Moment = Moment.STOP) -> HookEvent:
    return HookEvent("claude", moment, session, "t1")


def look(kernel: Kernel, session: str = "s1", *, has_precedence: bool = False) -> InboxNotice | None:
    return drive(look_for_wake(kernel, an_event(session), LIMITS, 720, has_precedence=has_precedence))


def idle(rig: Rig, session: str) -> None:
    drive(sessions.record_event(rig.kernel("codex"), an_event(session)))
    rig.clock.pass_by(seconds=1)


def test_a_session_is_woken_once_for_a_message(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    idle(rig, "s1")

    woken = look(rig.kernel("codex"))

    assert woken is not None
    assert [item.id for item in woken.items] == [sent.message.id]
    rig.clock.pass_by(hours=2)
    assert look(rig.kernel("codex")) is None


def test_what_the_hook_has_mentioned_does_not_wake(rig: Rig) -> None:
    rig.send(Kind.QUESTION)
    idle(rig, "s1")
    assert drive(notice(rig.kernel("codex"), an_event(moment=Moment.PROMPT), LIMITS, 720)) is not None

    assert look(rig.kernel("codex")) is None


def test_what_another_live_session_was_told_does_not_wake_this_one(rig: Rig) -> None:
    rig.send(Kind.QUESTION)
    idle(rig, "s1")
    drive(notice(rig.kernel("codex"), an_event("s2", Moment.START), LIMITS, 720))
    assert look(rig.kernel("codex")) is None

    drive(sessions.record_event(rig.kernel("codex"), an_event("s2", Moment.END)))

    assert look(rig.kernel("codex")) is not None


def test_the_session_that_was_active_last_goes_first_for_a_while(rig: Rig) -> None:
    idle(rig, "s1")
    idle(rig, "s2")
    rig.send(Kind.QUESTION)

    assert look(rig.kernel("codex"), "s1") is None
    assert look(rig.kernel("codex"), "s1", has_precedence=True) is not None
    assert look(rig.kernel("codex"), "s2") is None


def test_what_is_claimed_does_not_wake(rig: Rig) -> None:
    rig.send(Kind.QUESTION)
    idle(rig, "s1")
    claimed(rig.kernel("codex"))

    assert look(rig.kernel("codex")) is None


def test_a_program_without_a_person_is_prompted_for_all_that_waits_while_it_makes_progress(rig: Rig) -> None:
    event = HookEvent("gemini", Moment.START, "run-1", attended=False)

    def prompted() -> int:
        found = drive(look_for_prompt(rig.kernel("codex"), event, LIMITS, 720))
        return len(found.items) if found is not None else 0

    assert prompted() == 0
    rig.send(Kind.QUESTION)
    rig.send(Kind.NOTIFICATION)
    assert (prompted(), prompted()) == (2, 0)
    claimed(rig.kernel("codex"))
    assert (prompted(), prompted()) == (1, 0)
    rig.clock.pass_by(minutes=11)
    assert prompted() == 1
