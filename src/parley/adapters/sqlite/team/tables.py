"""A file of the team's store as plain tables: read as of one moment while a server writes, or filled from another.

A tenant that has nothing but records has no row here yet; it gets the next free number, as it would from its first
commit. What is being filled lies beside the place that it will have, so no server can start on half of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from itertools import islice
from typing import TYPE_CHECKING, Any

from parley.adapters.sqlite.file import sqlite_errors
from parley.adapters.sqlite.team import file as team_file
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Unavailable
from parley.domain.mailbox.ledger import GENESIS
from parley.domain.store.tables import AUDIT, BUDGET, PAGE_BYTES, RECEIPT, RECORD, TALLY, TENANT, StoreMark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from parley.domain.store.tables import Key, Row, Table

_COLUMN_QUOTES = {"span": '"window"', "key": '"key"'}
_UNFINISHED_SUFFIX = ".copying"
_MARK_SUFFIX = ".copy"
_LOG_PAGES = 4_000


class _TableReader:
    """The tables of a file, read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._names: dict[int, str] | None = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise Conflict("nothing was begun")
        return self._connection

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def count(self, table: Table) -> int:
        with sqlite_errors(self._path):
            count = int(self._db.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0])
            return count + (len(self._unnumbered_tenants()) if table is TENANT else 0)

    async def origin(self) -> str:
        query = "SELECT id, link FROM entry JOIN tenant ON number = tenant WHERE position = 1 ORDER BY tenant LIMIT 1"
        with sqlite_errors(self._path):
            row = self._db.execute(query).fetchone()
        return f"{row[0]} {row[1].hex()}" if row else ""

    async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        with sqlite_errors(self._path):
            try:
                return self._read(table, after, limit)
            except sqlite3.OperationalError as error:
                if "decode" not in str(error):
                    raise
                raise Invalid(f"{self._path}: {self._describe_unreadable(table, after, limit)}") from None

    def _read(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        if table is RECORD or table is BUDGET:
            return self._select_by_tenant(table, after, limit)
        if table is RECEIPT:
            return self._receipts(after, limit)
        page = self._select(table, after, limit)
        if table is TALLY:
            numbers = {name: number for number, name in self._tenants().items()}
            return [(row[0], numbers[row[1]], *row[2:]) for row in page]
        if table is TENANT and len(page) < limit:
            last = page[-1][0] if page else after[0] if after is not None else -1
            page += [row for row in self._unnumbered_tenants() if row[0] > last][: limit - len(page)]
        return page

    def _describe_unreadable(self, table: Table, after: Key | None, limit: int) -> str:
        """Which value of which row it is that should be text, and is not."""
        self._db.text_factory = lambda text: text.decode(errors="surrogateescape")
        try:
            page = self._read(table, after, limit)
        finally:
            self._db.text_factory = str
        for row in page:
            for column, value in zip(table.columns, row, strict=True):
                if isinstance(value, str) and not _is_text(value):
                    key = table.key_text(table.key_of(row)).encode("ascii", "backslashreplace").decode()
                    return f"the {column} of the {table.name} with {key} is no text"
        return f"a {table.name} has something that is no text"

    def _select(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        key = ", ".join(map(_quoted_column, table.key))
        behind = f"WHERE ({key}) > ({_placeholders(len(table.key))})" if after is not None else ""
        query = f"SELECT {_columns(table)} FROM {table.name} {behind} ORDER BY {key} LIMIT ?"
        return _page(table, self._db.execute(query, (*(after or ()), limit)))

    def _receipts(self, after: Key | None, limit: int) -> list[Row]:
        """Whose a receipt is, its message says."""
        query = (
            "SELECT post_id, agent, IFNULL(post.number >> 40, 0), read_at FROM receipt"
            " LEFT JOIN post ON post.id = post_id WHERE (post_id, agent) > (?, ?) ORDER BY post_id, agent LIMIT ?"
        )
        return self._db.execute(query, (*(after or ("", "")), limit)).fetchall()

    def _select_by_tenant(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        """Where rows have a tenant's name, in the order of the tenants' numbers."""
        inner = ", ".join(map(_quoted_column, table.key[1:]))
        columns = ", ".join(map(_quoted_column, table.columns[1:]))
        query = (
            f"SELECT ?, {columns} FROM {table.name} WHERE tenant = ?"
            f" AND ({inner}) > ({_placeholders(len(table.key) - 1)}) ORDER BY {inner} LIMIT ?"
        )

        def rows() -> Iterator[Row]:
            for number, name in sorted(self._tenants().items()):
                if after is None or number >= after[0]:
                    behind = after[1:] if after is not None and number == after[0] else ("",) * (len(table.key) - 1)
                    yield from self._db.execute(query, (number, name, *behind, limit))

        return _page(table, islice(rows(), limit))

    def _tenants(self) -> dict[int, str]:
        if self._names is None:
            self._names = dict(self._db.execute("SELECT number, id FROM tenant").fetchall())
            self._names.update({row[0]: row[1] for row in self._unnumbered_tenants()})
        return self._names

    def _unnumbered_tenants(self) -> list[Row]:
        """Tenants that have records, and never committed anything themselves."""
        query = (
            "SELECT tenant FROM (SELECT DISTINCT tenant FROM record UNION SELECT DISTINCT tenant FROM budget)"
            " WHERE tenant NOT IN (SELECT id FROM tenant) ORDER BY tenant"
        )
        (last,) = self._db.execute("SELECT IFNULL(MAX(number), 0) FROM tenant").fetchone()
        names = [name for (name,) in self._db.execute(query)]
        return [(last + place, name, 0, 0, GENESIS, 0) for place, name in enumerate(names, 1)]


class SqliteTables(_TableReader):
    """See `ports.team.StoreTables`. The snapshot is taken when it is made."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        if not os.path.exists(path):
            raise NotFound(f"no store {path}")
        self._connection = team_file.connect(path, writes=False)
        self._beside = team_file.connect(path, writes=False)
        try:
            with sqlite_errors(path):
                team_file.check_readable(self._db, path, team_file.COPIED_FROM)
                # Asked before the snapshot begins: what comes between the two is taken for newer, never overlooked.
                stamp = _data_version(self._beside)
                self._db.execute("BEGIN")
                self._pulse = StoreMark(_positions(self._db), stamp)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        super().close()
        self._beside.close()

    async def mark(self, *, now: bool = False) -> StoreMark:
        with sqlite_errors(self._path):
            return StoreMark(_positions(self._beside), _data_version(self._beside)) if now else self._pulse


class SqliteTarget(_TableReader):
    """See `ports.team.StoreTarget`. `path` is the final path; the caller holds the lock of its directory."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}{_UNFINISHED_SUFFIX}")
        self._final_path = path
        with sqlite_errors(path):
            self._mark_fd = os.open(f"{path}{_MARK_SUFFIX}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._mark_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._mark_fd)
                raise Conflict(f"another copy is being written to {path}") from None

    @property
    def unfinished_path(self) -> str:
        """The path of the file until it is finished, for a check of its content."""
        return self._path

    async def mark(self, *, now: bool = False) -> StoreMark:
        del now  # there is no other writer
        with sqlite_errors(self._path):
            return StoreMark(_positions(self._db), 0)

    def close(self) -> None:
        super().close()
        if self._mark_fd >= 0:
            os.close(self._mark_fd)
            self._mark_fd = -1

    async def begin(self, origin: str) -> None:
        self._begin(origin)

    def _begin(self, origin: str) -> None:
        with sqlite_errors(self._final_path):
            mark = self._read_mark()
            if os.path.lexists(self._final_path):
                self._reopen_finished(mark)
            if os.path.exists(self._path) and mark.get("from") != origin:
                hint = f"name another place, or remove {self._path}"
                raise Conflict(f"{self._path} is the unfinished copy of another store", hint=hint)
            self._write_mark({"from": origin})
            self._connection = team_file.connect(self._path, writes=True)
            # What a power cut takes is copied again; at the end everything is synced.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
            team_file.migrate(self._db, self._path)

    def _reopen_finished(self, mark: dict[str, Any]) -> None:
        """A copy that was finished and that no server has touched may be filled again."""
        finished = mark.get("finished")
        if finished is None or finished != _fingerprint(self._final_path):
            problem = "was in use since it was copied" if finished else "is there already"
            raise Conflict(f"{self._final_path} {problem}", hint="name a place where there is none")
        _unlink_logs(self._final_path)  # which are empty
        os.replace(self._final_path, self._path)

    async def put(self, table: Table, rows: Sequence[Row], gone: Sequence[Key]) -> None:
        with sqlite_errors(self._path):
            try:
                self._put(table, rows, gone, ())
            except sqlite3.IntegrityError:
                if table.final:
                    raise
                # Something has what only one may have.
                self._put(table, rows, gone, (table.key, *table.unique))
        if table is TENANT:
            self._names = None

    def _put(self, table: Table, rows: Sequence[Row], gone: Sequence[Key], unique: Iterable[tuple[str, ...]]) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            if table.final:
                self._append(table, rows)
            else:
                self._delete(table, table.key, gone)
                for columns in unique:
                    self._delete(table, columns, table.values_in(columns, rows))
                self._insert(table, rows)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _append(self, table: Table, rows: Sequence[Row]) -> None:
        existing: set[int] = set()
        if table is AUDIT:  # a trimmed document
            trimmed = [row[0] for row in rows if row[-1] == b""]
            existing = {
                place
                for place in trimmed
                if self._db.execute("SELECT 1 FROM audit WHERE place = ?", (place,)).fetchone()
            }
            self._db.executemany(
                "UPDATE audit SET document = x'' WHERE place = ?", [(place,) for place in sorted(existing)]
            )
        self._insert(table, [row for row in rows if row[0] not in existing] if existing else rows)

    def _insert(self, table: Table, rows: Sequence[Row]) -> None:
        if table is RECEIPT:
            statement = "INSERT INTO receipt (post_id, agent, read_at) VALUES (?, ?, ?)"
            self._db.executemany(statement, [(row[0], row[1], row[3]) for row in rows])
            return
        statement = f"INSERT INTO {table.name} ({_columns(table)}) VALUES ({_placeholders(len(table.columns))})"
        self._db.executemany(statement, [self._with_tenant_name(table, table.columns, row) for row in rows])

    def _delete(self, table: Table, columns: tuple[str, ...], keys: Sequence[Key]) -> None:
        if keys:
            condition = " AND ".join(f"{_quoted_column(column)} = ?" for column in columns)
            values = [self._with_tenant_name(table, columns, key) for key in keys]
            self._db.executemany(f"DELETE FROM {table.name} WHERE {condition}", values)

    def _with_tenant_name(self, table: Table, columns: tuple[str, ...], row: Row) -> Row:
        """The row with the tenant's name in the place of its number, where the file has it like this."""
        if table not in (RECORD, TALLY, BUDGET) or "tenant" not in columns:
            return row
        place = columns.index("tenant")
        return (*row[:place], self._tenants()[row[place]], *row[place + 1 :])

    async def finish(self) -> None:
        self._finish()

    def _finish(self) -> None:
        folder = os.path.dirname(os.path.abspath(self._final_path))
        with sqlite_errors(self._path):
            (busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise Unavailable(f"another process is reading {self._path}", hint="run it again")
            super().close()
            _sync(self._path)
            _sync(folder)
            self._write_mark({**self._read_mark(), "finished": _fingerprint(self._path)})
            _unlink_logs(self._final_path)  # those of a file that is gone would be taken for this one's
            os.replace(self._path, self._final_path)
            _sync(folder)

    def _read_mark(self) -> dict[str, Any]:
        content = os.pread(self._mark_fd, 65_536, 0)
        try:
            mark = json.loads(content or b"{}")
        except ValueError:
            mark = {}
        return mark if isinstance(mark, dict) else {}

    def _write_mark(self, mark: dict[str, Any]) -> None:
        content = json.dumps(mark).encode()
        os.ftruncate(self._mark_fd, 0)
        os.pwrite(self._mark_fd, content, 0)
        os.fsync(self._mark_fd)


def _page(table: Table, rows: Iterable[Row]) -> list[Row]:
    """As many rows as a page holds."""
    places = [table.columns.index(column) for column in table.long]
    page: list[Row] = []
    size = 0
    for row in rows:
        page.append(row)
        size += sum([len(row[place]) for place in places])
        if size >= PAGE_BYTES:
            break
    return page


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _positions(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT IFNULL(SUM(head), 0) FROM tenant").fetchone()[0])


def _data_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def _fingerprint(path: str) -> list[int] | None:
    """What changes when a file is written; None when its log is not empty."""
    log = f"{path}-wal"
    if os.path.exists(log) and os.path.getsize(log):
        return None
    info = os.stat(path)
    return [info.st_ino, info.st_size, info.st_mtime_ns]


def _unlink_logs(path: str) -> None:
    for suffix in ("-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _columns(table: Table) -> str:
    return ", ".join(map(_quoted_column, table.columns))


def _quoted_column(column: str) -> str:
    return _COLUMN_QUOTES.get(column, column)


def _placeholders(count: int) -> str:
    return ", ".join("?" * count)
