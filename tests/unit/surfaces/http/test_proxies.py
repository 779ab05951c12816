"""Whose address counts when there are proxies in front of the server."""

from __future__ import annotations

import pytest

from parley.domain.errors.errors import BadConfig
from parley.surfaces.http.http1.message import Request
from parley.surfaces.http.proxies import TrustedProxies


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "nonsense", "10.0.0.1"),
        ("10.0.0.1", "nonsense, 198.51.100.7", "198.51.100.7"),
        ("203.0.113.9", "198.51.100.7", "203.0.113.9"),
        ("2001:db8::1", "198.51.100.7", "198.51.100.7"),
    ],
)
def test_only_a_trusted_proxy_says_who_the_client_is(peer: str, forwarded: str, client: str) -> None:
    proxies = TrustedProxies("10.0.0.0/8, 2001:db8::1")
    request = Request("GET", "/", headers={b"x-forwarded-for": forwarded.encode()}, peer=peer)

    assert proxies.client_of(request) == client


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "::ffff:203.0.113.9"),
        ("10.1.2.3", ""),
        ("127.0.0.5", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:9::9", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_connections_of_proxies_and_of_this_machine_are_not_counted(peer: str, counted: str) -> None:
    assert TrustedProxies("10.0.0.0/8").limit_address(peer) == counted


def test_without_proxies_nobody_is_believed() -> None:
    request = Request("GET", "/", headers={b"x-forwarded-for": b"1.2.3.4"}, peer="127.0.0.1")

    assert not TrustedProxies()
    assert TrustedProxies(" , ").client_of(request) == "127.0.0.1"


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "10.0.0.0/99"])
def test_what_is_no_network_is_a_bad_setting(text: str) -> None:
    with pytest.raises(BadConfig, match="trusted_proxies"):
        TrustedProxies(text)
