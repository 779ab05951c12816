"""What a request says in its headers: which version it is for, and which trace it is part of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.team import VersionRequired
from parley.surfaces.http.route import Param, if_match
from parley.wire.api.events import trace_of

if TYPE_CHECKING:
    from parley.domain.directory.callers import Caller
    from parley.surfaces.http.http1.message import Request
    from parley.surfaces.http.route import Call

IF_MATCH = Param("If-Match", 'The version to change: 1, "1" or W/"1"; * for any.')
TRACEPARENT = Param("traceparent", "W3C trace context; its trace id is recorded in the event.")


def needed_version(request: Request) -> int | None:
    """The version that a change is for, None for `*`; a change that names none is refused."""
    if not request.header(b"if-match").strip():
        raise VersionRequired
    return if_match(request)


def with_trace(call: Call, caller: Caller | None = None) -> Caller:
    """The caller, with the trace that the request is part of."""
    caller = caller or call.caller
    trace = trace_of(call.request.header(b"traceparent"))
    return caller._replace(trace_id=trace) if trace else caller
