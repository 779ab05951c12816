"""Giving prompts to a coding agent that runs without a person: by the Agent Client Protocol (Gemini CLI, OpenCode), or
by lines of JSON (Claude Code).

It may use Parley's tools, and nothing else that it would have to ask a person for: every other request is refused.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

from parley.domain.errors.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley.adapters.harness.program import Program

    Document = dict[str, Any]

_OPEN_SECONDS = 120.0
_READ_SECONDS = 0.2
_PROTOCOL = 1
_METHOD_NOT_FOUND = -32601
# Kinds of tools that can change something outside of Parley.
_OTHER_KINDS = frozenset({"edit", "delete", "move", "execute", "fetch", "read", "search", "switch_mode"})


class Prompter(Protocol):
    """A coding agent that takes prompts, one after the other."""

    def open(self) -> None:
        """Begin a session; `Unavailable` when that fails."""
        ...

    def prompt(self, text: str, seconds: float) -> str:
        """Give a prompt, and return how its turn ended; `Unavailable` when the program failed, or took too long."""
        ...


class AcpPrompter:
    """The client's side of the Agent Client Protocol: JSON-RPC, with requests of the agent in between."""

    def __init__(  # all that the agent is told, and what tells the time
        self,
        program: Program,
        seconds: Callable[[], float],
        check: Callable[[], None],
        *,
        cwd: str,
        server: list[str],
        version: str,
        log: Callable[[str], None],
    ) -> None:
        self._program = program
        self._seconds = seconds
        # Raises what ends a wait.
        self._check = check
        self._cwd = cwd
        self._server = server
        self._version = version
        self._log = log
        self._ids = itertools.count(1)
        self._session = ""

    def open(self) -> None:
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        client = {"name": "parley", "title": "Parley", "version": self._version}
        self._call(
            "initialize",
            {"protocolVersion": _PROTOCOL, "clientCapabilities": capabilities, "clientInfo": client},
            _OPEN_SECONDS,
        )
        command, *arguments = self._server
        server = {"name": "parley", "command": command, "args": arguments, "env": []}
        opened = self._call("session/new", {"cwd": self._cwd, "mcpServers": [server]}, _OPEN_SECONDS)
        self._session = str(opened.get("sessionId", ""))
        if not self._session:
            raise Unavailable(f"{self._program.name} gave no session")

    def prompt(self, text: str, seconds: float) -> str:
        self._program.drain()
        prompt = [{"type": "text", "text": text}]
        try:
            ended = self._call("session/prompt", {"sessionId": self._session, "prompt": prompt}, seconds)
        except TimeoutError:
            params = {"sessionId": self._session}
            self._program.write({"jsonrpc": "2.0", "method": "session/cancel", "params": params})
            raise Unavailable(f"{self._program.name} took longer than {seconds:g} s for a turn") from None
        return str(ended.get("stopReason", "unknown"))

    def _call(self, method: str, params: Document, seconds: float) -> Document:
        request_id = next(self._ids)
        self._program.write({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        ends = self._seconds() + seconds
        while (left := ends - self._seconds()) > 0:
            self._check()
            document = self._program.read(min(left, _READ_SECONDS))
            if document is None:
                continue
            if "method" in document:
                self._answer(document)
            elif document.get("id") == request_id:
                error = document.get("error")
                if isinstance(error, dict):
                    raise Unavailable(f"{self._program.name} refused {method}: {str(error.get('message'))[:200]}")
                result = document.get("result")
                return result if isinstance(result, dict) else {}
        if method == "session/prompt":
            raise TimeoutError
        raise Unavailable(f"{self._program.name} did not answer {method} within {seconds:g} s")

    def _answer(self, request: Document) -> None:
        """Answer a request of the agent; notifications need none."""
        if "id" not in request:
            return
        answer: Document = {"jsonrpc": "2.0", "id": request["id"]}
        params = request.get("params")
        if request["method"] == "session/request_permission" and isinstance(params, dict):
            answer["result"] = {"outcome": self._decide(params)}
        else:
            answer["error"] = {"code": _METHOD_NOT_FOUND, "message": f"no method {str(request['method'])[:80]!r}"}
        self._program.write(answer)

    def _decide(self, params: Document) -> Document:
        call = params.get("toolCall")
        is_own = isinstance(call, dict) and is_parley_tool(call)
        wanted = ("allow_once", "allow_always") if is_own else ("reject_once", "reject_always")
        if not is_own:
            self._log(f"refused: {str(call.get('title') if isinstance(call, dict) else '')[:100]!r}")
        options = params.get("options")
        for kind in wanted:
            for option in options if isinstance(options, list) else ():
                if isinstance(option, dict) and option.get("kind") == kind:
                    return {"outcome": "selected", "optionId": option.get("optionId")}
        return {"outcome": "cancelled"}


def is_parley_tool(call: Mapping[str, Any]) -> bool:
    """Whether a call that an agent asks permission for is one of Parley's tools, by its kind and its title."""
    title = str(call.get("title", "")).lower()
    return call.get("kind", "other") not in _OTHER_KINDS and "parley" in title


class StreamPrompter:
    """Claude Code with JSON lines in and out: one document a prompt, and one `result` when its turn has ended."""

    def __init__(self, program: Program, seconds: Callable[[], float], check: Callable[[], None]) -> None:
        self._program = program
        self._seconds = seconds
        self._check = check

    def open(self) -> None:
        """Nothing has to be said before the first prompt."""

    def prompt(self, text: str, seconds: float) -> str:
        self._program.drain()
        content = [{"type": "text", "text": text}]
        self._program.write({"type": "user", "message": {"role": "user", "content": content}})
        ends = self._seconds() + seconds
        while (left := ends - self._seconds()) > 0:
            self._check()
            document = self._program.read(min(left, _READ_SECONDS))
            if document is not None and document.get("type") == "result":
                return str(document.get("subtype", "unknown"))
        raise Unavailable(f"{self._program.name} took longer than {seconds:g} s for a turn")
