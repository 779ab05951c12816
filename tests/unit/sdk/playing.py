"""Flows without a network: what they ask for is answered from a list."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, NamedTuple, TypeVar

from parley.sdk.protocol.flow import ApiSession, Flow, Pause
from parley.sdk.transport.port import Broken, ClosingAsyncIterator, Request, Response

T = TypeVar("T")

GONE = Broken("it closed the connection", arrived=True)
NOBODY = Broken("Connection refused", arrived=False)
SILENT = Broken("it did not answer in time", arrived=True, timed_out=True)


class Clock:
    """Stands still, except in pauses."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def a_session(clock: Clock | None = None, **options: Any) -> ApiSession:
    numbers = count(1)
    fields = {"agent": "claude", "monotonic": clock or Clock(), **options}
    return ApiSession("http://127.0.0.1:8420/", new_key=lambda: f"key-{next(numbers)}", **fields)


def said(document: object, status: int = 200, **headers: str) -> Response[Any]:
    content = json.dumps(document).encode() if document is not None else b""
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


def refused(status: int, code: str, **headers: str) -> Response[Any]:
    return said({"code": code, "detail": f"it is {code}", "errors": []}, status, **headers)


class Played(NamedTuple):
    """What a flow did and what became of it."""

    result: Any
    error: Exception | None
    requests: list[Request]
    pauses: list[float]

    @property
    def targets(self) -> list[str]:
        return [one.target for one in self.requests]

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(one.body) if one.body else None for one in self.requests]


def play(flow: Flow[T], *answers: Response[Any] | Broken, clock: Clock | None = None, takes: float = 0.0) -> Played:
    """Play a flow to its end; each answer takes so many seconds."""
    requests: list[Request] = []
    pauses: list[float] = []
    ahead = list(answers)
    result, error = None, None
    try:
        step = next(flow)
        while True:
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                if clock is not None:
                    clock.now += step.seconds
                step = next(flow)
                continue
            requests.append(step)
            if clock is not None:
                clock.now += takes
            given = ahead.pop(0)
            step = flow.throw(given) if isinstance(given, Broken) else flow.send(given)
    except StopIteration as end:
        result = end.value
    except Exception as raised:  # noqa: BLE001  # the test looks at it
        error = raised
    assert ahead == [], "there was more to say"
    return Played(result, error, requests, pauses)


class ScriptedTransport:
    """Answers from a list, and records what it was sent."""

    def __init__(self, *answers: Response[Any] | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response[ClosingAsyncIterator]:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None: ...
