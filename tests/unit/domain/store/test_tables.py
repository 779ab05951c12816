"""Whether the rows of a store stand in the order that they must have."""

from __future__ import annotations

import pytest

from parley.domain.mailbox.ledger import GENESIS
from parley.domain.store.tables import (
    AUDIT,
    ENTRY,
    EVENT,
    POST,
    RECORD,
    TABLES,
    TALLY,
    TENANT,
    Order,
    Row,
    Table,
    is_trimmed,
)

NUMBER = 1 << 40
LINK = b"\x02" * 32
SOUND: dict[Table, list[Row]] = {
    TENANT: [(1, "acme", 5, 2, LINK, 1), (2, "", 0, 0, GENESIS, 0)],
    TALLY: [(7, 1, "chan_1", "intent_1", 4, 4, "", 1)],
    POST: [(NUMBER + 1, 7, 2, "msg_1"), (NUMBER + 4, 7, 4, "msg_2")],
    EVENT: [(NUMBER + 2, "intent_1", 1), (NUMBER + 5, "intent_1", 2)],
    ENTRY: [(1, 1, "{}", b"\x01" * 32), (1, 2, "{}", LINK)],
    AUDIT: [(NUMBER + 1, "alice", 1)],
}


def problems(changes: dict[Table, list[Row]]) -> list[str]:
    order = Order()
    for table in TABLES:
        for row in {**SOUND, **changes}.get(table, []):
            order.take(table, [row])
    return list(order.end())


def test_rows_in_order_with_holes_where_holes_may_be_are_sound() -> None:
    assert problems({}) == []


@pytest.mark.parametrize(
    ("table", "rows", "said"),
    [
        (POST, [(NUMBER + 6, 7, 2, "msg_1")], "position 6 of 'acme' has a message or event, and the last one is 5"),
        (POST, [(NUMBER * 3 + 1, 7, 2, "msg_1")], "belongs to no tenant"),
        (POST, [(NUMBER + 1, 7, 3, "msg_1"), (NUMBER + 3, 7, 3, "msg_2")], "msg_2 has place 3 of its channel, behind"),
        (POST, [(NUMBER + 1, 7, 5, "msg_1")], "place 5 of a channel that ends with place 4"),
        (POST, [(NUMBER + n, 7, n, f"msg_{n}") for n in range(1, 5)], "6 messages and events in 5 positions"),
        (EVENT, [(NUMBER + 9, "intent_1", 1)], "position 9 of 'acme'"),
        (ENTRY, [(1, 2, "{}", LINK)], "has number 2 where 1 should be"),
        (ENTRY, [(1, 1, "{}", LINK)], "ends with number 1, and its tenant says 2"),
        (ENTRY, [(1, 1, "{}", LINK), (1, 2, "{}", GENESIS)], "does not end with the link"),
        (AUDIT, [], "the audit log of 'acme' ends with number 0, and its tenant says 1"),
        (AUDIT, [(NUMBER + 2, "alice", 1)], "has number 2 where 1 should be"),
    ],
)
def test_what_is_out_of_order_is_said(table: Table, rows: list[Row], said: str) -> None:
    assert [one for one in problems({table: rows}) if said in one] != []


def test_not_more_is_said_than_a_person_reads() -> None:
    assert len(problems({EVENT: [(NUMBER * 9 + n, "intent_1", n) for n in range(500)]})) == 20


def test_what_was_evicted_whole_leaves_a_channel_that_nobody_has_to_know() -> None:
    assert problems({TALLY: [], POST: [(NUMBER + 1, 9, 1, "msg_1")]}) == []


@pytest.mark.parametrize(
    ("table", "new", "fits"),
    [
        (AUDIT, (1, "alice", b""), True),
        (AUDIT, (1, "bob", b""), False),
        (AUDIT, (1, "alice", b"other"), False),
        (EVENT, (1, "alice", b""), False),
    ],
)
def test_only_an_audit_document_may_be_let_go_of(table: Table, new: Row, fits: bool) -> None:
    assert is_trimmed(table, (1, "alice", b"{}"), new) is fits


def test_an_empty_name_is_nobodys_own() -> None:
    named = (1, "agent", "a", 1, "", "claude", "", b"")
    assert RECORD.values_in(("tenant", "kind", "parent", "name"), [named, (*named[:5], "", "", b"")]) == [
        (1, "agent", "", "claude")
    ]
    assert TENANT.values_in(("id",), SOUND[TENANT]) == [("acme",), ("",)]
