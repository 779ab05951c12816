"""A model that says what a test wants, on a loopback port, in the APIs of four coding agents.

A request that offers tools gets the next step of the script; all others (titles, summaries, probes) get "ok". Every
request is kept with its body and the time at which it came.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.harness.model_apis import Document, ModelRequest, Reply, Step, api_of, encode, read_request, wants_json

# Long, because a busy machine is slow: a test that passes does not wait for it.
LIMIT_SECONDS = 120.0

Rule = Callable[[ModelRequest], Step]

_SHORT_ID = re.compile(r"\[([0-9a-z]{4,})\]")
_NOTICE = "Parley: "
# What Gemini CLI asks for as a document has one of these fields.
_DECISION = {"next_speaker": "user", "reasoning": "scripted", "model_choice": "flash"}
_DECISION |= {"complexity_reasoning": "scripted"}
_COMPLEXITY = {"complexity_score": 1}


class Received(NamedTuple):
    """A request that came in: when, for which step of the model, and with which document."""

    at: float
    path: str
    body: Document
    # None for what asks for no step: probes, counts of tokens, titles.
    request: ModelRequest | None

    @property
    def text(self) -> str:
        """The whole document, as it is searched for words."""
        return json.dumps(self.body, ensure_ascii=False)


class Script:
    """Steps one after the other, then a fixed last word."""

    def __init__(self, steps: Sequence[Step | Rule], last: str = "Finished.") -> None:
        self._steps = iter(steps)
        self._last = Step(last)
        self._lock = threading.Lock()

    def __call__(self, request: ModelRequest) -> Step:
        with self._lock:
            step = next(self._steps, self._last)
        return step if isinstance(step, Step) else step(request)


def use_tool(name: str, **arguments: object) -> Rule:
    """A step that calls a tool of Parley under the name that the coding agent gives it."""

    def rule(request: ModelRequest) -> Step:
        tool = request.tool(name)
        return Step(f"no tool {name}") if tool is None else Step(tool=tool, arguments=arguments)

    return rule


def handle_messages(request: ModelRequest) -> Step:
    """React like a model that reads what it is told: a notice -> next -> reply -> next, until nothing waits."""
    news = request.news
    if "Sent to" in news or "Finished." in news or "already answered by" in news:
        return use_tool("next")(request)
    if "not by your user" in news and (taken := _SHORT_ID.search(news)):
        return use_tool("reply", id=taken[1], text=f"Answer to {taken[1]}.")(request)
    if "No message for" in news:
        return Step("Nothing waits.")
    return use_tool("next")(request) if _NOTICE in news else Step("Idle.")


class ScriptedModel:
    """The server. `rule` may be replaced while it runs."""

    def __init__(self, rule: Rule, log: Path | None = None) -> None:
        self.rule = rule
        self.received: list[Received] = []
        self._log = log
        self._arrived = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests for a step, in the order in which they came."""
        return [received.request for received in [*self.received] if received.request is not None]

    def wait_for(self, matches: Callable[[Received], bool], after: int = 0, seconds: float = LIMIT_SECONDS) -> Received:
        """The first request from the position `after` on that matches, once it has come."""

        def first() -> Received | None:
            return next((received for received in self.received[after:] if matches(received)), None)

        with self._arrived:
            if not self._arrived.wait_for(lambda: first() is not None, seconds):
                raise TimeoutError(f"no such request among {len(self.received)} within {seconds:g} s")
            found = first()
        assert found is not None
        return found

    def answer(self, path: str, body: Document) -> Reply:
        """Keep a request and answer it."""
        api = api_of(path)
        request = read_request(api, body) if api else None
        steps = request if request is not None and request.tools else None
        self._keep(Received(time.time(), path, body, steps))
        if request is None:
            return Reply("application/json", json.dumps({"input_tokens": 10, "totalTokens": 10}).encode())
        if steps is None:
            return encode(path, request, Step(json.dumps(_DECISION | _COMPLEXITY) if wants_json(request) else "ok"))
        step = self.rule(steps)
        if step.seconds:
            time.sleep(step.seconds)
        return encode(path, request, step)

    def _keep(self, received: Received) -> None:
        with self._arrived:
            self.received.append(received)
            if self._log is not None:
                with self._log.open("a") as file:
                    file.write(json.dumps({"at": received.at, "path": received.path, "body": received.body}) + "\n")
            self._arrived.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A coding agent opens several connections at once.
    request_queue_size = 128
    model: ScriptedModel

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that was killed in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the parent's
        """Say nothing: every request is kept."""

    def do_HEAD(self) -> None:  # the parent calls it by this name
        self._send(200, Reply("application/json", b""))

    def do_GET(self) -> None:
        # Codex tries a WebSocket first.
        refused = "websocket" in self.headers.get("Upgrade", "").lower()
        models = {"object": "list", "data": [], "models": []}
        self._send(426 if refused else 200, Reply("application/json", json.dumps(models).encode()))

    def do_POST(self) -> None:
        content = self._read()
        if self.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        try:
            body = json.loads(content or b"{}")
        except ValueError:
            self._send(400, Reply("application/json", b'{"error": "not JSON"}'))
            return
        self._send(200, self.server.model.answer(self.path, body if isinstance(body, dict) else {}))

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _send(self, status: int, reply: Reply) -> None:
        self.send_response(status)
        self.send_header("content-type", reply.content_type)
        self.send_header("content-length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)
