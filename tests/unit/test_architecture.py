"""The rules of the tree that no linter knows."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import parley
from tests.rigs import source_trees

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "parley"

LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
LONGEST_README = 200
MOST_ROOT_ENTRIES = 15

EMPTY_WORDS = {"utils", "helpers", "common", "manager", "base"}

PURE = {
    "bisect",
    "__future__",
    "_sha2",
    "_sha256",
    "base64",
    "collections",
    "collections.abc",
    "dataclasses",
    "datetime",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "operator",
    "re",
    "string",
    "types",
    "typing",
    "unicodedata",
}

MIRRORED = ("domain", "wire", "app", "adapters")
# Module -> why it has no unit test of its own.
NOT_MIRRORED: dict[str, str] = {}

CLOCK_AND_CHANCE = {"time", "uuid", "secrets", "random"}

# What a server needs is among it: a mailbox does without.
SLOW_TO_IMPORT = {"asyncio", "cryptography", "http.client", "httptools", "httpx", "importlib.metadata", "msgspec"}
SLOW_TO_IMPORT |= {"pydantic", "rfc8785", "rich", "ssl", "uvloop"}

# Written in pieces so that this file does not find itself.
REGISTRY_HOSTS = tuple(
    name + "." + domain
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("anaconda", "org"),
    )
)
MACHINE_PATH = re.compile(r"(?<![\w~.$}\-])/(?:" + "|".join(("work", "root", "Users")) + r")/|file:/" + "//")


def modules(*under: str) -> list[Path]:
    folders = [SOURCE / folder for folder in under] if under else [SOURCE]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return source_trees.parsed(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[str]:
    """Every module `path` names in an import, wherever the import stands."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."
            if node.module and node.module.startswith("parley"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tracked_files() -> list[Path]:
    """What git holds, or would hold after `git add --all`."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    if shutil.which("git") is None:
        if os.environ.get("CI"):
            pytest.fail("git is missing")
        pytest.skip("git is missing")
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / entry for entry in listing.stdout.split("\0") if entry and (ROOT / entry).is_file()]


def test_a_module_is_never_over_500_lines() -> None:
    lengths = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}

    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_a_function_is_never_over_60_lines() -> None:
    lengths = {
        f"{name(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {function: lines for function, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def test_a_module_is_named_for_what_it_holds() -> None:
    found = [name(path) for path in SOURCE.rglob("*") if path.stem.strip("_") in EMPTY_WORDS]

    assert found == []


def test_only_the_root_package_has_an_init_with_content() -> None:
    inits = [path for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]

    assert [name(path) for path in inits if path.read_text(encoding="utf-8").strip()] == []


def test_the_domain_imports_only_itself_and_pure_modules() -> None:
    impure = [
        f"{name(path)}: {module}"
        for path in modules("domain")
        for module in imports(path)
        if module not in PURE and not f"{module}.".startswith("parley.domain.")
    ]

    assert impure == []


def test_settings_know_no_clock_and_no_chance() -> None:
    settings = [path for path in modules() if path == SOURCE / "settings.py"]

    assert [module for path in settings for module in imports(path) if module in CLOCK_AND_CHANCE] == []


def test_the_process_adapter_does_not_read_the_environment() -> None:
    process = [path for path in modules() if path == SOURCE / "adapters" / "process.py"]

    assert [name(path) for path in process if re.search(r"\b(environb?|getenv)\b", path.read_text())] == []


def test_surfaces_are_given_their_adapters() -> None:
    named = [
        f"{name(path)}: {module}"
        for path in modules("surfaces")
        for module in imports(path)
        if f"{module}.".startswith(("parley.adapters.", "parley.settings."))
    ]

    assert named == []


# Where a user's own code is called: whatever it raises is told to whoever asked, and the agent lives on.
AROUND_USERS_CODE = (
    "compat/agents.py",
    "compat/hooks.py",
    "sdk/agent/calling.py",
    "sdk/agent/handler_calls.py",
    "sdk/agent/logs.py",
    "sdk/transport/in_process.py",
    "sdk/workflow/importing.py",
    "testing.py",
)


def test_an_unexpected_error_is_caught_only_at_the_outermost_frame() -> None:
    # Completion prints no error.
    commands = [SOURCE / "cli" / name for name in ("main.py", "candidates.py", "values.py")]
    outermost = [*commands, *modules("surfaces"), *(SOURCE / one for one in AROUND_USERS_CODE)]
    blind = [
        f"{name(path)}:{node.lineno}"
        for path in modules()
        if path not in outermost
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ExceptHandler) and is_blind(node)
    ]

    assert blind == []


def is_blind(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    last = handler.body[-1]
    cleans_up = isinstance(last, ast.Raise) and last.exc is None
    return "Exception" in caught or ("BaseException" in caught and not cleans_up)


def test_the_mailbox_path_imports_nothing_slow() -> None:
    code = "import sys, parley.cli.main, parley.sdk.mailbox; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert SLOW_TO_IMPORT & set(loaded.stdout.split()) == set()


def test_every_module_of_the_inner_layers_has_its_unit_test() -> None:
    mirrored = [path for path in modules(*MIRRORED) if path.name != "__init__.py"]
    missing = [
        name(path)
        for path in mirrored
        if name(path) not in NOT_MIRRORED
        and not (ROOT / "tests" / "unit" / path.relative_to(SOURCE)).with_name(f"test_{path.name}").exists()
    ]

    assert missing == []


def test_every_exception_to_the_mirror_still_exists() -> None:
    assert [path for path in NOT_MIRRORED if not (ROOT / path).exists()] == []


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[?(\d[\w.]*)", changelog, re.MULTILINE)

    assert newest is not None
    assert parley.__version__ == project["version"] == newest[1]


def test_the_root_of_the_repository_is_small() -> None:
    entries = {path.relative_to(ROOT).parts[0] for path in tracked_files()}

    assert len(entries) <= MOST_ROOT_ENTRIES, sorted(entries)


def test_no_tracked_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if MACHINE_PATH.search(line) or any(host in line for host in REGISTRY_HOSTS):
                found.append(f"{name(path)}:{number}")

    assert found == []


def test_the_readme_can_be_read_in_one_sitting() -> None:
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("no README yet")

    assert len(readme.read_text(encoding="utf-8").splitlines()) < LONGEST_README
