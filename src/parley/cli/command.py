"""What all commands share: the Command record, the parser, the common options, and the mailbox that they name."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.output import UNLIMITED, Screen, terminal_width
from parley.domain.errors.errors import Invalid
from parley.domain.names import meant
from parley.settings import Settings, load, wants_colour
from parley.wiring import Kernel, find_place, open_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# argparse translates its texts, for which gettext imports `locale` and looks for files. Parley has English texts only.
argparse._ = str  # type: ignore[attr-defined]


_FLAGS = ("home", "project", "agent", "context", "url", "key", "data", "store", "node", "linger", "host", "port")


# The width of help without a terminal.
_HELP_COLUMNS = 80


class Command(NamedTuple):
    """A command: its line in the overview, its arguments, the function that runs it, and examples for its help."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, with bold headings on one. argparse would import shutil for the width.

    It looks for it once for every option.
    """

    def __init__(self, prog: str) -> None:
        width = terminal_width()
        super().__init__(prog, width=_HELP_COLUMNS if width == UNLIMITED else max(40, min(100, width)))


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
            elif rest and rest[0] == "--" and action.nargs == "*":
                setattr(namespace, action.dest, [*getattr(namespace, action.dest), *rest[1:]])
                rest = []
        if rest:
            raise Invalid(f"unrecognized arguments: {' '.join(rest)}", hint=self._hint_at(rest, namespace))
        return namespace

    def _hint_at(self, rest: list[str], namespace: argparse.Namespace) -> str:
        """What words that are left over were probably meant for."""
        positional = [action.dest for action in self._get_positional_actions()]
        words = not any(word.startswith("-") for word in rest)
        if words and "text" in positional and getattr(namespace, "text", None):
            from shlex import quote

            return f"quote the text: {quote(' '.join((namespace.text, *rest)))}"
        if words and len(rest) == 1 and not positional and "--agent" in self._option_string_actions:
            return f"did you mean --agent {rest[0]}?"
        return f"see: {self.prog} --help"

    def format_help(self) -> str:
        text = _wrapped(super().format_help())
        if not wants_colour(is_terminal=sys.stdout.isatty()):
            return text
        return re.sub(r"^(?:usage:|[a-z][^\n]*:$)", "\x1b[1m\\g<0>\x1b[0m", text, flags=re.MULTILINE)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Suggest the value that was probably meant; argparse would list all of them."""
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices if choice]
            name = next(iter(action.option_strings), None) or action.metavar or action.dest
            hint = meant(str(value), choices) or f"one of {', '.join(choices)}"
            raise Invalid(f'{name} cannot be "{value}"', hint=hint)

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
    parser.usage = " ".join((prog.replace("%", "%%"), *map(_usage_of, parser._get_positional_actions()), "[options]"))
    return parser


def _wrapped(text: str) -> str:
    """Help whose lines fit the terminal: argparse keeps those of descriptions, headings and examples as they are."""
    width = terminal_width()
    if width >= _HELP_COLUMNS:
        return text
    from parley.cli.width import wrap

    return "\n".join(part for line in text.split("\n") for part in wrap(line, width, "    "))


def _usage_of(argument: argparse.Action) -> str:
    """An argument in the line of usage; the options are listed below it."""
    name = str(argument.metavar or argument.dest)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}.get(str(argument.nargs), name)


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


def add_conversation(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the argument that names a conversation, by its id or by any message in it."""
    names = "id of the conversation, or a message in it: its id, file name, or the end of its id"
    if optional:
        names += " (default: list the conversations)"
        parser.add_argument("conversation", nargs="?", default="", metavar="CONVERSATION|MESSAGE", help=names)
    else:
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
    """Return standard output, with colours where they are wanted."""
    return Screen(colour=not getattr(args, "json", False))
