"""What is on record of the sessions of a coding agent."""

from __future__ import annotations

from datetime import timedelta

from parley.app.mailbox.kernel import Kernel, drive
from parley.app.mailbox.wake import sessions
from parley.domain.mailbox.attention import AgentSession, SessionState
from parley.domain.mailbox.hook_events import HookEvent, Moment
from tests.unit.app.rig import Rig


def record(
    kernel: Kernel, moment: Moment, session: str = "s1", source: str = "", cwd: str = "", *, attended: bool = True
) -> None:
    event = HookEvent("claude", moment, session, source=source, cwd=cwd, attended=attended)
    drive(sessions.record_event(kernel, event))


def on_record(rig: Rig) -> list[AgentSession]:
    return [*drive(rig.stores["codex"].records(AgentSession))]


def a_kernel(rig: Rig, holder: str = "") -> Kernel:
    kernel = rig.kernel("codex")
    kernel.holder = lambda: holder
    return kernel


def test_an_event_is_recorded_with_process_folder_and_person(rig: Rig) -> None:
    record(a_kernel(rig, "7:1:x"), Moment.START, cwd="/work", attended=False)

    (session,) = on_record(rig)
    assert (session.harness, session.session, session.process) == ("claude", "s1", "7:1:x")
    assert (session.cwd, session.attended, session.state, session.last_event) == ("/work", False, "idle", "start")


def test_events_change_the_state_and_the_end_of_an_unknown_session_is_no_news(rig: Rig) -> None:
    states = []
    for moment in (Moment.START, Moment.PROMPT, Moment.STOP, Moment.END):
        record(a_kernel(rig), moment)
        states.append(on_record(rig)[0].state.value)
    record(a_kernel(rig), Moment.END, session="unknown")

    assert states == ["idle", "working", "idle", "ended"]
    assert len(on_record(rig)) == 1


def test_the_process_is_kept_until_the_session_starts_again(rig: Rig) -> None:
    drive(sessions.record_use(a_kernel(rig, "7:1:x"), "claude", "s1", rig.clock.at))
    record(a_kernel(rig), Moment.STOP)
    assert on_record(rig)[0].process == "7:1:x"

    record(a_kernel(rig), Moment.START, source="resume")

    assert on_record(rig)[0].process == ""


def test_sessions_of_the_days_before_yesterday_are_not_loaded(rig: Rig) -> None:
    record(a_kernel(rig), Moment.START, session="old")
    rig.clock.pass_by(days=1)
    record(a_kernel(rig), Moment.START, session="yesterday")
    rig.clock.pass_by(days=1)
    record(a_kernel(rig), Moment.START, session="today")

    assert {session.session for session in drive(sessions.load_recent(a_kernel(rig)))} == {"yesterday", "today"}


def test_a_use_says_nothing_about_what_the_session_did_after_it(rig: Rig) -> None:
    record(a_kernel(rig), Moment.PROMPT, attended=False)
    used = rig.clock.at + timedelta(seconds=1)
    rig.clock.pass_by(seconds=2)
    record(a_kernel(rig), Moment.STOP, attended=False)
    stopped = on_record(rig)[0]

    drive(sessions.record_use(a_kernel(rig, "7:1:x"), "claude", "s1", used))

    (session,) = on_record(rig)
    assert (session.state, session.at, session.process) == (SessionState.IDLE, stopped.at, "7:1:x")
    drive(sessions.record_use(a_kernel(rig), "claude", "s1", rig.clock.at + timedelta(seconds=1)))
    (session,) = on_record(rig)
    assert (session.state, session.process, session.attended) == (SessionState.WORKING, "7:1:x", False)
