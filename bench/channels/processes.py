"""Processes to measure: started, asked for their CPU time and memory, and ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Self

KEY = "bench-key-of-forty-characters-0123456789"
AGENT = "asker"
_READY_SECONDS = 30.0
_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


class Server:
    """A server that runs, and requests for it."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def cpu(self) -> float:
        """The CPU time of all its threads so far, in seconds; finer than the clock ticks of /proc/PID/stat."""
        tasks = f"/proc/{self._process.pid}/task"
        return sum(int(_first(f"{tasks}/{task}/schedstat")) for task in os.listdir(tasks)) / 1e9

    @property
    def megabytes(self) -> float:
        """What it holds in memory now."""
        with open(f"/proc/{self._process.pid}/status", encoding="ascii") as file:
            (line,) = [line for line in file if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  # whatever JSON it is
        """One request by the way, outside of what is measured."""
        content = json.dumps(body).encode() if body is not None else None
        headers = {"X-API-Key": KEY, "X-Agent-ID": AGENT, "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read()[:400]!r}") from None

    def channel(self, name: str, **options: object) -> str:
        """The id of a new channel."""
        intent = self.call("POST", "/intents", {"title": "bench", "created_by": AGENT})["id"]
        body = {"options": options} if options else {}
        return str(self.call("POST", f"/intents/{intent}/channels", {"name": name} | body)["id"])


def request(method: str, path: str, body: object = None, agent: str = AGENT) -> str:
    """The bytes of a request as the SDK's client spells it."""
    content = "" if body is None else json.dumps(body, separators=(",", ":"))
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
        f"Connection: keep-alive\r\nUser-Agent: python-httpx/0.28.1\r\nX-API-Key: {KEY}\r\nX-Agent-ID: {agent}\r\n"
        f"Content-Type: application/json\r\n" + (f"Content-Length: {len(content)}\r\n" if content else "")
    ) + f"\r\n{content}"


def parley_up(
    data: str, program: Sequence[str] = (sys.executable, "-m", "parley.cli.main"), *, ephemeral: bool = False
) -> Server:
    """`parley up` on a data directory, or without any; returns when it has said that it is ready."""
    command = [*program, "up", "--json", "--port", "0", *(["--ephemeral"] if ephemeral else ["--data", data])]
    # As with the reference server, every agent may write on an intent.
    environment = _ENVIRONMENT | {"HOME": data, "PARLEY_ADMIN_KEY": KEY, "PARLEY_NEW_INTENTS": "open"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError("parley up did not start")
    return Server(process, int(json.loads(line)["url"].rpartition(":")[2]))


def reference(folder: str) -> Server:
    """The reference server of the OpenIntent package, all in memory, without its access log."""
    program = os.path.join(os.path.dirname(sys.executable), "openintent-server")
    more = ["--api-keys", KEY, "--database-url", "sqlite:///:memory:", "--log-level", "warning"]
    return _listening(lambda port: [program, "--host", "127.0.0.1", "--port", str(port), *more], folder)


def echo(folder: str) -> Server:
    """The least that a Python server has to do: uvicorn, and an application that only reads and answers JSON."""
    return _listening(lambda port: [sys.executable, "-m", "bench.channels.echo", str(port)], folder)


def _listening(command: Callable[[int], list[str]], folder: str) -> Server:
    port = _free_port()
    environment = _ENVIRONMENT | {"HOME": folder, "PYTHONPATH": os.getcwd()}
    process = subprocess.Popen(
        command(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, cwd=folder, env=environment
    )
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/.well-known/openintent.json", timeout=5).close()
        except OSError:
            time.sleep(0.01)
        else:
            return Server(process, port)
    process.kill()
    raise RuntimeError(f"{command(port)[0]} did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Worker:
    """A process that takes jobs as lines of JSON: the load, or the store without a server."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def do(self, job: str, **fields: object) -> Any:  # noqa: ANN401  # whatever the job gives
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the worker has no pipes")
        stdin.write(json.dumps({"do": job} | fields) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"the job {job} failed")
        return json.loads(line)


def load() -> Worker:
    return Worker("bench.channels.load")


def _first(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().split()[0]
