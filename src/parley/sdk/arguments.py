"""Refuse arguments of the wrong type by name, for every method of a class, from its annotations."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from parley.domain.errors.errors import Invalid, Problem

if TYPE_CHECKING:
    from inspect import Signature

C = TypeVar("C", bound=type)

# The types that annotations of public methods name. Texts are no iterables of names: a text is checked as one.
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "None": (type(None),),
    "timedelta": (timedelta,),
    "datetime": (datetime,),
    "Mapping": (Mapping,),
    "Iterable": (Iterable,),
    "PathLike": (os.PathLike,),
}
_WORDS = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "True or False",
    "Iterable": "a list",
    "Mapping": "a mapping",
    "Callable": "a function",
}


class _Rule(NamedTuple):
    """What an argument must be: in words, the types that pass, and the names of the classes that pass."""

    words: str
    types: tuple[type, ...]
    classes: tuple[str, ...]
    takes_functions: bool

    def allows(self, value: object) -> bool:
        if isinstance(value, self.types) or (self.takes_functions and callable(value)):
            return True
        return any(base.__name__ in self.classes for base in type(value).__mro__)


def check_arguments(cls: C) -> C:
    """Make every public method of a class raise `Invalid` for an argument that its annotation does not allow."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, _checked(method))
    return cls


def _checked(method: FunctionType) -> Callable[..., Any]:
    rules: dict[str, _Rule] = {}
    signature: Signature | None = None

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # whatever the method takes
        nonlocal signature
        if signature is None:  # at the first call: no start should wait for annotations to be read
            from inspect import signature as signature_of

            signature = signature_of(method)
            rules.update(_rules_of(method))
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            arguments = {}  # too many or too few: Python names those itself
        for name, value in arguments.items():
            if name in rules and not rules[name].allows(value):
                detail = f"must be {rules[name].words}, not {type(value).__name__}"
                raise Invalid.because([Problem("bad_field", name, detail)])
        return method(*args, **kwargs)

    return call


def _rules_of(method: FunctionType) -> dict[str, _Rule]:
    rules = {}
    for name, annotation in method.__annotations__.items():
        parts = [part.partition("[")[0].strip() for part in _alternatives(str(annotation))]
        words = " or ".join(dict.fromkeys([_WORDS.get(part, f"a {part}") for part in parts if part != "None"]))
        types = tuple([kind for part in parts for kind in _TYPES.get(part, ())])
        rules[name] = _Rule(words, types, tuple(parts), "Callable" in parts)
    rules.pop("return", None)
    return rules


def _alternatives(annotation: str) -> list[str]:
    """The parts of a union, as they are written."""
    parts, depth = [""], 0
    for sign in annotation:
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts
