"""`parley run`: let a coding agent work through its messages without a person."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from parley.cli.attention.limits import attention_limits, local_minute
from parley.cli.command import Command, add_mailbox_options, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.cli.reports import warn
from parley.domain.errors.errors import Invalid, ParleyError, Unavailable
from parley.domain.mailbox.hook_events import HookEvent, Moment
from parley.domain.times import format_time, parse_duration
from parley.domain.version import VERSION
from parley.settings import child_environment, for_harness
from parley.surfaces.hook.stops import Stopped, StopSignals
from parley.wiring import drive, find_place, inbox_path, monotonic, open_kernel

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parley.adapters.harness.program import Program
    from parley.adapters.harness.prompts import Prompter
    from parley.domain.mailbox.hook_events import AttentionLimits
    from parley.wiring import Kernel

HARNESSES = ("claude", "gemini", "opencode")
RUN_TEXT = (
    "Parley: messages wait (automatic notice, not typed by a person). Take one with the next tool, do what it asks"
    " within your rules, answer it with reply or finish it with done, and go on until next has none."
)
_PAUSE_SECONDS = 1.0
_LOOK_SECONDS = 5.0
_BACKOFF_SECONDS, _BACKOFF_MAX_SECONDS = 1.0, 60.0


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("harness", choices=HARNESSES, metavar="HARNESS", help=", ".join(HARNESSES))
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="further arguments of the program, after --")
    parser.add_argument("--program", default="", metavar="PATH", help="the program (default: that of this name)")
    parser.add_argument("--once", action="store_true", help="work through what waits now, and exit")
    parser.add_argument(
        "--turn", default="1h", metavar="TIME", help="end a turn that takes longer than this (default: 1h)"
    )
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Starts the program, and gives it a prompt whenever messages wait: a fixed text,\n"
        "never a word of a message. It reads them with Parley's tools, which it gets from\n"
        "here; whatever else it would ask a person for is refused. wakes_per_hour and\n"
        "quiet_hours limit the prompts. A program that ends is started again after a\n"
        "pause, from a second up to a minute. Stop it with Ctrl-C."
    )


def _run(args: argparse.Namespace) -> int:
    from shutil import which

    gc.enable()
    args.settings = for_harness(settings_of(args), args.harness)._replace(agent_pid=os.getpid())
    turn_seconds = parse_duration(args.turn).total_seconds()
    name = args.program or args.harness
    program = which(name)
    if program is None:
        raise Invalid(f"no program {name} on the PATH", hint="install it, or name it with --program PATH")
    place = find_place(args.settings)
    if place.warning:
        warn(place.warning)
    kernel = open_kernel(place.home.value, place.project.value, place.agent.value, args.settings)
    environment = child_environment(
        PARLEY_HOME=place.home.value, PARLEY_PROJECT=place.project.value, PARLEY_AGENT=place.agent.value
    )
    stops = StopSignals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    runner = _Runner(args, kernel, inbox_path(place), turn_seconds, stops)
    runner.use_program([os.path.abspath(program), *_program_arguments(args, place.agent.value)], environment)

    try:
        runner.run()
    except Stopped:
        runner.report("stopped", "stopped")
    finally:
        kernel.close()
    return OK


def _server(harness: str, agent: str) -> list[str]:
    """The command that serves Parley's tools: this very Parley."""
    return [sys.executable, "-m", "parley.cli.main", "mcp", "--for", harness, "--agent", agent]


def _program_arguments(args: argparse.Namespace, agent: str) -> list[str]:
    if args.harness == "gemini":
        return ["--acp", *args.arguments]
    if args.harness == "opencode":
        return ["acp", *args.arguments]
    command, *rest = _server(args.harness, agent)
    # Without alwaysLoad its model would have to search for the tools first.
    server = {"type": "stdio", "command": command, "args": rest, "alwaysLoad": True}
    servers = json.dumps({"mcpServers": {"parley": server}})
    lines = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    return ["-p", *lines, "--mcp-config", servers, "--allowedTools", "mcp__parley", *args.arguments]


