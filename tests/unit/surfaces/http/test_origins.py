"""Which names a server answers to, and which web pages may call it."""

from __future__ import annotations

import pytest

from parley.surfaces.http.http1.message import Request
from parley.surfaces.http.origins import LOCAL_NAMES, Origins


def is_refused(origins: Origins, host: str, origin: str = "") -> bool:
    headers = {b"host": host.encode()}
    if origin:
        headers[b"origin"] = origin.encode()
    return origins.refusal(Request("GET", "/", headers=headers)) is not None


@pytest.mark.parametrize(
    ("origin", "refused"),
    [
        ("http://localhost:8420", False),
        ("HTTP://LOCALHOST:8420", False),
        ("http://localhost:8421", True),
        ("http://localhost", True),
        ("https://localhost:8420", True),
        ("http://127.0.0.1:8420", True),
        ("http://evil.example:8420", True),
        ("http://localhost:8420.evil.example", True),
        ("null", True),
        ("localhost:8420", True),
        ("", False),
    ],
)
def test_only_pages_of_the_same_scheme_host_and_port_are_its_own(origin: str, refused: bool) -> None:
    assert is_refused(Origins(LOCAL_NAMES), "localhost:8420", origin) is refused


@pytest.mark.parametrize(
    ("origin", "host", "encrypted", "proxied", "refused"),
    [
        ("https://parley.test", "parley.test", True, False, False),
        ("https://parley.test:443", "parley.test", True, False, False),
        ("http://parley.test", "parley.test", True, False, True),
        ("http://parley.test:80", "parley.test", False, False, False),
        ("https://parley.test", "parley.test", False, False, False),
        ("https://localhost", "localhost", False, False, True),
        ("https://localhost", "localhost", False, True, False),
        ("https://[::1]:1", "[::1]:1", False, True, False),
    ],
)
def test_its_own_scheme_is_that_of_tls_or_of_a_proxy(
    origin: str,
    host: str,
    encrypted: bool,
    proxied: bool,
    refused: bool,
) -> None:
    origins = Origins(frozenset(), encrypted=encrypted, proxied=proxied)

    assert is_refused(origins, host, origin) is refused


def test_a_name_that_was_taken_once_does_not_let_other_pages_in() -> None:
    origins = Origins(LOCAL_NAMES)

    assert not is_refused(origins, "localhost:1")
    assert is_refused(origins, "localhost:1", "http://evil.example")
    assert is_refused(origins, "evil.example:1")
