"""What is counted: requests to a server, one after the other on one connection, and commands as new processes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

import msgspec

from bench.channels import posts
from bench.channels.processes import AGENT, Server, request
from bench.cold_send import MESSAGE
from bench.governance import sends
from bench.governance.rows import ANSWERER
from bench.workspace import READER, SENDER, Bench, fill, parley

# Requests that a server gets, without end.
Prepare = Callable[[Server], Iterator[str]]
_PAGE = 50
_NEW_FILES = 500
_ASKED = 100
_QUESTION = {"sender": AGENT, "to": ANSWERER, "message_type": "request", "payload": {"text": posts.TEXT}}


class Connection:
    """One connection that stays open; each request waits for the answer to the one before."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def send(self, message: str) -> Any:  # noqa: ANN401  # whatever JSON it is
        """The body of the answer."""
        self._socket.sendall(message.encode())
        status, length = self._answers.readline(), 0
        while (line := self._answers.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        body = self._answers.read(length)
        if status[9:10] != b"2":
            raise RuntimeError(f"{status!r} {body[:400]!r}")
        return msgspec.json.decode(body)


def _plain(server: Server) -> Iterator[str]:
    return repeat(posts.post(server.channel("plain")))


def _governed(server: Server) -> Iterator[str]:
    sends.set_up(server)
    return repeat(sends.post(server.channel("governed"), {"exchange_type": "information_query"}))


def _conversations(server: Server) -> Iterator[str]:
    """Each begins a conversation under a name of its own, as clients of OCIP do."""
    sends.set_up(server)
    channel = server.channel("conversations")
    for number in count():
        named: dict[str, object] = {
            "exchange_type": "information_query",
            "conversation_id": f"conversation-{number:06}",
        }
        yield sends.post(channel, named)


def _replies(server: Server) -> Iterator[str]:
    """Each answers a request of its own, asked before anything is counted."""
    channel = f"/channels/{server.channel('replies')}"
    asked = server.call("POST", f"{channel}/batch", {"messages": [_QUESTION] * _ASKED})
    return _answers(channel, asked)


def _governed_replies(server: Server) -> Iterator[str]:
    """The same under the rules, which take questions one by one."""
    sends.set_up(server)
    channel = f"/channels/{server.channel('governed-replies')}"
    question = _QUESTION | {"metadata": {"exchange_type": "information_query"}}
    asked = [server.call("POST", f"{channel}/messages", question) for _ in range(_ASKED)]
    return _answers(channel, asked)


def _answers(channel: str, asked: list[dict[str, Any]]) -> Iterator[str]:
    answer = {"sender": ANSWERER, "payload": {"text": posts.TEXT}}
    for message in asked:
        path = f"/api/v1{channel}/messages/{message['id']}/reply"
        yield request("POST", path, answer, ANSWERER)


def _pages(server: Server) -> Iterator[str]:
    channel = f"/channels/{server.channel('pages')}"
    message = {"sender": AGENT, "message_type": "notify", "payload": {"text": posts.TEXT}}
    server.call("POST", f"{channel}/batch", {"messages": [message] * 2 * _PAGE})
    return repeat(request("GET", f"/api/v1{channel}/messages?limit={_PAGE}"))


# In this order: nobody has set a policy until the governed ones do.
REQUESTS: dict[str, Prepare] = {
    "plain POST": _plain,
    "reply": _replies,
    f"page of {_PAGE} messages": _pages,
    "governed POST": _governed,
    "named conversation": _conversations,
    "governed reply": _governed_replies,
}


def commands(bench: Bench, program: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each in the state in which it is counted: files that the first command of a home creates are there."""

    def command(verb: str, home: str, *more: str) -> list[str]:
        return parley(verb, home, SENDER if verb == "send" else READER, *more, program=program)

    def finish_next(home: str) -> list[str]:
        """Claim a message; the command that finishes it."""
        message = msgspec.json.decode(bench.runner.output_of(command("next", home, "--json")))
        return command("done", home, message["id"])

    homes = {name: bench.home(name) for name in ("inbox", "many", "send", "next", "done")}
    for name, files in (("inbox", 10), ("many", _NEW_FILES), ("next", 10), ("done", 10)):
        fill(homes[name], files)
    for name, started in (
        ("inbox of 10", command("inbox", homes["inbox"])),
        (f"inbox of {_NEW_FILES} new", command("inbox", homes["many"])),
        ("send", command("send", homes["send"], *MESSAGE)),
    ):
        bench.runner.run(started)
        yield name, started
    for name in ("next", "done"):
        bench.runner.run(finish_next(homes[name]))
    yield "next", command("next", homes["next"])
    yield "done", finish_next(homes["done"])
