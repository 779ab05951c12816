"""The server: all routes behind one listener, under names and addresses that are safe."""

from __future__ import annotations

import ssl
from errno import EADDRINUSE
from typing import TYPE_CHECKING, NamedTuple, Protocol

from parley.domain.errors.errors import Unavailable
from parley.domain.errors.team import UnsafeMode
from parley.domain.names import is_loopback
from parley.surfaces.entrance.authentication import Authenticator
from parley.surfaces.http.api import Api
from parley.surfaces.http.http1.listener import listen
from parley.surfaces.http.http1.message import HttpLimits
from parley.surfaces.http.metrics import Metrics
from parley.surfaces.http.origins import LOCAL_NAMES, Origins
from parley.surfaces.http.problem import problem
from parley.surfaces.http.proxies import TrustedProxies, uncounted
from parley.surfaces.http.routes import (
    access,
    agents,
    approvals,
    audit,
    bookmarks,
    channels,
    checkpoints,
    discovery,
    events,
    exchanges,
    identity,
    intents,
    keys,
    links,
    live,
    mcp,
    messages,
    policies,
    queues,
    receipts,
    requests,
    roles,
    sessions,
    status,
    streams,
    subscriptions,
    suspensions,
    system,
    tasks,
    timers,
    traffic,
    trials,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.team.team import Team
    from parley.surfaces.http.api import Pages
    from parley.surfaces.http.http1.listener import Listener
    from parley.surfaces.http.http1.message import Request
    from parley.surfaces.http.route import Route


def all_routes(
    metrics: Metrics | None = None, is_private: Callable[[Request], bool] = lambda _: True
) -> tuple[Route, ...]:
    """All routes of the server. `is_private`: whether nobody can read along between a client and the server."""
    routes: tuple[Route, ...] = ()
    openings = streams.Openings()
    routes += (
        *agents.ROUTES,
        *bookmarks.ROUTES,
        *channels.ROUTES,
        *identity.ROUTES,
        *keys.ROUTES,
        *sessions.ROUTES,
        *roles.ROUTES,
        *policies.ROUTES,
        *traffic.ROUTES,
        *queues.ROUTES,
        *intents.ROUTES,
        *events.ROUTES,
        *access.ROUTES,
        *tasks.ROUTES,
        *checkpoints.ROUTES,
        *audit.ROUTES,
        *discovery.ROUTES,
        *mcp.ROUTES,
        *messages.ROUTES,
        *requests.ROUTES,
        *receipts.ROUTES,
        *timers.ROUTES,
        *exchanges.ROUTES,
        *approvals.ROUTES,
        *links.routes(is_private),
        *suspensions.ROUTES,
        *trials.ROUTES,
        *streams.routes(openings),
        *live.routes(openings),
        *subscriptions.ROUTES,
        *status.ROUTES,
        *system.routes(metrics or Metrics(), lambda: routes),
    )
    return routes


def api_for(
    team: Team,
    *,
    monotonic: Callable[[], float],
    origins: Origins,
    limited: bool,
    proxies: TrustedProxies | None = None,
) -> Api:
    """What answers every request, wherever it comes from; see `serve`."""
    metrics = Metrics()
    authenticator = Authenticator(team, limited=limited, monotonic=monotonic)
    routes = all_routes(metrics, origins.is_private)
    return Api(team, authenticator, routes, origins, proxies or TrustedProxies(), metrics, monotonic)


def limits_for(team: Team, limit_address: Callable[[str], str] = uncounted) -> HttpLimits:
    """The limits of requests and connections."""
    limits = team.limits
    return HttpLimits(
        body_bytes=limits.http_body_bytes,
        idle_seconds=limits.idle_seconds,
        stranger_idle_seconds=limits.stranger_idle_seconds,
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
        limit_address=limit_address,
    )


class LoadPages(Protocol):
    """Loads the console of a server; `is_secure`: browsers reach it by TLS."""

    def __call__(self, api: Api, /, *, is_secure: bool) -> Pages: ...


class Reach(NamedTuple):
    """How clients reach a server: by which names (none: any), through which proxies, and whether by TLS."""

    hosts: frozenset[str]
    behind_proxy: bool = False
    trusted_proxies: str = ""
    ssl: ssl.SSLContext | None = None


async def serve(
    team: Team,
    host: str,
    port: int,
    *,
    now: Callable[[], float],
    monotonic: Callable[[], float],
    reach: Reach,
    limited: bool,
    pages: LoadPages | None = None,
) -> Listener:
    """Begin to listen. `limited` counts requests by key. `pages` loads the console when it is first opened.

    Connections are counted by address, except those of trusted proxies and of this machine. Behind a proxy that is not
    named none is: all would come from its address.
    """
    proxies = TrustedProxies(reach.trusted_proxies)
    origins = Origins(reach.hosts, encrypted=reach.ssl is not None, proxied=reach.behind_proxy or bool(proxies))
    api = api_for(team, monotonic=monotonic, origins=origins, limited=limited, proxies=proxies)
    if pages is not None:
        is_secure = reach.ssl is not None or reach.behind_proxy or bool(proxies)
        api.mount(lambda: pages(api, is_secure=is_secure))
    limits = limits_for(team, uncounted if reach.behind_proxy and not proxies else proxies.limit_address)
    try:
        return await listen(api, host, port, limits=limits, problem=problem, ssl=reach.ssl, now=now, admit=api.admit)
    except OSError as error:
        if error.errno == EADDRINUSE:
            raise Unavailable(f"port {port} is taken", hint="name another one with --port, or 0 for any") from None
        raise Unavailable(f"cannot listen on {host}: {error.strerror or error}", hint="see --host and --port") from None


def check_exposure(host: str, *, encrypted: bool, behind_proxy: bool, root: bool) -> None:
    """Refuse to be reached from elsewhere in the clear, or as root."""
    if is_loopback(host):
        return
    if not encrypted and not behind_proxy:
        raise UnsafeMode(
            f"{host} can be reached from other machines, and keys would travel in the clear",
            hint="give --tls-cert and --tls-key, or --behind-proxy when a proxy encrypts",
        )
    if root:
        raise UnsafeMode(
            "a server that others can reach does not run as root", hint="use another user, or say --allow-root"
        )


def names_of(host: str, allowed: str, *, behind_proxy: bool) -> frozenset[str]:
    """The names that the server answers to: its own and those that were allowed. Behind a proxy that may be any."""
    named = frozenset(name.strip().lower() for name in allowed.split(",") if name.strip())
    if is_loopback(host):
        return LOCAL_NAMES | named | {host}
    return named | {host.lower()} if named and not behind_proxy else named


def tls_context(certificate: str, private_key: str) -> ssl.SSLContext | None:
    """The TLS context of these files; None without files."""
    if not certificate and not private_key:
        return None
    if not (certificate and private_key):
        raise UnsafeMode("TLS needs both a certificate and its key", hint="give --tls-cert and --tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, private_key)
    except (OSError, ssl.SSLError) as error:
        message = f"{certificate} and {private_key} cannot be used: {error.strerror or error}"
        raise UnsafeMode(message, hint="both are PEM files") from None
    return context
