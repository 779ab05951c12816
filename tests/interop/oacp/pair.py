"""Two identical homes, one for the real tool and one for ours, and what must not differ between them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from parley.domain.message.message import KINDS
from tests.interop.peer import Ran, ours, require_peer, theirs

Preparation = Callable[[Path], object]

_KIND = "|".join(sorted(KINDS, key=len, reverse=True))
_NORMAL = (
    (re.compile(r"msg-\d{8}T?\d{4}(?:Z|\d\d)-([A-Za-z0-9._-]+?)-[0-9a-z]+\b"), r"msg-TIME-\1-RANDOM"),
    (re.compile(r"conv-\d{8}-([A-Za-z0-9._-]+?)-\d+"), r"conv-DAY-\1-NUMBER"),
    (
        re.compile(rf"\d{{8}}T?\d{{4}}(?:Z|\d\d)_([a-z]+)_({_KIND})(?:_[0-9a-z]{{4,10}})?(_chosen)?\.yaml"),
        r"TIME_\1_\2\3.yaml",
    ),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "MOMENT"),
    (re.compile(r'"yaml": ".*"'), '"yaml": "YAML"'),
)


class Case(NamedTuple):
    """A command line, and what has to be done in a home before it."""

    args: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    before: Preparation | None = None


class Pair(NamedTuple):
    """The folders whose `h` is the home of either tool."""

    theirs: Path
    ours: Path

    def run(self, case: Case) -> tuple[Ran, Ran]:
        """What either tool did, without what must differ."""
        results = []
        for place, tool in ((self.theirs, theirs), (self.ours, ours)):
            if case.before is not None:
                case.before(place)
            ran = tool(place, *case.args, stdin=case.stdin, env=case.env)
            results.append(Ran(ran.status, normal(ran.out, place), normal(ran.err, place)))
        return results[0], results[1]


def make_workspace(root: Path) -> Path:
    """A folder whose `h` is a home that the real tool made: project p with alice, bob, carol and dave."""
    require_peer()
    assert theirs(root, "init", "p", "--agents", "alice,bob,carol").status == 0
    assert theirs(root, "agent", "add", "p", "dave", "--runtime", "codex").status == 0
    return root


def make_pair(workspace: Path, into: Path) -> Pair:
    """Two copies of a workspace."""
    pair = Pair(into / "theirs", into / "ours")
    for place in pair:
        shutil.copytree(workspace, place)
    return pair


def normal(text: str, place: Path) -> str:
    """`text` without ids, times, random parts and the place where it was written."""
    text = text.replace(str(place), "PLACE")
    for pattern, replacement in _NORMAL:
        text = pattern.sub(replacement, text)
    return text


def shape(value: object) -> object:
    """The structure of JSON: keys in their order and types, no values."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    return [shape(item) for item in value] if isinstance(value, list) else type(value).__name__


def shape_of(text: str) -> object:
    return shape(json.loads(text))


def tree(place: Path) -> set[str]:
    """Every path of a home but Parley's private ledgers."""
    found = {str(path.relative_to(place)) for path in (place / "h").rglob("*")}
    return {normal(path, place) for path in found if ".parley" not in path}
