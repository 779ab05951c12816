"""The heading of a message file at a glance: one regular expression for the shape that nearly every file has.

All fields once, in the order in which Parley and the OACP tool write them, each value a word, a quoted or bare line, or
a `|` block. That takes a tenth of the time of reading the fields, and it is what makes a listing of 10,000 messages
quick. The rule is that of the plain reader: refuse nothing, guess nothing. Whatever does not fit is declined with
None and read field by field; where there is an answer, it is the one that the whole message would give, and a
property test holds the two together.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from parley.domain.message.message import KINDS, Heading
from parley.domain.names import is_name
from parley.domain.times import is_canonical
from parley.wire.yaml.plain import is_ordinary, unquote

if TYPE_CHECKING:
    from parley.domain.limits import Limits

# The mapping, and a key and a value for each of the fifteen fields: what the strict reader would count.
_MOST_NODES = 31
_NO_NULL = r"(?!(?:null|Null|NULL)\n)"
_INSIDE = r'[^"\\\n]*+(?:\\["\\/bfnrt0][^"\\\n]*+)*+'
# A colon before a space ends a bare scalar, as does a hash behind one; a space at its end is not part of it.
_BARE = _NO_NULL + r"[A-Za-z0-9/][^\n:#\t]*(?:(?::(?![ \n])|(?<! )#)[^\n:#\t]*)*(?<! )"
_BLOCK = r"\|-?\n  [^ \t\n][^\n]*+\n(?:  [^\n]*+\n|\n)*+"
_LINE = f'(?:"{_INSIDE}"|{_BARE})\n'
_TEXT = f"(?:{_LINE}|{_BLOCK})"
_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]*"
# Whether there is such a day is asked later; such an hour there is.
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"


@cache
def _pattern() -> re.Pattern[str]:
    """Compiled when it is first needed: that takes two milliseconds, as long as reading a hundred files."""
    fields = [
        _field("id", _WORD, 1),
        _field("from", _WORD, 3),
        _field("to", _WORD, 5),
        _field("type", "[a-z_]+", 7),
        _field("priority", "P[0-3]", 9),
        _field("created_at_utc", _TIME, 11),
        f"(?:{_field('expires_at', _TIME, 13)})?",
        *(f"(?:{key}: {_LINE})?" for key in ("channel", "related_packet", "related_pr")),
        f"(?:{_field('conversation_id', _WORD, 15)})?",
        f"(?:{_field('parent_message_id', _WORD, 17)})?",
        f"(?:context_keys: {_TEXT})?",
        f'subject: (?:"({_INSIDE})"|({_BARE}))\n',
        f"body: {_TEXT}",
    ]
    return re.compile("".join(fields) + r"\Z")


def _field(key: str, value: str, group: int) -> str:
    """A line with a value in quotes or bare; `group` is the number of the group that remembers which."""
    return rf'{key}: ("?){_NO_NULL}({value})\{group}\n'


def _unescaped(inside: str) -> str | None:
    if inside.count("\\") == inside.count('\\"'):  # nothing but quotation marks
        return inside.replace('\\"', '"')
    return unquote(f'"{inside}"')


@lru_cache(1024)  # the same few again and again
def _is_known(sender: str, to: str, kind: str) -> bool:
    return kind in KINDS and is_name(sender) and is_name(to)


@lru_cache(1024)
def _is_day(text: str) -> bool:
    return is_canonical(f"{text}T00:00:00Z")


def glance(text: str, limits: Limits) -> Heading | None:
    """The heading of a file in the usual shape, or None: read the whole message."""
    match = _pattern().match(text)
    if match is None or limits.yaml_nodes < _MOST_NODES or not is_ordinary(text):
        return None
    # Every other group is the quotation mark, if any, around the value after it.
    _, id_, _, sender, _, to, _, kind, _, priority, _, created, _, expires, _, conversation, _, parent, inside, bare = (
        match.groups("")
    )
    subject = bare or (_unescaped(inside) if "\\" in inside else inside)
    most = limits.id_chars
    if not subject or len(id_) > most or len(conversation) > most or len(parent) > most:
        return None
    if not _is_known(sender, to, kind) or not _is_day(created[:10]) or (expires and not _is_day(expires[:10])):
        return None
    return Heading(id_, sender, (to,), kind, priority, created, subject, expires, conversation, parent)
