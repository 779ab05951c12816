"""SHA-256 of contents, and the links of hash chains."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def digest(content: bytes) -> str:
    """SHA-256 of the bytes as they are."""
    text: str = _sha256()(content).hexdigest()
    return text


def chained(previous: bytes, document: bytes) -> bytes:
    """The link of an entry that is spelled out already."""
    link: bytes = _sha256()(b"\x00" + previous + document).digest()
    return link


@cache
def _sha256() -> Callable[[bytes], Any]:
    """Python's own SHA-256 where it has one: with `hashlib` comes OpenSSL, which takes as long to load as to send."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # since 3.12
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    own: Callable[[bytes], Any] = sha256
    return own
