"""`python -m bench console`: the budget of the console, in headless Chromium on a real server.

PARTS are pages, far, live, held, flood, tabs, start and absence. `--quick` takes a fifth of the repetitions. `--record`
keeps the figures and writes docs/explanation/speed.md from them; `--page` only writes that. Exit code 1 when a goal is
missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from bench.console import distance, measures, page, startup
from bench.console.measures import Values
from tests.rigs.browser import CHROMIUM

_PARTS = ("pages", "far", "live", "held", "flood", "tabs", "start", "absence")


def main(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    if args.page:
        return page.write()
    if CHROMIUM is None:
        print("needs Chromium: apt-get install chromium")
        return 2
    quick = args.quick or os.environ.get("PARLEY_BENCH") == "quick"
    recorded: dict[str, page.ConsoleFigure] = {}
    for part in args.parts or _PARTS:
        print(f"  {part} ...", flush=True)
        # A server and a browser of its own for each: a flood leaves its traces in both.
        with tempfile.TemporaryDirectory(prefix="bench-console-", ignore_cleanup_errors=True) as folder:
            values = asyncio.run(_measure(part, Path(folder), quick=quick))
        figures = [page.figure(*summary) for summary in measures.summaries(values)]
        recorded |= {figure.name: figure for figure in figures}
        if args.record:
            page.save(figures)
    print(f"\n{page.table(recorded)}\n\nLoad now: {os.getloadavg()[0]:.1f}")
    if args.record:
        page.write()
    missed = [page.GOALS[name].what for name, figure in recorded.items() if page.is_met(figure) is False]
    print(f"goals missed: {', '.join(missed)}" if missed else "all goals met")
    return 1 if missed and not args.no_fail else 0


async def _measure(part: str, folder: Path, *, quick: bool) -> Values:
    if part == "start":
        return startup.measure_start(folder, 3 if quick else 9)
    if part == "absence":
        return startup.measure_absence(folder, 5 if quick else 25)
    async with measures.a_console(folder) as stage:
        if part == "pages":
            values = await measures.measure_pages(stage, 3 if quick else 15)
        elif part == "far":
            values = await distance.measure_far(stage, 3 if quick else 15)
        elif part == "live":
            values = await measures.measure_live(stage, 40 if quick else 200)
        elif part == "held":
            values = await measures.measure_held(stage, 10 if quick else 50)
        elif part == "flood":
            values = await measures.measure_flood(stage, 1 if quick else 3)
        else:
            values = await measures.measure_tabs(stage)
        if stage.page.errors:
            raise RuntimeError(f"the page complained: {stage.page.errors}")
    return values


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench console", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*_PARTS, []], metavar="PART", help=", ".join(_PARTS))
    parser.add_argument("--quick", action="store_true", help="a fifth of the repetitions")
    parser.add_argument("--record", action="store_true", help="keep the figures, and write the page")
    parser.add_argument("--page", action="store_true", help="write the page from what is recorded, and measure nothing")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 even when a goal is missed")
    return parser
