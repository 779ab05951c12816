"""Clients behind proxies: whose address counts, for wrong keys and for the number of connections."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING

from parley.domain.errors.errors import BadConfig

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Request

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# What one customer of a provider has of IPv6.
_SHARE_BITS = 64


class TrustedProxies:
    """Addresses and networks of proxies whose `X-Forwarded-For` is believed."""

    def __init__(self, text: str = "") -> None:
        try:
            self._networks = [ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip()]
        except ValueError as error:
            raise BadConfig(
                f"trusted_proxies: {error}", hint="addresses or networks with commas between them, like 10.0.0.0/8"
            ) from None
        self._contains = lru_cache(1024)(self._find)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def client_of(self, request: Request) -> str:
        """The address of the client: the last one in `X-Forwarded-For` that is no proxy; else the connection's."""
        client = request.peer
        if self._networks:
            for part in reversed(request.header(b"x-forwarded-for").split(",")):
                if not self._contains(client) or _address(part.strip()) is None:
                    break
                client = part.strip()
        return client

    def limit_address(self, peer: str) -> str:
        """The address that limits are counted for; "" for none: a proxy or this machine speaks for many clients."""
        address = _address(peer)
        if address is None or address.is_loopback or self._contains(peer):
            return ""
        if isinstance(address, ipaddress.IPv6Address):
            return str(ipaddress.IPv6Network((address, _SHARE_BITS), strict=False))
        return peer

    def _find(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(
            address.version == network.version and address in network for network in self._networks
        )


def uncounted(peer: str) -> str:
    """For a server behind proxies that it cannot tell from clients: no connection is counted by its address."""
    del peer
    return ""


def _address(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
