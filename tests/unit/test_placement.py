"""The rules of docs/placement.md that can be counted."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.rigs import source_trees

SOURCE = Path(__file__).resolve().parents[2] / "src" / "parley"

MOST_MODULES = 15
# One file for each noun of the API or command of the tool that is replaced: their number is not ours to choose.
TABLES_OF_CONTENTS = {"surfaces/http/routes", "cli/oacp", "sdk/client", "sdk/blocking"}

# Routes -> the module of app/team that has the verbs, where it is not named like the routes.
OTHER_NAME_IN_APP = {
    "audit": "reading",  # reading the log is one family of verbs of the package audit
    "discovery": "agents",  # /.well-known documents of agents
    "messages": "posting",  # writing and reading messages are two families of verbs
    "status": "nodes",
}
# Health and metrics have no use case.
WITHOUT_USE_CASE = {"mcp", "system"}

# A reader cannot tell from these what a function does or answers: say the verb and its object (`list_page`, `get`,
# `create`), or the noun that it answers with.
VAGUE_FUNCTIONS = re.compile(
    "asked|coming|found|given|kept|known|led|let_go|listed|made|met|named|one|said|seen|settled|shows?|spelled|told"
    "|traced|works"
)
# Participles and metaphors that do not say what an object is: name the record (`StoreTables`, `InboxVerdict`).
VAGUE_CLASSES = re.compile(
    "Asked|Blanked|Desk|FillingShelf|Found|Given|Kept|Known|LetGo|Listed|Made|Mailman|Met|Pulse|Said|Seen|Shelf|Shown"
    "|Speaker|Spelling|Spoken|Station|Told|Wanted|Words"
)


def packages() -> dict[str, list[str]]:
    """Package -> its modules, tables of contents left out."""
    return {
        folder.relative_to(SOURCE).as_posix(): sorted(
            path.stem for path in folder.glob("*.py") if path.name != "__init__.py"
        )
        for folder in (path.parent for path in SOURCE.rglob("__init__.py"))
        if folder.relative_to(SOURCE).as_posix() not in TABLES_OF_CONTENTS
    }


def stems(package: str) -> set[str]:
    return {path.stem for path in (SOURCE / package).rglob("*.py")}


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Every module, by its path below the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE), source_trees.parsed(path.read_text(encoding="utf-8"), str(path))


def test_a_package_has_at_most_15_modules() -> None:
    assert {name: len(modules) for name, modules in packages().items() if len(modules) > MOST_MODULES} == {}


def test_a_prefix_shared_by_three_modules_is_a_package() -> None:
    shared = {
        f"{package}/{prefix}_*": count
        for package, modules in packages().items()
        for prefix, count in Counter(module.split("_")[0] for module in modules).items()
        if count >= 3
    }

    assert shared == {}


def test_routes_and_use_cases_of_one_noun_have_one_module_name() -> None:
    nouns = stems("surfaces/http/routes") - {"__init__"} - WITHOUT_USE_CASE

    assert {noun for noun in nouns if OTHER_NAME_IN_APP.get(noun, noun) not in stems("app/team")} == set()


def test_every_other_name_is_still_needed() -> None:
    nouns, verbs = stems("surfaces/http/routes"), stems("app/team")

    assert [noun for noun in OTHER_NAME_IN_APP if noun not in nouns or noun in verbs] == []
    assert {name.rsplit("/", 1)[-1] for name in OTHER_NAME_IN_APP.values()} <= verbs


def test_both_stores_of_a_team_name_their_parts_alike() -> None:
    postgres, sqlite = stems("adapters/postgres"), stems("adapters/sqlite/team")

    assert {"cache", "nodes", "source", "store", "tables", "writer", "writes"} <= postgres & sqlite


def test_the_architecture_page_describes_every_package() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `([a-z0-9_/]+)` \|", page, re.MULTILINE))
    present = {name for name, modules in packages().items() if modules and name != "."} | TABLES_OF_CONTENTS

    assert described == present


def test_a_public_class_name_is_used_once_in_a_layer() -> None:
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for place, tree in trees():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[place.parts[0], node.name].append(place.as_posix())

    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_functions_and_classes_are_named_for_what_they_do_or_hold() -> None:
    vague = [
        f"{place.as_posix()}: {node.name}"
        for place, tree in trees()
        for node in ast.walk(tree)
        if (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and VAGUE_FUNCTIONS.fullmatch(node.name))
        or (isinstance(node, ast.ClassDef) and VAGUE_CLASSES.fullmatch(node.name))
    ]

    assert vague == []
