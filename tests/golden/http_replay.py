"""Run a story of HTTP requests on a server of its own, with a fixed clock and counted ids."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.normalise import normal_headers
from tests.golden.servers import OPERATOR_KEY, a_server
from tests.golden.stories import FOLDER, Answer, Step, filled, saved_values
from tests.rigs.team import Answer as HttpAnswer
from tests.rigs.team import Client, LiveServer

# Bodies that are longer have a file of their own, with their exact bytes.
_INLINE_BYTES = 20_000
_BODIES = FOLDER / "http" / "bodies"
_FRAME_SECONDS = 20.0


async def replay(story: dict[str, Any], folder: Path) -> list[Answer]:
    """The answers to all steps of a story, as a story file holds them, from a server of its own."""
    async with a_server(folder) as server:
        return await replay_on(server, story, {"admin": OPERATOR_KEY})


async def replay_on(server: LiveServer, story: dict[str, Any], variables: dict[str, str]) -> list[Answer]:
    """The same from a server that is there already. What the steps save is added to the variables."""
    player = _Player(server, variables)
    answers = [await player.play(step) for step in story["steps"]]
    return [await answer for answer in answers]


@dataclass
class _Player:
    server: LiveServer
    variables: dict[str, str]
    clients: dict[str, Client] = field(default_factory=dict)

    async def play(self, step: Step) -> asyncio.Future[Answer]:
        """Send one request. The answer is there, unless the step says that it comes after later steps."""
        if "advance" in step:
            self.server.rig.clock.pass_by(**step["advance"])
        request = filled(step["request"], self.variables)
        if step.get("waits"):
            client = self.server.with_key(self.variables[request["key"]])
            return asyncio.ensure_future(self._answer(client, step, request))
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        done.set_result(await self._answer(self._client(request.get("key", "")), step, request))
        return done

    def _client(self, key: str) -> Client:
        if key not in self.clients:
            self.clients[key] = self.server.with_key(self.variables[key] if key else "")
        return self.clients[key]

    async def _answer(self, client: Client, step: Step, request: dict[str, Any]) -> Answer:
        if "frames" in step:
            return await _frames(client, request, step["frames"])
        answer = await client.request(request["method"], request["path"], _body(request), request.get("headers"))
        if "save" in step:
            self.variables.update(saved_values(step, answer.json))
        return _recorded(answer, step)


def _body(request: dict[str, Any]) -> object:
    if "text" in request:
        text: str = request["text"]
        return (text * request.get("repeat", 1)).encode()
    return request.get("json")


def _recorded(answer: HttpAnswer, step: Step) -> Answer:
    recorded: Answer = {"status": answer.status, "headers": normal_headers(answer.headers)}
    if step.get("digest"):
        recorded["sha256"] = hashlib.sha256(answer.body).hexdigest()
    elif "file" in step:
        recorded["body"] = _file_or_difference(step["file"], answer.body)
    elif answer.body:
        recorded.update(_readable(answer.body))
    return recorded


def _readable(body: bytes) -> Answer:
    """The body as JSON when that gives back exactly the same bytes, else as text."""
    assert len(body) <= _INLINE_BYTES, "name a file or a digest for a long body"
    try:
        document = json.loads(body)
    except ValueError:
        return {"text": body.decode().splitlines(keepends=True)}
    exact = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() == body
    return {"json": document} if exact else {"text": body.decode().splitlines(keepends=True)}


def _file_or_difference(name: str, body: bytes) -> str:
    """The name of the body's file when it has these bytes, else how it differs."""
    path = _BODIES / name
    recorded = path.read_bytes() if path.exists() else b""
    if recorded == body:
        return name
    at = next((n for n, (old, new) in enumerate(zip(recorded, body, strict=False)) if old != new), len(recorded))
    around = slice(max(0, at - 60), at + 60)
    return f"{name} differs at byte {at}: recorded {recorded[around]!r}, now {body[around]!r}"


async def record_bodies(story: dict[str, Any], folder: Path) -> None:
    """Write the files of a story's long bodies. None of them depends on an earlier step."""
    async with a_server(folder) as server:
        for step in story["steps"]:
            if "file" in step:
                answer = await server.with_key("").request("GET", step["request"]["path"])
                _BODIES.mkdir(exist_ok=True)
                (_BODIES / step["file"]).write_bytes(answer.body)


async def _frames(client: Client, request: dict[str, Any], count: int) -> Answer:
    """The first blocks of a stream, then hang up."""
    connection = await client.connect()
    headers = {**client.headers, "Accept": "text/event-stream", **request.get("headers", {})}
    status, fields = await connection.ask("GET", request["path"], headers, b"")
    text = b""
    async with asyncio.timeout(_FRAME_SECONDS):
        while text.count(b"\n\n") < count:
            text += await connection.chunk()
    await connection.close()
    frames = [f"{block}\n\n" for block in text.decode().split("\n\n")[:count]]
    return {"status": status, "headers": normal_headers(fields), "frames": frames}
