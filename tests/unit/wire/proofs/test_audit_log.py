"""An export stands for itself: whatever is done to it is found, and the first bad entry is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from time import thread_time
from typing import Any

import msgspec
import pytest

from parley.domain.audit.checkpoint import LET_GO
from parley.domain.audit.entry import AuditEntry, entry_hash
from parley.domain.errors.errors import Invalid
from parley.wire.proofs import audit_log
from parley.wire.proofs.audit_log import Report, check_export, read_checkpoints
from tests.samples.audit import a_draft, a_log, checkpoints_of, export_of, log_of, signer, verify

LOG = a_log(20)
MARKS = checkpoints_of(LOG, 8, 20)
LINES = export_of(LOG, MARKS)


def checked(lines: list[bytes], **options: Any) -> Report:  # noqa: ANN401
    return check_export(lines, verify, **options)


def bad(lines: list[bytes], **options: Any) -> tuple[int, str]:  # noqa: ANN401
    found = checked(lines, **options).bad
    assert found is not None
    return found.number, found.why


def edited(line: bytes, **changes: Any) -> bytes:  # noqa: ANN401
    """An entry's line with a changed document, whose hash was computed again."""
    document = {**json.loads(line)["document"], **changes}
    content = msgspec.json.encode(document, order="sorted")
    hashed = entry_hash(content)
    entry = json.loads(line)
    return b'{"number":%d,"side":"%b","seq":%d,"entry_hash":"%b","document":%b}\n' % (
        entry["number"],
        entry["side"].encode(),
        entry["seq"],
        hashed.encode(),
        content,
    )


def test_a_log_that_nobody_touched_is_whole() -> None:
    report = checked(LINES, trusted=frozenset({signer().public_key.hex()}), outside=MARKS)

    assert report.bad is None
    assert (report.tenant, report.entries, report.sides, report.checkpoints) == ("acme", 20, 2, 2)
    assert (report.covered, report.keys) == (20, (MARKS[0].key_id,))
    assert report.document()["bad"] is None


def test_an_empty_log_is_whole() -> None:
    assert checked(export_of([], [])).bad is None


def swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:5], lines[6], lines[5], *lines[7:]]


