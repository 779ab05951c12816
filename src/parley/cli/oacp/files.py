"""Message files as the OACP tool shows them: any mapping is a message, every scalar is text."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from parley.domain.errors.errors import MultiDocument, NotAMapping, NotText, NotYaml, ParleyError, Unreadable
from parley.wire.yaml.plain import is_blank, read_plain

if TYPE_CHECKING:
    from parley.domain.limits import Limits
    from parley.domain.message.message import Value

# The slow parser that words a syntax error as the tool does is not let loose on anything larger.
_MOST_EXPLAINED = 64 * 1024


def fields_of(content: bytes, limits: Limits) -> dict[str, Value]:
    """The fields of a file; `Unreadable` says why there are none."""
    text = _text(content)
    plain = read_plain(text, limits)
    if plain is not None:
        return cast("dict[str, Value]", plain)
    if is_blank(text):
        return {}
    from parley.wire.yaml.strict import read_strict  # PyYAML costs 25 ms to import

    return read_strict(text, limits, nulls=False)


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotText(str(error)) from None


def is_no_mapping(error: ParleyError) -> bool:
    """Whether the document as a whole is something else than named fields."""
    return isinstance(error, NotAMapping) and not error.message.startswith("line ")


def explanation(error: Unreadable, content: bytes) -> str:
    """Why a file has no fields, in the words of the parser that the tool uses, where it would refuse it too."""
    if not isinstance(error, NotYaml | MultiDocument) or len(content) > _MOST_EXPLAINED:
        return error.message
    import yaml

    try:
        yaml.compose(_text(content), Loader=yaml.BaseLoader)
    except yaml.YAMLError as parse_error:
        return str(parse_error)
    except (ValueError, RecursionError):
        return error.message
    return error.message
