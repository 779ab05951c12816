"""Print which functions of Parley run for one act, and the spine of them.

    python tools/trace_calls.py                 all paths, one line each
    python tools/trace_calls.py post held       these paths, with every function of their spine
    PYTHONPATH=other/src python tools/trace_calls.py     the same for another copy of the source

The spine is every function that is on the stack when one of the landmarks of the path is entered: what has to be read
to follow the path from its beginning to its effects. Lambdas and comprehensions are not counted.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import parley
from parley import settings as all_settings
from parley import wiring
from parley.app.team.decisions import policy_files
from parley.app.team.directory import keys
from parley.app.team.team import Team
from parley.surfaces.http import server
from parley.surfaces.http.origins import LOCAL_NAMES

SOURCE = os.path.dirname(parley.__file__) + os.sep
ADMIN_KEY = "parley_admin_" + "k" * 40
POLICY = "agent-to-agent:\n  enabled: true\n  max_rounds: 9\n  pair_budget: 1000\n"

# The names of the effects of each path, as they are or were called.
REQUEST = {
    "HeadReader.read",
    "Connection._handle",
    "Api.__call__",
    "Gate.caller",
    "Authenticator.caller",
    "parse",
    "render",
}
WRITE = {"TeamWriter.submit", "SqliteWriter.commit", "SqliteWriter.submit", "Transaction.take", "post_to_row"}
STREAM = {"Tail.publish", "shows", "is_visible", "posted"}
LANDMARKS = {
    "post": {*REQUEST, *WRITE, *STREAM, "draft_of", "view", "place", "in_force", "DecisionCache.find"},
    "governed": {*REQUEST, *WRITE, "place", "judge"},
    "denied": {*REQUEST, *WRITE, "place", "judge"},
    "held": {*REQUEST, *WRITE, "place", "judge"},
    "approve": {*REQUEST, *WRITE, "place", "judge"},
    "send": {"OacpFormat.encode", "SqliteStore.commit", "FileCourier.deliver"},
    "next": {"FileInbox.take", "OacpFormat.decode", "SqliteStore.commit"},
    "handler": {"Handlers.for_message", "call", "EventParser.feed", "AsyncInProcess.send"},
    "policy": {"read_policy", "Transaction.take", "PolicyFiles.mirror"},
}


class Trace:
    """What ran while `on`, in every thread that began after it was installed."""

    def __init__(self) -> None:
        self.on = False
        self.landmarks: set[str] = set()
        self.clear()
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def clear(self) -> None:
        self.calls: dict[CodeType, int] = {}
        self.spine: dict[CodeType, None] = {}
        # Held on to, so that a coroutine that is resumed is not counted again.
        self._entered: dict[int, FrameType] = {}

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if not self.on or event != "call" or not code.co_filename.startswith(SOURCE) or code.co_name[0] == "<":
            return
        if id(frame) not in self._entered:
            self._entered[id(frame)] = frame
            self.calls[code] = self.calls.get(code, 0) + 1
        if code.co_qualname in self.landmarks:
            stack = []
            above: FrameType | None = frame
            while above is not None:
                if above.f_code.co_filename.startswith(SOURCE) and above.f_code.co_name[0] != "<":
                    stack.append(above.f_code)
                above = above.f_back
            self.spine.update(dict.fromkeys(reversed(stack)))


class CallPath(NamedTuple):
    name: str
    calls: dict[CodeType, int]
    spine: tuple[CodeType, ...]

    def line(self) -> str:
        files = {code.co_filename for code in self.calls}
        on_spine = {code.co_filename for code in self.spine}
        return (
            f"{self.name:10} {len(files):4} files {len(self.calls):4} functions {sum(self.calls.values()):5} calls"
            f"   spine {len(self.spine):3} hops {len(on_spine):3} files"
        )

    def hops(self) -> Iterator[str]:
        for number, code in enumerate(self.spine, 1):
            yield f"{number:4} {code.co_filename.removeprefix(SOURCE)}:{code.co_firstlineno} {code.co_qualname}"


Answer = dict[str, Any]
Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]


class Client:
    """Requests by plain sockets: nothing of Parley runs on this side."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self, method: str, path: str, body: object = None, agent: str = "", key: str = ADMIN_KEY) -> Opened:
        content = b"" if body is None else json.dumps(body).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {key}\r\n"
        head += f"X-Agent-ID: {agent}\r\n" if agent else ""
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        return reader, writer, answer

    async def call(self, method: str, path: str, body: object = None, agent: str = "", key: str = ADMIN_KEY) -> Answer:
        reader, writer, head = await self.open(method, f"/api/v1{path}", body, agent, key)
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        content = await reader.readexactly(length)
        writer.close()
        answer: Answer = json.loads(content)
        return answer


@asynccontextmanager
async def team_server(folder: str) -> AsyncIterator[tuple[Team, Client]]:
    settings = all_settings.load({}, {"HOME": folder, "PARLEY_ADMIN_KEY": ADMIN_KEY})
    async with wiring.open_team(settings, f"{folder}/data", durable=False) as opened:
        listener = await server.serve(
            opened.team,
            "127.0.0.1",
            0,
            now=wiring.wall_time,
            monotonic=wiring.monotonic,
            reach=server.Reach(LOCAL_NAMES),
            limited=False,
        )
        await keys.first_start(opened.team, ADMIN_KEY)
        yield opened.team, Client(listener.port)
        opened.team.tail.close()
        await listener.drain(1)


