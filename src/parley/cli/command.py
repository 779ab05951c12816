"""What every command has in common: its options, and the mailbox that they name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.output import Screen, terminal_width
from parley.domain.errors.errors import Invalid
from parley.domain.names import meant
from parley.settings import Settings, load
from parley.wiring import Kernel, find_place, open_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# argparse has each of its words translated, for which gettext imports `locale` and looks for files. Parley speaks one
# language: a word stays as it is.
argparse._ = str  # type: ignore[attr-defined]


_FLAGS = ("home", "project", "agent", "url", "key", "data", "store", "node", "linger", "host", "port")


class Command(NamedTuple):
    """One command: a line for the overview, its arguments, what it does, and examples for its help."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse would import shutil to find that out, once for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(100, terminal_width()))


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are Parley's: one line with a code."""

    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """Name a mistyped option before argparse complains about the one that is missing because of it."""
        for word in args:
            option = word.partition("=")[0]
            if word == "--":
                break
            if option.startswith("--") and option not in self._option_string_actions:
                hint = meant(option, self._option_string_actions) or f"see: {self.prog} --help"
                raise Invalid(f"there is no option {option}", hint=hint)
        return super().parse_args(args)

    def error(self, message: str) -> None:  # type: ignore[override]
        raise Invalid(message, hint=f"see: {self.prog} --help")


def make_parser(prog: str, command: Command) -> Parser:
    """The parser of one command."""
    examples = "\n".join(f"  {example}" for example in command.examples)
    parser = Parser(
        prog=prog,
        description=command.summary,
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def add_mailbox_options(parser: argparse.ArgumentParser, *, agent: bool = True) -> None:
    """--home, --project, --agent and --json, as every command takes them."""
    group = parser.add_argument_group("where")
    group.add_argument("--home", "--oacp-dir", default="", help="the home of all projects (default: found, see config)")
    group.add_argument(
        "-p", "--project", default="", help="the project (default: by working directory, or the only one)"
    )
    help_agent = "who acts (default: $PARLEY_AGENT, $OACP_AGENT, $AGENT_NAME, agent card)"
    if agent:
        group.add_argument("-a", "--agent", "--from", default="", help=help_agent, metavar="AGENT")
    else:
        group.add_argument("-a", "--agent", default="", help=argparse.SUPPRESS)
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def settings_of(args: argparse.Namespace) -> Settings:
    """Settings with the command's flags on top, read once a command."""
    settings: Settings | None = getattr(args, "settings", None)
    if settings is None:
        flags = {name: str(getattr(args, name, "") or "") for name in _FLAGS}
        settings = args.settings = load(flags)
    return settings


def kernel_of(args: argparse.Namespace) -> Kernel:
    """The mailbox that the options name."""
    settings = settings_of(args)
    place = find_place(settings)
    return open_kernel(place.home.value, place.project.value, place.agent.value, settings)


def screen_of(args: argparse.Namespace) -> Screen:
    """Standard output as this user wants it."""
    return Screen(colour=settings_of(args).colour and not getattr(args, "json", False))
