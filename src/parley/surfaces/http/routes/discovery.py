"""Discovery: the well-known documents of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.version import VERSION
from parley.surfaces.http.route import PUBLIC, Call, Route, json
from parley.wire.api.records.directory import Implementation, ServerInfo

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response

_PROTOCOL = "0.1"
_RFCS = ("0001", "0006", "0011", "0012", "0016", "0018", "0019", "0020", "0021")
_INFO = ServerInfo(
    protocol="OpenIntent Coordination Protocol",
    version=_PROTOCOL,
    rfc_urls=[f"/rfc/{number}" for number in _RFCS],
    capabilities=[
        "intents",
        "events",
        "agents",
        "state-patches",
        "optimistic-concurrency",
        "subscriptions",
        "access-control",
        "tasks",
        "agent-registry",
        "identity",
        "verifiable-log",
        "tracing",
        "channels",
        "messaging",
    ],
    openapi_url="/openapi.json",
    api_base_url="/api/v1",
    implementation=Implementation(name="parley", version=VERSION),
)
_CONFIG = {"protocol_version": _PROTOCOL, "suspension": {"default_retry_policy": None}}


async def well_known(call: Call) -> Response:
    del call
    return json(200, _INFO)


async def config(call: Call) -> Response:
    del call
    return json(200, _CONFIG)


_TAG = "discovery"
ROUTES = (
    Route(
        "GET",
        "/.well-known/openintent.json",
        well_known,
        "Get the protocols and versions that this server supports",
        _TAG,
        {200: ServerInfo},
        scope=PUBLIC,
        bare=True,
    ),
    Route(
        "GET", "/server/config", config, "Get the settings of this server", _TAG, {200: dict[str, Any]}, scope=PUBLIC
    ),
)
