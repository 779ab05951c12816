"""What both clients are made of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid, Unavailable
from parley.sdk.client.session import fetch, fetch_bare, for_version, given, spelled, tell
from parley.sdk.protocol.flow import Flow, Speaker
from parley.sdk.records.directory import Health, Role
from parley.sdk.transport.port import Broken, Request, Response


def a_speaker(url: str = "http://127.0.0.1:1/below") -> Speaker:
    return Speaker(url, key="secret", new_key=lambda: "key-1", monotonic=lambda: 0.0)


def answered(flow: Flow[Any], body: bytes, status: int = 200) -> Any:
    """What a flow makes of one answer."""
    next(flow)
    with pytest.raises(StopIteration) as end:
        flow.send(Response(status, {}, body))
    return end.value.value


def test_an_answer_is_read_as_the_record_that_was_asked_for() -> None:
    content = b'{"role_id":"reviewer","holders":["bob"],"more":1}'

    role = answered(fetch(a_speaker(), Role, "GET", "roles", "reviewer", "holders"), content)

    assert role == Role(role_id="reviewer", holders=["bob"])


@pytest.mark.parametrize(
    "content", [b'{"role_id":7,"holders":[]}', b'{"role_id":"reviewer"}', b"[]", b"no JSON", b"\xff"]
)
def test_an_answer_that_is_no_such_record_is_no_answer(content: bytes) -> None:
    flow = fetch(a_speaker(), Role, "GET", "roles", "reviewer", "holders")
    next(flow)

    with pytest.raises(Unavailable, match="cannot be understood"):
        flow.send(Response(200, {}, content))


def test_what_only_happens_gives_nothing_back() -> None:
    assert answered(tell(a_speaker(), "DELETE", "channels", "chan_1"), b"", 204) is None


def test_what_is_not_below_the_api_is_asked_for_in_one_try() -> None:
    flow = fetch_bare(a_speaker(), Health, "/readyz")
    request = next(flow)
    assert isinstance(request, Request)
    assert request.target == "/below/readyz"

    with pytest.raises(Unavailable, match="no server answers"):
        flow.throw(Broken("nobody is there", arrived=False))


def test_only_what_was_given_is_sent() -> None:
    assert given(a=1, b=None, c="", d=False, e={}) == {"a": 1, "c": "", "d": False, "e": {}}


def test_a_time_is_spelled_in_utc() -> None:
    there = datetime(2026, 3, 13, 14, 30, tzinfo=timezone(timedelta(hours=2)))

    assert spelled(there) == "2026-03-13T12:30:00.000000+00:00"
    assert spelled(there.astimezone(UTC)) == spelled(there)
    assert spelled("2026-03-13T14:30:00Z") == "2026-03-13T14:30:00Z"
    assert spelled(None) is None


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(Invalid, match="has no time zone"):
        spelled(datetime(2026, 3, 13))  # noqa: DTZ001


def test_a_change_names_its_version_or_any() -> None:
    assert for_version(3) == {"if-match": '"3"'}
    assert for_version(None) == {"if-match": "*"}
