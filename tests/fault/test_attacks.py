"""Attacks on a file mailbox, by the numbers of the threat table: the answer expected, and the reader goes on."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from parley.app.mailbox import claims, read, sending
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import BadAgentName, ContentChanged, InboxFull, NameExists, NotRegular, ParleyError
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.message.message import Priority
from tests.samples.messages import a_draft, a_file
from tests.unit.app.rig import HALF_AN_HOUR, Rig, a_rig, claimed, drained

pytestmark = pytest.mark.fault


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = a_rig(tmp_path / "home")
    yield rig
    rig.close()


# Whoever is blocked is so for ever; whoever is slow has a machine that does other things, too.
_PATIENCE = 120


@contextmanager
def not_blocked() -> Iterator[None]:
    """A reader that is blocked is woken by a signal, and the test fails."""

    def too_late(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"blocked for {_PATIENCE} s")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def reason(rig: Rig, file: str, agent: str = "codex") -> str:
    document = json.loads((rig.path(agent, "dead_letter") / f"{file}.reason.json").read_text(encoding="utf-8"))
    return str(document["code"])


def test_a_file_rewritten_by_its_sender_after_the_claim_changes_nothing_for_the_reader(rig: Rig) -> None:
    """A25"""
    # Given a message that was handed over
    sent = rig.send()
    reader = rig.kernel("codex")
    handed = claimed(reader)

    # When its sender, who owns the file, writes another content into the same file
    path = rig.path("codex") / sent.file
    path.write_bytes(path.read_bytes().replace(b"Token", b"Taken").replace(b"tests pass", b"tests fail"))
    finished = drive(claims.done(reader, handed.message.id))

    # Then what was processed is what was hashed and is archived, and the change is put aside under its name
    assert finished.content_changed
    assert handed.message == sent.message
    kept = (rig.path("codex", "inbox/archive") / sent.file).read_bytes()
    assert reader.format.decode(kept) == sent.message
    assert reason(rig, sent.file) == ContentChanged.code


def test_a_name_that_is_taken_is_an_error_and_the_first_file_stays(rig: Rig) -> None:
    """A27"""
    courier = rig.kernel("claude").courier
    drive(courier.deliver("codex", "same.yaml", b"first"))

    with pytest.raises(NameExists) as refusal:
        drive(courier.deliver("codex", "same.yaml", b"second"))

    assert refusal.value.code == "name_exists"
    assert (rig.path("codex") / "same.yaml").read_bytes() == b"first"


def test_a_chosen_name_that_is_taken_is_refused_to_the_sender(rig: Rig) -> None:
    """A27"""
    kernel = rig.kernel("claude")
    first = drive(sending.send(kernel, a_draft(), suffix="mine"))

    with pytest.raises(NameExists):
        drive(sending.send(kernel, a_draft(subject="Another"), suffix="mine"))

    assert rig.files("codex") == [first.file]


def plant_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def plant_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def plant_fifo(path: Path) -> None:
    os.mkfifo(path)


def plant_folder(path: Path) -> None:
    path.mkdir()


def plant_socket(path: Path) -> None:
    # The name of a socket is short, that of a temporary folder is not.
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def plant_hard_link(path: Path) -> None:
    victim = path.parents[1] / "secret"
    victim.write_bytes(a_file())
    os.link(victim, path)


def plant_device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(path, 0o644 | 0o020000, os.makedev(1, 5))  # /dev/zero


PLANTS = (plant_link, plant_dangling_link, plant_fifo, plant_folder, plant_socket, plant_hard_link, plant_device)


@pytest.mark.requirement("D-READ-DEAD-LETTER", "D-READ-CONTINUES")
@pytest.mark.parametrize("plant", PLANTS, ids=[plant.__name__.removeprefix("plant_") for plant in PLANTS])
def test_what_is_no_regular_file_goes_to_the_dead_letters_and_blocks_nobody(
    rig: Rig, plant: Callable[[Path], None]
) -> None:
    """A50"""
    # Given something in the inbox that looks like a message, first in line
    plant(rig.path("codex") / "0.yaml")
    sent = rig.send()
    reader = rig.kernel("codex")

    # When the reader looks, and reads
    with not_blocked():
        listed = [item.file for item in drive(read.inbox(reader))]
        handed = [one.message.id for one in drained(reader)]

    # Then it is named as what it is, and the message behind it is handled
    assert sorted(listed) == ["0.yaml", sent.file]
    assert handed == [sent.message.id]
    assert reason(rig, "0.yaml") == "not_regular"
    assert os.path.lexists(rig.path("codex", "dead_letter") / "0.yaml")
    assert rig.files("codex") == []


def test_nothing_outside_the_mailbox_is_read_through_a_link(rig: Rig) -> None:
    """A50"""
    plant_link(rig.path("codex") / "0.yaml")
    reader = rig.kernel("codex")

    contents = {name: content for name, content, *_ in reader.inbox.peek(["0.yaml"])}

    assert isinstance(contents["0.yaml"], NotRegular)


BAD_NAMES = ("../../etc", "a/b", ".", "..", "con", "a" * 300, "\u0441laude", "codex\n", "", "codex\0", "-rf")


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_recipient_that_is_no_name_is_refused_and_nothing_is_made(rig: Rig, name: str) -> None:
    """A51; one begins with a Cyrillic letter"""
    before = sorted(rig.folder.rglob("*"))

    with pytest.raises(BadAgentName) as refusal:
        rig.send(to=(name,))

    assert refusal.value.code == "bad_agent_name"
    assert [path for path in sorted(rig.folder.rglob("*")) if ".parley" not in path.parts] == before


@pytest.mark.parametrize("step", ["inbox", "codex"])
def test_an_inbox_that_is_a_link_takes_nothing(rig: Rig, tmp_path: Path, step: str) -> None:
    """A52, and the same for a folder above: only the last part would be guarded by O_NOFOLLOW alone"""
    outside = tmp_path / "outside"
    (outside / "inbox").mkdir(parents=True)
    path = rig.path("codex") if step == "inbox" else rig.path("codex").parent
    path.rename(path.with_name("aside"))
    path.symlink_to(outside if step == "codex" else outside / "inbox")

    with pytest.raises(ParleyError) as refusal:
        rig.send()

    assert refusal.value.code in {"not_regular", "undelivered"}
    assert list((outside / "inbox").iterdir()) == []


def test_an_inbox_swapped_for_a_link_during_sends_leads_nothing_outside(rig: Rig, tmp_path: Path) -> None:
    """A52: while one process swaps, every send is in the real inbox, or refused"""
    outside = tmp_path / "outside"
    outside.mkdir()
    inbox, aside = rig.path("codex"), rig.path("codex", "aside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            inbox.rename(aside)
            inbox.symlink_to(outside)
            inbox.unlink()
            aside.rename(inbox)

    kernel = rig.kernel("claude")
    swapping = threading.Thread(target=swap)
    swapping.start()
    sent, refused = [], set()
    try:
        for number in range(60):
            try:
                sent.append(drive(sending.send(kernel, a_draft(subject=f"Number {number}"))).file)
            except ParleyError as error:
                refused.add(error.code)
    finally:
        over.set()
        swapping.join()

    assert list(outside.iterdir()) == []
    assert set(sent) <= set(rig.files("codex"))
    assert refused <= {"not_regular", "unknown_agent", "undelivered", "not_found"}


def test_a_user_who_floods_an_inbox_is_told_that_it_is_full(rig: Rig) -> None:
    """A65: n messages fit, n + 1 do not"""
    limits = DEFAULT_LIMITS._replace(inbox_messages=20)
    kernel = rig.kernel("claude", limits=limits)
    for number in range(20):
        drive(sending.send(kernel, a_draft(subject=f"Number {number}")))

    with pytest.raises(InboxFull) as refusal:
        drive(sending.send(kernel, a_draft(subject="One too many")))

    assert refusal.value.code == "inbox_full"
    assert len(rig.files("codex")) == 20
    reader = rig.kernel("codex")
    drive(claims.done(reader, claimed(reader).message.id))
    drive(sending.send(kernel, a_draft(subject="There is room again")))


def grown(path: Path) -> None:
    path.write_bytes(a_file() + b"#" * DEFAULT_LIMITS.file_bytes)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 30)


@pytest.mark.parametrize("make", [grown, sparse])
@pytest.mark.requirement("D-READ-SIZE")
def test_a_file_that_is_too_large_is_never_read_whole(rig: Rig, make: Callable[[Path], None]) -> None:
    """A65"""
    make(rig.path("codex") / "0.yaml")
    sent = rig.send()

    with not_blocked():
        handed = [one.message.id for one in drained(rig.kernel("codex"))]

    assert handed == [sent.message.id]
    assert reason(rig, "0.yaml") == "too_large"


def test_a_file_that_grows_while_it_is_read_is_cut_off_at_the_limit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A65: the size that was looked at is not the size that is read"""
    path = rig.path("codex") / "0.yaml"
    path.write_bytes(a_file())
    os_read = os.read

    def grow_then_read(fd: int, count: int) -> bytes:
        if path.exists() and os.fstat(fd).st_ino == path.stat().st_ino:
            os.truncate(path, os.fstat(fd).st_size + DEFAULT_LIMITS.file_bytes)
        return os_read(fd, count)

    monkeypatch.setattr(os, "read", grow_then_read)

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    assert reason(rig, "0.yaml") == "too_large"


