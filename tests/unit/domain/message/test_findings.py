"""The findings of a review: reading and checking packets."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.message.findings import (
    SEVERITIES,
    Finding,
    blocks,
    check_findings,
    gate,
    nit_text,
    normal_findings,
    read_findings,
    severity_of,
)


@pytest.mark.parametrize(
    ("severity", "flag", "blocking"),
    [
        ("P0", False, True), ("P1", False, True), ("P2", False, False), ("P2", True, True), ("P3", False, False),
        ("P3", True, False), ("P4", False, True), ("URGENT", False, True),
    ],
)  # fmt: skip
def test_p0_and_p1_block_p2_by_judgment_and_p3_never(severity: str, flag: bool, blocking: bool) -> None:
    assert blocks(severity, flag) is blocking


def test_a_packet_is_read_with_everything_it_leaves_out() -> None:
    packet: Mapping[str, object] = {
        "findings": [
            {"id": "a", "severity": "p1", "status": "Fixed", "summary": "s"},
            {"severity": "P2", "blocking": "Yes", "description": "d"},
            {"severity": "P2", "blocking": "no", "status": "wont_fix"},
            "just a text",
        ]
    }

    assert read_findings(packet) == (
        Finding("a", "P1", True, True, "s"),
        Finding("finding-002", "P2", True, False, "d"),
        Finding("finding-003", "P2", False, True, ""),
        Finding("finding-004", "P2", False, False, "just a text"),
    )


@pytest.mark.parametrize("packet", [None, {}, {"findings": None}, {"findings": "none"}, {"findings": {}}])
def test_a_packet_without_a_list_of_findings_never_passes(packet: Mapping[str, object] | None) -> None:
    assert read_findings(packet) is None
    assert gate(read_findings(packet)) is False


@pytest.mark.parametrize(
    ("severity", "flag", "resolved", "passes"),
    [
        ("P0", False, False, False),
        ("P0", False, True, True),
        ("P1", False, False, False),
        ("P2", True, False, False),
        ("P2", True, True, True),
        ("P2", False, False, True),
        ("P3", True, False, True),
    ],
)
def test_the_gate_passes_when_nothing_that_blocks_is_open(
    severity: str, flag: bool, resolved: bool, passes: bool
) -> None:
    finding = Finding("f", severity, blocks(severity, flag), resolved, "")

    assert gate((finding,)) is passes
    assert gate(()) is True


def test_an_open_p0_fails_the_gate_even_if_somebody_says_that_it_does_not_block() -> None:
    assert not gate((Finding("f", "P0", False, False, ""),))


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("critical", "P0"), ("Blocker", "P0"), ("major", "P1"), ("HIGH", "P1"), ("medium", "P2"), ("minor", "P3"),
        ("nit", "P3"), ("low", "P3"), (" p1 ", "P1"), ("", "P2"), (None, "P2"), ("severe", "SEVERE"),
    ],
)  # fmt: skip
def test_words_for_a_severity_are_known(word: str | None, severity: str) -> None:
    assert severity_of(word) == severity


@given(word=st.text(min_size=1).filter(lambda word: word.strip() and word.strip().upper() not in SEVERITIES))
def test_a_severity_that_nobody_knows_blocks(word: str) -> None:
    findings = read_findings({"findings": [{"id": "F-1", "severity": word, "blocking": "false"}]})

    assert not gate(findings)


@pytest.mark.parametrize(
    ("item", "severity", "blocking", "summary"),
    [
        ("P0: a hole", "P0", True, "a hole"),
        ("[major]: a leak", "P1", True, "a leak"),
        ("nit: a name", "P3", False, "a name"),
        ("Note: read this", "P2", False, "Note: read this"),
        ("just text", "P2", False, "just text"),
        (["P3: in a list"], "UNREADABLE", True, "['P3: in a list']"),
        (None, "UNREADABLE", True, "None"),
    ],
)
def test_a_finding_that_is_no_mapping_has_the_severity_that_it_begins_with(
    item: object, severity: str, blocking: bool, summary: str
) -> None:
    (finding,) = read_findings({"findings": [item]}) or ()

    assert (finding.severity, finding.blocking, finding.summary) == (severity, blocking, summary)


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        ({"summary": "race", "file": "a.py"}, "race"),
        ({"file": "a.py", "line": "12", "expected": "a lock", "recommendation": "take it"}, "a.py:12: take it"),
        ({"file": "a.py", "line": "12", "expected": "a lock"}, "a.py:12: a lock"),
        ({"file": "a.py", "evidence": "two\n  lines"}, "a.py: two lines"),
        ({"recommendation": "rename"}, "rename"),
        ({}, ""),
    ],
)
def test_a_finding_of_oacps_template_has_a_summary(fields: dict[str, str], summary: str) -> None:
    (finding,) = read_findings({"findings": [fields]}) or ()

    assert finding.summary == summary


@pytest.mark.parametrize(
    ("nit", "text"),
    [
        ("rename rl", "rename rl"),
        (
            "nit_id: N-1; tier: P3; summary: wording; owner: claude; tracking_ref: #156",
            "wording (owner claude, tracked in #156)",
        ),
        ({"summary": "wording", "owner": "claude"}, "wording (owner claude)"),
        ("nit_id: N-1; summary: a; b; owner: claude", "a; b (owner claude)"),
        ("note: this; owner: claude", "note: this; owner: claude"),
    ],
)
def test_a_nit_shows_its_owner_and_where_it_is_tracked(nit: object, text: str) -> None:
    assert nit_text(nit) == text


@pytest.mark.parametrize(
    ("items", "where"),
    [
        ("none", "findings"),
        (["just a text"], "findings[1]"),
        ([{"summary": "a", "severity": "P9"}], "findings[1].severity"),
        ([{"summary": "a", "status": "maybe"}], "findings[1].status"),
        ([{"severity": "P1"}], "findings[1].summary"),
        ([{"id": "F", "summary": "a"}, {"id": "F", "summary": "b"}], "findings[2].id"),
    ],
)
def test_what_is_wrong_with_findings_is_named(items: object, where: str) -> None:
    assert [problem.field for problem in check_findings(items)] == [where]


def test_findings_are_written_in_one_form() -> None:
    items = [{"severity": "critical", "file": "a.py", "line": "3", "expected": "a lock"}, {"id": "F-2", "summary": "s"}]

    assert check_findings(items) == []
    assert normal_findings([dict(item) for item in items]) == [
        {
            "id": "finding-001", "severity": "P0", "blocking": True, "status": "open", "summary": "a.py:3: a lock",
            "file": "a.py", "line": "3", "expected": "a lock",
        },
        {"id": "F-2", "severity": "P2", "blocking": False, "status": "open", "summary": "s"},
    ]  # fmt: skip
