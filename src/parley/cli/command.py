"""What all commands share: the Command record, the parser, the common options, and the mailbox that they name."""

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


# argparse translates its texts, for which gettext imports `locale` and looks for files. Parley has English texts only.
argparse._ = str  # type: ignore[attr-defined]


_FLAGS = ("home", "project", "agent", "url", "key", "data", "store", "node", "linger", "host", "port")


class Command(NamedTuple):
    """A command: its line in the overview, its arguments, the function that runs it, and examples for its help."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse would import shutil for that, once for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(100, terminal_width()))


class Parser(argparse.ArgumentParser):
    """An argument parser that raises its errors as `Invalid`."""

    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """Report a mistyped option first: argparse would report the required option that is missing because of it."""
        for word in args:
            option = word.partition("=")[0]
            if word == "--":
                break
            if option.startswith("--") and option not in self._option_string_actions:
                hint = meant(option, self._option_string_actions) or f"see: {self.prog} --help"
                raise Invalid(f"no option {option}", hint=hint)
        namespace, rest = self.parse_known_args(args)
        # argparse takes an optional argument for left out when it meets an option first.
        for action in self._get_positional_actions():
            if rest and action.nargs == "?" and getattr(namespace, action.dest) == action.default:
                setattr(namespace, action.dest, rest.pop(0))
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return namespace

    def error(self, message: str) -> None:  # type: ignore[override]
        raise Invalid(message, hint=f"see: {self.prog} --help")


def make_parser(prog: str, command: Command) -> Parser:
    """Build the parser of a command."""
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
    """Add --home, --project, --agent and --json, which every command on a mailbox takes."""
    group = parser.add_argument_group("mailbox")
    group.add_argument(
        "--home", "--oacp-dir", default="", help="directory of all projects (default: see parley config)"
    )
    group.add_argument("-p", "--project", default="", help="project (default: by working directory, or the only one)")
    help_agent = "agent to act as (default: $PARLEY_AGENT, $OACP_AGENT, $AGENT_NAME, agent_card.yaml)"
    if agent:
        group.add_argument("-a", "--agent", "--from", default="", help=help_agent, metavar="AGENT")
    else:
        group.add_argument("-a", "--agent", default="", help=argparse.SUPPRESS)
    add_json(parser)


def add_conversation(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a conversation, by its id or by any message in it."""
    names = "id of the conversation, or a message in it: its id, file name, or the end of its id"
    parser.add_argument("conversation", metavar="CONVERSATION|MESSAGE", help=names)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def settings_of(args: argparse.Namespace) -> Settings:
    """Load the settings, overridden by the options of the command; loaded once per command."""
    settings: Settings | None = getattr(args, "settings", None)
    if settings is None:
        flags = {name: str(getattr(args, name, "") or "") for name in _FLAGS}
        settings = args.settings = load(flags)
    return settings


def kernel_of(args: argparse.Namespace) -> Kernel:
    """Open the mailbox that the options name."""
    settings = settings_of(args)
    place = find_place(settings)
    return open_kernel(place.home.value, place.project.value, place.agent.value, settings)


def screen_of(args: argparse.Namespace) -> Screen:
    """Return standard output with the user's settings for colours."""
    return Screen(colour=settings_of(args).colour and not getattr(args, "json", False))
