"""docs/reference/kinds.md: the twelve kinds and their fields."""

from __future__ import annotations

from collections.abc import Iterator

from parley.domain.message.kinds import GOES_FIRST, Field, Kind, Priority, Shape
from tools.reference.markdown import table

KINDS_INTRO = """\
# The twelve kinds

A message's kind (`type` in the file, `--type` on the command line) says what it asks. The first answer is what
`parley reply` sends when no `--type` is given; a kind without an answer gets a notification. The first priority is the
default. *That of the ...* is the priority of the message that the thread goes back to, of the message it answers when
there is none, P2 without either.
"""
KINDS_RULES = """
Priorities are {priorities}, the most urgent first. Processing order: priority, then {first}
before the others, then the older first, last the id.

A message may have several recipients, except {single}, which go to exactly one; a
sender is never in its own list.

## Body fields

Kinds that are not listed here have free text. A `follow_up` that answers a message may be free text too. Give the
fields with `--set name=value` (repeat it for each item of a list), as YAML text, or as a dict in Python."""


def kinds_page() -> Iterator[str]:
    yield KINDS_INTRO
    heads = ("kind", "asks", "pattern", "answers", "priority")
    yield from table(heads, map(kind_row, Kind))
    yield KINDS_RULES.format(
        priorities=", ".join(Priority),
        first=" and ".join(f"`{kind}`" for kind in sorted(GOES_FIRST)),
        single=" and ".join(f"`{kind}`" for kind in Kind if kind.spec.point_to_point),
    )
    for kind in Kind:
        if kind.spec.fields:
            yield ""
            yield f"### {kind}"
            yield ""
            yield from table(("field", "type", "required", "meaning"), map(field_row, kind.spec.fields))


def kind_row(kind: Kind) -> tuple[str, ...]:
    spec = kind.spec
    answers = ", ".join(f"`{answer}`" for answer in spec.answers) or "none"
    priority = f"that of the `{spec.origin}`" if spec.origin else ", ".join(spec.typical)
    return f"`{kind}`", spec.purpose, spec.pattern.value, answers, priority


def field_row(field: Field) -> tuple[str, ...]:
    kind = field.shape.value
    if field.choices:
        kind = " or ".join(f"`{choice}`" for choice in field.choices)
    elif field.shape is Shape.INTEGER:
        kind += f", {field.least} or more"
    return f"`{field.name}`", kind, "yes" if field.required else "no", field.description
