"""Whatever a mailbox is called with, it answers with a result or a Parley error that names the argument."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import parley
from parley.domain.errors.errors import Invalid, ParleyError
from tests.surface.stage import Stage

# One that each method takes: what is tried beside it is right.
RIGHT: dict[str, dict[str, Any]] = {
    "send": {"to": "codex", "kind": "question", "subject": "s", "body": "b"},
    "draft": {"to": "codex", "kind": "question", "subject": "s", "body": "b"},
    "ask": {"to": "codex", "body": "b", "wait": "1ms", "pause": lambda seconds: None},
    "wait_until": {"ref": "nothing-here-1", "state": "acted", "wait": "1s", "pause": lambda seconds: None},
    "reply": {"ref": "nothing-here-1", "body": "b"},
    "search": {"text": "x"},
    "decide": {"approval": None, "decision": "approve", "key": "k"},
    "extend": {"ref": "nothing-here-1"},
    "watch": {"timeout": 0, "pause": lambda seconds: None},
    "next": {"lease": "1m", "pause": lambda seconds: None},
    **{name: {"ref": "nothing-here-1"} for name in ("read", "find", "release", "done", "thread", "review")},
}
WRONG: tuple[Any, ...] = (
    7,
    2.5,
    b"x",
    object(),
    [],
    [1],
    [object()],
    {1: 2},
    {"a": object()},
    timedelta(0),
    None,
    print,
)


# A watcher without an end, and a function that takes anything.
RIGHT_AFTER_ALL = [("timeout", None), ("pause", print)]


def calls() -> Iterator[tuple[str, str]]:
    for name, method in vars(parley.Mailbox).items():
        if callable(method) and not name.startswith("_"):
            for argument in list(inspect.signature(method).parameters)[1:]:
                yield name, argument


@pytest.mark.parametrize(("method", "argument"), list(calls()))
def test_no_argument_of_the_wrong_type_is_an_error_of_python(stage: Stage, method: str, argument: str) -> None:
    with parley.Mailbox(stage.project.name, agent="claude", home=stage.home) as mailbox:
        for value in WRONG:
            arguments = {**RIGHT.get(method, {}), argument: value}
            if (argument, value) in RIGHT_AFTER_ALL:
                continue
            with suppress(ParleyError):
                result = getattr(mailbox, method)(**arguments)
                if inspect.isgenerator(result):
                    list(result)


@pytest.mark.parametrize(
    ("method", "arguments", "line"),
    [
        ("send", {"subject": 7}, "subject: must be text, not int"),
        ("send", {"tag": 7}, "tag: must be text, not int"),
        ("send", {"to": 7}, "to: must be text or a list, not int"),
        ("send", {"to": [7]}, "to: must be names of agents"),
        ("send", {"body": 7}, "body: must be text or a mapping, not int"),
        ("send", {"expires": 7}, "expires: must be text or a timedelta or a datetime, not int"),
        ("send", {"extras": "x"}, "extras: must be a mapping, not str"),
        ("send", {"rules": []}, "rules: must be a mapping, not list"),
        ("read", {"ref": 7}, "ref: must be text or a Message, not int"),
        ("done", {"delete": "yes"}, "delete: must be True or False, not str"),
        ("next", {"lease": 5}, "lease: must be text or a timedelta, not int"),
        ("next", {"pause": 5}, "pause: must be a function, not int"),
        ("search", {"text": b"x"}, "text: must be text, not bytes"),
        ("decide", {"approval": "appr_1"}, "approval: must be a Approval, not str"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(
    stage: Stage, method: str, arguments: dict[str, Any], line: str
) -> None:
    with (
        parley.Mailbox(stage.project.name, agent="claude", home=stage.home) as mailbox,
        pytest.raises(Invalid) as refused,
    ):
        getattr(mailbox, method)(**{**RIGHT[method], **arguments})

    assert str(refused.value).startswith(line)


@pytest.mark.parametrize("arguments", [{"project": 7}, {"agent": b"claude"}, {"home": 7}])
def test_opening_names_the_argument_too(stage: Stage, arguments: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=f"{next(iter(arguments))}: must be text"):
        parley.Mailbox(**{"project": stage.project.name, "agent": "claude", "home": stage.home, **arguments})
