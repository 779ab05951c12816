"""One agent's own files: looked at without a trace, held under a lock, moved once."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from parley.adapters.files import inbox as module
from parley.adapters.files.inbox import FileInbox
from parley.adapters.files.workspace import Workspace
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import (
    AlreadyClaimed,
    DiskFull,
    Forbidden,
    NotFound,
    NotRegular,
    NotText,
    ParleyError,
    TooLarge,
    Unavailable,
)
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.mailbox.listing import RefusedFile
from tests.rigs.open_files import opened_below

LIMITS = DEFAULT_LIMITS._replace(file_bytes=100)


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    folder = tmp_path / "projects" / "demo" / "agents" / "codex"
    (folder / "inbox").mkdir(parents=True)
    return folder


@pytest.fixture
def inbox(tmp_path: Path, agent: Path) -> FileInbox:
    workspace = Workspace(str(tmp_path), "demo")
    return FileInbox(workspace, workspace.agent("codex"), LIMITS)


def put(agent: Path, name: str = "a.yaml", content: bytes = b"content") -> Path:
    path = agent / "inbox" / name
    path.write_bytes(content)
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} if folder.is_dir() else {}


# ---------------------------------------------------------------- looking


def test_names_are_those_of_yaml_files_each_with_the_number_of_its_file(inbox: FileInbox, agent: Path) -> None:
    path = put(agent)
    put(agent, ".hidden.yaml")
    put(agent, "readme.md")
    put(agent, ".a.yaml.1-0.tmp")

    assert sorted(drive(inbox.names())) == sorted(
        [("a.yaml", path.stat().st_ino), (".hidden.yaml", (agent / "inbox" / ".hidden.yaml").stat().st_ino)]
    )


def test_peeking_and_listing_agree_on_the_number_of_a_file(inbox: FileInbox, agent: Path) -> None:
    put(agent)

    [(name, number)] = drive(inbox.names(exact=True))

    assert [(peeked[0], peeked[3]) for peeked in inbox.peek(["a.yaml"])] == [(name, number)]


def test_looking_makes_no_folder(inbox: FileInbox, agent: Path) -> None:
    assert drive(inbox.names("archive")) == drive(inbox.names("outbox")) == []
    assert [path.name for path in agent.rglob("*")] == ["inbox"]


def test_an_inbox_that_is_not_there_is_an_error(inbox: FileInbox, agent: Path) -> None:
    (agent / "inbox").rmdir()

    with pytest.raises(NotFound):
        drive(inbox.names())


def test_peeking_tells_the_bytes_or_why_not_and_passes_over_what_vanished(inbox: FileInbox, agent: Path) -> None:
    put(agent)
    put(agent, "full.yaml", b"x" * 100)
    put(agent, "over.yaml", b"x" * 101)
    (agent / "inbox" / "link.yaml").symlink_to("a.yaml")
    os.mkfifo(agent / "inbox" / "fifo.yaml")
    names = ["a.yaml", "full.yaml", "over.yaml", "link.yaml", "fifo.yaml", "gone.yaml"]

    seen = {name: content for name, content, *_ in inbox.peek(names)}

    assert (seen.pop("a.yaml"), seen.pop("full.yaml")) == (b"content", b"x" * 100)
    assert {name: type(error) for name, error in seen.items()} == {
        "over.yaml": TooLarge,
        "link.yaml": NotRegular,
        "fifo.yaml": NotRegular,
    }


def test_peeking_takes_no_lock(inbox: FileInbox, agent: Path) -> None:
    put(agent)
    held = drive(inbox.take("a.yaml"))

    assert [peeked[:3] for peeked in inbox.peek(["a.yaml"])] == [("a.yaml", b"content", os.geteuid())]
    assert held is not None
    held.release()


def test_a_stranger_s_hard_link_is_not_shown_as_a_message(inbox: FileInbox, agent: Path, tmp_path: Path) -> None:
    os.link(put(agent), tmp_path / "elsewhere")

    [(_, error, *_)] = inbox.peek(["a.yaml"])

    assert isinstance(error, NotRegular)


@pytest.mark.parametrize("second", [".a.yaml.1-0.tmp", "archive/a.yaml"])
def test_a_second_name_that_delivering_or_archiving_gives_for_a_moment_is_none_of_a_stranger(
    inbox: FileInbox, agent: Path, second: str
) -> None:
    (agent / "inbox" / "archive").mkdir()
    os.link(put(agent), agent / "inbox" / second)

    assert [peeked[:3] for peeked in inbox.peek(["a.yaml"])] == [("a.yaml", b"content", os.geteuid())]


def test_a_pulse_changes_with_the_inbox(inbox: FileInbox, agent: Path) -> None:
    before = inbox.pulse()
    put(agent)
    os.utime(agent / "inbox", ns=(0, 1))

    assert inbox.pulse() != before
    assert inbox.pulse() == inbox.pulse()


# ---------------------------------------------------------------- taking


def test_a_taken_file_is_read_once_and_locked_until_it_is_released(inbox: FileInbox, agent: Path) -> None:
    path = put(agent)

    held = drive(inbox.take("a.yaml"))

    assert held is not None
    assert (held.name, held.content, held.owner) == ("a.yaml", b"content", path.stat().st_uid)
    with pytest.raises(AlreadyClaimed):
        drive(inbox.take("a.yaml"))
    held.release()
    held.release()
    again = drive(inbox.take("a.yaml"))
    assert again is not None
    again.release()


def test_a_file_that_is_gone_is_nothing_to_take(inbox: FileInbox) -> None:
    assert drive(inbox.take("a.yaml")) is None


@pytest.mark.parametrize("when", ["before it is opened", "before it is locked", "and another has its name"])
def test_a_file_that_is_moved_away_while_we_reach_for_it_is_nothing_to_take(
    inbox: FileInbox, agent: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(agent)
    opening, lock = os.open, fcntl.flock

    def move_then_open(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == "a.yaml" and when == "before it is opened":
            path.unlink()
        return opening(name, flags, mode, dir_fd=dir_fd)

    def move_then_lock(fd: int, how: int) -> None:
        if when != "before it is opened":
            path.unlink()
        if when == "and another has its name":
            put(agent, content=b"another")
        lock(fd, how)

    monkeypatch.setattr(os, "open", move_then_open)
    monkeypatch.setattr(fcntl, "flock", move_then_lock)

    assert drive(inbox.take("a.yaml")) is None


def test_who_may_wait_gets_a_file_when_a_rival_lets_go_of_it(
    inbox: FileInbox, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(agent)
    rival = drive(inbox.take("a.yaml"))
    assert rival is not None
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            rival.release()

    monkeypatch.setattr("time.sleep", pause)
    held = drive(inbox.take("a.yaml", wait=True))

    assert held is not None
    assert len(pauses) == 3
    held.release()


def test_who_may_wait_does_not_wait_for_ever(inbox: FileInbox, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A67"""
    put(agent)
    rival = drive(inbox.take("a.yaml"))
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)

    with pytest.raises(AlreadyClaimed):
        drive(inbox.take("a.yaml", wait=True))

    assert 1 < sum(pauses) < 5
    assert rival is not None
    rival.release()


