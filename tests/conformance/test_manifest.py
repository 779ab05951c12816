"""Every requirement of the manifests is carried by a test, and every carried id is in one of them."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.rigs.source_trees import parsed

HERE = Path(__file__).resolve()
TESTS = HERE.parent.parent
MANIFESTS = HERE.parent
REQUIRED_KEYS = ("id", "source", "sentence")
# OACP: its three texts and our decisions. Channels: the RFC with its sections, and what we decided beside it. OCIP: its
# text, and the answers where that is open (GOV).
ID = re.compile(r"(S1|S2|S3|D|CHAN|OCIP|GOV)(-[A-Z0-9]+)+|RFC21-[0-9A-Z.]+(-[A-Z0-9]+)*")


@dataclass
class Marks:
    """The requirement marks of one file: ids by line, and the lines whose arguments are no plain strings."""

    ids: dict[str, list[int]] = field(default_factory=dict)
    unreadable: list[int] = field(default_factory=list)


def entries() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = []
    for path in sorted(MANIFESTS.glob("*.toml")):
        loaded += tomllib.loads(path.read_text(encoding="utf-8"))["requirement"]
    return loaded


def is_requirement_mark(func: ast.expr) -> bool:
    return ast.unparse(func) in ("pytest.mark.requirement", "mark.requirement")


def marks_in(source: str) -> Marks:
    marks = Marks()
    for node in ast.walk(parsed(source)):
        if not (isinstance(node, ast.Call) and is_requirement_mark(node.func)):
            continue
        if not node.args or node.keywords:
            marks.unreadable.append(node.lineno)
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                marks.ids.setdefault(argument.value, []).append(node.lineno)
            else:
                marks.unreadable.append(node.lineno)
    return marks


@cache
def marks_of(path: Path) -> Marks:
    return marks_in(path.read_text(encoding="utf-8"))


def files_with_tests() -> Iterator[Path]:
    for path in sorted(TESTS.rglob("*.py")):
        if path != HERE and (path.name.startswith("test_") or path.name.endswith("_test.py")):
            yield path


def carried() -> dict[str, list[str]]:
    """The places, as file:line, at which each id is carried."""
    places: dict[str, list[str]] = {}
    for path in files_with_tests():
        for name, lines in marks_of(path).ids.items():
            places.setdefault(name, []).extend(f"{path.relative_to(TESTS)}:{line}" for line in lines)
    return places


def test_every_requirement_is_carried_by_a_test() -> None:
    places = carried()
    missing = [entry["id"] for entry in entries() if "known_gap" not in entry and entry["id"] not in places]
    assert not missing, f"{len(missing)} requirements without a test:\n" + "\n".join(missing)


def test_every_carried_id_is_in_the_manifest() -> None:
    known = {entry["id"] for entry in entries()}
    unknown = [f"{name} at {', '.join(at)}" for name, at in carried().items() if name not in known]
    assert not unknown, "ids that no manifest has:\n" + "\n".join(unknown)


def test_a_known_gap_is_not_carried() -> None:
    places = carried()
    closed = [
        f"{entry['id']} at {', '.join(places[entry['id']])}"
        for entry in entries()
        if "known_gap" in entry and entry["id"] in places
    ]
    assert not closed, "known gaps that a test carries:\n" + "\n".join(closed)


def test_every_mark_names_its_requirements_as_plain_strings() -> None:
    unreadable = [
        f"{path.relative_to(TESTS)}:{line}" for path in files_with_tests() for line in marks_of(path).unreadable
    ]
    assert not unreadable, "marks without string literals:\n" + "\n".join(unreadable)


def test_ids_are_unique() -> None:
    counts = Counter(entry["id"] for entry in entries())
    assert [name for name, count in counts.items() if count > 1] == []


def test_ids_are_upper_case_with_the_prefix_of_their_document() -> None:
    assert [entry["id"] for entry in entries() if not ID.fullmatch(entry["id"])] == []


def test_every_entry_has_an_id_a_source_and_a_sentence() -> None:
    allowed = {*REQUIRED_KEYS, "known_gap"}
    bad = [
        entry
        for entry in entries()
        if not set(REQUIRED_KEYS) <= set(entry) <= allowed
        or not all(isinstance(value, str) and value.strip() for value in entry.values())
    ]
    assert bad == []


def test_marks_are_found_on_functions_classes_modules_and_parameters() -> None:
    source = """
pytestmark = pytest.mark.requirement("MODULE")

@pytest.mark.requirement("CLASS")
class TestThings:
    @pytest.mark.requirement("ONE", "TWO")
    def test_thing(self): ...

@pytest.mark.parametrize("case", [
    pytest.param(1, marks=pytest.mark.requirement("PARAM")),
    pytest.param(2, marks=[pytest.mark.slow, pytest.mark.requirement("LISTED")], id="two"),
])
def test_cases(case): ...
"""
    marks = marks_in(source)
    assert set(marks.ids) == {"MODULE", "CLASS", "ONE", "TWO", "PARAM", "LISTED"}
    assert marks.unreadable == []


def test_a_mark_without_string_literals_is_reported() -> None:
    arguments = ("NAME", "", "*IDS")
    source = "\n".join(f"pytest.mark.requirement({argument})" for argument in arguments)
    assert marks_in(source).unreadable == [1, 2, 3]
