"""Which command a command line names, and the overview of all of them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from parley.cli.command import make_parser
from parley.cli.exits import OK
from parley.domain.errors.errors import Invalid
from parley.domain.names import meant

if TYPE_CHECKING:
    from parley.cli.command import Command

# Command, the module that holds it, and the name there; a group has sub-commands. Nothing is imported before it is run.
COMMANDS: dict[str, str] = {
    "init": "mailbox.init",
    "agent add": "mailbox.agent",
    "agent list": "mailbox.agent",
    "agent show": "mailbox.agent",
    "send": "mailbox.send",
    "reply": "mailbox.send",
    "inbox": "mailbox.listing",
    "outbox": "mailbox.listing",
    "read": "mailbox.reading",
    "thread": "mailbox.reading",
    "search": "mailbox.reading",
    "review status": "mailbox.review",
    "next": "mailbox.claims",
    "extend": "mailbox.claims",
    "release": "mailbox.claims",
    "done": "mailbox.claims",
    "watch": "mailbox.watch",
    "validate": "mailbox.validate",
    "doctor": "mailbox.doctor",
    "config": "config",
    "completion": "completion",
    "up": "server.up",
    "status": "server.status",
    "intent create": "talk.intent",
    "intent list": "talk.intent",
    "intent show": "talk.intent",
    "intent activate": "talk.intent",
    "intent complete": "talk.intent",
    "intent abandon": "talk.intent",
    "intent assign": "talk.intent",
    "channel create": "talk.channel",
    "channel list": "talk.channel",
    "channel show": "talk.channel",
    "channel close": "talk.channel",
    "post": "talk.post",
    "ask": "talk.ask",
    "answer": "talk.answer",
    "messages": "talk.messages",
    "listen": "talk.listen",
    "agent register": "talk.agents",
    "agent heartbeat": "talk.agents",
    "agent leave": "talk.agents",
    "key create": "server.key",
    "key list": "server.key",
    "key rotate": "server.key",
    "key revoke": "server.key",
    "tenant create": "server.tenant",
    "audit verify": "prove.verify",
    "audit export": "prove.audit",
    "audit list": "prove.audit",
    "audit prove": "prove.audit",
    "audit reconcile": "prove.reconcile",
    "audit erase": "prove.audit",
    "exchange list": "rules.exchange",
    "exchange show": "rules.exchange",
    "exchange close": "rules.exchange",
    "approvals list": "rules.approvals",
    "approvals show": "rules.approvals",
    "approvals approve": "rules.approvals",
    "approvals reject": "rules.approvals",
    "approvals answer": "rules.approvals",
    "suspend agent": "rules.suspend",
    "suspend pair": "rules.suspend",
    "suspend org": "rules.suspend",
    "suspend tenant": "rules.suspend",
    "resume agent": "rules.suspend",
    "resume pair": "rules.suspend",
    "resume org": "rules.suspend",
    "resume tenant": "rules.suspend",
    "suspensions": "rules.suspend",
    "policy list": "rules.policy",
    "policy show": "rules.policy",
    "policy put": "rules.policy",
    "policy remove": "rules.policy",
    "policy check": "rules.policy",
    "policy diff": "rules.policy",
    "policy explain": "rules.trials",
    "policy test": "rules.trials",
    "policy replay": "rules.trials",
    "governance init": "mailbox.governance",
    "governance add-human": "mailbox.governance",
    "governance show": "mailbox.governance",
    "workflow check": "workflow",
    "workflow graph": "workflow",
    "workflow run": "workflow",
    "backup": "server.backup",
    "restore": "server.restore",
    "store copy": "server.store",
}
_WIDTH = max(map(len, COMMANDS)) + 1
_GROUPS = (
    ("set up", ("init", "agent add", "agent list", "agent show", "doctor", "config", "completion")),
    ("write", ("send", "reply")),
    ("look", ("inbox", "read", "thread", "search", "outbox", "review status", "watch", "validate")),
    ("work", ("next", "extend", "release", "done")),
    ("put mailboxes under rules", ("governance init", "governance add-human", "governance show")),
    (
        "serve",
        (
            "up",
            "status",
            "store copy",
            "backup",
            "restore",
            "key create",
            "key list",
            "key rotate",
            "key revoke",
            "tenant create",
        ),
    ),
    ("talk on a server", ("post", "ask", "answer", "listen", "messages")),
    (
        "arrange on a server",
        (
            *("intent create", "intent list", "intent show", "intent activate", "intent complete", "intent abandon"),
            *("intent assign", "channel create", "channel list", "channel show", "channel close"),
            *("agent register", "agent heartbeat", "agent leave"),
        ),
    ),
    ("work together", ("workflow check", "workflow graph", "workflow run")),
    ("prove", ("audit verify", "audit export", "audit list", "audit prove", "audit reconcile", "audit erase")),
    (
        "decide",
        (
            *("approvals list", "approvals show", "approvals approve", "approvals reject", "approvals answer"),
            *("exchange list", "exchange show", "exchange close", "suspensions"),
            *("suspend agent", "suspend pair", "suspend org", "suspend tenant"),
            *("resume agent", "resume pair", "resume org", "resume tenant"),
        ),
    ),
    (
        "govern",
        (
            *("policy list", "policy show", "policy put", "policy remove", "policy check", "policy diff"),
            *("policy explain", "policy test", "policy replay"),
        ),
    ),
)


def load_command(name: str) -> Command:
    """The command of that name."""
    module = import_module(f"parley.cli.{COMMANDS[name]}")
    command: Command = module.COMMANDS[name]
    return command


def dispatch(arguments: list[str]) -> int:
    """Run the command that the arguments name; its exit code."""
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
    return command.run(make_parser(f"parley {name}", command).parse_args(rest))


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    """The command's name of one or two words, and the rest."""
    first = arguments[0]
    if first in COMMANDS:
        return first, arguments[1:]
    members = [name for name in COMMANDS if name.startswith(first + " ")]
    if not members:
        if first.startswith("-"):
            raise Invalid(f"there is no command {first!r}", hint="options go behind the command, see: parley --help")
        groups = {name.split()[0] for name in COMMANDS}
        raise Invalid(f"there is no command {first!r}", hint=meant(first, groups) or "see: parley --help")
    if len(arguments) > 1 and f"{first} {arguments[1]}" in COMMANDS:
        return f"{first} {arguments[1]}", arguments[2:]
    if len(arguments) > 1 and arguments[1] in ("-h", "--help"):
        for name in members:
            sys.stdout.write(f"parley {name:<{_WIDTH}} {load_command(name).summary}\n")
        raise SystemExit(OK)
    words = [name.split()[1] for name in members]
    if len(arguments) > 1 and not arguments[1].startswith("-"):
        hint = meant(arguments[1], words) or f"it has: {', '.join(words)}"
        raise Invalid(f"there is no command {f'{first} {arguments[1]}'!r}", hint=hint)
    raise Invalid(f"{first!r} needs one of: {', '.join(words)}")


def _help(words: list[str]) -> int:
    if words:
        name, _ = _split([*words, "--help"])  # a group lists its commands
        make_parser(f"parley {name}", load_command(name)).print_help()
        return OK
    lines = [
        "usage: parley COMMAND [options]",
        "",
        "Agents talk to each other, as plain files or over HTTP: nothing is ever lost.",
    ]
    for title, names in _GROUPS:
        lines += ["", f"{title}:"]
        lines += [f"  {name:<{_WIDTH}} {load_command(name).summary}" for name in names]
    lines += [
        "",
        "other tools:",
        f"  {'oacp ...':<{_WIDTH}} Drop-in for oacp-cli: init, agent add, send, inbox, watch, validate",
        "",
        "Commands on a mailbox take --home, --project, --agent and --json; commands on a server --url, --key, --agent",
        "and --json; see: parley COMMAND --help",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return OK
