"""Ed25519, checked by the vectors of RFC 8032."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from parley.adapters.data.signatures import Ed25519Signatures, open_signer, read_public_key
from parley.domain.errors.errors import Invalid, Unavailable
from parley.domain.errors.team import UnsafeMode

# Section 7.1: test 1 (empty message) and test 2 (one byte).
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe"
            "24655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302a"
            "eeb00d291612bb0c00"
        ),
    ),
]


@pytest.mark.parametrize(("key", "content", "signature"), VECTORS)
def test_a_signature_fits_its_key_and_content_and_no_other(key: str, content: str, signature: str) -> None:
    raw, said, signed = bytes.fromhex(key), bytes.fromhex(content), bytes.fromhex(signature)
    signatures = Ed25519Signatures()

    assert signatures.verify(raw, signed, said)
    assert not signatures.verify(raw, signed, said + b"!")
    assert not signatures.verify(raw[::-1], signed, said)
    assert not signatures.verify(raw, signed[:-1] + b"\xff", said)


@pytest.mark.parametrize(
    ("seed", "vector"),
    [
        ("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", VECTORS[0]),
        ("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", VECTORS[1]),
    ],
)
def test_a_seed_gives_the_key_and_the_signature_that_the_rfc_says(seed: str, vector: tuple[str, str, str]) -> None:
    key, content, signature = vector
    signatures = Ed25519Signatures()

    assert signatures.public_key(bytes.fromhex(seed)).hex() == key
    assert signatures.sign(bytes.fromhex(seed), bytes.fromhex(content)).hex() == signature


@pytest.mark.parametrize(("key", "signature"), [(b"", b""), (b"\x00" * 31, b"\x00" * 64), (b"\x01" * 32, b"")])
def test_what_is_no_key_or_no_signature_fits_nothing(key: bytes, signature: bytes) -> None:
    assert not Ed25519Signatures().verify(key, signature, b"content")


def test_a_public_key_is_read_from_pem_and_nothing_else_is_taken_for_one() -> None:
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo

    assert read_public_key(key.public_bytes(*pem)) == key.public_bytes_raw()
    for content in (b"", b"no key", other.public_bytes(*pem)):
        with pytest.raises(Invalid, match="Ed25519"):
            read_public_key(content)


# ---------------------------------------------------------------- the key of a server


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
    (tmp_path / ".audit.key.1-0.tmp").write_text("half a k")

    key = open_signer(str(tmp_path)).public_key

    assert sorted(os.listdir(tmp_path)) == [".audit.key.1-0.tmp", "audit.key", "audit.pub"]
    assert open_signer(str(tmp_path)).public_key == key


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
