"""A real browser: Debian's Chromium without a window, told what to do over its debugging pipe."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --no-proxy-server"
    " --disable-background-networking --disable-component-update --disable-sync --remote-debugging-pipe"
)


class Page:
    """One page. Commands and answers are JSON, each ended by a zero byte."""

    def __init__(self, reader: asyncio.StreamReader, to_browser: int) -> None:
        self._reader = reader
        self._to_browser = to_browser
        self._number = 0
        self._session = ""

    async def open(self, url: str) -> None:
        """Open an address in a new page, and wait until it is loaded."""
        target = await self._command("Target.createTarget", url="about:blank")
        attached = await self._command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        await self._command("Page.enable")
        await self._command("Page.navigate", url=url)
        await self.run("document.readyState === 'complete' || new Promise(done => addEventListener('load', done))")

    async def run(self, script: str) -> Any:  # noqa: ANN401  # what the script gives
        """The value of a script in the page, or of the promise that it gives."""
        done = await self._command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    async def _command(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        command: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith("Target."):
            command["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(command).encode() + b"\0")
        while True:
            answer = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result


@asynccontextmanager
async def a_browser(folder: Path) -> AsyncIterator[Page]:
    """A browser with an empty profile in this folder, and one page of it."""
    assert CHROMIUM is not None
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    # Chromium reads from 3 and writes to 4.
    line = f'exec "$0" {_FLAGS} --user-data-dir="$1" 3<&{commands} 4>&{answers}'
    process = await asyncio.create_subprocess_exec(
        "/bin/bash", "-c", line, CHROMIUM, str(folder), pass_fds=(commands, answers),
        start_new_session=True, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    os.close(commands)
    os.close(answers)
    reader = asyncio.StreamReader(limit=2**24)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: protocol, os.fdopen(from_browser, "rb", buffering=0)
    )
    try:
        yield Page(reader, to_browser)
    finally:
        # All of its processes: its children outlive the first one.
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        transport.close()
        os.close(to_browser)
