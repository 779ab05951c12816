"""Listings: in processing order, consuming nothing, surviving what others do to the folder meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import timedelta

from parley.adapters.files.inbox import FileInbox
from parley.adapters.files.workspace import Workspace
from parley.app.mailbox import read
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import ParleyError
from parley.domain.message.message import Kind, Priority
from tests.samples.messages import a_file
from tests.unit.app.rig import PROJECT, Ids, Rig, claimed


def test_an_inbox_is_listed_by_priority_then_requests_for_work_then_age_then_id(rig: Rig) -> None:
    expected = []
    for number, (priority, kind, age) in enumerate(
        [
            (Priority.P0, Kind.NOTIFICATION, 0),
            (Priority.P1, Kind.REVIEW_REQUEST, 1),
            (Priority.P1, Kind.QUESTION, 9),
            (Priority.P2, Kind.TASK_REQUEST, 5),
            (Priority.P2, Kind.TASK_REQUEST, 3),
            (Priority.P2, Kind.QUESTION, 8),
            (Priority.P2, Kind.QUESTION, 2),
            (Priority.P3, Kind.TASK_REQUEST, 9),
        ]
    ):
        rig.clock.at -= timedelta(hours=age)
        expected.append(rig.send(kind, priority=priority, ids=Ids(f"aaa{number}")).message.id)
        rig.clock.at += timedelta(hours=age)

    assert [item.id for item in drive(read.inbox(rig.kernel("codex")))] == expected


def test_at_the_same_moment_the_id_decides(rig: Rig) -> None:
    ids = [rig.send(ids=Ids(suffix)).message.id for suffix in ("zzzz", "aaaa", "mmmm")]

    assert [item.id for item in drive(read.inbox(rig.kernel("codex")))] == sorted(ids)


def test_looking_consumes_nothing_and_leaves_no_trace(rig: Rig) -> None:
    rig.send()
    before = {path: path.stat().st_mtime_ns for path in rig.path("codex").rglob("*")}

    for _ in range(2):
        assert len(drive(read.inbox(rig.kernel("codex")))) == 1

    assert {path: path.stat().st_mtime_ns for path in rig.path("codex").rglob("*")} == before
    assert rig.actions("codex") == []


def test_an_expired_message_is_flagged_and_stays(rig: Rig) -> None:
    rig.send(expires_at=rig.clock.at + timedelta(minutes=5))
    fresh = drive(read.inbox(rig.kernel("codex")))[0]
    rig.clock.pass_by(minutes=5)

    stale = drive(read.inbox(rig.kernel("codex")))[0]

    assert (fresh.expired, stale.expired) == (False, True)


def test_a_claimed_message_is_shown_as_claimed_until_its_lease_is_over(rig: Rig) -> None:
    rig.send()
    claimed(rig.kernel("codex"))

    during = drive(read.inbox(rig.kernel("codex")))[0].status
    rig.clock.pass_by(minutes=31)
    after = drive(read.inbox(rig.kernel("codex")))[0].status

    assert (during, after) == ("claimed", "new")


def test_unreadable_files_come_last_with_their_reason(rig: Rig) -> None:
    rig.send(priority=Priority.P3)
    (rig.path("codex") / "0-first.yaml").write_bytes(b"\xff\xfe")
    (rig.path("codex") / "1-second.yaml").write_bytes(a_file("subject"))

    good, *bad = drive(read.inbox(rig.kernel("codex")))

    assert (good.problem, {item.status for item in bad}) == ("", {"unreadable"})
    assert sorted(item.problem for item in bad) == ["invalid: subject: is missing", "not_text: byte 0 is not UTF-8"]


def test_every_yaml_file_counts_whatever_its_name_and_nothing_else_does(rig: Rig) -> None:
    for name in (".hidden.yaml", "no date here.yaml", "notes.txt", ".tmp.1.tmp"):
        (rig.path("codex") / name).write_bytes(a_file(id=f'"{name}"'))

    assert {item.id for item in drive(read.inbox(rig.kernel("codex")))} == {".hidden.yaml", "no date here.yaml"}


class LeavingInbox(FileInbox):
    """An inbox from which another reader takes a file after it was listed."""

    def peek(self, names: Iterable[str], place: str = "inbox") -> Iterator[tuple[str, bytes | ParleyError, int, int]]:
        with self._open(place) as folder:
            os.unlink(f"{folder.path}/{min(names)}")
        yield from super().peek(names, place)


def test_a_file_that_vanishes_while_listing_is_passed_over(rig: Rig) -> None:
    gone, stays = (rig.send(kind).message.id for kind in (Kind.NOTIFICATION, Kind.QUESTION))
    kernel = rig.kernel("codex")
    workspace = Workspace(str(rig.folder), PROJECT)
    kernel.inbox = LeavingInbox(workspace, workspace.agent("codex"))

    listed = [item.id for item in drive(read.inbox(kernel))]

    assert (listed, gone in listed) == ([stays], False)


def test_a_file_that_stays_as_it_is_is_read_once(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    drive(read.inbox(kernel))
    drive(read.inbox(kernel))
    known = dict(kernel.headings["inbox"])

    drive(read.inbox(kernel))

    assert kernel.headings["inbox"] == known
    assert all(kernel.headings["inbox"][entry] is known[entry] for entry in known)


def test_a_file_rewritten_in_place_is_read_anew(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")
    drive(read.inbox(kernel))
    drive(read.inbox(kernel))
    path = rig.path("codex") / sent.file
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:  # the clock of some file systems ticks every few milliseconds
        path.write_bytes(a_file(id="rewritten"))

    assert [item.id for item in drive(read.inbox(kernel))] == ["rewritten"]


def test_another_file_under_an_old_name_is_read_anew(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")
    drive(read.inbox(kernel))
    path = rig.path("codex") / sent.file
    path.rename(path.with_suffix(".old"))
    path.write_bytes(a_file(id="another"))

    assert [item.id for item in drive(read.inbox(kernel))] == ["another"]


def test_an_outbox_is_listed_newest_first(rig: Rig) -> None:
    ids = []
    for _ in range(3):
        ids.append(rig.send().message.id)
        rig.clock.pass_by(minutes=1)

    items = drive(read.outbox(rig.kernel("claude")))

    assert [item.id for item in items] == ids[::-1]
    assert {item.status for item in items} == {"sent"}


def test_an_agent_without_outbox_and_archive_has_empty_ones_and_looking_makes_none(rig: Rig) -> None:
    for name in ("outbox", "inbox/archive"):
        for path in rig.path("codex", name).iterdir():
            path.unlink()
        rig.path("codex", name).rmdir()
    kernel = rig.kernel("codex")

    assert drive(read.outbox(kernel)) == drive(read.listing(kernel, "archive")) == []
    assert not rig.path("codex", "outbox").exists()
