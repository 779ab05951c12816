"""docs/reference/cli.md: every command, from its own parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from parley.cli import command as commands
from parley.cli import dispatch as cli
from parley.cli.oacp import main as oacp
from parley.cli.parts import remote
from tools.reference.markdown import table

CLI_INTRO = """\
# The command line

`parley COMMAND --help` says the same in the terminal. Exit codes are in [exit-codes.md](exit-codes.md), the shapes of
`--json` in [json.md](json.md)."""
CLI_OACP = """
## parley oacp

A drop-in for `oacp-cli` {version}: the same flags, output and exit codes. See
[Move from oacp-cli](../how-to/move-from-oacp-cli.md).
"""


def cli_page() -> Iterator[str]:
    yield CLI_INTRO
    for group in cli.GROUPS:
        links = (f"[{name}](#parley-{name.replace(' ', '-')})" for name in group.commands)
        yield ""
        yield f"**{group.title}**: " + ", ".join(links)
    yield ""
    yield "## Options of commands on a mailbox"
    yield ""
    yield from table(("option", "meaning"), shared_options())
    yield ""
    yield "A message is named by its id, by its file name, or by the end of its id (`a8f3`)."
    yield ""
    yield "## Options of commands on a server"
    yield ""
    yield from table(("option", "meaning"), server_options())
    for name in cli.COMMANDS:
        yield from command_section(name)
    yield CLI_OACP.format(version=oacp.VERSION)
    yield from table(("command", "what it does"), ((f"`parley oacp {n}`", text) for n, text in oacp._COMMANDS.items()))


def command_section(name: str) -> Iterator[str]:
    command = cli.load_command(name)
    parser = commands.make_parser(f"parley {name}", command)
    words = [action.metavar or action.dest for action in parser._actions if not action.option_strings]
    shared = {option for option, _ in (*shared_options(), *server_options())}
    rows = [row for row in option_rows(parser) if row[0] not in shared]
    yield ""
    yield f"## parley {name}"
    yield ""
    yield f"`{' '.join([f'parley {name}', '[options]', *(str(word).upper() for word in words)])}`"
    yield ""
    yield sentence(parser.description or command.summary)
    if rows:
        yield ""
        yield from table(("argument", "meaning"), rows)
    if command.examples:
        yield ""
        yield from ("```sh", *command.examples, "```")


def sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def shared_options() -> list[tuple[str, str]]:
    """What `add_mailbox_options` gives a command."""
    parser = argparse.ArgumentParser(add_help=False)
    commands.add_mailbox_options(parser)
    return option_rows(parser)


def server_options() -> list[tuple[str, str]]:
    """What `add_server_options` gives a command."""
    parser = argparse.ArgumentParser(add_help=False)
    remote.add_server_options(parser)
    return option_rows(parser)


def option_rows(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    rows = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or action.dest == "help":
            continue
        name = str(action.metavar or action.dest.upper())
        if action.option_strings:
            name = ", ".join(action.option_strings) + (f" {name}" if action.nargs != 0 else "")
        rows.append((f"`{name}`", option_meaning(action)))
    return rows


def option_meaning(action: argparse.Action) -> str:
    text = action.help or ""
    if not text and action.choices:
        text = "one of " + ", ".join(str(choice) for choice in action.choices if choice)
    return text + (" (required)" if action.required and action.option_strings else "")
