"""Servers that are broken on purpose, each in one way that a test must notice.

python -m tests.fault.team.mutants NAME up --json ...
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from typing import Any


def acknowledge_before_commit() -> None:
    """Everybody is answered from a transaction that is taken back; the one that lasts comes a moment later."""
    import time

    from parley.adapters.sqlite.team_writer import TeamWriter

    commit, carefully = TeamWriter._commit, TeamWriter._settle

    def settle(self: TeamWriter, batch: list[tuple[Any, Any]]) -> None:
        if not all(changes.posts for changes, _ in batch):
            carefully(self, batch)
            return
        self._db.execute("BEGIN IMMEDIATE")
        outcomes = [self._try(changes) for changes, _ in batch]
        self._db.execute("ROLLBACK")
        self._records, self._places, self._heads = {}, {}, {}
        self._rows.clear()
        self._answered.clear()
        done = [(changes.tenant, future, what) for (changes, future), what in zip(batch, outcomes, strict=True)]
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._deliver, done)
        time.sleep(0.03)
        commit(self, [changes for changes, _ in batch])

    TeamWriter._settle = settle  # type: ignore[method-assign]


def forget_idempotency() -> None:
    """A repeated request is carried out again."""
    from parley.surfaces.http.api import Api

    async def again(self: Api, route: object, call: object, key: str) -> object:
        del key
        return await route.answer(call)  # type: ignore[attr-defined]

    Api._once = again  # type: ignore[assignment,method-assign]


def resume_one_too_far() -> None:
    """A stream that comes back begins after the event that follows its last one."""
    from parley.surfaces.http.routes import streams

    cursor = streams._cursor

    def further(call: object) -> int | None:
        known = cursor(call)  # type: ignore[arg-type]
        return None if known is None else known + 1 if known else 0

    streams._cursor = further


def show_everything_to_everyone() -> None:
    """A directed message is shown to whoever takes part."""
    from parley.adapters.sqlite import team_store

    team_store._VISIBLE = ":viewer = :viewer AND :since = :since"


def commit_without_sync() -> None:
    """It is left to the operating system when a commit reaches the disk."""
    from parley.adapters.sqlite import team_file

    connect = team_file.connect

    def lazily(path: str, *, writes: bool, durable: bool = True) -> sqlite3.Connection:
        del durable
        return connect(path, writes=writes, durable=False)

    team_file.connect = lazily


MUTANTS: dict[str, Callable[[], None]] = {
    "acknowledge_before_commit": acknowledge_before_commit,
    "forget_idempotency": forget_idempotency,
    "resume_one_too_far": resume_one_too_far,
    "commit_without_sync": commit_without_sync,
    "show_everything_to_everyone": show_everything_to_everyone,
}


def main() -> None:
    from parley.cli.main import entry

    MUTANTS[sys.argv[1]]()
    sys.argv = ["parley", *sys.argv[2:]]
    entry()


if __name__ == "__main__":
    main()
