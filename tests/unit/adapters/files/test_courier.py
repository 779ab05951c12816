"""Carrying files into other agents' inboxes, and the lock that tells a dead sender from a live one."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from parley.adapters.files import courier as module
from parley.adapters.files.courier import FileCourier
from parley.adapters.files.workspace import Workspace
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import Forbidden, InboxFull, NameExists, NotRegular, Unavailable, UnknownAgent
from parley.domain.limits import DEFAULT_LIMITS
from tests.rigs.open_files import opened_below

NAME = "20260313T1430Z_claude_task_request.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    agents = tmp_path / "projects" / "demo" / "agents"
    for name in ("claude", "codex", "gemini"):
        (agents / name / "inbox").mkdir(parents=True)
    return agents


@pytest.fixture
def courier(tmp_path: Path, project: Path) -> FileCourier:
    return FileCourier(Workspace(str(tmp_path), "demo"), "claude")


def test_a_file_is_delivered_whole(courier: FileCourier, project: Path) -> None:
    drive(courier.deliver("codex", NAME, b"content"))

    assert (project / "codex" / "inbox" / NAME).read_bytes() == b"content"


def test_the_same_file_again_counts_as_delivered_and_is_made_durable(
    courier: FileCourier, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recovery does not know how far the sender came; perhaps it died before the folder was synced."""
    drive(courier.deliver("codex", NAME, b"content"))
    synced = []
    fsync = os.fsync

    def seen(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", seen)

    drive(courier.deliver("codex", NAME, b"content"))

    assert str(project / "codex" / "inbox") in synced
    assert len(list((project / "codex" / "inbox").iterdir())) == 1


@pytest.mark.parametrize("other", [b"contenT", b"content and more", b""])
def test_another_file_of_that_name_is_an_error_and_stays(courier: FileCourier, project: Path, other: bytes) -> None:
    (project / "codex" / "inbox" / NAME).write_bytes(other)

    with pytest.raises(NameExists):
        drive(courier.deliver("codex", NAME, b"content"))

    assert (project / "codex" / "inbox" / NAME).read_bytes() == other


def test_a_link_to_the_same_content_is_not_the_same_file(courier: FileCourier, project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"content")
    (project / "codex" / "inbox" / NAME).symlink_to(tmp_path / "outside")

    with pytest.raises(NameExists):
        drive(courier.deliver("codex", NAME, b"content"))


def test_a_file_that_may_not_be_read_is_not_surely_the_same(
    courier: FileCourier, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive(courier.deliver("codex", NAME, b"content"))
    opening = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == NAME:
            raise PermissionError(errno.EACCES, "raw")
        return opening(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(NameExists):
        drive(courier.deliver("codex", NAME, b"content"))


def test_nothing_is_made_for_an_agent_that_is_not_there(courier: FileCourier, project: Path) -> None:
    (project / "half").mkdir()

    for name in ("nobody", "half"):
        with pytest.raises(UnknownAgent, match=name):
            drive(courier.deliver(name, NAME, b"content"))
        with pytest.raises(UnknownAgent):
            drive(courier.taken(("codex", name), NAME))

    assert not (project / "nobody").exists()
    assert list((project / "half").iterdir()) == []


def test_a_name_is_taken_in_any_of_the_inboxes_or_in_my_outbox(courier: FileCourier, project: Path) -> None:
    both = ("codex", "gemini")
    assert not drive(courier.taken(both, NAME))

    (project / "gemini" / "inbox" / NAME).touch()
    assert drive(courier.taken(both, NAME))
    assert not drive(courier.taken(("codex",), NAME))

    drive(courier.keep_copy(NAME, b"content"))
    assert drive(courier.taken(("codex",), NAME))


def test_the_copy_in_the_outbox_is_exactly_the_file_or_it_is_none(courier: FileCourier, project: Path) -> None:
    assert not drive(courier.has_copy(NAME, b"content"))

    drive(courier.keep_copy(NAME, b"content"))
    drive(courier.keep_copy(NAME, b"content"))

    assert drive(courier.has_copy(NAME, b"content"))
    assert not drive(courier.has_copy(NAME, b"contenT"))
    assert (project / "claude" / "outbox").stat().st_mode & 0o777 == 0o700
    with pytest.raises(NameExists):
        drive(courier.keep_copy(NAME, b"contenT"))


def test_an_inbox_takes_as_many_messages_of_one_user_as_the_limit_says(tmp_path: Path, project: Path) -> None:
    """A65: at n and at n + 1"""
    limits = DEFAULT_LIMITS._replace(inbox_messages=3)
    courier = FileCourier(Workspace(str(tmp_path), "demo"), "claude", limits)
    (project / "codex" / "inbox" / "no-message.txt").touch()
    for number in range(3):
        drive(courier.deliver("codex", f"{number}.yaml", b"x"))

    with pytest.raises(InboxFull):
        drive(courier.deliver("codex", "3.yaml", b"x"))

    (project / "codex" / "inbox" / "0.yaml").unlink()
    drive(courier.deliver("codex", "3.yaml", b"x"))


def test_messages_of_other_users_do_not_count_as_mine(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = DEFAULT_LIMITS._replace(inbox_messages=2)
    courier = FileCourier(Workspace(str(tmp_path), "demo"), "claude", limits)
    for number in range(4):
        (project / "codex" / "inbox" / f"{number}.yaml").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)

    drive(courier.deliver("codex", "mine.yaml", b"x"))


def test_senders_share_a_lock_that_recovery_wants_alone(tmp_path: Path, courier: FileCourier) -> None:
    other = FileCourier(Workspace(str(tmp_path), "demo"), "claude")

    with courier.sending(), other.sending(), courier.alone() as alone:
        assert alone is False
    with courier.alone() as alone, other.alone() as also_alone:
        assert (alone, also_alone) == (True, False)
    with courier.alone() as alone:
        assert alone is True


def test_the_lock_of_one_agent_does_not_hold_up_another(tmp_path: Path, courier: FileCourier) -> None:
    other = FileCourier(Workspace(str(tmp_path), "demo"), "codex")

    with courier.sending(), other.alone() as alone:
        assert alone


def test_a_file_system_without_locks_is_told(courier: FileCourier, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoLocks:
        """`fcntl` of a file system that has no locks."""

        LOCK_SH, LOCK_EX, LOCK_NB = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_NB

        @staticmethod
        def flock(_fd: int, _how: int) -> None:
            raise OSError(errno.ENOLCK, "raw")

    monkeypatch.setattr(module, "fcntl", NoLocks)

    with pytest.raises(Unavailable, match=r"sending\.lock"), courier.sending():
        pass
    with pytest.raises(Unavailable), courier.alone():
        pass


def test_a_folder_that_was_swapped_for_a_link_is_noticed_though_it_was_open(
    courier: FileCourier, project: Path, tmp_path: Path
) -> None:
    """A52"""
    drive(courier.deliver("codex", NAME, b"content"))
    inbox = project / "codex" / "inbox"
    inbox.rename(project / "codex" / "aside")
    (tmp_path / "outside").mkdir()
    inbox.symlink_to(tmp_path / "outside")

    with pytest.raises(NotRegular):
        drive(courier.deliver("codex", "another.yaml", b"content"))

    assert list((tmp_path / "outside").iterdir()) == []


def test_a_folder_that_was_replaced_is_opened_anew(courier: FileCourier, project: Path) -> None:
    drive(courier.deliver("codex", NAME, b"content"))
    inbox = project / "codex" / "inbox"
    inbox.rename(project / "codex" / "aside")
    inbox.mkdir()

    drive(courier.deliver("codex", "another.yaml", b"content"))

    assert [path.name for path in inbox.iterdir()] == ["another.yaml"]


def test_many_recipients_leave_few_folders_open(tmp_path: Path, project: Path) -> None:
    courier = FileCourier(Workspace(str(tmp_path), "demo"), "claude")
    for number in range(100):
        (project / f"agent{number}" / "inbox").mkdir(parents=True)
    for number in range(100):
        drive(courier.deliver(f"agent{number}", NAME, b"content"))

    assert 0 < len(opened_below(project)) <= 33


def test_an_inbox_that_refuses_is_told(courier: FileCourier, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & (os.O_CREAT | os.O_TMPFILE) and flags & os.O_WRONLY:
            raise PermissionError(errno.EACCES, "raw")
        return opening(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(Forbidden):
        drive(courier.deliver("codex", NAME, b"content"))
