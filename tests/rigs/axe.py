"""axe-core in a page: what it finds that keeps people from using it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.rigs.browser import Page

_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def _script() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text()


async def findings(page: Page) -> list[str]:
    """What axe finds on a page, a line each."""
    if not await page.run("typeof axe === 'object'"):
        await page.run(_script() + "; 1")
    found = await page.run(
        f"axe.run(document, {{runOnly: {_TAGS}, resultTypes: ['violations']}}).then((result) =>"
        " result.violations.flatMap((one) => one.nodes.map((node) =>"
        " `${one.id}: ${node.target.join(' ')}: ${(node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? ''}`)))"
    )
    return [str(line) for line in found]
