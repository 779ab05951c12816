"""The table of all commands, the overview made from it, and the call of the command that a command line names."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.command import make_parser
from parley.cli.exits import OK
from parley.domain.errors.errors import Invalid, ParleyError
from parley.domain.names import meant

if TYPE_CHECKING:
    from parley.cli.command import Command


class Group(NamedTuple):
    """Commands that the overview lists together. They are in one package of `parley.cli`; "" is `parley.cli` itself."""

    title: str
    package: str
    modules: dict[str, tuple[str, ...]]  # module -> its commands, one or two words each

    @property
    def commands(self) -> list[str]:
        return [command for commands in self.modules.values() for command in commands]


# The order is that of the overview. Nothing is imported before it is run.
GROUPS = (
    Group(
        "set up mailboxes",
        "mailbox",
        {
            "init": ("init",),
            "agent": ("agent add", "agent list", "agent show"),
            "doctor": ("doctor",),
        },
    ),
    Group(
        "send and read messages in mailboxes",
        "mailbox",
        {
            "send": ("send", "reply"),
            "listing": ("inbox", "outbox"),
            "reading": ("read", "thread", "search"),
            "watch": ("watch",),
            "kinds": ("kinds",),
            "validate": ("validate",),
        },
    ),
    Group(
        "work through a mailbox",
        "mailbox",
        {"claims": ("next", "extend", "release", "done")},
    ),
    Group(
        "review changes",
        "review",
        {
            "status": ("review status",),
            "gate": ("review gate",),
            "findings": ("review findings",),
            "close": ("review close",),
        },
    ),
    Group(
        "govern mailboxes",
        "mailbox",
        {"governance": ("governance init", "governance add-human", "governance show")},
    ),
    Group(
        "run a server",
        "server",
        {
            "up": ("up",),
            "status": ("status",),
            "backup": ("backup",),
            "restore": ("restore",),
            "store": ("store copy", "store reopen"),
            "key": ("key create", "key list", "key rotate", "key revoke"),
            "tenant": ("tenant create",),
        },
    ),
    Group(
        "send and receive messages in channels",
        "channels",
        {
            "post": ("post",),
            "ask": ("ask",),
            "answer": ("answer",),
            "requests": ("forward", "withdraw"),
            "listen": ("listen",),
            "messages": ("messages",),
            "timers": ("timer list", "timer cancel"),
            "queues": ("queue", "dead list", "dead show", "dead retry", "dead drop"),
        },
    ),
    Group(
        "manage channels, intents and agents",
        "channels",
        {
            "channel": ("channel create", "channel list", "channel show", "channel close"),
            "intent": (
                *("intent create", "intent list", "intent show", "intent events", "intent activate", "intent complete"),
                *("intent abandon", "intent assign"),
            ),
            "agents": ("agent register", "agent heartbeat", "agent leave"),
        },
    ),
    Group(
        "approve, reject and suspend",
        "rules",
        {
            "approvals": (
                *("approvals list", "approvals show", "approvals approve", "approvals reject", "approvals answer"),
            ),
            "exchange": ("exchange list", "exchange show", "exchange close"),
            "suspend": (
                *("suspend agent", "suspend pair", "suspend org", "suspend tenant"),
                *("resume agent", "resume pair", "resume org", "resume tenant", "suspensions"),
            ),
        },
    ),
    Group(
        "manage policies",
        "rules",
        {
            "policy": ("policy list", "policy show", "policy put", "policy remove", "policy check", "policy diff"),
            "trials": ("policy explain", "policy test", "policy replay"),
        },
    ),
    Group(
        "audit",
        "audit",
        {
            "entries": ("audit list", "audit export", "audit prove", "audit erase"),
            "verify": ("audit verify",),
            "reconcile": ("audit reconcile",),
        },
    ),
    Group("run workflows", "", {"workflow": ("workflow check", "workflow graph", "workflow run")}),
    Group("settings", "", {"config": ("config",), "completion": ("completion",)}),
)
# Command -> the module below `parley.cli` that holds it.
COMMANDS: dict[str, str] = {
    command: f"{group.package}.{module}".lstrip(".")
    for group in GROUPS
    for module, commands in group.modules.items()
    for command in commands
}
_WIDTH = max(map(len, COMMANDS)) + 1


def load_command(name: str) -> Command:
    """Import and return the command of that name."""
    module = import_module(f"parley.cli.{COMMANDS[name]}")
    command: Command = module.COMMANDS[name]
    return command


def dispatch(arguments: list[str]) -> int:
    """Run the command that the arguments name and return its exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return _help(arguments[1:])
    if arguments[0] in ("-V", "--version"):
        from parley import __version__

        sys.stdout.write(f"parley {__version__}\n")
        return OK
    if arguments[0] == "oacp":
        from parley.cli.oacp.main import main as oacp_main

        return oacp_main(arguments[1:])
    name, rest = _split(arguments)
    command = load_command(name)
    args = make_parser(f"parley {name}", command).parse_args(rest)
    try:
        return command.run(args)
    except ParleyError as error:
        from parley.cli.parts.refusals import explain_refusal

        explain_refusal(error, args)
        raise


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    """Split the arguments into the command, one or two words, and the rest."""
    first = arguments[0]
    if first in COMMANDS:
        return first, arguments[1:]
    members = [name for name in COMMANDS if name.startswith(first + " ")]
    if not members:
        if first.startswith("-"):
            raise Invalid(f"no command {first!r}", hint="options go after the command; see: parley --help")
        first_words = {name.split()[0] for name in COMMANDS}
        raise Invalid(f"no command {first!r}", hint=meant(first, first_words) or "see: parley --help")
    if len(arguments) > 1 and f"{first} {arguments[1]}" in COMMANDS:
        return f"{first} {arguments[1]}", arguments[2:]
    if len(arguments) > 1 and arguments[1] in ("-h", "--help"):
        for name in members:
            sys.stdout.write(f"parley {name:<{_WIDTH}} {load_command(name).summary}\n")
        raise SystemExit(OK)
    words = [name.split()[1] for name in members]
    if len(arguments) > 1 and not arguments[1].startswith("-"):
        hint = meant(arguments[1], words) or f"{first} has: {', '.join(words)}"
        raise Invalid(f"no command {f'{first} {arguments[1]}'!r}", hint=hint)
    raise Invalid(f"incomplete command {first!r}", hint=f"add one of: {', '.join(words)}")


def _help(words: list[str]) -> int:
    if words:
        name, _ = _split([*words, "--help"])  # a group lists its commands
        make_parser(f"parley {name}", load_command(name)).print_help()
        return OK
    lines = [
        "usage: parley COMMAND [options]",
        "",
        "Messaging for AI agents: mailboxes as files, channels over HTTP.",
    ]
    for group in GROUPS:
        lines += ["", f"{group.title}:"]
        lines += [f"  {name:<{_WIDTH}} {load_command(name).summary}" for name in group.commands]
    lines += [
        "",
        "other tools:",
        f"  {'oacp ...':<{_WIDTH}} Drop-in replacement for oacp-cli (file mailboxes)",
        "",
        "Mailbox commands take --home, --project, --agent and --json.",
        "Server commands take --url, --key, --agent and --json.",
        "For the options and examples of a command: parley COMMAND --help",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return OK
