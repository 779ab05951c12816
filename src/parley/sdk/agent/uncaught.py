"""Errors of programs of agents, without a traceback: what ends one, a misspelt option, a class in place of an agent."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from parley.domain.errors.errors import Invalid
from parley.domain.names import meant

if TYPE_CHECKING:
    from types import TracebackType

    from parley.domain.errors.errors import ParleyError

F = TypeVar("F", bound=Callable[..., Any])


def print_if_uncaught(error: ParleyError) -> None:
    """Print this error as a command does when nothing catches it, and exit with its code.

    Whoever catches it notices nothing. At a prompt it is printed, and the prompt stays.
    """
    previous = sys.excepthook

    def hook(kind: type[BaseException], raised: BaseException, trace: TracebackType | None) -> None:
        if raised is not error:
            previous(kind, raised, trace)
            return
        sys.stderr.write(_lines(error))
        if not hasattr(sys, "ps1"):
            from parley.domain.errors.exits import exit_code

            sys.exit(exit_code(error))

    sys.excepthook = hook


def _lines(error: ParleyError) -> str:
    """The error as a command prints it: what happened and its code, then what to do."""
    text = f"error: {_printable(error.message)} [{error.code}]\n"
    text += f"hint: {_printable(error.hint)}\n" if error.hint else ""
    return text.encode("utf-8", "backslashreplace").decode()


def _printable(text: str) -> str:
    return "".join([sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text])


def explain_unknown_options(init: F) -> F:
    """An `__init__` whose first argument is a name, which says which option was meant by one that it does not have."""
    options: dict[str, Any] = init.__kwdefaults__ or {}  # all of them have a default

    @functools.wraps(init)
    def checked(self: object, *arguments: object, **keywords: object) -> None:
        unknown = next((option for option in keywords if option not in options and option != "name"), None)
        if unknown is not None:
            name = arguments[0] if arguments else keywords.get("name", "NAME")
            hint = meant(unknown, options) or f"its options are {', '.join(options)}"
            raise Invalid(f"{type(self).__name__}({name!r}) has no option {unknown!r}", hint=hint)
        init(self, *arguments, **keywords)

    return cast("F", checked)


class _OfAgent:
    """A method that says so when it is called on the class of an agent."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, agent: object, cls: type) -> Callable[..., Any]:
        if agent is not None:
            method: Callable[..., Any] = self._function.__get__(agent, cls)
            return method

        @functools.wraps(self._function)
        def refuse(*_arguments: object, **_options: object) -> None:
            call = f"{cls.__name__}().{self._function.__name__}(...)"
            error = Invalid(f"{cls.__name__} is a class, not an agent", hint=f"write {call} with the parentheses")
            print_if_uncaught(error)
            raise error

        return refuse


def of_agent(function: F) -> F:
    """Make a function a method of agents, not of their class: `DataAgent.run()` is refused."""
    return cast("F", _OfAgent(function))
