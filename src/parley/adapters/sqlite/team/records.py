"""Records in the file: a transaction reads all of them at once and writes each once, names released before reuse."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from parley.adapters.sqlite.team.reads import BY_PARENT
from parley.domain.store.source import name_key
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping

    from parley.domain.record import Record
    from parley.domain.store.source import NameKey, RecordKey

    Row = tuple[Any, ...]

_ROWS_LIMIT = 64
_SAME_PLACE = "version = excluded.version, document = excluded.document"
_NEW_PLACE = f"{_SAME_PLACE}, parent = excluded.parent, name = excluded.name, due = excluded.due"
_BY_KEY = "WHERE tenant = ? AND kind = ? AND id = ?"


_ROW = f"({', '.join('?' * 8)})"
_INSERT = [f"INSERT INTO record VALUES {', '.join([_ROW] * size)}" for size in range(_ROWS_LIMIT + 1)]


# An exchange is in one of two indexes: by its name, or by its parent when it has none.
_IN_CONVERSATION = "kind = 'exchange' AND record.tenant = wanted.tenant AND parent = conversation"
_WITH_EXCHANGES = [
    f"WITH wanted (tenant, conversation) AS (VALUES {', '.join(['(?, ?)'] * size)}) SELECT * FROM wanted"
    f" WHERE EXISTS (SELECT 1 FROM record INDEXED BY record_name WHERE {_IN_CONVERSATION} AND name <> '')"
    f" OR EXISTS (SELECT 1 FROM record INDEXED BY record_parent WHERE {_IN_CONVERSATION} AND {BY_PARENT})"
    for size in range(_ROWS_LIMIT + 1)
]


def _upserts(changed: str) -> list[str]:
    return [f"{insert} ON CONFLICT (tenant, kind, id) DO UPDATE SET {changed}" for insert in _INSERT]


# Where a record is found by its parent, its name and its time as before, three indexes need not be touched.
_REPLACE, _PUT = _upserts(_SAME_PLACE), _upserts(_NEW_PLACE)


def write(
    db: sqlite3.Connection, records: Mapping[RecordKey, Record | None], before: Mapping[RecordKey, Record | None]
) -> None:
    """Write records as they are now (None: no more); `before` says what the file has of each of them."""
    replaced: list[Row] = []
    put: list[Row] = []
    dropped: list[RecordKey] = []
    # Names that records release, and names that records take.
    released: dict[NameKey, RecordKey] = {}
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
                released[name_key(old)] = key
    if dropped:
        db.executemany(f"DELETE FROM record {_BY_KEY}", dropped)
    # Release names that another record takes, so that the order of the writes does not matter.
    if conflicts := [key for name, key in released.items() if name in taken]:
        db.executemany(f"UPDATE record SET name = '' {_BY_KEY}", conflicts)
    _write(db, _REPLACE, replaced)
    _write(db, _PUT, put)


def create(db: sqlite3.Connection, records: Iterable[Record]) -> None:
    """Write records under new ids; one that is there already is an error."""
    _write(db, _INSERT, [rows.record_to_row(record, record.version) for record in records])


def _write(db: sqlite3.Connection, statements: list[str], rows_to_write: list[Row]) -> None:
    for start in range(0, len(rows_to_write), _ROWS_LIMIT):
        chunk = rows_to_write[start : start + _ROWS_LIMIT]
        db.execute(statements[len(chunk)], tuple(chain.from_iterable(chunk)))


def present(db: sqlite3.Connection, keys: list[RecordKey]) -> set[RecordKey]:
    """Which of these records there are."""
    return {(row[0], row[1], row[2]) for row in _select_rows(db, "tenant, kind, id", keys)}


def holders(db: sqlite3.Connection, names: list[NameKey]) -> dict[NameKey, str]:
    """The ids of the records that have these names."""
    holder_rows = _select_rows(db, "tenant, kind, parent, name", names, " AND record.name <> ''")
    return {(row[0], row[1], row[2], row[3]): row[4] for row in holder_rows}


def with_exchanges(db: sqlite3.Connection, conversations: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Which of these conversations have exchanges, by tenant."""
    for start in range(0, len(conversations), _ROWS_LIMIT):
        chunk = conversations[start : start + _ROWS_LIMIT]
        yield from db.execute(_WITH_EXCHANGES[len(chunk)], tuple(chain.from_iterable(chunk))).fetchall()


def _select_rows(db: sqlite3.Connection, columns: str, keys: list[Any], extra_condition: str = "") -> Iterable[Row]:
    names = columns.split(", ")
    join_condition = " AND ".join(f"record.{name} = wanted.{name}" for name in names)
    selected = ", ".join(f"record.{name}" for name in names)
    placeholders = f"({', '.join('?' * len(names))})"
    for start in range(0, len(keys), _ROWS_LIMIT):
        chunk = keys[start : start + _ROWS_LIMIT]
        query = (
            f"WITH wanted ({columns}) AS (VALUES {', '.join([placeholders] * len(chunk))})"
            f" SELECT {selected}, record.id FROM wanted CROSS JOIN record ON {join_condition}{extra_condition}"
        )
        yield from db.execute(query, tuple(chain.from_iterable(chunk))).fetchall()
