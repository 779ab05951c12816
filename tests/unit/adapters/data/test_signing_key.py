from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from parley.adapters.data.signatures import Ed25519Signatures, read_public_key
from parley.adapters.data.signing_key import open_signer
from parley.domain.errors.errors import Unavailable
from parley.domain.errors.team import UnsafeMode


def test_the_first_start_makes_a_key_that_nobody_else_can_read(tmp_path: Path) -> None:
    signer = open_signer(str(tmp_path))

    modes = {name: stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in os.listdir(tmp_path)}
    assert modes == {"audit.key": 0o600, "audit.pub": 0o600}
    assert read_public_key((tmp_path / "audit.pub").read_bytes()) == signer.public_key


def test_later_starts_sign_with_the_same_key(tmp_path: Path) -> None:
    first, second = open_signer(str(tmp_path)), open_signer(str(tmp_path))

    signature = second.sign(b"a statement")

    assert first.public_key == second.public_key
    assert Ed25519Signatures().verify(first.public_key, signature, b"a statement")
    assert not Ed25519Signatures().verify(first.public_key, signature, b"another")


def test_each_server_has_a_key_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    assert open_signer(str(tmp_path / "a")).public_key != open_signer(str(tmp_path / "b")).public_key


def test_a_public_part_that_was_lost_or_changed_is_written_again(tmp_path: Path) -> None:
    key = open_signer(str(tmp_path)).public_key
    (tmp_path / "audit.pub").write_text("something else")

    open_signer(str(tmp_path))

    assert read_public_key((tmp_path / "audit.pub").read_bytes()) == key


def test_a_start_that_was_interrupted_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "audit.key.new").write_text("half a k")

    open_signer(str(tmp_path))

    assert sorted(os.listdir(tmp_path)) == ["audit.key", "audit.pub"]


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    open_signer(str(tmp_path))
    os.chmod(tmp_path / "audit.key", 0o640)

    with pytest.raises(UnsafeMode, match=r"audit\.key"):
        open_signer(str(tmp_path))


def test_a_link_in_the_place_of_the_key_is_refused(tmp_path: Path) -> None:
    open_signer(str(tmp_path))
    os.rename(tmp_path / "audit.key", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", tmp_path / "audit.key")

    with pytest.raises(UnsafeMode):
        open_signer(str(tmp_path))


def test_what_is_no_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    path.write_text("no key")
    path.chmod(0o600)

    with pytest.raises(Unavailable, match="no Ed25519 key"):
        open_signer(str(tmp_path))

    assert path.read_text() == "no key"


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        open_signer(str(tmp_path / "nowhere"))
