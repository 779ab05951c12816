"""Documents to the types of requests, with errors in words for people."""

from __future__ import annotations

from typing import Any

import msgspec

from parley.domain.errors.errors import Invalid, Problem

# Patterns in words, by the characters that they allow.
_PATTERNS = {
    "[A-Za-z0-9._-]{0,63}": "must be letters, digits, '.', '_' or '-', at most 64, and begin with a letter or digit",
    "[A-Za-z0-9._@+-]{0,127}": "must be letters, digits, '.', '_', '@', '+' or '-', at most 128, and begin with a"
    " letter or digit",
    "[a-z0-9_.]{0,63}": "must be small letters, digits, '_' or '.', at most 64, and begin with a letter",
    "[0-9a-f]{32}": "must be 32 hexadecimal digits in small letters",
}


def converted(document: object, kind: Any) -> Any:  # noqa: ANN401  # the type says what comes back
    """Convert a document to a type; `Invalid` names the field."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        field = path.strip("`.").removeprefix(".")
        code = "unknown_field" if "unknown field" in detail else "invalid"
        raise Invalid.because([Problem(code, field, _readable(detail, kind, field))]) from None


def _readable(detail: str, kind: Any, field: str) -> str:  # noqa: ANN401  # a type
    """A validation error in words: a pattern described, a choice with its values."""
    if "matching regex" in detail:
        return next((text for pattern, text in _PATTERNS.items() if pattern in detail), detail)
    if detail.startswith("Invalid enum value"):
        choices = _choices(kind, field)
        return f"{detail}: must be {' or '.join(choices)}" if choices else detail
    return detail


def _choices(kind: Any, field: str) -> list[str]:  # noqa: ANN401  # a type
    """The values that a field of a document may have; none for nested fields."""
    import msgspec.inspect  # only needed for refusals

    described = msgspec.inspect.type_info(kind)
    if not isinstance(described, msgspec.inspect.StructType):
        return []
    of_field = [
        described_field.type
        for described_field in described.fields
        if described_field.encode_name == field.partition("[")[0]
    ]
    inner = [member for of in of_field for member in (of.types if isinstance(of, msgspec.inspect.UnionType) else [of])]
    inner = [member.item_type if isinstance(member, msgspec.inspect.ListType) else member for member in inner]
    choices: list[str] = []
    for member in inner:
        if isinstance(member, msgspec.inspect.EnumType):
            choices += [str(member.value) for member in member.cls]
        elif isinstance(member, msgspec.inspect.LiteralType):
            choices += [str(value) for value in member.values]
    return choices
