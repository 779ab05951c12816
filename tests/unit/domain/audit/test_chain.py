"""An incremental check finds the first entry of a log that is not what was written, whatever was done to it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from parley.domain.audit.chain import AuditChainCheck, ChainEnd, EntryPlace, order_fault
from parley.domain.audit.checkpoint import LET_GO
from parley.domain.audit.entry import AuditEntry
from tests.samples.audit import TENANT, a_draft, checkpoints_of, log_of

Log = list[AuditEntry]


def place_of(entry: AuditEntry) -> EntryPlace | None:
    return msgspec.json.decode(entry.document, type=EntryPlace) if entry.document else None


def check_of(log: Log, size: int = 8) -> AuditChainCheck:
    check = AuditChainCheck(TENANT)
    for entry in log:
        check.add(entry, place_of(entry))
    check.end(size)
    return check


def a_log() -> Log:
    drafts = [a_draft(number, ("alice", "bob")[number % 2]) for number in range(1, 8)]
    trimming = a_draft(8, "@tenant", through=2)._replace(action=LET_GO)
    return log_of([*drafts, trimming])


def replaced(log: Log, index: int, entry: AuditEntry) -> Log:
    return [*log[:index], entry, *log[index + 1 :]]


def test_an_untouched_log_is_intact_also_where_documents_were_trimmed_as_an_entry_says() -> None:
    log = a_log()
    trimmed = [entry._replace(document=b"") if entry.number <= 2 else entry for entry in log]

    assert [check_of(entries).broken_at for entries in (log, trimmed)] == [0, 0]
    assert check_of(log).verified_to == 8


CHANGES: dict[str, tuple[Callable[[Log], Log], int]] = {
    "a changed word": (lambda log: replaced(log, 3, log[3]._replace(document=log[3].document.replace(b"7", b"8"))), 4),
    "a removed entry": (lambda log: [*log[:4], *log[5:]], 5),
    "a missing end": (lambda log: log[:6], 7),
    "two swapped sides": (lambda log: replaced(log, 4, log[4]._replace(side="alice")), 5),
    "another exchange": (lambda log: replaced(log, 5, log[5]._replace(exchange_id="ex_9")), 6),
    "a document that is gone": (lambda log: replaced(log, 4, log[4]._replace(document=b"")), 3),
    "a rewritten entry": (lambda log: replaced(log, 2, a_log_with_another_third()[2]), 5),
}


def a_log_with_another_third() -> Log:
    drafts = [a_draft(number, ("alice", "bob")[number % 2]) for number in range(1, 8)]
    return log_of([*drafts[:2], drafts[2]._replace(actor="eve"), *drafts[3:]])


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_done_to_a_log_is_found_at_its_first_entry(change: str) -> None:
    changed, first_bad = CHANGES[change]

    check = check_of(changed(a_log()))

    assert (check.broken_at, check.verified_to, bool(check.why)) == (first_bad, first_bad - 1, True)


def test_a_log_that_was_rewritten_as_a_whole_is_found_by_its_checkpoint() -> None:
    (checkpoint,) = checkpoints_of(a_log(), 8)
    rewritten = log_of([*[a_draft(number, "eve") for number in range(1, 9)]])
    found = []
    for log, is_signed in ((a_log(), True), (a_log(), False), (rewritten, True)):
        check = check_of(log)
        check.add_checkpoint(checkpoint, is_signed=is_signed)
        found.append((check.broken_at, check.signed_to))

    assert found == [(0, 8), (1, 0), (1, 0)]


def test_an_entry_goes_on_where_its_side_ended() -> None:
    end = ChainEnd(2, "ab", 5)
    assert order_fault(3, "ab", end) == order_fault(3, None, end) == ""
    assert "number 3 of its side is missing" in order_fault(4, "ab", end)
    assert "entry 5" in order_fault(3, "cd", end)
