"""Every page can be reached by links and used by everybody: axe finds nothing, in both themes, on desks and phones."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import pytest

from parley.surfaces.console.routes import ROUTES, find_route
from tests.conformance.ocip.governed import MESSAGES, admin_of, held, pair, person
from tests.rigs.axe import findings
from tests.rigs.browser import Page, a_browser, needs_browser
from tests.rigs.fake_outbound import FakeOutbound
from tests.rigs.team import LiveServer, with_server

pytestmark = [pytest.mark.slow, needs_browser]

LINKS = "[...document.querySelectorAll('a[href^=\"/console\"]')].map((link) => link.getAttribute('href'))"
# Each theme and each width once; all four pairs at full length.
VIEWS = [("light", 1280), ("dark", 390)]
ALL_VIEWS = [*VIEWS, ("dark", 1280), ("light", 390)]
UNNAMED = "document.querySelector('main').insertAdjacentHTML('beforeend', '<input>')"


def pattern_of(path: str) -> tuple[str, ...] | None:
    """Which page is at a path."""
    route = find_route([step for step in urlsplit(path).path.split("/")[2:] if step])
    return route.steps if route is not None and route.show is not None else None


async def walk(page: Page, address: str, views: list[tuple[str, int]], found: dict[tuple[str, ...], list[str]]) -> None:
    """Note what axe finds on each page that links lead to; one of each kind is looked at."""
    ahead = ["/console"]
    seen: set[tuple[str, ...]] = set()
    while ahead:
        path = ahead.pop(0)
        pattern = pattern_of(path)
        if pattern is None or pattern in seen:
            continue
        seen.add(pattern)
        await page.go(f"{address}{path}")
        ahead += await page.run(LINKS)
        # The first page is another one for people than for those who govern.
        pattern = pattern_of(await page.run("location.pathname")) or pattern
        if pattern in found:
            continue
        found[pattern] = []
        for scheme, width in views:
            await page.prefer(scheme)
            await page.resize(width, 900)
            found[pattern] += [f"{scheme} {width}: {line}" for line in await findings(page)]


@with_server
async def test_every_page_is_reached_by_links_and_axe_finds_nothing(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await held(alice, "bob", "We promise <b>ag\u200bree</b> it.")
    server.rig.team.outbound = FakeOutbound()
    await alice.post("/subscriptions", {"webhook_url": "https://hooks.example/"})
    asked = {"message_type": "request", "to": "bob", "payload": {"text": "Is it done?", "ticket": 7}}
    await alice.post(MESSAGES, {**asked, "metadata": {"conversation_id": "conv-7"}})
    address = f"http://127.0.0.1:{server.listener.port}"
    views = ALL_VIEWS if os.environ.get("PARLEY_FAULT") == "full" else VIEWS

    # First as the person who has forms to decide with, then as the one who sees the rest.
    found: dict[tuple[str, ...], list[str]] = {}
    for who in (await person(server, "ann"), await admin_of(server)):
        once = (await who.post("/sessions/once")).json["once"]
        async with a_browser(server.rig.path.parent / f"profile-{len(found)}") as page:
            await page.open(f"{address}/console/login#once={once}", bypass_policy=True)
            await page.until("location.pathname !== '/console/login' && document.readyState === 'complete'")
            await walk(page, address, views, found)
            await page.run(UNNAMED)
            assert any(line.startswith("label: ") for line in await findings(page)), "axe finds nothing at all"

    assert {pattern: lines for pattern, lines in found.items() if lines} == {}
    assert set(found) == {route.steps for route in ROUTES if route.show is not None}
