"""The arguments of calls that send messages, checked before anything is sent; pure.

A payload is one value or keywords: `ask("bob", "Which schema?")`, `ask("bob", {"question": "Which schema?"})`,
`ask("bob", question="Which schema?")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid
from parley.sdk.protocol.flow import as_payload

if TYPE_CHECKING:
    from collections.abc import Mapping

# The default of a payload: it is given as keywords, or not at all.
NOT_GIVEN: Any = type("NotGiven", (), {"__repr__": lambda _: "..."})()

_ADDRESSES = "an agent's name, 'role:ROLE', 'any:ROLE' or '*'"


def payload_from(call: str, payload: object, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of a call that takes one value or keywords."""
    if payload is NOT_GIVEN:
        if not fields:
            raise Invalid(f"{call}: there is no payload", hint="give a text, a mapping, or keywords")
        return dict(fields)
    if fields:
        names = ", ".join(sorted(fields))
        raise Invalid(
            f"{call}: a payload, and beside it the keywords {names}",
            hint="what is not part of the payload goes into metadata={...}",
        )
    return as_payload(payload)


def address_from(call: str, to: object) -> str:
    """To whom a message goes."""
    if isinstance(to, str) and to:
        return to
    raise Invalid(f"{call}: to is {_ADDRESSES}, not {brief(to)}")


def id_from(call: str, parameter: str, value: object) -> str:
    """The id that was given, or that of the channel, message or handle that was given."""
    record_id = value if isinstance(value, str) else getattr(value, "id", None)
    if isinstance(record_id, str) and record_id:
        return record_id
    raise Invalid(f"{call}: {parameter} is a text, or what has an id, not {brief(value)}")


def count_from(call: str, parameter: str, value: object) -> int:
    """A number of messages, at least one."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise Invalid(f"{call}: {parameter} is a number of messages, not {brief(value)}")


def flag_from(call: str, parameter: str, value: object) -> bool:
    """True or False; a payload that has a field of this name has to be given as a mapping."""
    if isinstance(value, bool):
        return value
    raise Invalid(
        f"{call}: {parameter} is True or False, not {brief(value)}",
        hint=f"if {parameter} is part of the payload, give the payload as a mapping",
    )


def brief(value: object) -> str:
    """A value as an error names it: short texts and numbers in full, anything else by its type."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str) and len(value) <= 40:  # a word or two
        return repr(value)
    word = type(value).__name__
    return f"{'an' if word[0] in 'AEIOUaeiou' else 'a'} {word}"