def test_a_message_that_kills_its_readers_is_given_up_after_five_and_the_next_one_is_handled(rig: Rig) -> None:
    """A66"""
    # Given a message that five readers died of: each had it, none finished it
    poison = rig.send(priority=Priority.P0)
    for _ in range(5):
        reader = rig.kernel("codex")
        assert claimed(reader, None).message.id == poison.message.id
        reader.close()
    after = rig.send(subject="Behind it")

    # When a sixth one comes
    with not_blocked():
        handed = [one.message.id for one in drained(rig.kernel("codex"))]

    # Then it is given the next one
    assert handed == [after.message.id]
    assert reason(rig, poison.file) == "too_many_tries"
    assert rig.files("codex", "dead_letter") == [poison.file]


def test_a_lock_that_somebody_holds_for_ever_holds_up_no_other_message(rig: Rig) -> None:
    """A67"""
    held = rig.send(priority=Priority.P0)
    others = [rig.send(subject=f"Number {number}") for number in range(3)]
    reader = rig.kernel("codex")

    with open(rig.path("codex") / held.file, "rb") as file, not_blocked():
        fcntl.flock(file, fcntl.LOCK_EX)
        handed = [one.message.id for one in drained(reader)]

    assert sorted(handed) == sorted(one.message.id for one in others)
    assert [one.message.id for one in drained(reader)] == [held.message.id]


