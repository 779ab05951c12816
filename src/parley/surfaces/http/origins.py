"""Which names a server answers to, and which web pages may call it: its own, by scheme, host and port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.http.http1.message import normal_authority
from parley.surfaces.http.problem import problem

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Request, Response

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

_MOST_NAMES = 64
_HTTP, _HTTPS = frozenset({"http"}), frozenset({"https"})


class Origins:
    """Checks `Host` and `Origin`. `hosts` are the names that it answers to (none: all).

    With TLS its own pages come over https. Without, they come over http; over https, too, where a proxy may encrypt:
    when there is one (`proxied`), and for a name that is not this machine's.
    """

    def __init__(self, hosts: frozenset[str], *, encrypted: bool = False, proxied: bool = False) -> None:
        self._hosts = hosts
        self._encrypted = encrypted
        self._proxied = proxied
        # Names, as they were sent, that turned out to be ours.
        self._answers_to: set[bytes] = set()

    def refusal(self, request: Request) -> Response | None:
        """The answer to a page of another site: it must not reach a server on this machine, by name or by a browser."""
        named = request.headers.get(b"host", b"")
        origin = request.headers.get(b"origin")
        if origin is None and named in self._answers_to:
            return None
        host = _host_name(named.decode("latin-1"))
        if self._hosts and host and host not in self._hosts:
            return problem(403, "host_forbidden", "this server does not answer to that name")
        if origin is not None and not self._is_own(origin, named, host):
            return problem(403, "origin_forbidden", "requests from other sites are refused")
        if len(self._answers_to) < _MOST_NAMES:
            self._answers_to.add(named)
        return None

    def is_private(self, request: Request) -> bool:
        """Whether nobody could read along: it came by TLS, through a proxy that encrypts, or from this machine."""
        # What a proxy says of the way to its client, also where it calls this server by a local name. Whoever lies
        # about that harms nobody else.
        client_scheme = request.header(b"x-forwarded-proto").partition(",")[0].strip().lower()
        if self._encrypted or client_scheme:
            return self._encrypted or client_scheme == "https"
        return self._proxied or _host_name(request.header(b"host")) in LOCAL_NAMES

    def _is_own(self, origin: bytes, named: bytes, host: str) -> bool:
        scheme, _, authority = origin.partition(b"://")
        if scheme.decode("latin-1").lower() not in self._schemes(host):
            return False
        return normal_authority(scheme, authority) == normal_authority(scheme, named)

    def _schemes(self, host: str) -> frozenset[str]:
        if self._encrypted:
            return _HTTPS
        return _HTTP | _HTTPS if self._proxied or host not in LOCAL_NAMES else _HTTP


def _host_name(text: str) -> str:
    """Host without port, in lower case."""
    if text.startswith("["):
        return text.partition("]")[0][1:].lower()
    return text.partition(":")[0].lower()
