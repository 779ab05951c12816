"""`python -m bench page`: write the figures of the recorded run into docs/explanation/speed.md, and draw them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bench.counts import record
from bench.report import picture, run

PAGE = run.ROOT / "docs" / "explanation" / "speed.md"
PICTURE = run.ROOT / "docs" / "pictures" / "speed.svg"
_BEGIN, _END = "<!-- figures: python -m bench page -->", "<!-- end of figures -->"
_COUNTS_BEGIN, _COUNTS_END = "<!-- counts: python -m bench page -->", "<!-- end of counts -->"


def main(arguments: list[str]) -> int:
    argparse.ArgumentParser(prog="python -m bench page", description=__doc__).parse_args(arguments)
    PAGE.write_text(page(PAGE.read_text()))
    PICTURE.write_text(picture.draw(run.load()))
    print(f"{PAGE}\n{PICTURE}")
    return 0


def page(text: str) -> str:
    """The page with the figures of the records in place of those that it has."""
    text = replace(text, _BEGIN, _END, _figures())
    return replace(text, _COUNTS_BEGIN, _COUNTS_END, _counts())


def replace(text: str, begin: str, end: str, content: str) -> str:
    """The text with this content between two marks."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def _figures() -> str:
    entries, machine = run.load(), run.machine()
    releases = ", ".join(sorted({entry.release for entry in entries}))
    missed = sum(entry.met is False for entry in entries)
    heads = ("what", "Parley", "beside", "its figure", "ratio", "goal", "", "load")
    goals = sum(bool(entry.goal) for entry in entries)
    summary = f"{goals - missed} of {goals} goals are met." if missed else f"All {goals} goals are met."
    where = (
        f"Parley {releases}, Python {machine['python']}, SQLite {machine['sqlite']}; {machine['cores']} cores"
        f" ({machine['processor']}); the disk takes {machine['sync_ms']} ms to sync a page. `load` is the load average"
        " of the minute in which a row was measured. Up to 2 it is the bench itself. Above that, other work takes part"
        " of the cores: rates and waits get worse, and CPU times change little."
    )
    return "\n\n".join([_markdown(heads, "lrlrrrlr", run.cells(entries)), f"{where} {summary}"])


def _counts() -> str:
    records = {release: versions["3.11"] for release, versions in record.load().items() if "3.11" in versions}
    newest = list(records.values())[-1]
    rows = [
        (
            name,
            *(
                _counted(counts.get(name, {}), kind)
                for kind in ("bytecodes", "instructions")
                for counts in records.values()
            ),
        )
        for name in newest
    ]
    heads = ["path", *(f"{kind}, {release}" for kind in ("bytecodes", "instructions") for release in records)]
    return _markdown(heads, "l" + "r" * (len(heads) - 1), rows)


def _counted(counts: dict[str, int], kind: str) -> str:
    count = counts.get(kind, 0)
    return "" if not count else f"{count:,}" if count < 10_000_000 else f"{count / 1e6:,.0f} M"


def _markdown(heads: Sequence[str], aligned: str, rows: Sequence[Sequence[str]]) -> str:
    rule = ["---" if side == "l" else "---:" for side in aligned]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *rows))
