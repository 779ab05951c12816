"""The console in a browser, on a real `parley up`: bytes, first paint, live rows, a flood, many tabs."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from bench.channels.processes import AGENT, KEY, Server, parley_up
from bench.governance.rows import ANSWERER
from bench.governance.sends import set_up
from tests.rigs.browser import Page, a_browser

_LIVE = "document.documentElement.dataset.live === 'live'"
PAINT = "performance.getEntriesByName('first-contentful-paint')"
# The page itself and its files; what the live stream fetches afterwards is no part of them.
_SIZES = """[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .filter((entry) => !['fetch', 'eventsource'].includes(entry.initiatorType) && !entry.name.includes('/console/live'))
    .map((entry) => [entry.name, entry.transferSize, entry.encodedBodySize])"""
# The frame after the one that shows a row begins when the row has been painted: an upper bound.
_WATCH = """(() => {
    globalThis.shown = {}; globalThis.rows = 0; globalThis.longest = 0;
    const list = document.querySelector(%r);
    new MutationObserver((changes) => {
        const at = Date.now(), marks = changes.flatMap((change) => [...change.addedNodes])
            .map((row) => /mark-\\d+/.exec(row.textContent)?.[0]).filter(Boolean);
        rows = Math.max(rows, list.childElementCount);
        for (const mark of marks) shown[mark] ??= { there: at };
        requestAnimationFrame(() => { for (const mark of marks) shown[mark].painted ??= Date.now(); });
    }).observe(list, { childList: true });
    new PerformanceObserver((tasks) => {
        for (const task of tasks.getEntries()) longest = Math.max(longest, task.duration);
    }).observe({ type: 'longtask' });
})()"""
_QUEUE, _TIMELINE = "#queue", "#timeline"
_SAID = 200
_WAITING = 10
_FLOOD = 10_000
_TABS = 12

Values = dict[str, list[float]]


class ConsoleStage(NamedTuple):
    """A server, a channel on it, and a browser that a person has signed in with."""

    server: Server
    page: Page
    channel: str
    connection: http.client.HTTPConnection

    @property
    def approvals(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/console/approvals"

    @property
    def timeline(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/console/channels/{self.channel}"

    def post(self, body: dict[str, object], way: str = "messages") -> tuple[float, float]:
        """Post on the channel; when it left and when it was answered, in milliseconds of the clock."""
        path = f"/api/v1/channels/{self.channel}/{way}"
        left = time.time() * 1e3
        request_json(self.connection, path, body, KEY, AGENT)
        return left, time.time() * 1e3

    def hold(self, mark: str) -> float:
        """Post what a person has to approve; when it left."""
        metadata = {"exchange_type": "information_query", "conversation_id": mark}
        text = {"text": f"We commit to {mark}."}
        return self.post({"to": ANSWERER, "message_type": "request", "payload": text, "metadata": metadata})[0]

    def flood(self, marks: list[str]) -> tuple[float, float]:
        """Post them all, a hundred at a time; when the first left and when the last was answered."""
        times: list[tuple[float, float]] = []
        for first in range(0, len(marks), 100):
            messages = [{"sender": AGENT, "payload": {"text": mark}} for mark in marks[first : first + 100]]
            times.append(self.post({"messages": messages}, "batch"))
        return times[0][0], times[-1][1]


@asynccontextmanager
async def a_console(folder: Path) -> AsyncIterator[ConsoleStage]:
    """A server with two agents, and a browser of the person for whom the first one acts."""
    with parley_up(str(folder / "data")) as server:
        set_up(server)
        channel = server.channel("desk", max_messages=2 * _FLOOD)
        person = server.call("POST", "/keys", {"kind": "human", "user_id": f"{AGENT}@example.com"})["key"]
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        once = request_json(connection, "/api/v1/sessions/once", {}, person)["once"]
        async with a_browser(folder / "profile") as page:
            stage = ConsoleStage(server, page, channel, connection)
            stage.flood([_some_words(number) for number in range(_SAID)])
            await page.open(f"http://127.0.0.1:{server.port}/console/login#once={once}")
            await page.until("location.pathname === '/console/approvals'")
            yield stage
        connection.close()


def _some_words(seed: int) -> str:
    """Fifteen words that compress worse than those of a language."""
    chance = Random(seed)
    return " ".join("".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(15))


def request_json(
    connection: http.client.HTTPConnection, path: str, body: object, key: str, agent: str = ""
) -> dict[str, str]:
    headers = {"X-API-Key": key, "Content-Type": "application/json"} | ({"X-Agent-ID": agent} if agent else {})
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"POST {path}: {answer.status} {content[:400]!r}")
    document = json.loads(content)
    return document if isinstance(document, dict) else {}


async def measure_pages(stage: ConsoleStage, runs: int) -> Values:
    """Bytes of the files and of two pages, and their first paint with nothing cached."""
    page, values = stage.page, dict[str, list[float]]()
    for number in range(_WAITING):
        stage.hold(f"mark-{number}")
    for name, url in (("approvals", stage.approvals), ("channel", stage.timeline)):
        for _ in range(runs):
            await page.forget()
            await page.go(url)
            await page.until(f"{PAINT}.length")
            sizes = await page.run(_SIZES)
            values.setdefault(f"{name} cold", []).append(sum(size for _, size, _ in sizes) / 1e3)
            values.setdefault(f"{name} paint", []).append(await page.run(f"{PAINT}[0].startTime"))
            for file in ("console.js", "console.css"):
                values[file] = [body / 1e3 for path, _, body in sizes if path.endswith(file)]
            await page.go("about:blank")
            await page.go(url)
            warm = await page.run(_SIZES)
            values.setdefault(f"{name} warm", []).append(sum(size for _, size, _ in warm) / 1e3)
    return values


async def measure_live(stage: ConsoleStage, runs: int) -> Values:
    """From the moment a POST leaves to its row: on the page, and painted."""
    await _watch(stage.page, stage.timeline, _TIMELINE)
    there, painted = list[float](), list[float]()
    for number in range(runs):
        mark = f"mark-{number}"
        left, _ = stage.post({"payload": {"text": mark}})
        shown = await _shown(stage.page, mark)
        there.append(shown["there"] - left)
        painted.append(shown["painted"] - left)
    return {"live there": there, "live painted": painted}


async def measure_held(stage: ConsoleStage, runs: int) -> Values:
    """The same for a message that is held, in the queue of the person who decides."""
    await _watch(stage.page, stage.approvals, _QUEUE)
    there = list[float]()
    for number in range(runs):
        left = stage.hold(f"mark-{number}")
        there.append((await _shown(stage.page, f"mark-{number}"))["there"] - left)
    return {"held": there}


async def measure_flood(stage: ConsoleStage, runs: int) -> Values:
    """Ten thousand messages as fast as one connection can send them."""
    values: Values = {"flood rows": [], "flood sent": [], "flood last": [], "flood task": []}
    for run in range(runs):
        await _watch(stage.page, stage.timeline, _TIMELINE)
        marks = [f"mark-{run}{n:05}" for n in range(_FLOOD)]
        began, ended = stage.flood(marks)
        shown = await _shown(stage.page, marks[-1])
        values["flood sent"].append((ended - began) / 1e3)
        values["flood last"].append((shown["painted"] - ended) / 1e3)
        values["flood rows"].append(await stage.page.run("rows"))
        values["flood task"].append(await stage.page.run("longest"))
    return values


async def measure_tabs(stage: ConsoleStage) -> Values:
    """Twelve tabs of one browser: the last one has no stream of its own, and asks again every five seconds."""
    page, seconds = stage.page, list[float]()
    for _ in range(_TABS - 1):
        await page.open(stage.timeline)
    await page.open(stage.timeline)
    await page.run(_WATCH % _TIMELINE)
    # The first one may come with the page.
    for number in range(4):
        left, _ = stage.post({"payload": {"text": f"mark-{number}"}})
        shown = await _shown(page, f"mark-{number}")
        seconds.append((shown["painted"] - left) / 1e3)
    return {"tabs": seconds[1:]}


async def _watch(page: Page, url: str, rows: str) -> None:
    await page.go("about:blank")
    await page.go(url)
    await page.until(_LIVE)
    await page.run(_WATCH % rows)


async def _shown(page: Page, mark: str) -> dict[str, float]:
    await page.until(f"shown[{mark!r}]?.painted")
    times: dict[str, float] = await page.run(f"shown[{mark!r}]")
    return times


def percentile(values: list[float], share: float) -> float:
    """The value that this share did not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(int(-(-len(ordered) * share // 1)), 1) - 1]


def summaries(values: Values) -> Iterator[tuple[str, float, int]]:
    """Each figure of the table: the median, the 95th percentile of live rows, the worst of floods and tabs."""
    for name, measured in values.items():
        if name.startswith(("live", "held")):
            yield f"{name} p50", median(measured), len(measured)
            yield f"{name} p95", percentile(measured, 0.95), len(measured)
        elif name.startswith(("flood", "tabs")):
            yield name, max(measured), len(measured)
        else:
            yield name, median(measured), len(measured)