TAMPERINGS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int]] = {
    "a document is edited": (lambda x: [*x[:5], x[5].replace(b"internal", b"public!!"), *x[6:]], 5),
    "a hash is edited": (lambda x: [*x[:5], x[5].replace(b'"entry_hash":"', b'"entry_hash":"00')[:-1], *x[6:]], 5),
    "a document and its hash are edited": (lambda x: [*x[:5], edited(x[5], outcome="denied"), *x[6:]], 7),
    "a side is edited": (lambda x: [*x[:5], x[5].replace(b'"side":"alice","seq"', b'"side":"carol","seq"'), *x[6:]], 5),
    "a seq is edited": (lambda x: [*x[:5], x[5].replace(b'"seq":3,"entry', b'"seq":4,"entry'), *x[6:]], 5),
    "one is removed": (lambda x: [*x[:5], *x[6:]], 5),
    "one is doubled": (lambda x: [*x[:6], x[5], *x[6:]], 6),
    "two are swapped": (swapped, 5),
    "a document is dropped": (lambda x: [*x[:5], x[5].partition(b',"document"')[0] + b"}\n", *x[6:]], 5),
    "an entry is hidden": (lambda x: [*x[:5], audit_log.entry_line(LOG[4], shown=False), *x[6:]], 5),
    "the last ones are cut off": (lambda x: [*x[:15], *x[21:]], 15),
    "a line is garbage": (lambda x: [*x[:5], b"garbage\n", *x[6:]], 5),
    "the end is missing": (lambda x: x[:-1], 21),
    "something follows the end": (lambda x: [*x, x[5]], 0),
    "a checkpoint is removed": (lambda x: [*x[:21], *x[22:]], 1),
    "all checkpoints are removed": (lambda x: [*x[:21], x[-1]], 1),
    "the last checkpoint is removed": (lambda x: [*x[:22], x[-1]], 9),
    "a root is edited": (lambda x: [*x[:22], x[22].replace(b'"root":"', b'"root":"0'), *x[23:]], 9),
    "a checkpoint's time is edited": (lambda x: [*x[:21], x[21].replace(b"2026", b"2027"), *x[22:]], 1),
    "a signature is edited": (lambda x: [*x[:22], x[22].replace(b'"signature":"', b'"signature":"0'), *x[23:]], 9),
    "a signature is no text of bytes": (
        lambda x: [*x[:22], x[22].replace(b'"signature":"', b'"signature":"x'), *x[23:]],
        9,
    ),
    "the tenant is another": (lambda x: [x[0].replace(b"acme", b"evil"), *x[1:]], 1),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_whatever_is_done_to_it_is_found_at_the_first_bad_entry(name: str) -> None:
    change, first = TAMPERINGS[name]

    assert bad(change(LINES))[0] == first


def test_a_log_that_was_rewritten_with_all_its_hashes_is_not_what_was_signed() -> None:
    rewritten = log_of([a_draft(n, ("alice", "bob")[(n - 1) % 2], classification="public") for n in range(1, 21)])

    number, why = bad(export_of(rewritten, MARKS))

    assert (number, why) == (1, f"from here to 8 is not what the checkpoint of {MARKS[0].at} signs")


def test_only_the_end_is_bad_when_only_the_end_was_rewritten() -> None:
    drafts = [a_draft(n, ("alice", "bob")[(n - 1) % 2], **({"round": 9} if n == 15 else {})) for n in range(1, 21)]

    assert bad(export_of(log_of(drafts), MARKS))[0] == 9


def test_who_signs_the_rewritten_log_with_another_key_is_found_by_the_key_or_by_what_lies_outside() -> None:
    rewritten = a_log(20, ("alice", "carol"))
    forged = export_of(rewritten, checkpoints_of(rewritten, 8, 20, by=signer(2)))

    assert checked(forged).bad is None  # nobody can tell by the file alone; its report names the key
    assert checked(forged).keys != checked(LINES).keys
    assert bad(forged, trusted=frozenset({signer().public_key.hex()}))[0] == 1
    assert bad(forged, outside=MARKS) == (8, "there are two different checkpoints over 8 entries")


def test_a_shorter_log_with_its_own_checkpoints_is_found_by_what_lies_outside() -> None:
    shorter = export_of(LOG[:8], MARKS[:1])

    assert checked(shorter).bad is None
    assert bad(shorter, outside=MARKS) == (9, f"missing, but the checkpoint of {MARKS[1].at} covers 20 entries")


def test_two_heads_of_one_log_are_found() -> None:
    later = [replace(MARKS[1], at="2026-03-14T00:00:00.000000+00:00")]
    by = signer()
    forked = [replace(one, signature=by.sign(one.statement).hex()) for one in later]

    assert bad(LINES, outside=forked) == (20, "there are two different checkpoints over 20 entries")


def test_checkpoints_outside_may_begin_later_but_have_no_gaps() -> None:
    marks = checkpoints_of(LOG, 4, 8, 12, 20)
    lines = export_of(LOG, marks)

    assert checked(lines, outside=marks[2:]).bad is None
    assert bad(lines, outside=[marks[0], marks[2]])[0] == 5


def test_a_checkpoint_that_was_kept_twice_outside_says_the_same() -> None:
    marks = checkpoints_of(LOG, 4, 8, 12, 20)
    lines = export_of(LOG, marks)

    assert checked(lines, outside=[marks[0], marks[0], *marks[1:]]).bad is None
    assert bad(lines, outside=[marks[0], marks[1], marks[0]])[0] == 9


# ---------------------------------------------------------------- parts of a log


def test_one_sides_part_shows_the_others_only_as_hashes_and_is_checked_as_a_whole() -> None:
    lines = export_of(LOG, MARKS, sides=["alice"])

    report = checked(lines)

    assert report.bad is None
    assert (report.entries, report.sides, report.hidden, report.covered) == (20, 1, 10, 20)
    assert b"bob" not in b"".join(lines[1:])


def test_a_part_is_no_way_to_leave_something_out() -> None:
    lines = export_of(LOG, MARKS, sides=["alice"])
    hidden = [*lines[:5], audit_log.entry_line(LOG[4], shown=False), *lines[6:]]

    assert bad(hidden) == (7, "number 3 of its side is missing")


def let_go(log: list[AuditEntry], *numbers: int) -> list[AuditEntry]:
    return [one._replace(document=b"") if one.number in numbers else one for one in log]


def with_note(through: int) -> list[AuditEntry]:
    drafts = [a_draft(n, ("alice", "bob")[(n - 1) % 2]) for n in range(1, 20)]
    return log_of([*drafts, a_draft(20, "@tenant", through=through)._replace(action=LET_GO)])


def test_documents_that_were_let_go_of_leave_everything_else_provable() -> None:
    log = with_note(through=6)

    report = checked(export_of(let_go(log, *range(1, 7)), checkpoints_of(log, 8, 20)))

    assert report.bad is None
    assert report.let_go == 6


def test_a_document_that_nobody_let_go_of_is_missing() -> None:
    log = with_note(through=6)

    number, why = bad(export_of(let_go(log, 3, 7), checkpoints_of(log, 8, 20)))

    assert (number, why) == (7, "its document is gone, and no entry says that it was let go of")


def test_an_entry_cannot_let_go_of_what_comes_after_it() -> None:
    log = with_note(through=20)

    assert bad(export_of(let_go(log, 3), checkpoints_of(log, 20)))[0] == 3


def test_what_no_checkpoint_covered_is_not_let_go_of() -> None:
    log = with_note(through=6)
    check = audit_log.LogCheck(verify)
    check.header("acme")
    for one in let_go(log, 1, 2, 6):
        check.entry(one.number, one.side, one.seq, one.entry_hash, one.document)
    check.checkpoint(checkpoints_of(log, 4)[0])

    assert check.report().bad == (6, "bob", 3, "its document is gone, and no checkpoint covers it")


# ---------------------------------------------------------------- files and proofs


@pytest.mark.parametrize("content", [[], [b"{}\n"], [b"\n"], [b"[1]\n"], [b'{"number":1}\n']])
def test_what_is_no_export_is_said(content: list[bytes]) -> None:
    with pytest.raises(Invalid, match="no export"):
        checked(content)


@pytest.mark.parametrize("at", [0, 1, LINES.index(audit_log.checkpoint_line(MARKS[0], wrapped=True)), len(LINES) - 1])
def test_wherever_a_byte_is_no_utf_8_it_is_found(at: int) -> None:
    for place in range(len(LINES[at])):
        line = bytearray(LINES[at])
        line[place] |= 0x80
        try:
            assert checked([*LINES[:at], bytes(line), *LINES[at + 1 :]]).bad is not None
        except Invalid:
            assert at == 0


def test_an_export_of_another_version_is_refused() -> None:
    with pytest.raises(Invalid, match="version 2"):
        checked([LINES[0].replace(b'"parley_audit":1', b'"parley_audit":2'), *LINES[1:]])


def test_checkpoints_are_read_back_as_they_were_written() -> None:
    lines = [audit_log.checkpoint_line(one) for one in MARKS]

    assert [*read_checkpoints(lines)] == MARKS
    assert [*read_checkpoints([lines[0], lines[1][:40]])] == MARKS[:1]  # a write that was interrupted
    with pytest.raises(Invalid, match="line 2"):
        [*read_checkpoints([lines[0], b"{}\n"])]


def test_sixteen_times_the_entries_are_no_more_than_some_sixteen_times_the_work() -> None:
    def work(count: int) -> float:
        log = a_log(count, ("alice", "bob", "carol"))
        marks = checkpoints_of(log, count // 2, count)
        lines, best = export_of(log, marks), inf
        for _ in range(5):
            begun = thread_time()
            report = checked(lines, outside=marks)
            best = min(best, thread_time() - begun)
            assert (report.bad, report.covered) == (None, count)
        return best

    # Processor time, so that a busy machine does not count. Quadratic work would be 256 times as much.
    assert work(20_000) < 64 * work(1_250)
