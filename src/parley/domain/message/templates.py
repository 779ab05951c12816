"""The body of a kind as YAML to fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.message.kinds import Shape

if TYPE_CHECKING:
    from parley.domain.message.kinds import Field, Kind

_LISTS = (Shape.LIST, Shape.FULL_LIST)


def body_template(kind: Kind) -> str:
    """A line for each field with its meaning behind it, optional ones commented out; "" for a kind with free text."""
    lines: list[str] = []
    parents: set[str] = set()
    for field in kind.spec.fields:
        parent, _, name = field.name.rpartition(".")
        if parent and parent not in parents:
            parents.add(parent)
            lines.append(f"{parent}:")
        indent = "  " if parent else ""
        lines += [f"{indent}{'' if field.required else '# '}{line}" for line in _field_lines(name, field)]
    return "".join(f"{line}\n" for line in lines)


def _field_lines(name: str, field: Field) -> list[str]:
    choices = " or ".join(field.choices) or {Shape.BOOLEAN: "true or false", Shape.INTEGER: "a number"}.get(field.shape)
    line = f"{name}:  # {field.description}" + (f" ({choices})" if choices else "")
    return [line, '  - ""'] if field.shape in _LISTS else [line]
