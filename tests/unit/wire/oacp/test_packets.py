"""Findings packets: written in a form that every YAML reader reads, and read from YAML or JSON."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid
from parley.domain.message.findings import check_findings, normal_findings
from parley.domain.message.message import Value
from parley.wire.oacp.packets import encode_packet, read_items

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)


@given(summaries=st.lists(TEXT.filter(str.split), max_size=4), more=TEXT)
def test_what_is_written_is_read_back(summaries: list[str], more: str) -> None:
    items: list[dict[str, Value]] = [{"severity": "P1", "summary": text, "evidence": more} for text in summaries]
    findings = normal_findings(items)

    content = encode_packet({"round": 1}, findings)

    assert read_items(content.decode(), "x") == [
        {key: ("true" if value is True else value) for key, value in finding.items()} for finding in findings
    ]
    assert yaml.safe_load(content)["findings"] == findings


@pytest.mark.parametrize(
    "text",
    ["- {severity: P1, summary: s}", "findings: [{severity: P1, summary: s}]", '[{"severity": "P1", "summary": "s"}]'],
)
def test_a_list_or_a_mapping_with_a_list_is_read(text: str) -> None:
    items = read_items(text, "x.yaml")

    assert (items, check_findings(items)) == ([{"severity": "P1", "summary": "s"}], [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("results: []", "no list of findings"),
        ("findings: x", "no list of findings"),
        ("- &a x", "x.yaml: "),
        ("{", "x.yaml: "),
    ],
)
def test_what_is_no_packet_is_refused_with_its_name(text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        read_items(text, "x.yaml")
