"""Tracebacks end where the user's code calls Parley."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import parley
from parley.sdk.tracebacks import short_tracebacks
from parley.testing import Stage, stage


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


CALLS: dict[str, Callable[[Stage], object]] = {
    "handle": lambda team: team.channel().ask("nobody", "Anyone?"),
    "session": lambda team: team.connect().channel("Nowhere", "questions", create=False),
    "direct": lambda team: team.connect().direct("nobody").ask("Anyone?"),
    "client": lambda team: team.client().get_channel("chan_1"),
    "asyncio": lambda team: asyncio.run(team.connect_async().client.get_channel("chan_1")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_of_a_server_shows_one_frame_of_parley(call: Callable[[Stage], object]) -> None:
    with stage() as team, pytest.raises(parley.NotFound) as caught:
        call(team)

    ours = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "/parley/sdk/" in frame.filename]
    assert len(ours) == 1
    assert traceback.format_exception_only(caught.value)[0].startswith(("parley.NotFound: ", "parley.NoResponders: "))


def test_a_defect_keeps_its_frames() -> None:
    @short_tracebacks
    class Broken:
        def call(self) -> None:
            self._inner()

        def _inner(self) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        Broken().call()

    assert frames(caught.value)[-2:] == ["call", "_inner"]


def test_what_yields_is_left_as_it_is() -> None:
    class Counting:
        def numbers(self) -> Any:
            yield 1

    before = Counting.numbers
    assert short_tracebacks(Counting).numbers is before