def test_a_file_system_without_locks_is_told(inbox: FileInbox, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(agent)

    def refuse(_fd: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "raw")

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(Unavailable):
        drive(inbox.take("a.yaml"))


def test_a_file_of_the_largest_size_is_taken_and_one_byte_more_is_not(inbox: FileInbox, agent: Path) -> None:
    put(agent, "full.yaml", b"x" * 100)
    put(agent, "over.yaml", b"x" * 101)

    held = drive(inbox.take("full.yaml"))
    assert held is not None
    held.release()
    with pytest.raises(TooLarge):
        drive(inbox.take("over.yaml"))


def test_no_setting_lets_a_file_be_larger_than_the_hard_limit(tmp_path: Path, agent: Path) -> None:
    workspace = Workspace(str(tmp_path), "demo")
    limits = DEFAULT_LIMITS._replace(file_bytes=10 * 1024 * 1024)
    inbox = FileInbox(workspace, workspace.agent("codex"), limits)
    put(agent, content=b"x" * (1024 * 1024 + 1))

    with pytest.raises(TooLarge):
        drive(inbox.take("a.yaml"))


def test_what_is_refused_is_not_left_locked(inbox: FileInbox, agent: Path) -> None:
    path = put(agent, content=b"x" * 101)
    before = opened_below(agent)
    for _ in range(3):
        with pytest.raises(TooLarge):
            drive(inbox.take("a.yaml"))

    assert opened_below(agent) == before
    path.write_bytes(b"short")
    held = drive(inbox.take("a.yaml"))
    assert held is not None
    held.release()


def test_a_file_that_may_not_be_read_is_forbidden(
    inbox: FileInbox, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(agent)
    opening = os.open

    def refuse(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == "a.yaml":
            raise PermissionError(errno.EACCES, "raw")
        return opening(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(Forbidden):
        drive(inbox.take("a.yaml"))
    [(_, error, *_)] = inbox.peek(["a.yaml"])
    assert isinstance(error, Forbidden)


def test_a_file_name_that_is_no_text_is_told_as_one(inbox: FileInbox, agent: Path) -> None:
    name = os.fsdecode(b"\xff.yaml")
    put(agent, name)

    with pytest.raises(NotText):
        drive(inbox.take(name))
    [(_, error, *_)] = inbox.peek([name])
    assert isinstance(error, NotText)


# ---------------------------------------------------------------- moving


def test_archiving_moves_the_file_with_its_bytes(inbox: FileInbox, agent: Path) -> None:
    number = put(agent).stat().st_ino

    drive(inbox.archive("a.yaml", b"content"))

    assert files(agent / "inbox") == {}
    assert files(agent / "inbox" / "archive") == {"a.yaml": b"content"}
    assert (agent / "inbox" / "archive" / "a.yaml").stat().st_ino == number
    assert drive(inbox.archived("a.yaml", b"content"))
    assert not drive(inbox.archived("a.yaml", b"other"))


def test_the_archive_is_durable_before_the_inbox_forgets(
    inbox: FileInbox, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(agent)
    order = []
    fsync, unlink = os.fsync, os.unlink

    def seen_fsync(fd: int) -> None:
        order.append(os.readlink(f"/proc/self/fd/{fd}").rsplit("/", 1)[-1])
        fsync(fd)

    def seen_unlink(name: str, *, dir_fd: int | None = None) -> None:
        order.append(f"unlink {name}")
        unlink(name, dir_fd=dir_fd)

    (agent / "inbox" / "archive").mkdir()
    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "unlink", seen_unlink)

    drive(inbox.archive("a.yaml", b"content"))

    assert order == ["archive", "unlink a.yaml", "inbox"]


def test_another_message_in_the_archive_keeps_its_name(inbox: FileInbox, agent: Path) -> None:
    for content in (b"first", b"second", b"third"):
        put(agent, content=content)
        drive(inbox.archive("a.yaml", content))

    assert files(agent / "inbox" / "archive") == {"a.yaml": b"first", "a_2.yaml": b"second", "a_3.yaml": b"third"}


def test_archiving_what_is_archived_already_only_takes_it_from_the_inbox(inbox: FileInbox, agent: Path) -> None:
    for _ in range(2):
        put(agent)
        drive(inbox.archive("a.yaml", b"content"))

    assert files(agent / "inbox") == {}
    assert files(agent / "inbox" / "archive") == {"a.yaml": b"content"}


def test_archiving_what_another_tool_removed_is_no_error(inbox: FileInbox, agent: Path) -> None:
    drive(inbox.archive("a.yaml", b"content"))

    assert files(agent / "inbox" / "archive") == {}
    assert not drive(inbox.archived("a.yaml", b"content"))


@pytest.mark.parametrize("number", sorted(module._NO_LINK))
def test_a_file_that_may_not_be_linked_is_copied_into_the_archive(
    inbox: FileInbox, agent: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def refuse(source: str, *arguments: str, **options: int) -> None:
        if source == "a.yaml":
            raise OSError(number, "raw")
        link(source, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", refuse)
    for content in (b"first", b"second", b"second"):
        put(agent, content=content)
        drive(inbox.archive("a.yaml", content))

    assert files(agent / "inbox") == {}
    assert files(agent / "inbox" / "archive") == {"a.yaml": b"first", "a_2.yaml": b"second"}


def test_an_archive_that_is_full_leaves_the_message_in_the_inbox(
    inbox: FileInbox, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(agent)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "raw")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(DiskFull):
        drive(inbox.archive("a.yaml", b"content"))

    assert files(agent / "inbox") == {"a.yaml": b"content"}


def test_what_was_processed_is_preserved_once_beside_others_of_its_name(inbox: FileInbox, agent: Path) -> None:
    for content in (b"first", b"second", b"second"):
        drive(inbox.preserve("a.yaml", content))

    assert files(agent / "inbox" / "archive") == {"a.yaml": b"first", "a_2.yaml": b"second"}


def test_deleting_twice_is_no_error(inbox: FileInbox, agent: Path) -> None:
    put(agent)

    drive(inbox.delete("a.yaml"))
    drive(inbox.delete("a.yaml"))

    assert files(agent / "inbox") == {}


def refused(file: str, code: str, detail: str, at: str) -> RefusedFile:
    return RefusedFile(file, "inbox", code, detail, at)


def test_a_dead_letter_lies_beside_its_reason(inbox: FileInbox, agent: Path) -> None:
    put(agent, content=b"bad")

    drive(inbox.bury(refused("a.yaml", "not_yaml", "it is not YAML", "2026-03-13T14:30:00Z")))

    dead = files(agent / "dead_letter")
    assert dead["a.yaml"] == b"bad"
    assert json.loads(dead["a.yaml.reason.json"]) == {
        "file": "a.yaml",
        "code": "not_yaml",
        "detail": "it is not YAML",
        "at": "2026-03-13T14:30:00Z",
    }
    assert (agent / "dead_letter").stat().st_mode & 0o777 == 0o700


def test_dead_letters_of_one_name_are_all_kept(inbox: FileInbox, agent: Path) -> None:
    for content in (b"1", b"2", b"3"):
        put(agent, content=content)
        drive(inbox.bury(refused("a.yaml", "not_yaml", "", "")))

    dead = files(agent / "dead_letter")
    assert (dead["a.yaml"], dead["a_2.yaml"], dead["a_3.yaml"]) == (b"1", b"2", b"3")
    assert len(dead) == 6


def test_a_name_without_an_ending_is_numbered_too(inbox: FileInbox, agent: Path) -> None:
    for content in (b"1", b"2"):
        put(agent, "odd", content)
        drive(inbox.bury(refused("odd", "not_yaml", "", "")))

    assert {"odd", "odd_2"} <= set(files(agent / "dead_letter"))


def test_a_reason_that_a_crash_left_alone_keeps_its_name(inbox: FileInbox, agent: Path) -> None:
    """A reader died between writing the reason and moving the file."""
    (agent / "dead_letter").mkdir()
    (agent / "dead_letter" / "a.yaml.reason.json").write_text("{}")
    put(agent, content=b"bad")

    drive(inbox.bury(refused("a.yaml", "not_yaml", "", "")))

    assert set(files(agent / "dead_letter")) == {"a.yaml.reason.json", "a_2.yaml", "a_2.yaml.reason.json"}


def test_burying_what_a_rival_buried_leaves_no_reason_without_a_file(inbox: FileInbox, agent: Path) -> None:
    drive(inbox.bury(refused("a.yaml", "not_yaml", "", "")))

    assert files(agent / "dead_letter") == {}


def test_dead_letters_that_cannot_be_moved_stay_where_they_are(
    inbox: FileInbox, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(agent, content=b"bad")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "raw")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(ParleyError):
        drive(inbox.bury(refused("a.yaml", "not_yaml", "", "")))

    assert files(agent / "inbox") == {"a.yaml": b"bad"}
    assert files(agent / "dead_letter") == {}


# ---------------------------------------------------------------- after a crash


def test_the_temporary_name_that_a_dead_sender_left_is_dropped(inbox: FileInbox, agent: Path) -> None:
    path = put(agent)
    os.link(path, path.with_name(".a.yaml.1-0.tmp"))

    held = drive(inbox.take("a.yaml"))

    assert held is not None
    held.release()
    assert path.stat().st_nlink == 1


def test_a_file_with_a_temporary_name_and_a_strangers_is_refused(inbox: FileInbox, agent: Path, tmp_path: Path) -> None:
    path = put(agent)
    os.link(path, path.with_name(".a.yaml.1-0.tmp"))
    os.link(path, tmp_path / "elsewhere")

    with pytest.raises(NotRegular):
        drive(inbox.take("a.yaml"))


def test_a_file_that_a_dead_reader_had_archived_is_taken_again(inbox: FileInbox, agent: Path) -> None:
    (agent / "inbox" / "archive").mkdir()
    os.link(put(agent), agent / "inbox" / "archive" / "a.yaml")

    held = drive(inbox.take("a.yaml"))
    assert held is not None
    drive(inbox.archive("a.yaml", held.content))
    held.release()

    assert files(agent / "inbox") == {}
    assert files(agent / "inbox" / "archive") == {"a.yaml": b"content"}


# ---------------------------------------------------------------- owners and packets


def test_the_owner_of_an_agent_is_that_of_its_folder(inbox: FileInbox, agent: Path) -> None:
    (agent.parent / "linked").symlink_to(agent)

    assert inbox.owner_of("codex") == agent.stat().st_uid
    assert inbox.owner_of("nobody") is None
    assert inbox.owner_of("linked") is None


def test_a_packet_is_a_regular_file_inside_the_project(inbox: FileInbox, agent: Path, tmp_path: Path) -> None:
    project = tmp_path / "projects" / "demo"
    (project / "packets").mkdir()
    (project / "packets" / "one.yaml").write_bytes(b"packet")
    (project / "packets" / "large.yaml").write_bytes(b"x" * 101)
    (project / "packets" / "link.yaml").symlink_to("/etc/passwd")
    os.mkfifo(project / "packets" / "fifo.yaml")

    assert inbox.packet("packets/one.yaml") == b"packet"
    assert inbox.packet("packets/none.yaml") is None
    assert inbox.packet("nowhere/one.yaml") is None
    with pytest.raises(TooLarge):
        inbox.packet("packets/large.yaml")
    for path in ("packets/link.yaml", "packets/fifo.yaml", "../../secret", "packets/../../x", "/etc/passwd"):
        with pytest.raises(NotRegular):
            inbox.packet(path)
