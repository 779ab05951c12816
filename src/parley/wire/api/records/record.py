"""What every answer of the HTTP API is made of: `Record`, and the types that its fields share.

A record is declared once. The server fills it from what the store holds and encodes it, the client decodes the same
class, and the OpenAPI document is generated from it. Reading is lenient: unknown fields are ignored, and a choice is
any text, so that a newer server can be read. What an import of the client costs is paid here: no record imports the
domain.
"""

from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

S = TypeVar("S", bound=msgspec.Struct)

Mapping = dict[str, Any]
Timestamp = Annotated[datetime, Meta(description="RFC 3339 with an offset.", extra_json_schema={"format": "date-time"})]

_MISSING: Any = object()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A response of a server. Immutable; request it again for the current state."""

    __module__ = "parley"

    # Fields that an answer may lack, as JSON names them. All others are in every answer.
    may_be_absent: ClassVar[tuple[str, ...]] = ()

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # a field has its own type
        """A field by its name, in Python's spelling or in that of the JSON."""
        if name in self.__struct_fields__:
            return getattr(self, name)
        if name in self.__struct_encode_fields__:
            return getattr(self, self.__struct_fields__[self.__struct_encode_fields__.index(name)])
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self.__struct_fields__ or name in self.__struct_encode_fields__

    def keys(self) -> tuple[str, ...]:
        """The names of the fields; with this, `dict(record)` works."""
        return self.__struct_fields__

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # a field has its own type
        """A field by its name, or `default` when there is none of this name."""
        try:
            return self[name]
        except KeyError:
            return default

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it: mappings, lists, texts and numbers."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def repr_without(secret: str, record: Record) -> str:
    """The `repr` of a record that holds a secret, which must not get into logs."""
    fields = [f"{name}={'...' if name == secret else repr(record[name])}" for name in record.__struct_fields__]
    return f"{type(record).__name__}({', '.join(fields)})"


def fill_record(kind: type[S], /, *stored: object, **different: Any) -> S:  # noqa: ANN401  # a field has its own type
    """A record with the fields of the same names that `stored` has, and those that are `different`.

    The store keeps times as text and documents as bytes, exactly as they are sent. They go into the record as they are:
    nothing is parsed only to be formatted again, and no digit changes. What is missing is an empty text in the store,
    and null where the record allows it.
    """
    fields: dict[str, Any] = {}
    for name, nullable in _fields_of(kind):
        value = different[name] if name in different else _value_of(name, stored)
        if type(value) is tuple:
            value = list(value)
        fields[name] = None if nullable and value == "" else value
    return kind(**fields)


def _value_of(name: str, stored: tuple[object, ...]) -> Any:  # noqa: ANN401  # a field has its own type
    for source in stored:
        value = getattr(source, name, _MISSING)
        if value is not _MISSING:
            return value
    raise AttributeError(name)


@cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, bool], ...]:
    """The names of its fields, and whether they may be null."""
    return tuple((field.name, field.default is None) for field in msgspec.structs.fields(kind))