def edit_policy(folder: str) -> None:
    file = next(Path(folder).glob("data/policies/*/enterprise/default.yaml"))
    file.write_text(POLICY.replace("1000", "999"))


async def traced(trace: Trace, name: str, coroutine: Coroutine[object, object, object]) -> CallPath:
    with recording(trace, name):
        await coroutine
        await asyncio.sleep(0.05)  # what follows the answer
    return CallPath(name, trace.calls, tuple(trace.spine))


@contextmanager
def recording(trace: Trace, name: str) -> Iterator[None]:
    trace.clear()
    trace.landmarks = LANDMARKS[name]
    trace.on = True
    try:
        yield
    finally:
        trace.on = False


async def server_paths(trace: Trace, folder: str) -> AsyncIterator[CallPath]:
    async with team_server(folder) as (team, client):
        people: dict[str, str] = {}
        for agent in ("alice", "bob"):
            fields = {"agent_id": agent, "org_unit": "engineering", "user_id": agent + "-person"}
            await client.call("POST", "/agents/register", fields)
            created = await client.call("POST", "/keys", {"kind": "human", "user_id": agent + "-person"})
            people[agent] = created["key"]
        intent = (await client.call("POST", "/intents", {"title": "trace", "created_by": "alice", "access": ["bob"]}))[
            "id"
        ]
        channel = (await client.call("POST", f"/intents/{intent}/channels", {"name": "trace"}, "alice"))["id"]
        reader, writer, _ = await client.open("GET", f"/api/v1/channels/{channel}/subscribe", None, "alice")

        async def say(text: str, **more: object) -> Answer:
            body = {"sender": "alice", "message_type": "notify", "payload": {"text": text}, **more}
            return await client.call("POST", f"/channels/{channel}/messages", body, "alice")

        async def said_and_heard() -> None:
            await say("hello")
            await reader.readuntil(b'"hello"')

        await said_and_heard()
        yield await traced(trace, "post", said_and_heard())
        writer.close()
        await client.call("PUT", "/policies/enterprise/default", {"text": POLICY})
        asking = {"to": "bob", "metadata": {"exchange_type": "information_query"}}
        await say("hello", **asking)
        yield await traced(trace, "governed", say("hello", **asking))
        secret = {"to": "bob", "metadata": {"exchange_type": "information_query", "classification": "restricted"}}
        yield await traced(trace, "denied", say("hello", **secret))
        yield await traced(trace, "held", say("We commit to deliver it for 5,000 euros.", **asking))
        held = await say("We promise to deliver it tomorrow.", **asking)
        approval = f"/approvals/{held['approval']}"
        decision = {"decision": "approve", "digest": held["digest"]}
        decided = client.call("POST", f"{approval}/decision", decision, "", people["alice"])
        yield await traced(trace, "approve", decided)
        policy_folder = team.policies.folder
        assert policy_folder is not None
        await policy_files.follow(team, policy_folder)
        edit_policy(folder)
        yield await traced(trace, "policy", policy_files.follow(team, policy_folder))


def mailbox_paths(trace: Trace, folder: str) -> Iterator[CallPath]:
    from parley.cli.main import main

    os.environ |= {"HOME": folder, "OACP_HOME": f"{folder}/oacp"}
    commands = {
        "": ("init", "trace", "--agents", "codex,claude"),
        "send": ("send", "--agent", "codex", "--to", "claude", "--type", "question", "--subject", "hi", "--body", "hi"),
        "next": ("next", "--agent", "claude"),
    }
    for name, command in commands.items():
        with redirect_stdout(io.StringIO()), recording(trace, name or "send"), suppress(SystemExit):
            code = main([*command])
            if code:
                raise RuntimeError(f"parley {' '.join(command)}: {code}")
        if name:
            yield CallPath(name, trace.calls, tuple(trace.spine))


def handler_path(trace: Trace) -> CallPath:
    import parley.testing as staging
    from parley import Agent, BaseAgent, on_message

    @Agent("answerer")
    class Answerer(BaseAgent):
        @on_message
        async def answer(self, message: object) -> dict[str, str]:
            return {"answer": "yes"}

    with staging.stage() as stage:
        stage.start(Answerer())
        stage.ask("answerer", {"question": "ready?"})
        with recording(trace, "handler"):
            stage.ask("answerer", {"question": "ready?"})
        agents = {code: calls for code, calls in trace.calls.items() if "/sdk/" in code.co_filename}
        spine = tuple(code for code in trace.spine if "/sdk/" in code.co_filename)
        return CallPath("handler", agents, spine)


def main() -> None:
    wanted = sys.argv[1:]
    trace = Trace()
    paths: list[CallPath] = []

    async def all_of_the_server(folder: str) -> None:
        paths.extend([path async for path in server_paths(trace, folder)])

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(all_of_the_server(folder))
        paths += mailbox_paths(trace, folder)
    paths.append(handler_path(trace))
    for path in paths:
        if not wanted or path.name in wanted:
            print(path.line())
            if wanted:
                print(*path.hops(), sep="\n")


if __name__ == "__main__":
    main()
