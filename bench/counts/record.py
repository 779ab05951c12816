"""`python -m bench count` compares this tree with what was recorded; `python -m bench record` records it.

`bench/recorded/counts.json` has the counts of each release. A tree is compared with its own release, or with the newest
one before the first record of its own.
"""

from __future__ import annotations

import argparse
import compileall
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.counts.counting import count_bytecodes, count_instructions
from bench.measure import Runner
from bench.workspace import Bench

ROOT = Path(__file__).parent.parent.parent
RECORD = ROOT / "bench" / "recorded" / "counts.json"
# Ignored by git, and on the file system of the repository.
_SCRATCH = ROOT / "bench" / "results" / "local"
# Counts of one tree differ by less than one in a hundred.
TOLERANCE = 0.05
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_AGAIN = "`python -m bench record`"

# Release -> version of Python -> path -> what was counted.
Records = dict[str, dict[str, dict[str, dict[str, int]]]]


class Change(NamedTuple):
    """A path beside its record; 0 is for what one of the two does not have."""

    name: str
    recorded: int
    now: int

    @property
    def verdict(self) -> str:
        if not self.recorded:
            return "not recorded"
        if not self.now:
            return "not counted"
        ratio = self.now / self.recorded
        return "slower" if ratio > 1 + TOLERANCE else "faster: record it" if ratio < 1 - TOLERANCE else ""

    @property
    def fails(self) -> bool:
        return self.verdict in ("not recorded", "not counted", "slower")


def load() -> Records:
    records: Records = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return records


def release_to_compare(records: Records, version: str) -> str:
    """This release, or the newest one if it is not recorded yet."""
    return version if version in records else max(records, key=_numbers)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def compare(recorded: dict[str, int], now: dict[str, int]) -> list[Change]:
    names = [*now, *(name for name in recorded if name not in now)]
    return [Change(name, recorded.get(name, 0), now.get(name, 0)) for name in names]


def table(changes: list[Change], release: str) -> str:
    lines = [f"{'bytecodes':24}{f'recorded, {release}':>18}{'now':>12}{'ratio':>9}"]
    for change in changes:
        ratio = f"{change.now / change.recorded:.3f}x" if change.recorded else ""
        lines.append(f"{change.name:24}{change.recorded:18,}{change.now:12,}{ratio:>9}  {change.verdict}".rstrip())
    return "\n".join(lines)


def version_of(tree: Path) -> str:
    return (tree / "src/parley/domain/version.py").read_text().partition('VERSION = "')[2].partition('"')[0]


def count_main(arguments: list[str]) -> int:
    argparse.ArgumentParser(prog="python -m bench count", description=__doc__).parse_args(arguments)
    records, version = load(), version_of(ROOT)
    release = release_to_compare(records, version)
    recorded = {name: counts["bytecodes"] for name, counts in records[release].get(PYTHON, {}).items()}
    now = _count(ROOT, instructions=False)
    changes = compare(recorded, {name: counts["bytecodes"] for name, counts in now.items()})
    print(table(changes, release))
    if not recorded:
        print(f"Not compared: {release} is not recorded with Python {PYTHON}, which has bytecodes of its own.")
        return 0
    if any(change.verdict.startswith("faster") for change in changes):
        print(f"Some need less than recorded: keep it that way with {_AGAIN}.")
    failed = [change.name for change in changes if change.fails]
    if failed:
        print(f"error: {', '.join(failed)}: not within {TOLERANCE:.0%} of what is recorded in {RECORD.name}.")
        print(f"Make it cheaper; or, if it has to cost more, record it with {_AGAIN} and say why in the commit.")
    return 1 if failed else 0


def record_main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench record", description=__doc__)
    parser.add_argument("--tree", metavar="DIR", default=str(ROOT), help="another checkout, to record its release")
    parser.add_argument("--fast", action="store_true", help="bytecodes only; instructions stay as they were recorded")
    args = parser.parse_args(arguments)
    tree = Path(args.tree).resolve()
    records, version = load(), version_of(tree)
    now = _count(tree, instructions=not args.fast)
    before = records.get(version, {}).get(PYTHON, {})
    records.setdefault(version, {})[PYTHON] = {name: before.get(name, {}) | counts for name, counts in now.items()}
    ordered = dict(sorted(records.items(), key=lambda item: _numbers(item[0])))
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n")
    old = {name: counts["bytecodes"] for name, counts in before.items()}
    print(table(compare(old, {name: counts["bytecodes"] for name, counts in now.items()}), version))
    return 0


def _count(tree: Path, *, instructions: bool) -> dict[str, dict[str, int]]:
    source = f"{tree}/src"
    compileall.compile_dir(f"{source}/parley", quiet=1)
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="counts-", dir=_SCRATCH)
    try:
        counts = {name: {"bytecodes": count} for name, count in count_bytecodes(_bench(folder, "a"), source).items()}
        if instructions:
            for name, count in count_instructions(_bench(folder, "b"), source).items():
                counts[name]["instructions"] = count
    finally:
        shutil.rmtree(folder)
    return counts


def _bench(folder: str, name: str) -> Bench:
    path = Path(folder, name)
    path.mkdir()
    return Bench(str(path), Runner(str(path)), quick=True)
