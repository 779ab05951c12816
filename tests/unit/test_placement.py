"""The rules of docs/placement.md that can be counted."""

import re
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "parley"

MOST_MODULES = 15
# One file for each noun of the API or command of the tool that is replaced: their number is not ours to choose.
TABLES_OF_CONTENTS = {"surfaces/http/routes", "cli/oacp", "sdk/client", "sdk/blocking"}

# Routes -> the module of app/team that has the verbs, where it is not named like the routes.
OTHER_NAME_IN_APP = {
    "discovery": "agents",  # /.well-known documents of agents
    "messages": "posting",  # writing and reading messages are two families of verbs
    "status": "nodes",
}
# Health and metrics have no use case.
WITHOUT_USE_CASE = {"system"}


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