def test_a_lock_that_somebody_takes_after_the_claim_is_waited_for_a_moment_only(rig: Rig) -> None:
    """A67: whoever has the lease is told within seconds, and can finish when the lock is free"""
    sent = rig.send()
    reader = rig.kernel("codex")
    claimed(reader)

    with open(rig.path("codex") / sent.file, "rb") as file, not_blocked():
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ParleyError) as refusal:
            drive(claims.done(reader, sent.message.id))

    assert refusal.value.code == "already_claimed"
    assert drive(claims.done(reader, sent.message.id)).how == "archived"


def test_thousands_of_files_are_listed_within_moments(rig: Rig, full: bool) -> None:
    """A65; how fast exactly is measured elsewhere"""
    count = 10_000 if full else 2_000
    for number in range(count):
        (rig.path("codex") / f"{number}.yaml").write_bytes(a_file())

    with not_blocked():
        assert len(drive(read.inbox(rig.kernel("codex")))) == count


def test_a_lease_is_neither_immortal_nor_dead_when_the_clock_is_set(rig: Rig) -> None:
    """A clock that is set back, or ahead, ends no lease and keeps none alive."""
    sent = rig.send()
    claimed(rig.kernel("codex"))

    for jump in (timedelta(days=-400), timedelta(days=900)):
        rig.clock.at += jump
        assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    rig.clock.at -= timedelta(days=3_650)
    rig.clock.pass_by(minutes=31)

    assert claimed(rig.kernel("codex")).message.id == sent.message.id


