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
    Group("see it work", "demo", {"demo": ("demo",)}),
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
        "connect coding agents",
        "attention",
        {"setup": ("setup",), "mcp": ("mcp",), "hook": ("hook", "hook wait"), "run": ("run",)},
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
            "session": ("session list", "session end"),
            "tenant": ("tenant create", "tenant list"),
        },
    ),
    Group(
        "log in to a server",
        "server",
        {
            "login": ("login", "logout", "whoami"),
            "console": ("console",),
            "context": ("context list", "context use", "context show", "context rename", "context remove"),
        },
    ),
    Group(
        "send and receive messages in channels",
        "channels",
        {
            "post": ("post",),
            "ask": ("ask",),
            "answer": ("answer",),
            "requests": ("asks", "forward", "withdraw"),
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
                "approvals link",
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
            "setting": ("policy set",),
            "trials": ("policy explain", "policy test", "policy replay"),
        },
    ),
    Group(
        "audit",
        "audit",
        {
            "entries": ("audit list", "audit export", "audit prove", "audit erase"),
            "report": ("audit report", "audit explain"),
            "state": ("audit state",),
            "verify": ("audit verify",),
            "reconcile": ("audit reconcile",),
            "traffic": ("traffic",),
        },
    ),
    Group("run workflows", "", {"workflow": ("workflow check", "workflow graph", "workflow run")}),
    Group("settings", "", {"config": ("config",), "completion": ("completion",), "version": ("version",)}),
)
# Command -> the module below `parley.cli` that holds it.
COMMANDS: dict[str, str] = {}
for _group in GROUPS:
    for _module, _commands in _group.modules.items():
        COMMANDS |= dict.fromkeys(_commands, f"{_group.package}.{_module}".lstrip("."))
_WIDTH = max(map(len, COMMANDS)) + 1
# Words of other tools -> a hint at what Parley calls it.
_SYNONYMS = {"history": "did you mean messages?", "cancel": "did you mean withdraw?"}
# Commands that list when no verb follows.
_LISTED_ALONE = ("dead",)


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
    if arguments[0] == "__complete":
        from parley.cli.candidates import main as print_candidates

        return print_candidates(arguments[1:])
    if arguments[0] == "hook" and not {"-h", "--help"} & {*arguments}:
        from parley.cli.attention.hook import main as hook_main

        return hook_main(arguments[1:])
    name, rest = _split(arguments)
    command = load_command(name)
    args = make_parser(f"parley {name}", command).parse_args(rest)
    try:
        return command.run(args)
    except ParleyError as error:
        from parley.cli.parts.refusals import explain_refusal

        explain_refusal(error, args, name)
        raise


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    """Split the arguments into the command, one or two words, and the rest."""
    first = arguments[0]
    if len(arguments) > 1 and f"{first} {arguments[1]}" in COMMANDS:
        return f"{first} {arguments[1]}", arguments[2:]
    if first in COMMANDS:
        return first, arguments[1:]
    members = [name for name in COMMANDS if name.startswith(first + " ")]
    if not members:
        if first.startswith("-"):
            raise Invalid(f"no command {first!r}", hint="options go after the command; see: parley --help")
        first_words = {name.split()[0] for name in COMMANDS}
        hint = _SYNONYMS.get(first) or meant(first, first_words) or "see: parley --help"
        raise Invalid(f"no command {first!r}", hint=hint)
    if len(arguments) > 1 and arguments[1] in ("-h", "--help"):
        for name in members:
            sys.stdout.write(f"parley {name:<{_WIDTH}} {load_command(name).summary}\n")
        raise SystemExit(OK)
    words = [name.split()[1] for name in members]
    if first in _LISTED_ALONE and not any(word for word in arguments[1:2] if not word.startswith("-")):
        return f"{first} list", arguments[1:]
    if len(arguments) > 1 and not arguments[1].startswith("-"):
        hint = meant(arguments[1], words) or f"{first} has: {', '.join(words)}"
        raise Invalid(f"no command {f'{first} {arguments[1]}'!r}", hint=hint)
    raise Invalid(f"incomplete command {first!r}", hint=f"add one of: {', '.join(words)}")


def _help(words: list[str]) -> int:
    everything = words == ["all"]
    if words and not everything:
        name, _ = _split([*words, "--help"])  # a group lists its commands
        make_parser(f"parley {name}", load_command(name)).print_help()
        return OK
    sys.stdout.write("\n".join(_everything() if everything else _first_page()) + "\n")
    return OK


# The first page: four ways to start, and what people use every day.
_STARTS = (
    ("parley demo", "Show people and agents at work, and leave nothing behind"),
    ("parley init", "Create mailboxes for the agents of this repository"),
    ("parley up", "Start a server for channels over HTTP"),
    ("parley setup claude", "Let a coding agent notice its messages"),
)
_DAILY = ("send", "next", "reply", "inbox", "thread", "ask", "post", "messages", "listen", "status")


def _first_page() -> list[str]:
    """What Parley is, in a few lines."""
    width = max(len(words) for words, _ in _STARTS) + 1
    return [
        "Messaging for AI agents: mailboxes as files, channels over HTTP.",
        "",
        _heading("usage: parley COMMAND [options]"),
        "",
        _heading("start:"),
        *(f"  {words:<{width}} {what}" for words, what in _STARTS),
        "",
        _heading("every day:"),
        *(f"  {name:<{width}} {load_command(name).summary}" for name in _DAILY),
        "",
        f"{'parley help all':<{width + 2}} List every command",
        f"{'parley help COMMAND':<{width + 2}} Show its options and examples",
    ]


def _heading(text: str) -> str:
    from parley.settings import wants_colour

    return f"\x1b[1m{text}\x1b[0m" if wants_colour(is_terminal=sys.stdout.isatty()) else text


def _everything() -> list[str]:
    """Every command, by groups."""
    lines = [
        "Messaging for AI agents: mailboxes as files, channels over HTTP.",
        "",
        _heading("usage: parley COMMAND [options]"),
    ]
    for group in GROUPS:
        lines += ["", _heading(f"{group.title}:")]
        lines += [f"  {name:<{_WIDTH}} {load_command(name).summary}" for name in group.commands]
    return [
        *lines,
        "",
        _heading("other tools:"),
        f"  {'oacp ...':<{_WIDTH}} Drop-in replacement for oacp-cli (file mailboxes)",
        "",
        "Mailbox commands take --home, --project, --agent and --json.",
        "Server commands take --url, --key, --agent and --json.",
        "For the options and examples of a command: parley COMMAND --help",
    ]
