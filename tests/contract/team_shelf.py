"""The contract of a store as plain tables: what is put is there, in order, and nothing else can be put under it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from typing import Any, TypeVar

import pytest

from parley.domain.errors.errors import Conflict, ParleyError
from parley.domain.mailbox.ledger import GENESIS
from parley.domain.store.tables import (
    AUDIT,
    BUDGET,
    ENTRY,
    EVENT,
    PAGE_BYTES,
    POST,
    RECEIPT,
    RECORD,
    SAVED,
    TABLES,
    TALLY,
    TENANT,
    TRAFFIC,
    Row,
    Table,
)
from parley.ports.team import StoreTables, StoreTarget
from tests.samples.tables import tables

S = TypeVar("S")

PATIENCE = 60.0
ORIGIN = "acme 00"
NUMBER = 1 << 40
# Texts that any order but that of their bytes would put elsewhere.
NAMES = ("", "B", "Z", "_", "a", "ab", "ß", "日本", "\U0001f600")


def a_row(number: int, **changes: object) -> Row:
    known: dict[str, object] = dict(
        zip(POST.columns, (NUMBER + number, 1, number, f"msg_{number}", "alice", *[""] * 6), strict=False)
    )
    known |= {"recipients": None, "answered": False, "payload": b"{}", "metadata": b"\x00\xff", "exchange": ""}
    return tuple((known | changes)[name] for name in POST.columns)


ROWS: dict[str, list[Row]] = {
    "tenant": [(1, "acme", 9, 2, GENESIS, 1), (2, "", 0, 0, GENESIS, 0), (7, "globex", 1, 0, GENESIS, 0)],
    "record": [
        (tenant, kind, name, 1, "", name and f"called {name}", "", b"{}")
        for tenant in (1, 2, 7)
        for kind in ("agent", "key")
        for name in NAMES
    ],
    "tally": [(1, 1, "chan_1", "intent_1", 3, 3, "2026", 0), (4, 7, "chan_2", "intent_2", 0, 0, "", 0)],
    "post": [a_row(1), a_row(2, answered=True, recipients=",bob,"), a_row(3, recipients="")],
    "receipt": [("msg_1", name, 1, "2026") for name in NAMES[1:]],
    "event": [(NUMBER + 4, "intent_1", 1, "evt_1", "comment", "alice", "2026", "", b"{}", "hash")],
    "entry": [(1, 1, '{"ü":1}', b"\x01" * 32), (1, 2, "{}", b"\x02" * 32)],
    "audit": [(NUMBER + 1, "alice", 1, "aud_1", "2026", "", "5d", b'{"n":1}')],
    "saved": [("scope", "f", "once", "2026", "msg_1", 201, b"answer")],
    "budget": [(tenant, "pair", span, 3) for tenant in (1, 7) for span in ("", "2026-03")],
    "traffic": [
        (1, "", "uncounted", "chan_1", "", "", "", 0, 0, 0, "", "2026"),
        *[(7, "2026-03-13T08", "delivered", "chan_2", "a", name, "*", 3, 1, 9, "2026", "2026") for name in NAMES],
    ],
}


def filled(test: Callable[[Any, StoreTarget], Coroutine[Any, Any, None]]) -> Callable[[TeamShelfContract], None]:
    """Run a test in an event loop of its own, on a shelf that has `ROWS`."""

    @wraps(test)
    def run(self: TeamShelfContract) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE), self.filling() as shelf:
                await shelf.begin(ORIGIN)
                await fill(shelf)
                await test(self, shelf)

        asyncio.run(bounded())

    del run.__wrapped__  # else pytest would look for a fixture called shelf
    return run


async def fill(shelf: StoreTarget) -> None:
    for table in TABLES:
        await shelf.put(table, ROWS[table.name], [])


class TeamShelfContract(ABC):
    """A shelf's own test inherits it. `filling` and `reading` open the same store each time."""

    @abstractmethod
    def filling(self) -> AbstractAsyncContextManager[StoreTarget]: ...

    @abstractmethod
    def reading(self) -> AbstractAsyncContextManager[StoreTables]: ...

    @pytest.mark.parametrize("limit", [1, 3, 1000])
    def test_what_was_put_is_read_in_the_order_of_keys_by_pages_of_any_length(self, limit: int) -> None:
        @filled
        async def test(self: TeamShelfContract, shelf: StoreTarget) -> None:
            assert await tables(shelf, limit) == ROWS
            assert {table.name: await shelf.count(table) for table in TABLES} == {n: len(r) for n, r in ROWS.items()}

        test(self)

    @filled
    async def test_a_page_ends_where_it_has_enough_bytes(self, shelf: StoreTarget) -> None:
        long = b"x" * (PAGE_BYTES // 2 + 1)
        added = [a_row(n, payload=long) for n in range(10, 15)]
        await shelf.put(POST, added, [POST.key_of(row) for row in ROWS["post"]])
        owned = [(1, "long", f"{n}", 1, "", "", "", long) for n in range(3)]
        await shelf.put(RECORD, owned, [RECORD.key_of(row) for row in ROWS["record"]])

        assert [len(await shelf.page(POST, (NUMBER + n,), 500)) for n in (9, 11, 13, 14)] == [2, 2, 1, 0]
        assert [len(await shelf.page(RECORD, (1, "long", key), 500)) for key in ("", "1", "2")] == [2, 1, 0]
        assert (await tables(shelf, 500))["post"] == added

    @filled
    async def test_a_finished_one_is_read_like_the_one_that_was_filled(self, shelf: StoreTarget) -> None:
        await shelf.finish()

        async with self.reading() as other:
            assert await tables(other) == ROWS
            assert (await other.mark(), await other.mark(now=True)) == (await other.mark(),) * 2
            assert (await other.mark()).total == 10

    @filled
    async def test_rows_are_replaced_and_taken_away(self, shelf: StoreTarget) -> None:
        one, two, three = ROWS["post"]
        await shelf.put(POST, [a_row(2, payload=b"other")], [POST.key_of(one), POST.key_of(two)])

        assert await shelf.page(POST, None, 9) == [a_row(2, payload=b"other"), three]
        # What the source removed, it has counted.
        assert await shelf.page(TRAFFIC, None, 99) == ROWS["traffic"]

    @filled
    async def test_who_has_a_name_that_another_has_now_gives_way_until_its_own_turn(self, shelf: StoreTarget) -> None:
        swapped = [(1, "agent", "a", 2, "", "called b", "", b"{}"), (1, "agent", "b", 2, "", "called a", "", b"{}")]
        await shelf.put(RECORD, [(*row[:5], f"called {row[2]}", *row[6:]) for row in swapped], [(1, "agent", "a")])

        await shelf.put(RECORD, swapped[:1], [(1, "agent", "a")])
        await shelf.put(RECORD, swapped[1:], [(1, "agent", "b")])

        found = {row[2]: row[5] for row in await shelf.page(RECORD, None, 99) if row[:2] == (1, "agent")}
        assert (found["a"], found["b"]) == ("called b", "called a")

    @filled
    async def test_tenants_change_their_numbers(self, shelf: StoreTarget) -> None:
        await shelf.put(TENANT, [(2, "globex", 1, 0, GENESIS, 0), (7, "", 0, 0, GENESIS, 0)], [(2,), (7,)])

        assert [row[:2] for row in await shelf.page(TENANT, None, 9)] == [(1, "acme"), (2, "globex"), (7, "")]

    @filled
    async def test_a_message_that_found_its_addressee_later_moves_on(self, shelf: StoreTarget) -> None:
        await shelf.put(POST, [a_row(9, id="msg_1", seq=4)], [])

        assert [row[3] for row in await shelf.page(POST, None, 9)] == ["msg_2", "msg_3", "msg_1"]

    @filled
    async def test_an_audit_document_is_let_go_of_and_others_come_after_it(self, shelf: StoreTarget) -> None:
        facts = b'{"action":"agent_exchange","outcome":"held","sender":"alice","to":"bob"}'
        await shelf.put(AUDIT, [(NUMBER + 2, "alice", 2, "aud_2", "2026", "", "6e", facts)], [])
        bare = (*ROWS["audit"][0][:-1], b"")
        more = (NUMBER + 2, "alice", 2, "aud_2", "2026", "", "6e", b"")
        await shelf.put(AUDIT, [bare, more], [])

        assert await shelf.page(AUDIT, None, 9) == [bare, more]
        assert await shelf.page(TRAFFIC, None, 99) == ROWS["traffic"]

    @pytest.mark.parametrize("table", [EVENT, ENTRY, AUDIT], ids=lambda table: table.name)
    def test_a_log_is_not_written_over(self, table: Table) -> None:
        @filled
        async def test(self: TeamShelfContract, shelf: StoreTarget) -> None:
            row = ROWS[table.name][0]
            other = tuple(b"other" if value == row[-1] else value for value in row)
            with pytest.raises(ParleyError):
                await shelf.put(table, [other], [])
            assert await shelf.page(table, None, 1) == [row]

        test(self)

    @filled
    async def test_half_a_page_is_never_written(self, shelf: StoreTarget) -> None:
        again = ROWS["event"][0]
        with pytest.raises(ParleyError):
            await shelf.put(EVENT, [(NUMBER + 9, *again[1:2], 2, "evt_2", *again[4:]), again], [])

        assert await shelf.count(EVENT) == 1

    @filled
    async def test_an_unfinished_copy_is_gone_on_with_and_is_nobody_elses(self, shelf: StoreTarget) -> None:
        await self.let_go_of(shelf)

        async with self.filling() as again:
            with pytest.raises(Conflict):
                await again.begin("globex 00")
        async with self.filling() as again:
            await again.begin(ORIGIN)
            assert await tables(again) == ROWS

    @filled
    async def test_a_finished_copy_that_nobody_used_is_gone_on_with(self, shelf: StoreTarget) -> None:
        await shelf.finish()
        await self.let_go_of(shelf)

        async with self.filling() as again:
            await again.begin(ORIGIN)
            await again.put(SAVED, [], [("scope",)])
            await again.finish()
        async with self.reading() as other:
            assert await other.count(SAVED) == 0

    @filled
    async def test_two_do_not_fill_one_at_a_time(self, shelf: StoreTarget) -> None:
        with pytest.raises(Conflict, match="another copy"):
            async with self.filling() as other:
                await other.begin(ORIGIN)

    @filled
    async def test_an_installation_is_known_by_the_first_link_of_its_first_tenant(self, shelf: StoreTarget) -> None:
        assert await shelf.origin() == "acme " + "01" * 32

    async def let_go_of(self, shelf: StoreTarget) -> None:
        """Close what fills it, as the end of its process would."""
        await closed(shelf)

    def test_every_table_of_the_contract_is_there(self) -> None:
        tried = (TENANT, RECORD, TALLY, POST, RECEIPT, EVENT, ENTRY, AUDIT, SAVED, BUDGET, TRAFFIC)
        assert tried == TABLES


async def closed(shelf: object) -> None:
    done = shelf.close()  # type: ignore[attr-defined]  # a file at once, a database in its time
    if done is not None:
        await done


@asynccontextmanager
async def closing(shelf: S) -> AsyncIterator[S]:
    try:
        yield shelf
    finally:
        await closed(shelf)
