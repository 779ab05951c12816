"""HTML from typed parts. Whatever is not `Html` is text: it is escaped, and its hidden characters are spelled out.

Only this module makes `Html` from a string, so no page can forget to escape what somebody else wrote.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final
from urllib.parse import quote, urlencode

from parley.domain.content.invisible_characters import is_hidden, made_visible


class Html(str):
    """A piece of a page that is finished: it is not escaped again."""

    __slots__ = ()


Child = Html | str | int | None | Iterable["Child"]
Attribute = str | int | bool | None

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
# A link leads to a page of the console or of this server, and nowhere else.
_ADDRESSES: Final = frozenset({"href", "src", "action", "formaction"})
_OWN_ADDRESSES: Final = ("/console", "/docs", "#")
NOTHING: Final = Html("")
_CELL: Final = re.compile(r"<t[dh](?=[ >])")


def h(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """An element. `class_` and `for_` lose their underscore; others become dashes: `aria_label`, `data_id`."""
    start = f"<{tag}{''.join([_attribute(name, value) for name, value in attributes.items()])}>"
    if tag in _VOID:
        return Html(start)
    return Html(f"{start}{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    """Several pieces, one after the other."""
    return Html("".join([_child(child) for child in children]))


def document(title: str, *children: Child, **attributes: Attribute) -> Html:
    """A whole page."""
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("title", title),
        attributes.pop("head", None),
    )
    return Html(f"<!doctype html>{h('html', head, h('body', *children), lang='en', **attributes)}")


def label_cells(row: Html, labels: Sequence[str]) -> Html:
    """A row of a table whose cells carry the headings of their columns: on a phone each stands beside its value. What
    was escaped has no tags, so every cell found is one of the row.
    """
    rest = iter(labels)

    def label(cell: re.Match[str]) -> str:
        heading = next(rest, "")
        return f"{cell[0]}{_attribute('data_label', heading)}" if heading else cell[0]

    return Html(_CELL.sub(label, row))


def address(*steps: str, **query: str | int | None) -> str:
    """The path of a page of the console; steps and query are escaped, and what is empty is left out."""
    # The name of a file may be no text: a page with such a name shows everything else.
    path = "/".join(["/console", *[quote(step, safe="", errors="replace") for step in steps]])
    fields = [(name.removesuffix("_"), value) for name, value in query.items() if value not in (None, "")]
    return f"{path}?{urlencode(fields, errors='replace')}" if fields else path


def text(content: str) -> Html:
    """A text of somebody else: escaped, with a mark in place of every character that cannot be seen."""
    if content.isprintable() and content.isascii():
        return Html(escape(content, quote=False))
    pieces: list[str] = []
    start = 0
    for position, character in enumerate(content):
        if is_hidden(character):
            pieces += [escape(content[start:position], quote=False), _mark(character)]
            start = position + 1
    return Html("".join(pieces) + escape(content[start:], quote=False))


def _mark(character: str) -> Html:
    name = unicodedata.name(character, "control").lower()
    return Html(f'<span class="hid" title="{escape(name)}">U+{ord(character):04X}</span>')


def _child(child: Child) -> str:
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return text(child)
    if child is None:
        return ""
    if isinstance(child, int):
        return f"{child:,}"
    return "".join([_child(part) for part in child])


def _attribute(name: str, value: Attribute) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    content = made_visible(str(value))
    if name in _ADDRESSES and not content.startswith(_OWN_ADDRESSES):
        raise ValueError(f"{content} is no address of this server")
    return f' {name}="{escape(content)}"'
