"""`parley mcp`: serve the messages of an agent to its model, as tools of the Model Context Protocol."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.cli.command import Command, add_mailbox_options, kernel_of, settings_of
from parley.cli.exits import OK
from parley.cli.reports import note, warn
from parley.domain.errors.errors import ParleyError
from parley.domain.times import parse_duration
from parley.domain.version import VERSION
from parley.settings import for_harness
from parley.surfaces.mcp.protocol import ToolResult, ToolServer
from parley.surfaces.mcp.stdio import LineInput, serve
from parley.surfaces.mcp.tools import INSTRUCTIONS, TOOLS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from typing import Any

    from parley.cli.attention.remote_tools import RemoteTools
    from parley.surfaces.mcp.mailbox_tools import MailboxTools
    from parley.surfaces.mcp.ringer import Ringer, Watch

HARNESSES = ("claude", "codex", "gemini", "opencode")


def add_harness(parser: argparse.ArgumentParser) -> None:
    """Add --for, which names the coding agent: not every one leaves a trace in the environment."""
    parser.add_argument(
        "--for", dest="harness", default="", choices=HARNESSES, metavar="HARNESS", help=f"one of {', '.join(HARNESSES)}"
    )


def use_harness(args: argparse.Namespace) -> None:
    """Let the settings say which coding agent runs us, and as which process it lives."""
    settings = settings_of(args)
    if args.harness:
        settings = for_harness(settings, args.harness)
    args.settings = settings._replace(agent_pid=settings.agent_pid or os.getpid())


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    add_harness(parser)
    parser.add_argument("--server", action="store_true", help="messages of a server, by your saved login")
    parser.add_argument(
        "--codex", default="codex", metavar="PATH", help="with --for codex: the command of Codex (default: codex)"
    )
    add_mailbox_options(parser)
    group = parser.add_argument_group(
        "server, instead of a mailbox", "--agent or $PARLEY_AGENT names the agent, for a key of several agents."
    )
    group.add_argument("--url", default="", help="address of the server (default: $PARLEY_URL)")
    group.add_argument("--context", default="", metavar="CONTEXT", help="saved login to use")
    group.add_argument("--key", default="", help="API key (default: $PARLEY_KEY, or the saved one)")
    parser.description = (
        f"{parser.description}.\n\n"
        "Reads requests from standard input until it ends; a coding agent starts it. The\n"
        "tools are inbox, next, reply, done, send and agents. They are those of a\n"
        "mailbox, or with --url, --context, --server or $PARLEY_URL those of the agent\n"
        "whose key it is on a server; for a key of several agents add --agent. Both eras\n"
        "of the protocol are served: 2026-07-28, and 2025-11-25 and 2025-06-18.\n\n"
        "With --for codex it also wakes an idle session of Codex when a message arrives\n"
        "in the mailbox, by codex queue, within wake, wakes_per_hour and quiet_hours."
    )


class _OpenedTools:
    """The tools, loaded with the first call: a client lists them long before."""

    def __init__(self, args: argparse.Namespace, lines: LineInput) -> None:
        self._args = args
        self._lines = lines
        self._tools: MailboxTools | RemoteTools | None = None
        self._written: Callable[[], None] | None = None
        self._close: Callable[[], None] | None = None

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        if self._tools is None:
            self._tools = self._load_remote() if _is_on_server(self._args) else self._load()
        return self._tools.call(name, arguments)

    def _load_remote(self) -> RemoteTools:
        from parley.cli.attention.remote_tools import RemoteTools
        from parley.cli.parts.remote import async_connection_of

        tools = RemoteTools(lambda: async_connection_of(self._args), self._lines)
        self._written, self._close = tools.acknowledge, tools.close
        return tools

    def _load(self) -> MailboxTools:
        from parley.surfaces.mcp.mailbox_tools import MailboxAccess, MailboxTools, WaitInterrupted
        from parley.wiring import agents_of, find_place, notices_messages

        args = self._args
        with suppress(ParleyError):  # then the tool says so
            warning = find_place(settings_of(args)).warning
            if warning:
                warn(warning)

        def sleep(seconds: float) -> None:
            if self._lines.has_more(seconds):
                raise WaitInterrupted

        def list_agents() -> list[str]:
            place = find_place(settings_of(args))
            return agents_of(place.home.value, place.project.value)

        def is_unaware(agent: str) -> bool:
            place = find_place(settings_of(args))
            return notices_messages(place.home.value, place.project.value, agent) is False

        lease = parse_duration(settings_of(args).lease)
        tools = MailboxTools(MailboxAccess(lambda: kernel_of(args), list_agents, lease, sleep, is_unaware))
        self._written = tools.acknowledge
        return tools

    def acknowledge(self) -> None:
        """Say that the last answer was handed over."""
        if self._written is not None:
            self._written()

    def close(self) -> None:
        """Put back what the model has not finished; the claims of a mailbox end with this process."""
        if self._close is not None:
            self._close()


def _is_on_server(args: argparse.Namespace) -> bool:
    """Whether a server was named: by an option, or by $PARLEY_URL where no option names a mailbox."""
    if args.server or args.url or args.context:
        return True
    if args.home or args.project:
        return False
    return any(value.name == "url" and value.source.startswith("$") for value in settings_of(args).sources)


def _mcp(args: argparse.Namespace) -> int:
    gc.enable()
    use_harness(args)
    if sys.stdin.isatty():
        note("a coding agent starts parley mcp and talks to it on standard input; set it up with: parley setup")
    lines = LineInput(sys.stdin.fileno())
    tools = _OpenedTools(args, lines)

    ringer = _open_ringer(args) if args.harness == "codex" and not _is_on_server(args) else None

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        tools.acknowledge()
        if ringer is not None:
            ringer.start()  # not before the first answer, which a client waits for

    def note_session(meta: Mapping[str, Any]) -> None:
        thread = meta.get("threadId")
        if ringer is not None and isinstance(thread, str) and thread:
            ringer.note_use(thread)

    serve(lines, write, ToolServer(VERSION, INSTRUCTIONS, TOOLS, tools.call, note_session), _log_bug)
    if ringer is not None:
        ringer.stop()
    tools.close()
    return OK


def _log_bug(error: Exception) -> None:
    from parley.cli.attention.limits import hook_log

    hook_log().write(f"mcp: internal: {type(error).__name__}: {error}")


def _open_ringer(args: argparse.Namespace) -> Ringer | None:
    """The ringer of this server; None where the settings let nobody be woken."""
    settings = settings_of(args)
    if settings.wake == "never":
        return None
    from parley.cli.attention.limits import attention_limits, hook_log, local_minute
    from parley.surfaces.mcp.ringer import Ringer, RingerAccess
    from parley.wiring import SystemClock, find_place, inbox_path

    def ring(session: str, text: str) -> str:
        from parley.adapters.harness.codex import queue_message

        return queue_message(args.codex, session, text)

    def watch(folder: str) -> Watch:
        from parley.adapters.inotify import FolderWatch

        return FolderWatch(folder)

    access = RingerAccess(
        clock=SystemClock(),
        open=lambda: kernel_of(args),
        inbox=lambda: inbox_path(find_place(settings)),
        watch=watch,
        limits=lambda: attention_limits(settings),
        local_minute=local_minute,
        ring=ring,
        log=hook_log().write,
    )
    return Ringer(access)


COMMANDS = {
    "mcp": Command(
        "Serve an agent's messages to its model as MCP tools",
        _add_mcp,
        _mcp,
        (
            "parley mcp --for claude",
            "claude mcp add parley -- parley mcp --for claude",
            "parley mcp --url https://parley.example --context work",
            "parley mcp --server --agent erik",
        ),
    ),
}
