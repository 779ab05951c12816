import hashlib

from parley.domain.hashes import chained, digest


def test_a_digest_is_the_sha256_of_the_bytes() -> None:
    assert digest(b"mail") == hashlib.sha256(b"mail").hexdigest()


def test_a_link_depends_on_the_link_before_it() -> None:
    first, second = chained(b"\x00" * 32, b"{}"), chained(b"\x01" * 32, b"{}")

    assert first == hashlib.sha256(b"\x00" + b"\x00" * 32 + b"{}").digest()
    assert first != second
