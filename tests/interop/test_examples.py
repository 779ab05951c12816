"""The specifications' own examples are read as they stand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from parley import Mailbox
from parley.wire.oacp.format import OacpFormat

EXAMPLES = sorted((Path(__file__).parents[1] / "conformance/examples").glob("*.yaml"))


def test_there_are_examples_of_all_three_specifications() -> None:
    assert {path.name[:2] for path in EXAMPLES} == {"s1", "s2", "s3"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.requirement("S1-EXAMPLE-REVIEW-REQUEST", "S1-EXAMPLE-THREADING", "S1-EXAMPLE-BROADCAST")
@pytest.mark.requirement("S2-EXAMPLE-ANNOTATED")
def test_an_example_is_a_message(path: Path) -> None:
    message = OacpFormat().decode(path.read_bytes())

    assert message.subject
    assert OacpFormat().decode(OacpFormat().encode(message._replace(extras={}))).body == message.body


def test_all_examples_can_lie_in_one_inbox(place: Path) -> None:
    for path in EXAMPLES:
        shutil.copy(path, place / "h/projects/p/agents/bob/inbox")

    items = Mailbox("p", agent="bob", home=place / "h").inbox()

    assert [item.problem for item in items] == [""] * len(EXAMPLES)
