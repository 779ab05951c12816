"""`parley __complete SHELL`, which completion scripts call: the values that fit the words on standard input.

The words are separated by NUL bytes and the last one is being typed. They are not arguments, because other users can
see those and one of them may be a key. What a word takes is what the help shows for it: its choices, or a kind of value
such as AGENT. Every error is silent, and the shell then completes file names.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.exits import OK
from parley.domain.content.visible import UNSAFE, safe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

# Most candidates that are printed.
_CANDIDATES = 500
_DESCRIPTION_CHARS = 60
# Several of them are written with commas.
_LISTS = frozenset({"TO", "AGENT"})
# Characters at which bash begins a new word for completion.
_BREAKS = ":="


class TypedWord(NamedTuple):
    """A word as it is typed: its text so far, the quote that is open, and what bash leaves in place before it."""

    text: str
    quote: str = ""
    before: str = ""


def main(arguments: list[str]) -> int:
    """Print the candidates, one on a line."""
    try:
        shell = arguments[0]
        lines = candidates(shell, sys.stdin.buffer.read().decode().removesuffix("\0").split("\0"))
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except Exception:  # noqa: BLE001, S110  # a prompt is no place for errors
        pass
    return OK


def candidates(shell: str, typed: list[str]) -> list[str]:
    """The lines to print for the words that are typed: values quoted for bash and zsh, with descriptions for fish."""
    words = join_words(typed) if shell == "bash" else typed
    # fish has removed the quotes of complete words.
    done = words[1:-1] if shell == "fish" else [parse_word(word).text for word in words[1:-1]]
    last = parse_word(words[-1], has_breaks=shell == "bash")
    option = ""
    if last.text.startswith("--") and "=" in last.text:
        option = last.text.partition("=")[0] + "="
        last = last._replace(text=last.text.removeprefix(option))
    place = _find(done, option.removesuffix("="))
    if place is None:
        return []
    argument, args = place
    head = ""
    if "," in last.text and _kinds(argument) and _kinds(argument) <= _LISTS:
        comma = last.text.rindex(",") + 1
        head, last = last.text[:comma], last._replace(text=last.text[comma:])
    lines = []
    for value, about in _matches(argument, args, last.text):
        whole = option + head + value
        if shell == "fish":
            lines.append(f"{whole}\t{safe(about)[:_DESCRIPTION_CHARS]}")
        elif not (last.quote == '"' and "!" in whole):  # it cannot be written between these quotes
            lines.append(quote(whole.removeprefix(last.before), last.quote))
    return lines[:_CANDIDATES]


def join_words(typed: list[str]) -> list[str]:
    """Words that bash has split at `:` and `=`, put together again."""
    words: list[str] = []
    is_open = False
    for word in typed:
        is_break = bool(word) and not word.strip(_BREAKS)
        if words and len(words) > 1 and (is_break or is_open):
            words[-1] += word
        else:
            words.append(word)
        is_open = is_break
    return words


def parse_word(word: str, *, has_breaks: bool = False) -> TypedWord:
    """Remove the quotes of a word that may still be open."""
    text, open_quote, position = "", "", 0
    while position < len(word):
        char = word[position]
        position += 1
        if char == open_quote:
            open_quote = ""
        elif not open_quote and char in "\"'":
            open_quote = char
        elif char == "\\" and open_quote != "'" and position < len(word):
            following = word[position]
            position += 1
            text += following if not open_quote or following in '"\\$`' else char + following
        else:
            text += char
    cut = 1 + max(text.rfind(mark) for mark in _BREAKS) if has_breaks and not open_quote else 0
    return TypedWord(text, open_quote, text[:cut])


def quote(value: str, open_quote: str = "") -> str:
    """Write a value so that bash and zsh read exactly this text, after the open quote if there is one."""
    if open_quote == "'":
        return value.replace("'", "'\\''")
    if open_quote == '"':
        return re.sub(r'(["\\$`])', r"\\\1", value)
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)


def is_offered(value: str) -> bool:
    """Whether a name may be put on a command line: nothing hidden, no control characters, and not like an option."""
    return bool(value) and not value.startswith("-") and value.isprintable() and not re.search(UNSAFE, value)


def _find(words: list[str], option: str) -> tuple[argparse.Action, argparse.Namespace] | None:
    """The argument that is being typed, and what the words before it say; None where no value is expected."""
    import argparse

    from parley.cli.command import make_parser
    from parley.cli.dispatch import COMMANDS, load_command

    name = next((n for n in (" ".join(words[:2]), *words[:1]) if n in COMMANDS), "")
    if not name:
        return None
    parser = make_parser(f"parley {name}", load_command(name))
    options = parser._option_string_actions
    args = argparse.Namespace(**{action.dest: action.default for action in parser._actions if action.dest != "help"})
    places = parser._get_positional_actions()
    waiting: argparse.Action | None = None
    only_arguments, count = False, 0
    for word in words[len(name.split()) :]:
        key, separator, value = word.partition("=")
        if waiting is not None:
            _set(args, waiting, word)
            waiting = None
        elif word == "--" and not only_arguments:
            only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not only_arguments:
            action = options.get(key if separator else word)
            if action is None:
                continue
            if separator:
                _set(args, action, value)
            elif action.nargs == 0:
                setattr(args, action.dest, True)
            else:
                waiting = action
        elif count < len(places):
            _set(args, places[count], word)
            count += places[count].nargs not in ("*", "+")
    if waiting is None and option and not only_arguments:
        waiting = options.get(option)
    elif waiting is None and count < len(places):
        waiting = places[count]
    return (waiting, args) if waiting is not None else None


def _set(args: argparse.Namespace, action: argparse.Action, value: str) -> None:
    if isinstance(getattr(args, action.dest, None), str | None):
        setattr(args, action.dest, value)


def _kinds(argument: argparse.Action) -> set[str]:
    """The kinds of value that an argument takes: the words that the help shows for it."""
    return set() if argument.choices else {*str(argument.metavar or argument.dest.upper()).split("|")}


def _matches(argument: argparse.Action, args: argparse.Namespace, start: str) -> Iterable[tuple[str, str]]:
    """The values that begin like this, else the ids that do."""
    if argument.choices:
        return [(str(choice), "") for choice in argument.choices if choice and str(choice).startswith(start)]
    from parley.cli.values import values_of

    values = values_of(sorted(_kinds(argument)), args)
    fitting = [(value.value, value.about) for value in values if value.value.startswith(start)]
    fitting = fitting or [(value.whole, value.about) for value in values if start and value.whole.startswith(start)]
    return {value: about for value, about in fitting if is_offered(value)}.items()
