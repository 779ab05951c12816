"""Python values as the JSON of a payload, and payloads as the types that a handler asks for; pure.

| value | JSON |
|---|---|
| mapping, dataclass, msgspec Struct, pydantic model, TypedDict | object |
| list, tuple, set | array; as a whole payload `{"items": [...]}` |
| text | string; as a whole payload `{"text": "..."}` |
| number, bool | itself; as a whole payload `{"value": ...}`, as all of the following |
| datetime (with a time zone), date, time, timedelta | string, ISO 8601 |
| Decimal, UUID | string |
| Enum | its value |

A schema is a type that a payload is converted to: what does not fit is refused with the names of its fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.team import PayloadInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

# How deep an error is looked for. Deeper, or in a circle, it is named by where the search ended.
_DEPTH_MAX = 40
_PROBLEMS_MAX = 5
# What msgspec says: "Expected `str`, got `int` - at `$.rows[0].name`", "Object missing required field `name` - at `$`".
_PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*)`\Z")
_NAMED_FIELD = re.compile(r"(?:missing required|contains unknown) field `(.*?)`")


def payload_of(value: object) -> dict[str, Any]:
    """The payload that a value stands for; `Invalid` for what cannot be sent. A dict is returned as it is."""
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    if isinstance(value, str):
        return {"text": value}
    plain = value if isinstance(value, list | tuple | int | float) else _converted(value)
    if isinstance(plain, dict):
        return plain
    return {"items": list(plain)} if isinstance(plain, list | tuple) else {"value": plain}


def _converted(value: object) -> object:
    try:
        return json_default(value)
    except TypeError as error:
        raise Invalid(f"this cannot be sent as JSON: {error}") from None


def json_default(value: object) -> object:
    """What JSON has for a value that it does not know: the hook of the encoder. `TypeError` says why there is none."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime) and value.tzinfo is None:
        raise TypeError("a datetime without a time zone (use datetime.now(UTC))")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return _sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value)
    if isinstance(value, timedelta) or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__struct_fields__"):
        return _builtins(value)
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return dump(mode="json")
    if kind.__name__ in ("Decimal", "UUID") and kind.__module__ in ("decimal", "uuid"):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{kind.__name__} are not JSON (send text, such as base64)")
    raise TypeError(f"{kind.__name__} is not JSON")


def _sorted(values: set[Any] | frozenset[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return list(values)


def _builtins(value: object) -> object:
    from decimal import Decimal
    from uuid import UUID

    import msgspec

    if isinstance(value, timedelta):
        return msgspec.to_builtins(value)
    # The rest is left to the encoder's hook, so that a value is the same inside and outside of a class.
    left = (datetime, date, time, timedelta, Decimal, UUID, bytes, bytearray, memoryview)
    return msgspec.to_builtins(value, builtin_types=left, str_keys=True, enc_hook=json_default, order="deterministic")


def problem_in(value: object, encode: Callable[[object], object], path: str = "", depth: int = 0) -> str:
    """Where and why a value cannot be encoded, as `report.when: ...`; `encode` fails for every value that cannot."""
    for name, item in _items(value) if depth < _DEPTH_MAX else ():
        if isinstance(value, Mapping) and not isinstance(name, str | int | float | bool | None):
            return f"{path}: a key is {type(name).__name__}, not text" if path else "a key is not text"
        try:
            encode(item)
        except (TypeError, ValueError, RecursionError):
            place = f"[{name}]" if not isinstance(value, Mapping) else f".{name}" if path else str(name)
            return problem_in(item, encode, f"{path}{place}", depth + 1)
    try:
        plain = json_default(value)
        encode(plain)
    except (TypeError, ValueError, RecursionError) as error:
        if depth < _DEPTH_MAX and isinstance(plain := _plain(value), dict | list):
            return problem_in(plain, encode, path, depth + 1)
        reason = f"{value} is not JSON" if isinstance(value, float) else str(error)
        return f"{path}: {reason}" if path else reason
    return path


def _plain(value: object) -> object:
    """The mapping or list that a value becomes, if it becomes one that has not been looked into."""
    if isinstance(value, Mapping | list | tuple):
        return None
    try:
        return json_default(value)
    except (TypeError, ValueError):
        return None


def _items(value: object) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple | set | frozenset) else []


# ---------------------------------------------------------------- schemas


def is_schema(kind: object) -> bool:
    """Whether an annotation is the type of a payload: a Struct, dataclass, TypedDict or pydantic model, or a union."""
    import msgspec

    if _validator(kind) is not None:
        return True
    try:
        info = msgspec.inspect.type_info(kind)
    except (TypeError, AttributeError):
        return False
    objects = (msgspec.inspect.StructType, msgspec.inspect.DataclassType, msgspec.inspect.TypedDictType)
    members = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    return all(isinstance(member, objects) for member in members)


def check_schema(kind: object, where: str) -> None:
    """Refuse a schema that nothing can be converted to."""
    import msgspec

    if _validator(kind) is not None:
        return
    try:
        usable = not isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType)
    except (TypeError, AttributeError):
        usable = False
    if not usable:
        hint = "use a dataclass, a msgspec Struct, a TypedDict or a pydantic model"
        raise Invalid(f"{where}: {getattr(kind, '__name__', repr(kind))} is no schema", hint=hint)


def convert(payload: Mapping[str, Any], kind: Any) -> Any:  # noqa: ANN401  # whatever the schema is
    """The payload as a value of this type; `PayloadInvalid` names the fields that do not fit."""
    import msgspec

    validate = _validator(kind)
    try:
        return msgspec.convert(payload, kind) if validate is None else validate(payload)
    except msgspec.ValidationError as error:
        problems = [_msgspec_problem(str(error))]
    except ValueError as error:
        problems = _pydantic_problems(error)
    raise PayloadInvalid.because(problems)


def _validator(kind: object) -> Callable[[object], object] | None:
    """How a pydantic model is filled; None for other types."""
    validate = getattr(kind, "model_validate", None)
    return validate if isinstance(kind, type) and callable(validate) else None


def _msgspec_problem(text: str) -> Problem:
    place = _PLACE.search(text)
    path, detail = (place[1], text[: place.start()]) if place else ("", text)
    if named := _NAMED_FIELD.search(detail):
        path = f"{path}.{named[1]}" if path else named[1]
    return Problem("invalid", path or "payload", detail)


def _pydantic_problems(error: ValueError) -> list[Problem]:
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return [Problem("invalid", "payload", str(error))]
    return [
        Problem("invalid", ".".join(map(str, entry["loc"])) or "payload", str(entry["msg"]))
        for entry in listed()[:_PROBLEMS_MAX]
    ]
