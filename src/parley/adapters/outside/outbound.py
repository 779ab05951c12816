"""Webhooks on their way out. Whoever may name an address could name one of ours, so an address is looked up once, every
answer is judged, and the connection goes to exactly what was judged.

    url ──> host, port ──> look up once ──> judge every address ──> connect there, TLS for the host's name
                               (the second lookup that DNS rebinding waits for never happens)
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import httptools

from parley.domain.channel.subscription import LOOKUP_LATE, Answered
from parley.domain.errors.errors import Unavailable
from parley.domain.errors.team import TargetForbidden
from parley.wire.api import webhooks as webhook

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from parley.domain.channel.subscription import Push

    Resolve = Callable[[str, int], Awaitable[list[str]]]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

TIMEOUT_SECONDS = 15.0
ANSWER_MAX_BYTES = 64 * 1024
_URL_MAX_CHARS = 2048
_ADDRESSES_LIMIT = 4
_LOOKUP_THREADS = 32
_LOOKUPS_OF_A_TENANT = 2
# Of the time for a try, for the lookup.
_LOOKUP_SHARE = 2 / 3
_VISIBLE = re.compile(r"[!-~]+\Z")
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
# The last label of a host name is never a number: a numeric one is another form of an IPv4 address.
_NUMERIC_HOST = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)\Z")
_PORTS = {"https": 443, "http": 80}

_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_DOCUMENTATION = ipaddress.IPv6Network("3fff::/20")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
_RESERVED = ipaddress.IPv4Network("240.0.0.0/4")
# What `is_global` says differs between versions of Python, and some clouds answer with secrets at public addresses.
_NEVER = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "168.63.129.16/32",
            "100.100.100.200/32",
            "2001::/23",
            "2001:db8::/32",
        ),
    )
)
_OWN_NETWORKS = tuple(
    map(ipaddress.ip_network, ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
) + tuple(map(ipaddress.ip_network, ("::1/128", "fc00::/7")))


class Target(NamedTuple):
    """Where a URL points, before anything is looked up."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"


def target_of(url: str, *, private: bool = False) -> Target:
    """The target of a URL; `TargetForbidden` for what no webhook may have, whatever it leads to."""
    if len(url) > _URL_MAX_CHARS or not _VISIBLE.match(url) or "\\" in url:
        raise TargetForbidden("the URL is too long or holds characters that no URL has")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise TargetForbidden("the URL cannot be read") from None
    if parts.scheme not in (("https", "http") if private else ("https",)):
        raise TargetForbidden("the URL must begin with https://")
    if "@" in parts.netloc:
        raise TargetForbidden("the URL must not hold a user or password")
    if port == 0:
        raise TargetForbidden("no port 0")
    _check_host(host)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme == "https", host, port or _PORTS[parts.scheme], path)


def _check_host(host: str) -> None:
    if not _is_literal(host) and (len(host) > 253 or not _HOST_NAME.match(host) or _NUMERIC_HOST.match(host)):
        raise TargetForbidden("the URL names no host")


def _is_literal(host: str) -> bool:
    """Whether this is an IP address in its canonical form, without a zone."""
    try:
        return "%" not in host and ipaddress.ip_address(host) is not None
    except ValueError:
        return False


