"""`make setup` changes nothing but .venv: no folder behind a link, no package of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A tree with what the setup reads. Its lock names nothing, so nothing is downloaded."""
    tree = tmp_path / "tree"
    (tree / "requirements").mkdir(parents=True)
    (tree / "tools").mkdir()
    (tree / "pyproject.toml").touch()
    for lock in ("run.txt", "dev.txt"):
        (tree / "requirements" / lock).touch()
    shutil.copy(ROOT / "tools" / "bootstrap.py", tree / "tools")
    return tree


def script(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def setup(tree: Path, as_if: str = sys.executable, path: str = os.defpath) -> subprocess.CompletedProcess[str]:
    """Run the setup. `as_if` is the interpreter that it asks to make the environment."""
    program = f"import runpy, sys; sys.executable = {as_if!r}; sys.argv = sys.argv[1:]; "
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", program, str(tree / "tools" / "bootstrap.py")]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": path}, check=False)


def test_a_link_at_venv_is_refused_and_the_folder_behind_it_stays(checkout: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "parley-setup").write_text("an older setup")
    (checkout / ".venv").symlink_to(target)

    done = setup(checkout)

    assert done.returncode == 1
    assert done.stderr == f"setup: .venv is a link to {target}; remove it (rm .venv) and run make again\n"
    assert done.stdout == ""
    assert (target / "parley-setup").read_text() == "an older setup"


@pytest.mark.parametrize("has_apt", [True, False])
def test_without_venv_and_pip_the_command_to_run_is_printed_and_not_run(
    checkout: Path, tmp_path: Path, has_apt: bool
) -> None:
    tools, log = tmp_path / "bin", tmp_path / "calls"
    script(tools, "python-without-modules", "exit 1")
    if has_apt:
        script(tools, "apt-get", f'echo "$@" >>{log}')

    done = setup(checkout, str(tools / "python-without-modules"), path=str(tools))

    sudo = "" if os.geteuid() == 0 else "sudo "
    advice = f"run: {sudo}apt-get install {PACKAGE}" if has_apt else f"install {PACKAGE} or pip, and run make again"
    assert done.returncode == 1
    assert done.stderr == f"setup: Python cannot make a virtual environment; {advice}\n"
    assert not log.exists()


@pytest.mark.parametrize(("python_works", "installs"), [(False, True), (True, False)])
def test_ci_installs_the_venv_module_where_it_is_missing(tmp_path: Path, python_works: bool, installs: bool) -> None:
    tools, log = tmp_path / "bin", tmp_path / "calls"
    script(tools, "python3", f"exit {0 if python_works else 1}")
    script(tools, "apt-get", f'echo "$@" >>{log}')
    script(tools, "id", "echo 0")
    script(tools, "make", f'echo make "$@" >>{log}')
    (tools / "dirname").symlink_to(shutil.which("dirname") or "dirname")
    bash = shutil.which("bash") or "bash"

    subprocess.run([bash, str(ROOT / ".ci" / "run")], env={"PATH": str(tools)}, check=True)

    calls = log.read_text().splitlines()
    assert any("install" in call and "python3-venv" in call.split() for call in calls) is installs
    assert calls[-1] == "make check"
