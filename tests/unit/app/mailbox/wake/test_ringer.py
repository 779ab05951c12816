"""One ringer rings one session, and a ring that was cut off is tried again by another."""

from __future__ import annotations

from parley.app.mailbox.kernel import Kernel, drive
from parley.app.mailbox.wake import sessions
from parley.app.mailbox.wake.ringer import finish_ring, look_for_ring
from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, Moment
from parley.domain.message.message import Kind
from parley.domain.times import stamp
from tests.unit.app.rig import Rig, claimed


class Ringers:
    """The ringers of one agent, by the marks of their processes, some of which have ended."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.since = stamp(rig.clock.now().at)
        self.ended: set[str] = set()

    def kernel(self, mark: str) -> Kernel:
        kernel = self.rig.kernel("codex")
        kernel.holder = lambda: mark
        kernel.has_ended = self.ended.__contains__
        return kernel

    def look(self, mark: str = "r1") -> str:
        return drive(look_for_ring(self.kernel(mark), "codex", self.since, AttentionLimits(), 720))

    def finish(self, session: str, mark: str = "r1", *, succeeded: bool) -> None:
        drive(finish_ring(self.kernel(mark), session, succeeded=succeeded))

    def event(self, session: str, moment: Moment = Moment.STOP, mark: str = "") -> None:
        self.rig.clock.pass_by(seconds=1)
        drive(sessions.record_event(self.kernel(mark), HookEvent("codex", moment, session)))


def test_the_last_active_session_is_rung_once(rig: Rig) -> None:
    ringers = Ringers(rig)
    for session in ("t1", "t2", "t1"):
        ringers.event(session)
    rig.send(Kind.QUESTION)

    assert ringers.look("r1") == "t1"
    assert ringers.look("r2") == ""
    ringers.finish("t1", succeeded=True)
    assert ringers.look("r2") == ""


def test_a_session_at_work_is_left_to_its_hook(rig: Rig) -> None:
    ringers = Ringers(rig)
    ringers.event("t1", Moment.PROMPT)
    rig.send(Kind.QUESTION)
    assert ringers.look() == ""

    ringers.event("t1", Moment.STOP)

    assert ringers.look() == "t1"


def test_a_ring_that_failed_is_tried_again_after_a_while_and_given_up_after_three(rig: Rig) -> None:
    ringers = Ringers(rig)
    ringers.event("t1")
    rig.send(Kind.QUESTION)
    tries = 0
    for _ in range(60):
        if ringers.look() == "t1":
            tries += 1
            ringers.finish("t1", succeeded=False)
            assert ringers.look() == ""
        rig.clock.pass_by(seconds=10)

    assert tries == 3


def test_when_a_ringer_was_killed_another_rings(rig: Rig) -> None:
    ringers = Ringers(rig)
    ringers.event("t1")
    rig.send(Kind.QUESTION)
    assert ringers.look("r1") == "t1"
    ringers.ended.add("r1")

    assert ringers.look("r2") == "t1"


def test_a_ring_that_was_cut_off_is_dropped_when_the_message_was_taken(rig: Rig) -> None:
    ringers = Ringers(rig)
    ringers.event("t1")
    rig.send(Kind.QUESTION)
    assert ringers.look("r1") == "t1"
    ringers.ended.add("r1")
    claimed(rig.kernel("codex"))
    rig.send(Kind.QUESTION)

    assert ringers.look("r2") == ""
    assert ringers.look("r2") == "t1"


def test_a_session_that_ended_or_was_silent_since_the_start_is_not_rung(rig: Rig) -> None:
    ringers = Ringers(rig)
    ringers.event("known", mark="r7")
    ringers.event("unknown")
    rig.clock.pass_by(seconds=1)
    ringers.since = stamp(rig.clock.now().at)
    ringers.event("closed")
    ringers.event("closed", Moment.END)
    rig.send(Kind.QUESTION)
    ringers.ended.add("r7")
    assert ringers.look() == ""
    ringers.ended.clear()

    assert ringers.look() == "known"
