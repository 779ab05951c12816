"""Copy one store into another: in the order of keys, only rows that differ, with a comparison at the end.

    source:  page ──┐
                    ├── what differs ──> put          an interrupted copy goes on where it stopped, and one more run
    target:  page ──┘                                 brings what came since

At the end the target is finished, then the source is marked as moved: no server starts on it any more.

The logs are append-only on both sides: where the target has something else in them, it has another history.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import Conflict, Invalid, Problem, Unavailable
from parley.domain.errors.rules import LogChanged
from parley.domain.store.tables import TABLES, Order, is_trimmed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from parley.domain.store.tables import Key, Row, Servers, Table
    from parley.ports.team import StoreTables, StoreTarget, StoreUse

    # The activity, the rows done, and the total.
    ReportProgress = Callable[[str, int, int], None]

COPYING = "Copying"
CHECKING = "Checking"
_PAGE = 500


class Copied(NamedTuple):
    """One table: the number of rows in the source, and what was written."""

    table: str
    rows: int
    new: int = 0
    changed: int = 0
    gone: int = 0


class Difference(NamedTuple):
    """How a table of the target differs from the source's, and where first."""

    table: str
    missing: int
    other: int
    surplus: int
    first: str


class CopyOutcome(NamedTuple):
    """The result of a copy. `behind`: messages and events written to the source meanwhile."""

    tables: tuple[Copied, ...]
    behind: int
    # Whether the source was written to meanwhile, and the servers that still can: then it is not finished.
    moved: bool
    servers: Servers
    finished: bool
    # Whether no server starts on the source any more.
    closed: bool = False


class Comparison(NamedTuple):
    """The differences of two stores, and what is out of order in the second one."""

    tables: tuple[Copied, ...]
    differences: tuple[Difference, ...]
    disorder: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether both have the same rows."""
        return not self.differences and not self.disorder


async def copy(
    source: StoreTables,
    target: StoreTarget,
    check: Callable[[], Awaitable[None]],
    report: ReportProgress,
    *,
    though_behind: bool = False,
    use: StoreUse,
    place: str,
) -> CopyOutcome:
    """Make the target what the source was when it was opened, and see that it is; `check` looks at its logs then.

    It is finished when nobody has written to the source meanwhile and no server that could is there, which `use` says;
    then the source is marked as moved to `place`. `though_behind` finishes it in any case, and leaves the source open.
    `Conflict` for a target that holds anything else and for a source that was moved to another place, `LogChanged` when
    something is wrong with the source itself.
    """
    moved_to = await use.moved_to()
    if moved_to not in ("", place) and not though_behind:
        raise Conflict(f"FROM was moved to {moved_to}", hint="copy from there, or reopen it: parley store reopen FROM")
    origin = await source.origin()
    if not origin:
        raise Invalid("the source is empty: no server was ever started on it")
    await target.begin(origin)
    progress = await _progress(source, report, COPYING)
    tables = [await _copy_table(source, target, table, progress) for table in TABLES]
    comparison = await compare(source, target, report)
    if comparison.differences:
        difference = comparison.differences[0]
        raise Unavailable(f"the target does not have what was written to it: {difference.table}, {difference.first}")
    if comparison.disorder:
        raise LogChanged.because([Problem("out_of_order", "source", detail) for detail in comparison.disorder])
    await check()
    async with use.hold():
        # In this order: what a server has written before it went is seen.
        servers = await use.servers()
        before, now = await source.mark(), await source.mark(now=True)
        moved = now != before
        finished = though_behind or not (moved or servers.running)
        closed = finished and not though_behind
        if finished:
            await target.finish()
        if closed:
            # Last: a copy that is cut off before leaves the source as it was.
            await use.mark_moved(place)
    return CopyOutcome(tuple(tables), now.total - before.total, moved, servers, finished, closed)


async def compare(source: StoreTables, target: StoreTables, report: ReportProgress) -> Comparison:
    """Compare all rows, and check the order of the target's."""
    progress = await _progress(source, report, CHECKING)
    order = Order()
    tables, differences = [], []
    for table in TABLES:
        rows = missing = other = surplus = 0
        first = ""
        async for ours, theirs in _stretches(source, target, table):
            rows += len(ours)
            order.take(table, theirs)
            if ours != theirs:
                new, changed, gone = _differing(table, ours, theirs)
                missing, other, surplus = missing + len(new), other + len(changed), surplus + len(gone)
                keys = [table.key_of(row) for row in (*new, *(now for _, now in changed))] + gone
                first = first or table.key_text(min(keys)) if keys else first
            progress.add(len(ours))
        tables.append(Copied(table.name, rows))
        if missing or other or surplus:
            differences.append(Difference(table.name, missing, other, surplus, first))
    return Comparison(tuple(tables), tuple(differences), tuple(order.end()))


