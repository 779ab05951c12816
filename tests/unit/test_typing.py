"""A user's code, as the two type checkers see it: strict, against the package as it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A folder with a user's code and nothing of ours around it."""
    code, folder = ROOT / "tests" / "typing_tests", tmp_path / "user"
    return Path(shutil.copytree(code, folder, ignore=shutil.ignore_patterns("__*")))


def checked(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def mypy(folder: Path) -> subprocess.CompletedProcess[str]:
    return checked(folder, str(BIN / "mypy"), "--strict", "--config-file=", "--cache-dir", str(folder / ".cache"), ".")


def pyright(folder: Path) -> subprocess.CompletedProcess[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"]
    (folder / "pyrightconfig.json").write_text(json.dumps({**settings, "include": ["."]}))
    return checked(folder, str(BIN / "pyright"), "--pythonpath", sys.executable)


@pytest.mark.slow
def test_mypy_finds_nothing_in_a_users_code_but_its_mistakes(user: Path) -> None:
    done = mypy(user)

    count = len(list(user.glob("*.py")))
    assert done.stdout == f"Success: no issues found in {count} source files\n", done.stdout + done.stderr


@pytest.mark.slow
def test_pyright_finds_nothing_in_a_users_code_but_its_mistakes(user: Path) -> None:
    done = pyright(user)

    assert done.stdout.strip() == "0 errors, 0 warnings, 0 informations", done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_both_would_find_a_mistake_that_is_not_marked(user: Path, checker: object) -> None:
    for file in user.glob("*.py"):
        file.unlink()
    (user / "program.py").write_text("import parley\n\nname: int = parley.Client().get_channel('chan_1').name\n")

    done = checker(user)  # type: ignore[operator]

    assert done.returncode == 1
    assert "program.py:3" in done.stdout
