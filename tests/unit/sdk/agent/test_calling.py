"""Calling a handler: in the loop or in a thread, within its time, and what comes of what it returns."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from contextlib import suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import AskTimeout
from parley.sdk.agent import calling
from parley.sdk.agent.calling import HandlerTimeout, answer_of, call, failure_of, run_in_thread
from parley.sdk.agent.decorators import HandlerSpec
from parley.sdk.agent.handlers import Handler
from tests.rigs.team import in_loop


def handler(function: Any, timeout: float | None = None) -> Handler:
    return Handler("handle", function, HandlerSpec("message", timeout=timeout))


@in_loop
async def test_a_coroutine_runs_in_the_loop() -> None:
    async def handle(message: object) -> int:
        return threading.get_ident()

    assert await call(handler(handle), "it", None) == threading.get_ident()


@in_loop
async def test_a_function_runs_in_a_thread_of_its_own() -> None:
    assert await call(handler(lambda message: threading.get_ident()), "it", None) != threading.get_ident()


@in_loop
async def test_a_function_that_blocks_keeps_nobody_from_working() -> None:
    go_on = threading.Event()

    calling = asyncio.ensure_future(call(handler(lambda message: go_on.wait()), "it", None))
    await asyncio.sleep(0)
    go_on.set()

    assert await calling is True


@in_loop
async def test_a_thread_sees_the_context_of_its_caller() -> None:
    where: ContextVar[str] = ContextVar("where", default="nowhere")
    where.set("here")

    assert await run_in_thread(where.get) == "here"


@in_loop
async def test_what_a_handler_raises_comes_out() -> None:
    def handle(message: object) -> None:
        raise KeyError("answer")

    with pytest.raises(KeyError, match="answer"):
        await call(handler(handle), "it", None)


@in_loop
async def test_a_stray_stop_iteration_in_a_thread_ends_the_wait() -> None:
    def handle(message: object) -> None:
        next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await call(handler(handle), "it", None)


@pytest.mark.parametrize("limit", [0.01, None])
@in_loop
async def test_a_coroutine_that_takes_too_long_is_ended(limit: float | None) -> None:
    ended = asyncio.Event()

    async def handle(message: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(HandlerTimeout, match=r"handle took longer than 0\.01 seconds"):
        await call(handler(handle, timeout=None if limit else 0.01), "it", limit)

    assert ended.is_set()


@in_loop
async def test_nobody_waits_for_a_coroutine_that_takes_no_notice_of_being_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calling, "_CANCEL_WAIT_SECONDS", 0.01)
    go_on, went_on = asyncio.Event(), asyncio.Event()

    async def handle(message: object) -> None:
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await go_on.wait()
        went_on.set()

    with pytest.raises(HandlerTimeout):
        await call(handler(handle), "it", 0.01)
    go_on.set()

    await went_on.wait()


@in_loop
async def test_an_exit_within_a_limit_is_raised_to_the_caller_alone() -> None:
    async def handle(message: object) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await call(handler(handle), "it", 5)


@in_loop
async def test_nobody_waits_for_a_thread_that_takes_too_long() -> None:
    go_on, went_on = threading.Event(), threading.Event()

    def handle(message: object) -> None:
        go_on.wait()
        went_on.set()

    with pytest.raises(HandlerTimeout):
        await call(handler(handle), "it", 0.01)
    go_on.set()

    assert went_on.wait(5)


@in_loop
async def test_a_timeout_of_the_handlers_own_is_an_error_like_any_other() -> None:
    async def handle(message: object) -> None:
        raise TimeoutError("the database")

    with pytest.raises(TimeoutError, match="the database"):
        await call(handler(handle), "it", 5)


def test_a_mapping_is_an_answer_and_nothing_is_none() -> None:
    assert answer_of(handler(print), OrderedDict(answer=42)) == {"answer": 42}
    assert type(answer_of(handler(print), MappingProxyType({"answer": 42}))) is dict
    assert answer_of(handler(print), None) is None


@pytest.mark.parametrize(
    ("result", "answer"),
    [("yes", {"text": "yes"}), (42, {"value": 42}), ([1], {"items": [1]}), ({"at": {1, 2}}, {"at": [1, 2]})],
)
def test_what_is_no_mapping_is_an_answer_in_one(result: object, answer: dict[str, Any]) -> None:
    assert answer_of(handler(print), result) == answer


@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800", b"bytes"])
def test_what_is_no_json_is_no_answer(value: object) -> None:
    with pytest.raises(Invalid, match="handle returned what is not JSON"):
        answer_of(handler(print), {"answer": value})


def test_an_asker_is_told_the_kind_and_the_text_of_an_error() -> None:
    failure = failure_of(ValueError("no such schema"))

    assert failure.payload("data-agent") == {
        "error": {"code": "handler_failed", "message": "ValueError: no such schema", "agent": "data-agent"}
    }
    assert failure.metadata == {"error": "handler_failed"}


def test_an_error_of_parley_keeps_its_code() -> None:
    assert failure_of(AskTimeout("bob did not answer")).code == "ask_timeout"


def test_a_long_text_is_cut() -> None:
    assert len(failure_of(ValueError("x" * 10_000)).message) == 500


def test_an_error_that_cannot_even_be_printed_is_told_by_its_kind() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert failure_of(Unprintable()).message == "Unprintable"


def test_what_cannot_be_sent_of_a_text_is_left_out() -> None:
    assert failure_of(ValueError("half \ud800, none \0")).message == "ValueError: half ?, none ?"
