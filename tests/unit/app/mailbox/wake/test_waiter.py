"""A waiter sleeps until there is something to decide, and leaves to the hook what is the hook's."""

from __future__ import annotations

from collections.abc import Callable

from parley.app.mailbox.attention import InboxNotice
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.wake import sessions
from parley.app.mailbox.wake.waiter import WaitSigns, wait_for_wake
from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, Moment
from parley.domain.message.message import Kind
from tests.unit.app.rig import Rig

EVENT = HookEvent("claude", Moment.STOP, "s1", "t1")
Steps = dict[int, Callable[[], object]]


def wait(rig: Rig, seconds: int, steps: Steps, event: HookEvent = EVENT, quiet: int = 720) -> tuple[object, int]:
    """What a waiter ends with, and after how many seconds; at some of them something happens."""
    waited = 0

    def pause(longest: float) -> bool:
        nonlocal waited
        waited += 1
        rig.clock.pass_by(seconds=longest)
        if waited in steps:
            steps[waited]()
        return waited in steps

    kernel = rig.kernel("codex")
    signs = WaitSigns(lambda: quiet, pause, lambda: waited >= seconds)
    notice = drive(wait_for_wake(kernel, event, AttentionLimits(quiet=(0, 60)), signs))
    return (len(notice.items) if isinstance(notice, InboxNotice) else None), waited


def test_with_an_empty_inbox_the_ledger_is_not_opened(rig: Rig) -> None:
    kernel = rig.kernel("codex")
    left = iter([False, False, True])
    signs = WaitSigns(lambda: 0, lambda _seconds: False, lambda: next(left))

    assert drive(wait_for_wake(kernel, EVENT, AttentionLimits(), signs)) is None
    assert kernel._store is None


def test_what_arrives_ends_the_wait(rig: Rig) -> None:
    assert wait(rig, 60, {7: lambda: rig.send(Kind.QUESTION)}) == (1, 7)


def test_what_is_there_at_the_start_is_left_to_the_hook_at_first(rig: Rig) -> None:
    rig.send(Kind.QUESTION)

    assert wait(rig, 60, {}) == (1, 3)


def test_the_change_of_a_file_is_looked_at_once(rig: Rig) -> None:
    event = EVENT._replace(moment=Moment.FILE)
    assert wait(rig, 60, {}, event) == (None, 0)
    rig.send(Kind.QUESTION)
    assert wait(rig, 60, {}, event) == (1, 0)


def test_a_session_that_is_passed_over_is_woken_after_half_a_minute(rig: Rig) -> None:
    drive(sessions.record_event(rig.kernel("codex"), EVENT))
    rig.clock.pass_by(seconds=1)
    drive(sessions.record_event(rig.kernel("codex"), EVENT._replace(session="s2")))

    ended, waited = wait(rig, 120, {2: lambda: rig.send(Kind.QUESTION)})

    assert ended == 1
    assert 30 <= waited <= 40


def test_in_quiet_hours_it_waits_on(rig: Rig) -> None:
    assert wait(rig, 60, {2: lambda: rig.send(Kind.QUESTION)}, quiet=30) == (None, 60)
