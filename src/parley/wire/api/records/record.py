"""What every answer of the HTTP API is made of: `Record`, and the types that its fields share.

A record is declared once. The server fills it from what the store holds and encodes it, the client decodes the same
class, and the OpenAPI document is generated from it. Reading is lenient: unknown fields are ignored, and a choice is
any text, so that a newer server can be read. What an import of the client costs is paid here: no record imports the
domain.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, cast

import msgspec
from msgspec import Meta

Mapping = dict[str, Any]
Timestamp = Annotated[datetime, Meta(description="RFC 3339 with an offset.", extra_json_schema={"format": "date-time"})]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Something a server said. Never changes; ask again to see what has become of it."""

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


# The store keeps times as text and documents as bytes, exactly as they are sent. They go into a record as they are:
# nothing is parsed only to be formatted again, and no digit or byte changes. On the server nobody reads these fields.


def time_of(stamp: str) -> datetime:
    """A stored time in a field that the client reads as a `datetime`."""
    return cast("datetime", stamp)


def time_or_none(stamp: str) -> datetime | None:
    """The same for a time that may be missing, which the store writes as an empty text."""
    return cast("datetime", stamp) if stamp else None


def json_of(document: bytes) -> Mapping:
    """A stored JSON document in a field that the client reads as a `dict`."""
    return cast("Mapping", msgspec.Raw(document))
