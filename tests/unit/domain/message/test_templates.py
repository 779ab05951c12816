"""A template to fill in has every field of its kind, and is refused until it is filled in."""

from __future__ import annotations

import pytest

from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.message.bodies import check_body, lookup, shape_body
from parley.domain.message.kinds import Kind, Shape
from parley.domain.message.templates import body_template
from parley.wire.yaml.strict import read_strict
from tests.samples.messages import STRUCTURED


@pytest.mark.parametrize("kind", STRUCTURED)
def test_an_empty_template_names_every_required_field_as_missing(kind: Kind) -> None:
    body = shape_body(kind, read_strict(body_template(kind), DEFAULT_LIMITS))

    missing = {problem.field.removeprefix("body.") for problem in check_body(kind, body)}

    full = {field.name for field in kind.spec.fields if field.required and field.shape is not Shape.LIST}
    assert missing == full


@pytest.mark.parametrize("kind", STRUCTURED)
def test_a_template_without_its_marks_has_every_field(kind: Kind) -> None:
    text = "".join(
        line.replace("# ", "", 1) if line.startswith("#") else line for line in body_template(kind).splitlines(True)
    )
    body = read_strict(text, DEFAULT_LIMITS, nulls=False)

    assert [field.name for field in kind.spec.fields if lookup(body, field.name) is None] == []


@pytest.mark.parametrize("kind", sorted(set(Kind) - set(STRUCTURED)))
def test_a_kind_with_free_text_has_no_template(kind: Kind) -> None:
    assert body_template(kind) == ""
