"""The file of saved logins on disk: private, whole or not there, and changed by one process at a time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.data.login_file import LoginFile
from parley.domain.errors.errors import BadConfig, Forbidden, ParleyError, Unavailable
from parley.domain.errors.team import UnsafeMode
from parley.domain.logins import Login, SavedLogins

ROOT = os.geteuid() == 0
NOBODY = 65534
LOCAL = Login("local", "http://127.0.0.1:8420", "pk_secret")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "config" / "parley"


@pytest.fixture
def plain_home() -> Iterator[Path]:
    """A home of a user to whom modes mean something: root could read and write everything."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        try:
            if ROOT:
                os.chown(home, NOBODY, NOBODY)
                os.seteuid(NOBODY)
            yield home
        finally:
            if ROOT:
                os.seteuid(0)
            home.chmod(0o700)


def save(folder: Path, login: Login = LOCAL) -> Path:
    file = LoginFile(str(folder))
    file.change(lambda saved: saved.with_login(login, use=True))
    return Path(file.path)


def test_without_a_file_there_are_no_logins(folder: Path) -> None:
    assert LoginFile(str(folder)).load() == SavedLogins()
    assert not folder.exists()


def test_a_login_is_saved_for_this_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        path = save(folder)
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [entry.name for entry in folder.iterdir()] == ["logins.json"]
    assert LoginFile(str(folder)).load() == SavedLogins("local", (LOCAL,))


def test_a_folder_that_others_can_read_is_closed_when_a_login_is_saved(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)

    save(folder)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused(folder: Path, mode: int) -> None:
    path = save(folder)
    path.chmod(mode)

    with pytest.raises(UnsafeMode) as refused:
        LoginFile(str(folder)).load()

    assert refused.value.message == f"{path} can be read by other users"
    assert refused.value.hint == f"chmod 600 {path}; others may know its keys: see parley key rotate"


def test_a_folder_that_others_can_write_is_refused(folder: Path) -> None:
    save(folder)
    folder.chmod(0o770)

    with pytest.raises(UnsafeMode) as refused:
        LoginFile(str(folder)).load()

    assert (refused.value.message, refused.value.hint) == (
        f"{folder} can be written by other users",
        f"chmod 700 {folder}",
    )


def test_a_link_is_neither_read_nor_written_through(folder: Path, tmp_path: Path) -> None:
    path = save(folder)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    before = elsewhere.read_bytes()
    path.symlink_to(elsewhere)

    for act in (LoginFile(str(folder)).load, lambda: save(folder)):
        with pytest.raises(UnsafeMode) as refused:
            act()
        assert refused.value.message == f"{path} is a link"
        assert refused.value.hint == "remove it and log in again: parley login URL"
    assert elsewhere.read_bytes() == before


def test_what_is_no_file_is_refused(folder: Path) -> None:
    (folder / "logins.json").mkdir(parents=True)

    with pytest.raises(UnsafeMode, match="is not a file"):
        LoginFile(str(folder)).load()


def test_a_file_that_cannot_be_read_is_named(plain_home: Path) -> None:
    path = save(plain_home / "parley")
    path.chmod(0)

    with pytest.raises(BadConfig) as refused:
        LoginFile(str(plain_home / "parley")).load()

    assert (refused.value.message, refused.value.hint) == (f"{path}: Permission denied", f"chmod 600 {path}")


def test_a_folder_that_cannot_be_written_is_named(plain_home: Path) -> None:
    plain_home.chmod(0o500)

    with pytest.raises(Forbidden) as refused:
        save(plain_home / ".config" / "parley")

    assert refused.value.message == f"{plain_home}/.config/parley: Permission denied"


def test_a_file_of_another_user_is_refused(plain_home: Path) -> None:
    path = save(plain_home / "parley")
    if ROOT:
        os.seteuid(0)
        os.chown(path, 0, 0)
        path.chmod(0o644)
        os.seteuid(NOBODY)
        with pytest.raises(UnsafeMode) as refused:
            LoginFile(str(plain_home / "parley")).load()
        assert refused.value.message == f"{path} belongs to another user"


def test_without_a_home_nothing_is_saved() -> None:
    with pytest.raises(Unavailable) as refused:
        LoginFile("").change(lambda saved: saved)

    assert (refused.value.message, refused.value.hint) == (
        "there is no home directory to save logins in",
        "set HOME or XDG_CONFIG_HOME",
    )
    assert LoginFile("").load() == SavedLogins()


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")

    assert LoginFile(str(tmp_path / "config" / "parley")).load() == SavedLogins()
    with pytest.raises(ParleyError, match="config is not a directory"):
        save(tmp_path / "config" / "parley")


def test_a_refused_change_leaves_the_file_as_it_was(folder: Path) -> None:
    before = save(folder).read_bytes()

    def refuse(saved: SavedLogins) -> SavedLogins:
        raise Unavailable("no")

    with pytest.raises(Unavailable):
        LoginFile(str(folder)).change(refuse)
    assert (folder / "logins.json").read_bytes() == before


def test_processes_that_save_at_the_same_time_lose_nothing(folder: Path) -> None:
    code = """if True:
        import sys
        from parley.adapters.data.login_file import LoginFile
        from parley.domain.logins import Login
        for n in range(10):
            login = Login(f"{sys.argv[2]}-{n}", "http://x", "k")
            LoginFile(sys.argv[1]).change(lambda saved: saved.with_login(login, use=True))
    """
    processes = [subprocess.Popen([sys.executable, "-c", code, str(folder), name]) for name in "abcd"]
    assert [process.wait(60) for process in processes] == [0] * 4

    assert len(LoginFile(str(folder)).load().logins) == 40
