"""`parley hook`: tell a coding agent at its own events that messages wait, without a word of any message."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.cli.attention.limits import attention_limits, hook_log, local_minute
from parley.cli.command import Command, add_mailbox_options, make_parser, settings_of
from parley.domain.errors.errors import Invalid
from parley.settings import for_harness
from parley.surfaces.hook.events import HARNESSES
from parley.surfaces.hook.silence import run_silently, run_until_woken
from parley.surfaces.hook.stops import StopSignals
from parley.wiring import drive, find_place, inbox_path, open_kernel

if TYPE_CHECKING:
    import argparse

    from parley.app.mailbox.attention import InboxNotice
    from parley.domain.mailbox.hook_events import HookEvent
    from parley.settings import Settings
    from parley.wiring import Kernel, Place

# More than the result of any tool that a coding agent passes on.
_INPUT_MAX_BYTES = 16 * 1024 * 1024


def _add_hook(parser: argparse.ArgumentParser) -> None:
    _add_harness(parser)
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "A coding agent runs it as a hook, the same command for every event, and passes\n"
        "the event on standard input. Nothing waits, or something is wrong: it prints\n"
        "nothing and exits with 0. Troubles are in hook.log in ~/.local/state/parley."
    )


def _add_wait(parser: argparse.ArgumentParser) -> None:
    _add_harness(parser)
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "A coding agent runs it as a hook that does not hold it up, when a session starts\n"
        "and when it goes idle. A message that needs an answer, is urgent or answers the\n"
        "agent ends it with exit code 2 and a notice on standard error. It exits with 0\n"
        "at once if another one waits for the session, if nobody attends the session, or\n"
        "if the setting wake is never. The settings wakes_per_hour and quiet_hours hold."
    )


def _add_harness(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for", dest="harness", required=True, choices=HARNESSES, metavar="HARNESS", help=", ".join(HARNESSES)
    )


def main(arguments: list[str]) -> int:
    """Run the command. Even wrong arguments end in silence: they come from a settings file, not from a person."""
    if sys.stdin is not None and sys.stdin.isatty():
        from parley.cli.reports import note

        note("a coding agent runs parley hook and passes an event on standard input; set it up with: parley setup")
    log = hook_log()
    printed = _PrintedNotice()
    if arguments[:1] == ["wait"]:

        def wait(stops: StopSignals) -> str:
            return _wait(_parse("hook wait", arguments[1:]), printed, stops)

        return run_until_woken(wait, log, _write_error, printed.confirm)
    return run_silently(lambda: _notice(_parse("hook", arguments), printed), log, _write, printed.confirm)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


class _PrintedNotice:
    """What is to be noted once a notice is printed: a hook that is killed before has said nothing."""

    def __init__(self) -> None:
        self._kernel: Kernel | None = None
        self._notice: InboxNotice | None = None

    def expect(self, kernel: Kernel, notice: InboxNotice) -> None:
        self._kernel, self._notice = kernel, notice

    def confirm(self) -> None:
        if self._kernel is not None and self._notice is not None:
            from parley.app.mailbox.receipts import offers

            drive(offers.confirm(self._kernel, self._notice.marks))


def _parse(name: str, arguments: list[str]) -> argparse.Namespace:
    return make_parser(f"parley {name}", COMMANDS[name]).parse_args(arguments)


def _run(args: argparse.Namespace) -> int:
    printed = _PrintedNotice()
    _write(_notice(args, printed))
    printed.confirm()
    return 0


def _run_wait(args: argparse.Namespace) -> int:
    printed = _PrintedNotice()
    _write_error(_wait(args, printed, StopSignals()))
    printed.confirm()
    return 0


def _read_event(args: argparse.Namespace) -> HookEvent | None:
    """The event on standard input; the settings are then those of its coding agent."""
    from parley.surfaces.hook.events import read_event

    document = sys.stdin.buffer.read(_INPUT_MAX_BYTES + 1)
    if len(document) > _INPUT_MAX_BYTES:
        raise Invalid("the event is too large")
    event = read_event(document, args.harness)
    if event is None:
        return None
    args.settings = for_harness(settings_of(args), args.harness)
    return event._replace(attended=event.attended and args.settings.attended)


def _notice(args: argparse.Namespace, printed: _PrintedNotice) -> str:
    event = _read_event(args)
    if event is None:
        return ""
    settings = settings_of(args)
    from parley.app.mailbox import attention
    from parley.domain.mailbox.hook_events import Moment

    kernel, place = _open(args)
    notice = drive(attention.notice(kernel, event, attention_limits(settings), local_minute(kernel)))
    if event.moment is Moment.END:
        _record_event(kernel, event)
        return ""
    watched = inbox_path(place) if _is_watched(event, settings) else ""
    if notice is None:
        if _is_recorded(event):
            _record_event(kernel, event)
        if not watched:
            return ""
    from parley.surfaces.hook.events import notice_document

    text = ""
    if notice is not None:
        text = _text_of(kernel, notice)
        printed.expect(kernel, notice)
    return notice_document(event, text, goes_on=notice is not None and notice.goes_on, watched=watched)


def _is_recorded(event: HookEvent) -> bool:
    """Whether an event is recorded also when nothing is said: the start of a session, so that it can be woken; in Codex
    the start and end of a turn, too, because no waiter tells which session was active last, and whether it is idle.
    """
    from parley.domain.mailbox.hook_events import Moment

    return event.moment is Moment.START or (event.moment is not Moment.TOOL and event.harness == "codex")


def _record_event(kernel: Kernel, event: HookEvent) -> None:
    from parley.app.mailbox.wake import sessions
    from parley.domain.mailbox.hook_events import Moment

    if event.moment is not Moment.END or kernel.store_if_any is not None:
        drive(sessions.record_event(kernel, event))


def _is_watched(event: HookEvent, settings: Settings) -> bool:
    """Whether Claude Code is told to watch the inbox: should its waiter be killed, this wakes it."""
    from parley.domain.mailbox.hook_events import Moment

    return event.harness == "claude" and event.moment is Moment.START and settings.wake != "never" and event.attended


def _text_of(kernel: Kernel, notice: InboxNotice) -> str:
    from parley.wire.model_text import notice_text

    from_agents = [item for item in notice.items if kernel.inbox.owner_of(item.sender) is not None]
    return notice_text(kernel.agent, notice.items, from_agents)


def _open(args: argparse.Namespace) -> tuple[Kernel, Place]:
    """The mailbox of the coding agent."""
    settings = settings_of(args)
    place = find_place(settings)
    if place.warning:
        hook_log().write(place.warning)
    return open_kernel(place.home.value, place.project.value, place.agent.value, settings), place


def _wait(args: argparse.Namespace, printed: _PrintedNotice, stops: StopSignals) -> str:
    event = _read_event(args)
    if event is None or not event.session:
        return ""
    from parley.cli.attention.waiter import wait_for_notice

    kernel, place = _open(args)
    notice = wait_for_notice(kernel, event, attention_limits(settings_of(args)), inbox_path(place), stops)
    if notice is None:
        return ""
    printed.expect(kernel, notice)
    return _text_of(kernel, notice)


COMMANDS = {
    "hook": Command(
        "Tell a coding agent that messages wait (run by it)",
        _add_hook,
        _run,
        ('echo \'{"hook_event_name": "SessionStart"}\' | parley hook --for claude',),
    ),
    "hook wait": Command(
        "Wake a coding agent when a message arrives (run by it)",
        _add_wait,
        _run_wait,
        ('echo \'{"hook_event_name": "Stop", "session_id": "s1"}\' | parley hook wait --for claude',),
    ),
}
