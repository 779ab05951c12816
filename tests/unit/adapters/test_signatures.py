"""Ed25519, checked by the vectors of RFC 8032."""

from __future__ import annotations

import pytest

from parley.adapters.signatures import Ed25519Signatures

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


@pytest.mark.parametrize(("key", "signature"), [(b"", b""), (b"\x00" * 31, b"\x00" * 64), (b"\x01" * 32, b"")])
def test_what_is_no_key_or_no_signature_fits_nothing(key: bytes, signature: bytes) -> None:
    assert not Ed25519Signatures().verify(key, signature, b"content")
