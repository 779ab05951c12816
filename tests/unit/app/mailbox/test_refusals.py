"""What is no message is put aside or left alone, named in either case, and holds nobody up."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from parley.adapters.files.inbox import FileInbox
from parley.app.mailbox import claims, find, read, refusals
from parley.app.mailbox.kernel import drive
from parley.domain.mailbox.listing import InboxPass
from tests.samples.messages import a_file
from tests.unit.app.rig import Rig

LEASE = timedelta(minutes=30)


def look(rig: Rig) -> InboxPass:
    return drive(claims.look_for_next(rig.kernel("codex"), LEASE))


def drop(rig: Rig, content: bytes, name: str = "bad.yaml", *, seconds_ago: float = 60) -> Path:
    """A file that another tool has written."""
    path = rig.path("codex") / name
    path.write_bytes(content)
    moment = rig.clock.now().at.timestamp() - seconds_ago
    os.utime(path, (moment, moment))
    return path


@pytest.mark.requirement("D-READ-UNFINISHED")
@pytest.mark.parametrize("size", [1, 40, 150])
def test_a_file_that_is_half_written_is_left_alone_and_handed_over_when_it_is_complete(rig: Rig, size: int) -> None:
    content = a_file()
    path = rig.path("codex") / "slow.yaml"
    with path.open("wb") as writer:
        writer.write(content[:size])
        writer.flush()
        os.utime(path, (0, 0))
        before = look(rig)
        writer.write(content[size:])
    after = look(rig)

    assert (before.claimed, [(one.file, one.place, one.code) for one in before.refused]) == (
        None,
        [("slow.yaml", "inbox", "unfinished")],
    )
    assert after.claimed is not None
    assert after.refused == ()
    assert rig.files("codex", "dead_letter") == []


@pytest.mark.requirement("D-READ-UNFINISHED")
def test_a_body_that_still_grows_is_not_handed_over_short(rig: Rig) -> None:
    path = rig.path("codex") / "slow.yaml"
    with path.open("wb") as writer:
        writer.write(a_file(body="|\n  one"))
        writer.flush()
        assert look(rig).claimed is None
        writer.write(b"  two\n")

    claimed = look(rig).claimed

    assert claimed is not None
    assert claimed.message.body == "one\ntwo\n"


@pytest.mark.requirement("D-READ-UNFINISHED")
def test_a_bad_file_is_left_alone_for_ten_seconds_and_then_put_aside(rig: Rig) -> None:
    drop(rig, b"from: x\n", seconds_ago=0)

    first = look(rig)
    [item] = drive(read.inbox(rig.kernel("codex")))
    rig.clock.pass_by(seconds=10)
    second = look(rig)

    assert [(one.place, one.code) for one in first.refused] == [("inbox", "unfinished")]
    assert (item.status, item.problem.partition(":")[0]) == ("unfinished", "unfinished")
    assert [(one.place, one.code) for one in second.refused] == [("dead_letter", "invalid")]
    assert rig.files("codex", "dead_letter") == ["bad.yaml"]


def test_the_message_comes_first_and_junk_is_put_aside_in_bounded_numbers(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "_BURIED_PER_PASS", 5)
    synced: list[str] = []
    sync = FileInbox.sync_dead_letters

    async def seen(self: FileInbox) -> None:
        synced.append("sync")
        await sync(self)

    monkeypatch.setattr(FileInbox, "sync_dead_letters", seen)
    for number in range(12):
        drop(rig, b"x: y\n", f"junk{number:02d}.yaml")
    sent = rig.send()

    passes = [look(rig) for _ in range(4)]

    assert [one.claimed and one.claimed.message.id for one in passes] == [sent.message.id, None, None, None]
    assert [len(one.refused) for one in passes] == [5, 5, 2, 0]
    assert [one.unread for one in passes] == [7, 2, 0, 0]
    assert synced == ["sync"] * 3
    assert rig.actions("codex").count("dead") == 12


def test_a_file_that_cannot_be_moved_is_named_and_stops_nobody(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    drop(rig, b"x: y\n")
    sent = rig.send()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "raw")

    monkeypatch.setattr(os, "rename", refuse)
    looked = look(rig)

    assert looked.claimed is not None
    assert looked.claimed.message.id == sent.message.id
    assert [(one.file, one.place) for one in looked.refused] == [("bad.yaml", "inbox")]


def test_only_expired_mail_is_counted(rig: Rig) -> None:
    drop(rig, a_file(expires_at="2020-01-01T00:00:00Z"), "old.yaml")

    assert look(rig) == InboxPass(None, (), 1, 0)


@pytest.mark.requirement("D-FILE-NAME-ACCEPT")
def test_a_yml_file_is_a_message_and_is_named_without_its_ending(rig: Rig) -> None:
    drop(rig, a_file(), "note.yml")
    kernel = rig.kernel("codex")

    assert drive(find.find(kernel, "note")).file == "note.yml"
    assert look(rig).claimed is not None
    assert drive(claims.done(kernel, "note")).how == "archived"
    assert (rig.path("codex") / "archive" / "note.yml").exists()


@pytest.mark.requirement("D-READ-OTHER-RECIPIENT")
@pytest.mark.parametrize("to", ["gemini", "[gemini, claude2]"])
def test_a_file_for_somebody_else_is_handed_over_with_a_doubt(rig: Rig, to: str) -> None:
    drop(rig, a_file(to=to), "other.yaml")
    kernel = rig.kernel("codex")

    [item] = drive(read.inbox(kernel))
    located = drive(find.find(kernel, "other.yaml"))
    claimed = look(rig).claimed

    assert claimed is not None
    assert [one.code for one in claimed.doubts] == ["other_recipient"]
    assert [one.code for one in located.doubts] == ["other_recipient"]
    assert item.doubts == tuple(map(str, claimed.doubts))


def test_a_forged_sender_is_marked_in_listings_as_when_it_is_handed_over(rig: Rig) -> None:
    drop(rig, a_file(from_="stranger"), "forged.yaml")

    [item] = drive(read.inbox(rig.kernel("codex")))
    [enforced] = drive(read.inbox(rig.kernel("codex", enforce_owner=True)))
    claimed = look(rig).claimed

    assert claimed is not None
    assert item.doubts == tuple(map(str, claimed.doubts)) == ("from: stranger is no agent of this project",)
    assert enforced.problem == "from_uid_mismatch: stranger is no agent of this project"


def test_a_dead_letter_that_is_a_message_is_found_by_its_id(rig: Rig) -> None:
    drop(rig, a_file(from_="stranger"), "forged.yaml")
    drive(claims.look_for_next(rig.kernel("codex", enforce_owner=True), LEASE))

    located = drive(find.find(rig.kernel("codex"), "msg-20260313T1430Z-claude-a8f3"))

    assert (located.place, located.file) == ("dead_letter", "forged.yaml")


@pytest.mark.parametrize("wanted", ["needle", "NEEDLE", "odd"])
@pytest.mark.parametrize("buried", [False, True])
def test_a_file_that_is_no_message_is_found_by_its_text_and_name(rig: Rig, wanted: str, buried: bool) -> None:
    drop(rig, b"\xff a Needle", "odd.yaml")
    if buried:
        look(rig)
    kernel = rig.kernel("codex")

    [found] = drive(find.search_refused(kernel, wanted))

    assert (found.file, found.place) == ("odd.yaml", "dead_letter" if buried else "inbox")
    assert drive(find.search_refused(kernel, "haystack")) == []
