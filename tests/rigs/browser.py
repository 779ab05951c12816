"""A real browser: Debian's Chromium without a window, told what to do over its debugging pipe."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --no-proxy-server"
    # A change of size would end the transition between two pages with an error.
    " --force-prefers-reduced-motion"
    " --disable-background-networking --disable-component-update --disable-sync --remote-debugging-pipe"
)


_LEFT = -32000


class PageLeft(Exception):
    """The page went to another address while it was asked."""


class Page:
    """One page. Commands and answers are JSON, each ended by a zero byte."""

    def __init__(self, reader: asyncio.StreamReader, to_browser: int) -> None:
        self._reader = reader
        self._to_browser = to_browser
        self._number = 0
        self._session = ""
        self._features: list[dict[str, str]] = []
        # What the page complained of: errors of scripts, of its policies, and files that it did not get.
        self.errors: list[str] = []

    async def open(self, url: str, *, bypass_policy: bool = False) -> None:
        """Open an address in a new page, and wait until it is loaded. `bypass_policy`: scripts of the test may do what
        the page's own may not.
        """
        target = await self._command("Target.createTarget", url="about:blank")
        attached = await self._command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            await self._command(f"{domain}.enable")
        if bypass_policy:
            await self._command("Page.setBypassCSP", enabled=True)
        await self.go(url)

    async def go(self, url: str) -> None:
        """Go to an address, and wait until it is loaded."""
        await self._command("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def forget(self) -> None:
        """Empty the cache, as at a first visit; the sign-in stays."""
        await self._command("Network.clearBrowserCache")

    async def run(self, script: str) -> Any:  # noqa: ANN401  # what the script gives
        """The value of a script in the page, or of the promise that it gives."""
        done = await self._command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until a script gives something true; a page that is left meanwhile is asked again."""
        async with asyncio.timeout(60):
            while True:
                with suppress(PageLeft):
                    done = await self._command("Runtime.evaluate", expression=script, returnByValue=True)
                    if done["result"].get("value"):
                        return
                await asyncio.sleep(0.02)

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other: a letter, or "Enter"."""
        for key in keys:
            pressed: dict[str, object] = {"key": key, "text": "\r" if key == "Enter" else key}
            if key == "Enter":
                pressed["windowsVirtualKeyCode"] = 13
            await self._command("Input.dispatchKeyEvent", type="keyDown", **pressed)
            await self._command("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def resize(self, width: int, height: int) -> None:
        """Give the page another size; a narrow one is a phone."""
        await self._command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    async def prefer(self, scheme: str) -> None:
        """Prefer "light" or "dark"."""
        self._features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._command("Emulation.setEmulatedMedia", features=self._features)

    async def emulate_print(self, *, on: bool = True) -> None:
        """Show the page as on paper, with its colours as they are preferred."""
        await self._command("Emulation.setEmulatedMedia", media="print" if on else "", features=self._features)

    async def pdf(self) -> bytes:
        """The page as PDF, on A4."""
        done = await self._command("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(done["data"])

    async def switch_scripts_off(self) -> None:
        """Let the pages that are opened from now on run no script; what a test runs in them still works."""
        await self._command("Emulation.setScriptExecutionDisabled", value=True)

    async def picture(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode((await self._command("Page.captureScreenshot", format="png"))["data"])

    async def _command(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        command: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith("Target."):
            command["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(command).encode() + b"\0")
        while True:
            answer = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            self._note(answer)
            if answer.get("id") == self._number:
                if answer.get("error", {}).get("code") == _LEFT:
                    raise PageLeft
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", params["exceptionDetails"])))
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")


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
