"""The part of the writer that keeps records: for a whole transaction it asks the file once and writes once.

Each statement lets go of the interpreter and has to wait for it again, so few of them are made. What is gathered is
part of every answer given here, long before it is in the file.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from parley.adapters.sqlite import team_rows as rows
from parley.domain.team_errors import NameTaken

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from parley.adapters.sqlite.team_known import RecordKey
    from parley.domain.record import Record
    from parley.domain.team_changes import TeamChanges

    NameKey = tuple[str, str, str, str]
    Row = tuple[Any, ...]

_MOST_ROWS = 64
_FREE = ""
_SAME_PLACE = "version = excluded.version, document = excluded.document"
_NEW_PLACE = f"{_SAME_PLACE}, parent = excluded.parent, name = excluded.name, due = excluded.due"


def _writes(changed: str) -> list[str]:
    one = f"({', '.join('?' * 8)})"
    return [
        f"INSERT INTO record VALUES {', '.join([one] * size)} ON CONFLICT (tenant, kind, id) DO UPDATE SET {changed}"
        for size in range(_MOST_ROWS + 1)
    ]


# Where a record is found by its parent, its name and its time as before, three indexes need not be touched.
_REPLACE, _PUT = _writes(_SAME_PLACE), _writes(_NEW_PLACE)


class RecordWriter:
    """Records of the running transaction that are not in the file yet, and who has which name."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._replaced: dict[RecordKey, Row] = {}
        self._put: dict[RecordKey, Row] = {}
        # As far as somebody asked, or something was gathered.
        self._names: dict[NameKey, str] = {}

    def look_ahead(self, batch: list[TeamChanges], is_known: Callable[[RecordKey], bool]) -> set[RecordKey]:
        """Find out about all new records of a transaction at once: which are not there, and which names are free."""
        new = [record for changes in batch for record in changes.puts if not record.version]
        if len(new) < 2:  # then it is as cheap to ask when it is needed
            return set()
        keys = [key for one in new if not is_known(key := (one.tenant_id, one.kind, one.id))]
        there = {(row[0], row[1], row[2]) for row in self._found("tenant, kind, id", keys)}
        names = [name for one in new if (name := _name_key(one))[3]]
        self._names.update(dict.fromkeys(names, _FREE))
        for row in self._found("tenant, kind, parent, name", names, " AND record.name <> ''"):
            self._names[row[0], row[1], row[2], row[3]] = row[4]
        return set(keys) - there

    def _found(self, columns: str, keys: list[Any], also: str = "") -> Iterable[Row]:
        names = columns.split(", ")
        fits = " AND ".join(f"record.{name} = wanted.{name}" for name in names)
        shown = ", ".join(f"record.{name}" for name in names)
        for start in range(0, len(keys), _MOST_ROWS):
            some = keys[start : start + _MOST_ROWS]
            one = f"({', '.join('?' * len(names))})"
            query = (
                f"WITH wanted ({columns}) AS (VALUES {', '.join([one] * len(some))})"
                f" SELECT {shown}, record.id FROM wanted CROSS JOIN record ON {fits}{also}"
            )
            yield from self._db.execute(query, tuple(chain.from_iterable(some))).fetchall()

    def check_name(self, record: Record, before: Record | None) -> None:
        """Refuse a name that another record has."""
        key = _name_key(record)
        if not key[3] or (before is not None and (before.parent, before.name) == key[2:]):
            return
        holder = self._names.get(key)
        if holder is None:
            query = "SELECT id FROM record WHERE tenant = ? AND kind = ? AND parent = ? AND name = ? AND name <> ''"
            row = self._db.execute(query, key).fetchone()
            holder = self._names[key] = row[0] if row else _FREE
        if holder not in (_FREE, record.id):
            raise NameTaken(
                f"there is a {record.kind} called {record.name} already", facts={f"{record.kind}_id": holder}
            )

    def put(self, record: Record, before: Record | None) -> Record:
        """Gather a record; the one that is kept."""
        version = record.version + 1
        row = rows.record_to_row(record, version)
        key = (record.tenant_id, record.kind, record.id)
        if before is not None and (before.parent, before.name, before.due) == row[4:7] and key not in self._put:
            self._replaced[key] = row
        else:
            if key in self._put and self._put[key][4:6] != row[4:6]:
                self.flush()  # else another could not take the name that it had before
            self._replaced.pop(key, None)
            self._put.pop(key, None)  # it comes last: another may have let go of the name that it takes
            self._put[key] = row
            self._free(before)
            if row[5]:
                self._names[row[0], row[1], row[4], row[5]] = record.id
        return rows.record_from_row(type(record), version, row[7])

    def drop(self, record: Record, before: Record | None) -> None:
        """Remove a record."""
        self.flush()
        key = (record.tenant_id, record.kind, record.id)
        self._db.execute("DELETE FROM record WHERE tenant = ? AND kind = ? AND id = ?", key)
        self._free(before)

    def _free(self, before: Record | None) -> None:
        if before is not None and before.name:
            self._names[_name_key(before)] = _FREE

    def flush(self) -> None:
        """Write what was gathered."""
        for gathered, statements in ((self._replaced, _REPLACE), (self._put, _PUT)):
            waiting = list(gathered.values())
            for start in range(0, len(waiting), _MOST_ROWS):
                some = waiting[start : start + _MOST_ROWS]
                self._db.execute(statements[len(some)], tuple(chain.from_iterable(some)))
            gathered.clear()

    def clear(self) -> None:
        """The transaction is over, one way or the other."""
        self._replaced.clear()
        self._put.clear()
        self._names.clear()


def _name_key(record: Record) -> NameKey:
    return record.tenant_id, record.kind, record.parent, record.name
