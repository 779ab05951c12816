"""The page about the life of a request names a test for every line, and every one of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "requests.md"
_TEST = re.compile(r"`(test_\w+)`")


def _rows() -> list[str]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [line for line in lines if not line.startswith("|---") and not line.endswith("| test |")]


def test_every_line_of_the_page_names_its_test() -> None:
    assert [row for row in _rows() if not _TEST.search(row)] == []


def test_every_test_that_the_page_names_exists() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"def (test_\w+)\(", text))

    assert set(_TEST.findall(PAGE.read_text(encoding="utf-8"))) - defined == set()
