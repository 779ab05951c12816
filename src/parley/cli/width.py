"""How many columns a text takes on a terminal, and texts cut to a number of columns."""

from __future__ import annotations

ELLIPSIS = "…"
# An emoji that is otherwise drawn as a narrow character.
_EMOJI_STYLE = "\ufe0f"
_JOINER = "\u200d"


def display_width(text: str) -> int:
    """Columns that `text` takes: two for wide characters and emoji, none for combining marks."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    width = 0
    for character in text:
        if character == _EMOJI_STYLE:
            width += 1  # it may make the character before it wide
        elif east_asian_width(character) in "WF":
            width += 2
        elif category(character) not in ("Mn", "Me", "Cf"):
            width += 1
    return width


def cut(text: str, room: int) -> str:
    """`text` in at most `room` columns; what is cut off shows as an ellipsis."""
    if (len(text) if text.isascii() else display_width(text)) <= room:
        return text
    if room < 1:
        return ""
    return _beginning(text, room - 1) + ELLIPSIS


def _beginning(text: str, room: int) -> str:
    """The longest beginning of `text` that takes at most `room` columns."""
    if text.isascii():
        return text[:room].rstrip()
    width, end = 0, 0
    for index, character in enumerate(text):
        width += display_width(character)
        if width > room:
            break
        end = index + 1
    return text[:end].rstrip(_JOINER).rstrip()


def pad(text: str, width: int) -> str:
    """`text` with as many spaces behind it as fill `width` columns."""
    return text + " " * (width - display_width(text))


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of whole words, at most `width` columns each; a word that is longer stays whole on a line of its own.

    Lines after the first begin with `indent`. Colours take no columns.
    """
    if len(text) <= width and text.isascii():
        return [text]
    words = text.lstrip(" ").split(" ")
    line = " " * (len(text) - len(text.lstrip(" "))) + words[0]
    lines, used = list[str](), _painted_width(line)
    for word in words[1:]:
        taken = _painted_width(word)
        if used + 1 + taken > width and word:
            lines.append(line.rstrip())
            line, used = indent + word, len(indent) + taken
        else:
            line, used = f"{line} {word}", used + 1 + taken
    return [*lines, line.rstrip()]


def _painted_width(text: str) -> int:
    if "\x1b" in text:
        import re

        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return display_width(text)