class _Runner:
    """Starts a program again and again, and gives it prompts."""

    def __init__(
        self, args: argparse.Namespace, kernel: Kernel, inbox: str, turn_seconds: float, stops: StopSignals
    ) -> None:
        self._args = args
        self._kernel = kernel
        self._inbox = inbox
        self._turn_seconds = turn_seconds
        self._stops = stops
        self._limits: AttentionLimits = attention_limits(args.settings)
        self._screen = screen_of(args)
        self._start: Callable[[], Program]
        self._starts = 0
        self._turns = 0

    def use_program(self, command: list[str], environment: dict[str, str]) -> None:
        """Say what is started."""

        def start() -> Program:
            from parley.adapters.harness.program import Program

            return Program(command, self._args.settings.cwd, environment)

        self._start = start

    def report(self, event: str, text: str, **facts: Any) -> None:  # noqa: ANN401  # what a line of JSON has
        """Print a line about what happened."""
        at = self._kernel.clock.now().at
        if self._args.json:
            self._screen.json({"at": format_time(at), "event": event, **facts}, compact=True)
        else:
            self._screen.line(f"{at.astimezone():%H:%M:%S}  {safe(text)}")
        sys.stdout.flush()

    def run(self) -> None:
        """Run until it is stopped; with --once, until nothing waits that could be worked on."""
        pause = _BACKOFF_SECONDS
        while True:
            turns = self._turns
            try:
                self._serve()
            except Unavailable as error:
                if self._args.once:
                    raise
                if self._turns > turns:
                    pause = _BACKOFF_SECONDS
                text = f"{error.message}; starting it again in {pause:g} s"
                self.report("ended", text, reason=error.message, again_in=pause)
                with self._stops.asleep():
                    time.sleep(pause)
                pause = min(pause * 2, _BACKOFF_MAX_SECONDS)
            else:
                return

    def _serve(self) -> None:
        """Let one program work until it ends."""
        program = self._start()
        self._starts += 1
        event = self._event(Moment.START)
        try:
            self.report("started", f"started {program.name} (process {program.pid})", pid=program.pid)
            prompter = self._prompter(program)
            prompter.open()
            self._record(event)
            self._work(program, prompter, event)
        finally:
            program.end()
            with suppress(ParleyError):
                self._record(event._replace(moment=Moment.END))

    def _event(self, moment: Moment) -> HookEvent:
        name = f"run-{self._kernel.holder() or os.getpid()}-{self._starts}"
        return HookEvent(self._args.harness, moment, name, cwd=self._args.settings.cwd, attended=False)

    def _record(self, event: HookEvent) -> None:
        from parley.app.mailbox.wake import sessions

        drive(sessions.record_event(self._kernel, event))

    def _prompter(self, program: Program) -> Prompter:
        from parley.adapters.harness.prompts import AcpPrompter, StreamPrompter

        if self._args.harness == "claude":
            return StreamPrompter(program, monotonic, self._stops.check)

        def log(text: str) -> None:
            self.report("refused", text)

        cwd, server = self._args.settings.cwd, _server(self._args.harness, self._kernel.agent)
        check = self._stops.check
        return AcpPrompter(program, monotonic, check, cwd=cwd, server=server, version=VERSION, log=log)

    def _work(self, program: Program, prompter: Prompter, event: HookEvent) -> None:
        from parley.adapters.inotify import FolderWatch
        from parley.app.mailbox.wake.looks import look_for_prompt

        watch = FolderWatch(self._inbox)
        try:
            looked = 0.0
            while True:
                program.drain()
                now = self._kernel.clock.now().uptime
                if now - looked >= _LOOK_SECONDS:
                    looked = now
                    minute = local_minute(self._kernel)
                    notice = drive(look_for_prompt(self._kernel, event, self._limits, minute))
                    if notice is not None:
                        self._prompt(prompter, len(notice.items))
                        looked = 0.0
                        continue
                    if self._args.once:
                        return
                with self._stops.asleep():
                    arrived = watch.pause(_PAUSE_SECONDS)
                looked = 0.0 if arrived else looked
        finally:
            watch.close()

    def _prompt(self, prompter: Prompter, count: int) -> None:
        self.report("prompted", f"prompted for {count_of(count, 'message')}", messages=count)
        began = self._kernel.clock.now().uptime
        reason = prompter.prompt(RUN_TEXT, self._turn_seconds)
        seconds = round(self._kernel.clock.now().uptime - began, 1)
        self._turns += 1
        self.report("turn", f"turn ended after {seconds:g} s: {reason}", reason=reason, seconds=seconds)


COMMANDS = {
    "run": Command(
        "Let a coding agent work on its messages without a person",
        _add_run,
        _run,
        (
            "parley run gemini",
            "parley run opencode --agent reviewer",
            "parley run claude --once --json",
            "parley run claude -- --model opus",
        ),
    ),
}
