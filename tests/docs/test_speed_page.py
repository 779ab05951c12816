"""The page about speed shows what was recorded, in its tables and in its picture."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest

from bench.console import page as console
from bench.counts import record
from bench.figures import OACP, REFERENCE, Figure, Goal
from bench.measure import Sample
from bench.report import page, picture, run

_TEXT = "{http://www.w3.org/2000/svg}text"


def test_the_page_and_the_records_agree() -> None:
    text = page.PAGE.read_text()

    assert page.page(text) == text, "run: python -m bench page"


def test_the_picture_and_the_record_agree() -> None:
    assert picture.draw(run.load()) == page.PICTURE.read_text(), "run: python -m bench page"


def test_a_figure_that_changes_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = run.load()
    monkeypatch.setattr(run, "load", lambda: [first._replace(ours="12,345,678 /s"), *others])

    assert page.page(page.PAGE.read_text()).count("12,345,678 /s") == 1


def test_a_count_that_changes_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    records = record.load()
    monkeypatch.setattr(record, "load", lambda: records | {"9.9.9": {"3.11": {"send": {"bytecodes": 1_234_567}}}})

    assert "1,234,567" in page.page(page.PAGE.read_text())


def test_the_figures_of_the_console_and_their_record_agree() -> None:
    text, recorded = page.PAGE.read_text(), console.load()
    changed = recorded | {"held p95": recorded["held p95"]._replace(value=123_456.0)}

    assert console.page(text, recorded) == text, "run: python -m bench console --page"
    assert "| 123,456 ms | <= 100 ms |" in console.page(text, changed)
    assert recorded.keys() == console.GOALS.keys()


def test_every_text_of_the_picture_is_inside_of_it() -> None:
    drawing = ET.fromstring(picture.draw(run.load()))
    width = float(drawing.attrib["viewBox"].split()[2])
    for text in drawing.iter(_TEXT):
        # A character of this size takes some 7 units at most.
        length, x = 7.0 * len(text.text or ""), float(text.attrib["x"])
        start = x - length * {"end": 1.0, "middle": 0.5}.get(text.attrib.get("text-anchor", ""), 0.0)

        assert start >= 0, text.text
        assert start + length <= width, text.text


def test_a_run_keeps_the_rows_that_it_did_not_measure(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(run, "RECORD", tmp_path_factory.mktemp("run") / "run.json")

    run.save(run.entries_of([figure(2.0, "cold send", OACP), figure(4.0, "durable POST", REFERENCE)], "0.1.0"))
    run.save(run.entries_of([figure(3.0, "cold send", OACP), Figure("b", "not shown", "s", Sample((1.0,)))], "0.2.0"))

    assert [(entry.row, entry.ratio, entry.release) for entry in run.load()] == [
        ("cold send", 3.0, "0.2.0"),
        ("durable POST", 4.0, "0.1.0"),
    ]
    assert json.loads(run.RECORD.read_text())["machine"]["cores"]


def figure(times: float, row: str, peer: str) -> Figure:
    """Something that takes a second, and its peer so many times longer."""
    return Figure("b", "w", "s", Sample((1.0,)), Sample((times,)), Goal(">=", 2.0, "x"), row=row, peer=peer)


def test_the_table_says_what_was_missed() -> None:
    (entry,) = run.entries_of([figure(1.5, "cold send", OACP)], "0.1.0")

    row = re.split(r"\s{2,}", run.table([entry._replace(load=3.5)]).splitlines()[1])

    assert row == ["cold send", "1.00 s", "oacp-cli", "1.50 s", "1.50x", ">= 2x", "missed", "3.5"]
