"""Records in the file: a transaction asks for all of them at once and writes each once, whoever has which name now."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from parley.domain.store.transaction import name_key
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from parley.domain.record import Record
    from parley.domain.store.transaction import NameKey, RecordKey

    Row = tuple[Any, ...]

_MOST_ROWS = 64
_SAME_PLACE = "version = excluded.version, document = excluded.document"
_NEW_PLACE = f"{_SAME_PLACE}, parent = excluded.parent, name = excluded.name, due = excluded.due"
_ONE = "WHERE tenant = ? AND kind = ? AND id = ?"


def _writes(changed: str) -> list[str]:
    one = f"({', '.join('?' * 8)})"
    return [
        f"INSERT INTO record VALUES {', '.join([one] * size)} ON CONFLICT (tenant, kind, id) DO UPDATE SET {changed}"
        for size in range(_MOST_ROWS + 1)
    ]


# Where a record is found by its parent, its name and its time as before, three indexes need not be touched.
_REPLACE, _PUT = _writes(_SAME_PLACE), _writes(_NEW_PLACE)


def write(
    db: sqlite3.Connection, records: Mapping[RecordKey, Record | None], before: Mapping[RecordKey, Record | None]
) -> None:
    """Write records as they are now (None: no more); `before` says what the file has of each of them."""
    replaced: list[Row] = []
    put: list[Row] = []
    dropped: list[RecordKey] = []
    # Names in the file that their records let go of, and names that others take.
    left: dict[NameKey, RecordKey] = {}
    taken: set[NameKey] = set()
    for key, record in records.items():
        old = before[key]
        if record is None:
            dropped.append(key)
            continue
        row = rows.record_to_row(record, record.version)
        if old is not None and (old.parent, old.name, old.due) == row[4:7]:
            replaced.append(row)
            continue
        put.append(row)
        if old is None or (old.parent, old.name) != row[4:6]:
            taken.add(name_key(record))
            if old is not None and old.name:
                left[name_key(old)] = key
    if dropped:
        db.executemany(f"DELETE FROM record {_ONE}", dropped)
    # Whoever takes a name finds it free, in whatever order they come.
    if free := [key for name, key in left.items() if name in taken]:
        db.executemany(f"UPDATE record SET name = '' {_ONE}", free)
    _write(db, _REPLACE, replaced)
    _write(db, _PUT, put)


def _write(db: sqlite3.Connection, statements: list[str], waiting: list[Row]) -> None:
    for start in range(0, len(waiting), _MOST_ROWS):
        some = waiting[start : start + _MOST_ROWS]
        db.execute(statements[len(some)], tuple(chain.from_iterable(some)))


def present(db: sqlite3.Connection, keys: list[RecordKey]) -> set[RecordKey]:
    """Which of these records there are."""
    return {(row[0], row[1], row[2]) for row in _found(db, "tenant, kind, id", keys)}


def holders(db: sqlite3.Connection, names: list[NameKey]) -> dict[NameKey, str]:
    """Who has these names, of those that somebody has."""
    found = _found(db, "tenant, kind, parent, name", names, " AND record.name <> ''")
    return {(row[0], row[1], row[2], row[3]): row[4] for row in found}


def _found(db: sqlite3.Connection, columns: str, keys: list[Any], also: str = "") -> Iterable[Row]:
    names = columns.split(", ")
    fits = " AND ".join(f"record.{name} = wanted.{name}" for name in names)
    shown = ", ".join(f"record.{name}" for name in names)
    one = f"({', '.join('?' * len(names))})"
    for start in range(0, len(keys), _MOST_ROWS):
        some = keys[start : start + _MOST_ROWS]
        query = (
            f"WITH wanted ({columns}) AS (VALUES {', '.join([one] * len(some))})"
            f" SELECT {shown}, record.id FROM wanted CROSS JOIN record ON {fits}{also}"
        )
        yield from db.execute(query, tuple(chain.from_iterable(some))).fetchall()