def test_ids_and_names_stay_unique_when_the_clock_is_set_back(rig: Rig) -> None:
    sent = []
    for _ in range(3):
        sent += [rig.send(subject=f"Number {number}") for number in range(5)]
        rig.clock.at -= timedelta(hours=1)
        sent += [rig.send(subject=f"Number {number} again") for number in range(5)]
        rig.clock.at += timedelta(hours=1)

    assert len({one.message.id for one in sent}) == len({one.file for one in sent}) == len(sent)
    assert len(rig.files("codex")) == len(sent)
    assert sorted(one.message.id for one in drained(rig.kernel("codex"))) == sorted(one.message.id for one in sent)


def test_files_that_vanish_while_they_are_listed_are_passed_over(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another tool reads and deletes while we look."""
    sent = [rig.send(subject=f"Number {number}") for number in range(6)]
    vanishing = {one.file for one in sent[::2]}
    opening = os.open

    def delete_then_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path in vanishing:
            (rig.path("codex") / path).unlink(missing_ok=True)
        return opening(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", delete_then_open)
    reader = rig.kernel("codex")

    assert {item.file for item in drive(read.inbox(reader))} == {one.file for one in sent} - vanishing
    assert {one.file for one in drained(reader)} == {one.file for one in sent} - vanishing
    assert rig.files("codex", "dead_letter") == []


def test_a_temporary_file_that_a_dead_sender_left_is_no_message(rig: Rig) -> None:
    sent = rig.send()
    stray = rig.path("codex") / ".20260313T1430Z_claude_task_request.yaml.77-0.tmp"
    stray.write_bytes(a_file()[:20])

    handed = [one.message.id for one in drained(rig.kernel("codex"))]

    assert handed == [sent.message.id]
    assert stray.exists()
    assert rig.files("codex", "dead_letter") == []


def test_a_reader_drops_the_second_name_that_a_dead_sender_left(rig: Rig) -> None:
    """Without O_TMPFILE: the sender died between giving the final name and taking the temporary one away."""
    sent = rig.send()
    path = rig.path("codex") / sent.file
    os.link(path, path.with_name(f".{sent.file}.77-0.tmp"))

    handed = [one.message.id for one in drained(rig.kernel("codex"))]

    assert handed == [sent.message.id]
    assert [entry.name for entry in rig.path("codex").iterdir() if entry.name.endswith(".tmp")] == []
    assert rig.files("codex", "dead_letter") == []


def test_a_reader_waits_while_a_live_sender_still_has_two_names_for_a_file(rig: Rig) -> None:
    """Without O_TMPFILE: the sender's lock says that it is not dead."""
    sent = rig.send()
    path = rig.path("codex") / sent.file
    temporary = path.with_name(f".{sent.file}.77-0.tmp")
    os.link(path, temporary)
    reader = rig.kernel("codex")

    with open(temporary, "rb") as unsent:
        fcntl.flock(unsent, fcntl.LOCK_EX)
        assert drive(claims.claim_next(reader, HALF_AN_HOUR)) is None
        assert temporary.exists()
        temporary.unlink()

    assert [one.message.id for one in drained(reader)] == [sent.message.id]
