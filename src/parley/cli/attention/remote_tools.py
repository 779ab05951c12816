"""The tools of an agent on a server, called from here: each call is one request to its `POST /mcp`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import NotFound, ParleyError, Unavailable
from parley.surfaces.mcp.http_headers import METHOD, NAME, VERSION
from parley.surfaces.mcp.protocol import STATELESS, TAKEN_KEY, ToolResult, stateless_call
from parley.surfaces.mcp.results import error_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley.sdk.client.connection import AsyncConnection
    from parley.sdk.protocol.flow import Answer, Flow
    from parley.surfaces.mcp.stdio import LineInput

# Beside what the call itself waits.
_ANSWER_SECONDS = 30.0
# A client that ends its server waits for about this long.
_CLOSING_SECONDS = 2.0
# The next call of the model waits for this.
_CONFIRMING_SECONDS = 5.0


class RemoteTools:
    """The tools of the agent whose key the connection carries.

    A wait for a message ends when the client sends anything: the connection is closed, and the server takes no message
    for it. What was sent is not interrupted, because it could not be said whether it has arrived.
    """

    def __init__(self, connect: Callable[[], AsyncConnection], lines: LineInput) -> None:
        self._connect = connect
        self._lines = lines
        self._loop = asyncio.new_event_loop()
        self._connection: AsyncConnection | None = None
        # Messages that were taken here and not finished.
        self._taken: list[str] = []
        # The one in the last result.
        self._unconfirmed = ""

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool whose arguments have been checked against its schema."""
        try:
            result = self._loop.run_until_complete(self._call(name, arguments))
        except ParleyError as error:
            return error_result(error)
        self._unconfirmed = result.taken
        if result.taken:
            self._taken.append(result.taken)
        elif name in ("reply", "done") and not result.is_error and not arguments.get("keep_open"):
            ref = arguments.get("id", "")
            self._taken = [taken for taken in self._taken if ref and not taken.startswith(ref.partition(".")[0])]
        return result

    def acknowledge(self) -> None:
        """Tell the server that the message in the last result was handed over. To be called after it was.

        Its name ends with the lease: who names it has got the message.
        """
        ref, self._unconfirmed = self._unconfirmed, ""
        if ref:
            with suppress(ParleyError, TimeoutError):
                call = self._call("inbox", {"id": ref})
                self._loop.run_until_complete(asyncio.wait_for(call, _CONFIRMING_SECONDS))

    def close(self) -> None:
        """Put back what the model has not finished, so that the next session of its agent gets it at once."""
        with suppress(ParleyError, TimeoutError):
            self._loop.run_until_complete(asyncio.wait_for(self._put_back(), _CLOSING_SECONDS))
        self._loop.close()

    async def _put_back(self) -> None:
        for taken in self._taken:
            await self._call("done", {"id": taken, "release": True})
        if self._connection is not None:
            await self._connection.close()

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        if self._connection is None:
            self._connection = self._connect()
        waits = name == "next" and arguments.get("wait", 0) > 0
        if waits and self._lines.has_more(0):
            arguments, waits = {**arguments, "wait": 0}, False
        task = self._loop.create_task(self._connection.run(self._flow(self._connection, name, arguments)))
        if waits:
            self._loop.add_reader(self._lines.descriptor, task.cancel)
        try:
            return _result_of(await task)
        except asyncio.CancelledError:
            return ToolResult("No message yet.")
        finally:
            if waits:
                self._loop.remove_reader(self._lines.descriptor)

    def _flow(self, connection: AsyncConnection, name: str, arguments: Mapping[str, Any]) -> Flow[Answer]:
        session = connection.session
        headers = {VERSION.lower(): STATELESS, METHOD.lower(): "tools/call", NAME.lower(): name}
        request = session.request(
            "POST",
            body=stateless_call(name, arguments),
            headers=headers,
            timeout=max(0, arguments.get("wait", 0)) + _ANSWER_SECONDS,
        )
        # It is beside the API, not below it.
        request = request._replace(target=f"{session.place.prefix}/mcp")
        try:
            return session.answer((yield from session.send_with_retries(request)))
        except NotFound:
            hint = "update it: it is older than this command"
            raise Unavailable(f"{session.url} serves no tools", hint=hint) from None
        except ParleyError as error:
            raise session.with_hint(error) from None


def _result_of(answer: Answer) -> ToolResult:
    document = answer.document
    try:
        result = document["result"]
        taken = str(result.get("_meta", {}).get(TAKEN_KEY, ""))
        text = "\n".join(content["text"] for content in result["content"])
    except (KeyError, TypeError, AttributeError):
        raise Unavailable("the server answered with something that is no result of a tool") from None
    return ToolResult(text, bool(result.get("isError")), taken)
