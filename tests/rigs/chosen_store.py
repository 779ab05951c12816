"""Which store a run of the tests is about, and an empty one for whoever needs it.

`pytest --store postgres` says it; without a word it is SQLite, each in a folder of its own. A folder stands for a
database, too: who asks for the same folder while it is in use gets the same database, as with a file in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

CHOICES = ("sqlite", "postgres")

_chosen = CHOICES[0]


def choose(store: str) -> None:
    """For the rest of this process."""
    global _chosen  # noqa: PLW0603  # what pytest was told
    _chosen = store


def is_postgres() -> bool:
    return _chosen == "postgres"


@dataclass
class _Taken:
    dsn: str
    users: int = 0


_taken: dict[Path, _Taken] = {}
# Databases that others are done with, empty again. A new one takes ten times as long.
_idle: list[tuple[int, str]] = []
_until_the_test_ends = ExitStack()


@contextmanager
def a_database(folder: Path) -> Iterator[str]:
    """The address of the database that this folder stands for, for as long as this lasts; "" where it is a file."""
    if not is_postgres():
        yield ""
        return
    taken = _taken.get(folder) or _Taken(_empty_database())
    _taken[folder] = taken
    taken.users += 1
    try:
        yield taken.dsn
    finally:
        taken.users -= 1
        if taken.users == 0:
            del _taken[folder]
            _give_back(taken.dsn)


def database_of_the_test(folder: Path) -> str:
    """The same until the test ends that runs now."""
    return _until_the_test_ends.enter_context(a_database(folder))


def end_of_test() -> None:
    _until_the_test_ends.close()


def _empty_database() -> str:
    from tests.postgres.store import fresh_database  # needs PostgreSQL, which others do without

    while _idle:
        process, dsn = _idle.pop()
        if process == os.getpid():  # else it is the parent's
            return dsn
    return fresh_database()


def _give_back(dsn: str) -> None:
    from tests.postgres.store import empty

    empty(dsn)
    _idle.append((os.getpid(), dsn))