async def _progress(source: StoreTables, report: ReportProgress, doing: str) -> _Progress:
    return _Progress(report, doing, sum([await source.count(table) for table in TABLES]))


class _Progress:
    """Reports the progress."""

    def __init__(self, report: ReportProgress, doing: str, total: int) -> None:
        self._report = report
        self._doing = doing
        self._total = total
        self._done = 0

    def add(self, rows: int) -> None:
        """Report that more rows are done."""
        self._done += rows
        self._report(self._doing, self._done, self._total)


async def _copy_table(source: StoreTables, target: StoreTarget, table: Table, progress: _Progress) -> Copied:
    done = Copied(table.name, 0)
    async for ours, theirs in _stretches(source, target, table):
        new: list[Row] = ours
        changed: list[tuple[Row, Row]] = []
        gone: list[Key] = []
        if theirs:
            new, changed, gone = _differing(table, ours, theirs) if ours != theirs else ([], [], [])
        if table.final:
            _check_history(table, changed, gone)
        if new or changed or gone:
            rows = sorted([*new, *(now for _, now in changed)], key=table.key_of) if changed else new
            replaced = [] if table.final else [table.key_of(old) for old, _ in changed]
            await target.put(table, rows, gone + replaced)
        done = Copied(
            table.name,
            done.rows + len(ours),
            done.new + len(new),
            done.changed + len(changed),
            done.gone + len(gone),
        )
        progress.add(len(ours))
    return done


def _check_history(table: Table, changed: list[tuple[Row, Row]], gone: list[Key]) -> None:
    other = [table.key_of(old) for old, now in changed if not is_trimmed(table, old, now)] + gone
    if other:
        detail = f"the target has another history: {table.key_text(min(other))} of its {table.name} log"
        raise Conflict(detail, hint="name an empty target")


def _differing(table: Table, ours: list[Row], theirs: list[Row]) -> tuple[list[Row], list[tuple[Row, Row]], list[Key]]:
    """Rows that the target lacks, changed rows (its own and ours), and keys that only it has."""
    there = {table.key_of(row): row for row in theirs}
    new: list[Row] = []
    changed: list[tuple[Row, Row]] = []
    for row in ours:
        their_row = there.pop(table.key_of(row), None)
        if their_row is None:
            new.append(row)
        elif their_row != row:
            changed.append((their_row, row))
    return new, changed, list(there)


async def _stretches(
    source: StoreTables, target: StoreTables, table: Table
) -> AsyncIterator[tuple[list[Row], list[Row]]]:
    """The rows of both stores in ranges of keys, at most a page of each."""
    mine, yours = _Pages(source, table), _Pages(target, table)
    ours: list[Row] = []
    theirs: list[Row] = []
    while True:
        ours = ours or await mine.next()
        theirs = theirs or await yours.next()
        if not ours or not theirs:
            if not ours and not theirs:
                return
            yield ours, theirs
            ours, theirs = [], []
            continue
        bound = min(table.key_of(ours[-1]), table.key_of(theirs[-1]))
        here, there = (bisect_right(rows, bound, key=table.key_of) for rows in (ours, theirs))
        yield ours[:here], theirs[:there]
        ours, theirs = ours[here:], theirs[there:]


class _Pages:
    """A table of one store, page by page."""

    def __init__(self, shelf: StoreTables, table: Table) -> None:
        self._shelf = shelf
        self._table = table
        self._after: Key | None = None
        self._ended = False

    async def next(self) -> list[Row]:
        """The next page; an empty one at the end."""
        if self._ended:
            return []
        page = await self._shelf.page(self._table, self._after, _PAGE)
        if page:
            self._after = self._table.key_of(page[-1])
        self._ended = not page
        return page
