"""`parley console` on mailboxes, as a process: the link, pages of a read-only mailbox, a browser, and the end."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.rigs.axe import findings
from tests.rigs.browser import Page, a_browser, needs_browser
from tests.surface.stage import Stage, parley_script

pytestmark = pytest.mark.slow

_MOUNTED = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
VIEWS = [("light", 1280), ("dark", 390)]
HOSTILE = "Why? <img src=/nothing onerror=globalThis.hacked=1>\u202e"
LINKS = "[...document.querySelectorAll('main a[href^=\"/console\"], nav a')].map((link) => link.getAttribute('href'))"


@contextmanager
def console(stage: Stage, *options: str, is_mounted: bool = False) -> Iterator[str]:
    """A console, by its link; it ends with Ctrl-C, and without an error."""
    line = [parley_script(), "console", "--json", *options]
    if is_mounted:
        namespace = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m"]
        line = [*namespace, "sh", "-c", _MOUNTED, "sh", str(stage.home), *line]
    process = subprocess.Popen(line, cwd=stage.here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def pages(link: str, *paths: str) -> dict[str, tuple[int, str]]:
    """Follow the link, and open these pages."""
    place = urlsplit(link)
    connection = http.client.HTTPConnection(place.netloc, timeout=60)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    connection.request("POST", "/console/login", urlencode({"once": place.fragment.partition("=")[2]}), form)
    answer = connection.getresponse()
    answer.read()
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    shown = {}
    for path in paths:
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        shown[path] = answer.status, answer.read().decode()
    connection.close()
    return shown


def test_a_read_only_mailbox_is_shown_as_it_is(stage: Stage) -> None:
    stage.script("send", "codex", "First?", "--type", "question", "--from", "claude")
    stage.script("send", "codex", "Second?", "--type", "question", "--from", "claude")
    stage.script("next", "-a", "codex")
    paths = ("/console/agents", "/console/agents/codex", "/console/threads", "/console/waiting")

    with console(stage, is_mounted=True) as link:
        mounted = pages(link, *paths)
    ledger = stage.agent("codex") / ".parley" / "ledger.db"
    before = stage.everything(), [Path(f"{ledger}{end}").read_bytes() for end in ("", "-wal")]
    with console(stage, "--project", "demo") as link:
        writable = pages(link, *paths)

    assert {path: status for path, (status, _) in mounted.items()} == dict.fromkeys(paths, 200)
    assert 'class="note bad"' not in mounted["/console/agents"][1]
    assert '<span class="tag">claimed</span>' in mounted["/console/agents/codex"][1]
    assert [text.count("First?") for _, text in mounted.values()] == [
        text.count("First?") for _, text in writable.values()
    ]
    assert (stage.everything(), [Path(f"{ledger}{end}").read_bytes() for end in ("", "-wal")]) == before


def test_with_a_project_that_is_not_there_the_error_says_so(stage: Stage) -> None:
    ran = stage.run("console", "--project", "nowhere")

    assert (ran.code, ran.error) == (3, "unknown_project")


@needs_browser
def test_a_person_reads_mailboxes_by_keyboard_and_sees_what_arrives(stage: Stage, tmp_path: Path) -> None:
    stage.send(subject=HOSTILE)
    stage.script("send", "codex", "Is it so?", "--type", "question", "--from", "claude")

    with console(stage) as link:
        asyncio.run(_story(stage, tmp_path / "profile", link))


async def _story(stage: Stage, profile: Path, link: str) -> None:
    base = link.partition("/console")[0]
    async with a_browser(profile) as page:
        await page.open(link)
        await page.until("location.pathname === '/console/agents' && document.documentElement.dataset.live === 'live'")
        assert "once" not in await page.run("location.href")
        await page.press("g", "w")
        await page.until("location.pathname === '/console/waiting' && document.readyState === 'complete'")
        await page.press("j", "Enter")
        await page.until("location.pathname.includes('/messages/') && document.querySelector('article') !== null")

        await page.go(f"{base}/console/agents/codex")
        await page.until("document.documentElement.dataset.live === 'live'")
        await page.run("globalThis.isSame = true")
        stage.send(subject="News")
        await page.until("document.body.innerText.includes('News')")
        assert await page.run("[isSame, globalThis.hacked]") == [True, None]
        await _walk(page, base)
        assert page.errors == []


async def _walk(page: Page, base: str) -> None:
    """Every page that links lead to fits its screen; of each kind one is looked at. axe needs a page of its own."""
    await page.open(f"{base}/console/agents", bypass_policy=True)
    ahead, kinds = ["/console/agents"], set[str]()
    while ahead:
        path = ahead.pop(0)
        steps = path.split("/")[2:]
        kind = "/".join([step if number % 2 == 0 else "*" for number, step in enumerate(steps)])
        if kind in kinds:
            continue
        kinds.add(kind)
        await page.go(f"{base}{path}")
        ahead += await page.run(LINKS)
        for scheme, width in VIEWS:
            await page.prefer(scheme)
            await page.resize(width, 800)
            assert await page.run("document.documentElement.scrollWidth") <= width, path
            assert await findings(page) == [], (path, scheme, width)
    assert kinds >= {
        "agents",
        "agents/*",
        "agents/*/messages/*",
        "threads",
        "threads/*",
        "reviews",
        "waiting",
        "dead-letters",
    }
