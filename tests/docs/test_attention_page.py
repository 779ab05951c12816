"""The page about attention shows what was recorded, in its tables and in its picture."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from bench.attention import page, picture, record
from bench.attention.record import Kills, Latency, MessageCost
from tests.harness.packages import locked
from tests.harness.programs import AGENTS
from tests.harness.waking import TERMINAL

_TEXT = "{http://www.w3.org/2000/svg}text"


def test_the_page_and_the_record_agree() -> None:
    text = page.PAGE.read_text()

    assert page.page(text, record.load()) == text, "run: python -m bench attention --page"


def test_the_picture_and_the_record_agree() -> None:
    assert picture.draw(record.load().latencies) == page.PICTURE.read_text(), "run: python -m bench attention --page"


def test_the_record_is_of_the_programs_that_are_tested() -> None:
    facts = dict(record.load().facts)

    assert {name: facts[name] for name in AGENTS} == {name: locked()[name].short_version for name in AGENTS}


def test_a_figure_that_changes_changes_the_page() -> None:
    first, *others = record.load().latencies
    recorded = record.load()._replace(latencies=(first._replace(seconds=(123.456,)), *others))

    assert page.page(page.PAGE.read_text(), recorded).count("123.46 s") == 2


def test_every_text_of_the_picture_is_inside_of_it() -> None:
    drawing = ET.fromstring(picture.draw(record.load().latencies))
    width = float(drawing.attrib["viewBox"].split()[2])
    for text in drawing.iter(_TEXT):
        # A character of this size takes some 7 units at most.
        length, x = 7.0 * len(text.text or ""), float(text.attrib["x"])
        start = x - length * {"end": 1.0, "middle": 0.5}.get(text.attrib.get("text-anchor", ""), 0.0)

        assert start >= 0, text.text
        assert start + length <= width, text.text


def test_a_percentile_is_a_value_that_was_measured() -> None:
    latency = Latency("claude", TERMINAL, "idle", 4, (0.1, 0.2, 0.3, 0.4), 1.0)

    assert [latency.percentile(share) for share in (0.0, 0.5, 0.75, 0.95, 1.0)] == [0.1, 0.2, 0.3, 0.4, 0.4]


@pytest.mark.parametrize(
    ("latency", "is_met"),
    [((2, (0.4, 0.5)), True), ((3, (0.4, 0.5)), False), ((2, (0.6, 0.7)), False), ((1, ()), False)],
    ids=["in time", "one is missing", "late", "none"],
)
def test_a_goal_counts_only_if_every_message_arrived(latency: tuple[int, tuple[float, ...]], is_met: bool) -> None:
    recorded = record.AttentionRecord(latencies=(Latency("claude", TERMINAL, "idle", *latency, 1.0),))

    assert (page.missed_goals(recorded) == []) is is_met


def test_a_run_keeps_what_it_did_not_measure(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(record, "RECORD", tmp_path_factory.mktemp("attention") / "attention.json")
    kills = Kills("claude", 100, 40, 0, 0, 0)

    record.save(record.AttentionRecord(kills=(kills,), messages=(MessageCost("codex", 33, 3, 200, 201),)))
    record.save(record.AttentionRecord(messages=(MessageCost("codex", 33, 3, 140, 160),), facts=(("cores", "2"),)))

    assert record.load() == record.AttentionRecord(
        kills=(kills,), messages=(MessageCost("codex", 33, 3, 140, 160),), facts=(("cores", "2"),)
    )
    assert page.missed_goals(record.load()) == []