def is_allowed(address: Address, *, private: bool = False) -> bool:
    """Whether a webhook may go to this address: a public one, or with `private` one of a laptop or an own network."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_allowed(address.ipv4_mapped, private=private)
        if address in _NAT64:
            return is_allowed(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF), private=private)
    if private and any(address.version == net.version and address in net for net in _OWN_NETWORKS):
        return True
    if any(address.version == net.version and address in net for net in _NEVER):
        return False
    if not address.is_global or address.is_multicast or address.is_link_local or address.is_unspecified:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address not in _THIS_NETWORK and address not in _RESERVED
    return address in _GLOBAL_UNICAST and address not in _SIX_TO_FOUR and address not in _DOCUMENTATION


class _LookupLateError(Exception):
    """A host was not looked up in time."""


class HttpOutbound:
    """See `ports.outside.Outbound`. `private` lets http and the addresses of this machine and its networks through."""

    def __init__(
        self,
        *,
        private: bool = False,
        resolve: Resolve | None = None,
        context: ssl.SSLContext | None = None,
        seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._private = private
        self._resolve = resolve or self._look_up
        self._context = context
        self._seconds = seconds
        self._lookups: ThreadPoolExecutor | None = None
        # By tenant, while any of its lookups runs or waits.
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._own_ports: set[int] = set()
        self._own_names: set[str] = set()

    def avoid(self, port: int, names: Iterable[str] = ()) -> None:
        self._own_ports.add(port)
        # An address may have other servers on other ports; a name of ours is ours on every port.
        self._own_names.update(name.lower() for name in names if not _is_literal(name))

    async def check(self, url: str, tenant: str) -> None:
        try:
            await self._resolve_allowed(target_of(url, private=self._private), tenant)
        except _LookupLateError:
            raise Unavailable("the host of the URL was not looked up in time", facts={"retry_after": 60}) from None

    async def push(self, push: Push) -> Answered:
        try:
            async with asyncio.timeout(self._seconds):
                target = target_of(push.url, private=self._private)
                return await self._send(push, target, await self._resolve_allowed(target, push.tenant))
        except _LookupLateError:
            return Answered(0, LOOKUP_LATE)
        except TargetForbidden as refusal:
            return Answered(0, refusal.code)
        except TimeoutError:
            return Answered(0, "timeout")
        except ssl.SSLError:
            return Answered(0, "tls_failed")
        except OSError:
            return Answered(0, "connection_failed")
        except httptools.HttpParserError:
            return Answered(0, "no_http")

    async def _resolve_allowed(self, target: Target, tenant: str) -> list[str]:
        """Where the target leads, if a webhook may go to every one of its addresses."""
        if target.host.lower() in self._own_names:
            raise _forbidden_address()
        try:
            async with asyncio.timeout(self._seconds * _LOOKUP_SHARE):
                found = await self._looked_up(target, tenant)
            addresses = [ipaddress.ip_address(text) for text in found]
        except TimeoutError:
            raise _LookupLateError from None
        except (OSError, ValueError):
            raise _forbidden_address() from None
        for address in addresses:
            if not is_allowed(address, private=self._private):
                raise _forbidden_address()
            if target.port in self._own_ports and _is_local(address):
                raise _forbidden_address()
        if not addresses:
            raise _forbidden_address()
        return [str(address) for address in addresses[:_ADDRESSES_LIMIT]]

    async def _looked_up(self, target: Target, tenant: str) -> list[str]:
        """Look up a host when it is its tenant's turn. A lookup that is given up keeps its place until it ends."""
        turns = self._turns.setdefault(tenant, asyncio.Semaphore(_LOOKUPS_OF_A_TENANT))
        await turns.acquire()
        lookup = asyncio.ensure_future(self._resolve(target.host, target.port))

        def ended(lookup: asyncio.Future[list[str]]) -> None:
            turns.release()  # and what it found or did not find may be of interest to nobody
            if not lookup.cancelled():
                lookup.exception()

        lookup.add_done_callback(ended)
        return await asyncio.shield(lookup)

    async def _look_up(self, host: str, port: int) -> list[str]:
        # Threads of our own: a name server that keeps us waiting must not hold up anything else.
        if self._lookups is None:
            self._lookups = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="parley-lookup")
        look_up = socket.getaddrinfo
        loop = asyncio.get_running_loop()
        infos = await loop.run_in_executor(self._lookups, look_up, host, port, 0, socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in infos))

    async def _send(self, push: Push, target: Target, addresses: list[str]) -> Answered:
        content = webhook.body(push.item)
        reader, writer = await self._connect(target, addresses)
        try:
            writer.write(_request(target, webhook.headers(push, content), content))
            await writer.drain()
            return await _read_answer(reader)
        finally:
            writer.transport.abort()

    async def _connect(self, target: Target, addresses: list[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls_context, name = (self._tls_context(), target.host) if target.secure else (None, None)
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(self._seconds / len(addresses)):
                    return await asyncio.open_connection(address, target.port, ssl=tls_context, server_hostname=name)
            except ssl.SSLError:
                raise
            except OSError:  # also a timeout: the next one may answer
                continue
        return await asyncio.open_connection(addresses[-1], target.port, ssl=tls_context, server_hostname=name)

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context


def _forbidden_address() -> TargetForbidden:
    """The same error for every address, so that callers cannot probe which names this network knows."""
    return TargetForbidden("the URL does not lead to an address that a webhook may have")


def _is_local(address: Address) -> bool:
    """Whether the address belongs to this machine: only then can something be bound to it."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    local = mapped or address
    family = socket.AF_INET if local.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(local), 0))
    except OSError:
        return False
    return True


def _request(target: Target, signed: tuple[tuple[str, str], ...], content: bytes) -> bytes:
    lines = [f"POST {target.path} HTTP/1.1", f"Host: {target.authority}"]
    lines += [f"{name}: {value}" for name, value in signed]
    lines += [
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Accept-Encoding: identity",
        "User-Agent: parley",
        "Connection: close",
        "",
        "",
    ]
    return "\r\n".join(lines).encode("ascii") + content


class _ResponseParser:
    """What the parser tells about an answer; its body is counted by who feeds it, and thrown away."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.complete = False

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        self.status = status if status >= 200 else 0

    def on_message_complete(self) -> None:
        self.complete = self.status != 0


async def _read_answer(reader: asyncio.StreamReader) -> Answered:
    """Read an answer to its end, at most `ANSWER_MAX_BYTES`, without decompressing it."""
    response, total = _ResponseParser(), 0
    while not response.complete:
        chunk = await reader.read(ANSWER_MAX_BYTES + 1 - total)
        if not chunk:
            break
        total += len(chunk)
        response.parser.feed_data(chunk)
        if total > ANSWER_MAX_BYTES:
            return Answered(response.status, "answer_too_large")
    if not response.status:
        return Answered(0, "no_http")
    return Answered(response.status, "redirect" if 300 <= response.status < 400 else "")
