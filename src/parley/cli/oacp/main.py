"""`parley oacp`: a drop-in for the OACP tool's everyday commands, on top of Parley's own mailbox."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from parley.cli.oacp.cells import harmless
from parley.cli.oacp.refusal import Refusal
from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    from collections.abc import Callable

# The version of the tool whose flags, texts and exit codes are kept.
VERSION = "0.5.4"
_COMMANDS = {
    "init": "Create a new project workspace; preview with --dry-run",
    "agent": "Add an agent to a project: agent add",
    "inbox": "List pending inbox messages",
    "watch": "Emit what changed in an inbox since the last call",
    "send": "Send a message",
    "validate": "Check a message file",
}
# Commands of the tool that have no part in carrying messages.
_ELSEWHERE = frozenset({"session-init", "setup", "trust", "autonomy", "envelope", "doctor", "verify"})
_EXAMPLES = """\
Examples:
  oacp init my-project --agents claude,codex
  oacp agent add my-project alice --runtime claude
  oacp send my-project --from claude --to alice --type notification --subject "Done" --body "Completed"
  oacp inbox my-project --agent alice
  oacp watch --agent alice --project my-project --json
  oacp validate /path/to/message.yaml
"""


def main(argv: list[str]) -> int:
    """Run one command of the drop-in and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not argv or argv[0] in ("-h", "--help") or argv == ["help"]:
        return _help()
    if argv[0] in ("-V", "--version", "version"):
        sys.stdout.write(VERSION + "\n")
        return 0
    name, *rest = [*argv[1:], "--help"] if argv[0] == "help" else argv
    if name in _ELSEWHERE:
        sys.stderr.write(f"ERROR: Parley has no '{name}' command — use the OACP tool itself: oacp {name}\n")
        return 2
    if name not in _COMMANDS:
        sys.stderr.write(harmless(f"ERROR: unknown command '{name}'\nRun `oacp --help` for usage.\n"))
        return 2
    return _run(import_module(f"parley.cli.oacp.{name}").run, rest)


def _run(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    try:
        code = command(arguments)
        sys.stdout.flush()
    except SystemExit as end:  # argparse has said it already
        return end.code if isinstance(end.code, int) else 0
    except Refusal as refusal:
        sys.stderr.write(harmless(f"ERROR: {refusal}\n"))
        return refusal.status
    except ParleyError as error:
        sys.stderr.write(harmless(f"ERROR: {error.message}\n"))
        return 1
    return code


def _help() -> int:
    lines = ["Usage: oacp <command> [args]", "", "The everyday commands of the OACP CLI, carried out by Parley.", ""]
    lines += ["Commands:", *(f"  {name:<14} {summary}" for name, summary in _COMMANDS.items())]
    sys.stdout.write("\n".join(lines) + "\n\n" + _EXAMPLES)
    return 0
