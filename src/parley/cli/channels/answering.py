"""`parley listen --answer-with`: run a command for each request, send what it prints, and be seen as online."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from parley.cli.command import settings_of
from parley.cli.parts.remote import access_of, connection_of
from parley.cli.reports import report_error, report_failure
from parley.domain.errors.errors import Forbidden, ParleyError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Mapping

    from parley.sdk.blocking.connection import Connection

_HEARTBEAT_SECONDS = 20.0
# The last one may wait for a server that is away.
_LAST_SECONDS = 1.0
# The code of an answer whose command failed: that of a handler that raised.
_FAILURE_CODE = "handler_failed"


@contextmanager
def presence(args: argparse.Namespace, connection: Connection) -> Generator[None]:
    """Register the agent that answers, and send heartbeats until the end: others see that it is there.

    A question to an agent that nobody knows is refused. A person's key cannot register, and need not: agents know it.
    """
    agent = connection.agent
    try:
        connection.post("agents", "register", body={"agent_id": agent})
    except Forbidden:
        yield
        return
    ended = threading.Event()
    heartbeats = threading.Thread(target=_send_heartbeats, args=(args, agent, ended), name="parley-heartbeats")
    heartbeats.daemon = True
    heartbeats.start()
    try:
        yield
    finally:
        ended.set()
        heartbeats.join(_LAST_SECONDS)
        with suppress(ParleyError):  # it is seen as away a little later
            connection.send("PATCH", "agents", agent, "status", body={"status": "stopped"})


def _send_heartbeats(args: argparse.Namespace, agent: str, ended: threading.Event) -> None:
    connection = connection_of(args)  # its own: the other one waits for messages
    while True:
        with suppress(ParleyError):  # the server is away; the listener says so
            connection.post("agents", agent, "heartbeat", body={})
        if ended.wait(_HEARTBEAT_SECONDS):
            return


def answer_request(args: argparse.Namespace, connection: Connection, request: Mapping[str, Any]) -> bool:
    """Run the command and send its answer; False if that failed. A request to another agent is skipped."""
    from parley.domain.errors.team import NotAddressee

    if request["sender"] == connection.agent:
        return True
    code, printed = _run(args, request)
    body: dict[str, Any] = {"payload": payload_of(printed)}
    if code:
        from parley.sdk.protocol.failures import Failure

        report_failure(f"command exited with {code} for {request['id']}", "exec_failed")
        failure = Failure(_FAILURE_CODE, f"the command that answers exited with {code}")
        body = {"payload": failure.payload(connection.agent), "metadata": failure.metadata}
    try:
        connection.post("channels", request["channel_id"], "messages", request["id"], "reply", body=body)
    except NotAddressee:
        return True  # addressed to another agent; a service key sees those, too
    except ParleyError as error:
        report_error(error, about=f"cannot answer {request['id']}: ")
        return False
    return not code


def _run(args: argparse.Namespace, request: Mapping[str, Any]) -> tuple[int, str]:
    """The exit code of the command, and what it printed."""
    import subprocess

    from parley.settings import child_environment

    settings, access = settings_of(args), access_of(args)
    environment = child_environment(
        PARLEY_URL=access.url,
        PARLEY_KEY=access.key,
        PARLEY_CONTEXT="",
        PARLEY_AGENT=settings.agent,
        PARLEY_MESSAGE_ID=request["id"],
        PARLEY_MESSAGE_CHANNEL=request["channel_id"],
        PARLEY_MESSAGE_FROM=request["sender"],
    )
    # Values travel in the environment and on standard input, never in the command's text.
    process = subprocess.run(  # noqa: S602  # the user's own command
        args.run,
        shell=True,
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        env=environment,
        check=False,
    )
    return process.returncode, process.stdout.decode("utf-8", "replace")


def payload_of(printed: str) -> dict[str, Any]:
    """The payload that a command printed: a JSON object, or a text."""
    return document_of(printed) or {"text": printed.rstrip("\n")}


def document_of(data: str) -> dict[str, Any] | None:
    """The JSON object in a text; None when it is anything else."""
    try:
        document: Any = json.loads(data)
    except ValueError:
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None
