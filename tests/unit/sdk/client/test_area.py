"""What every area of the client builds on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from parley.domain.errors.errors import Unavailable
from parley.sdk.client.client import AsyncClient
from parley.sdk.transport.port import Response
from parley.wire.api.records.directory import Role
from tests.unit.sdk.playing import ScriptedTransport


def answered(call: Callable[[AsyncClient], Awaitable[Any]], body: bytes, status: int = 200) -> Any:
    """What a client makes of one answer."""

    async def ask() -> Any:
        transport = ScriptedTransport(Response(status, {}, body))
        return await call(AsyncClient("http://127.0.0.1:1", key="secret", transport=transport))

    return asyncio.run(ask())


def test_an_answer_is_read_as_the_record_that_was_asked_for() -> None:
    content = b'{"role_id":"reviewer","holders":["bob"],"more":1}'

    role = answered(lambda client: client.get_role("reviewer"), content)

    assert role == Role(role_id="reviewer", holders=["bob"])


@pytest.mark.parametrize(
    "content", [b'{"role_id":7,"holders":[]}', b'{"role_id":"reviewer"}', b"[]", b"no JSON", b"\xff"]
)
def test_an_answer_that_is_no_such_record_is_no_answer(content: bytes) -> None:
    with pytest.raises(Unavailable, match=r"http://127.0.0.1:1 does not answer like a Parley server.*be understood"):
        answered(lambda client: client.get_role("reviewer"), content)


def test_what_only_happens_gives_nothing_back() -> None:
    assert answered(lambda client: client.delete_channel("chan_1"), b"", 204) is None
