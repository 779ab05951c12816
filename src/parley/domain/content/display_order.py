"""The order in which a text is displayed where it overrides its own direction.

com(RLO)tim(PDF)  ──>  commit
"""

from __future__ import annotations

# Embedding, override and isolate: what they begin lasts until its end, or that of the line.
_REVERSES = "\u202e"
_KEEPS = frozenset("\u202a\u202b\u202d")
_ISOLATES = frozenset("\u2066\u2067\u2068")
_ENDS, _ENDS_ISOLATE = "\u202c", "\u2069"
# Unicode's own bound for what stands in each other.
_DEPTH = 125


def displayed(text: str) -> str:
    """The text as a reader sees it: what stands behind U+202E is read from its end."""
    return "\n".join([_line(line) for line in text.split("\n")]) if _REVERSES in text else text


def _line(line: str) -> str:
    # What has begun, innermost last: the sign that began it, and the pieces in it so far.
    open_parts: list[tuple[str, list[str]]] = [("", [])]
    for sign in line:
        if sign == _REVERSES or sign in _KEEPS or sign in _ISOLATES:
            if len(open_parts) < _DEPTH:
                open_parts.append((sign, []))
        elif sign in (_ENDS, _ENDS_ISOLATE):
            if len(open_parts) > 1 and (open_parts[-1][0] in _ISOLATES) is (sign == _ENDS_ISOLATE):
                _close(open_parts)
        else:
            open_parts[-1][1].append(sign)
    while len(open_parts) > 1:
        _close(open_parts)
    return "".join(open_parts[0][1])


def _close(open_parts: list[tuple[str, list[str]]]) -> None:
    began, pieces = open_parts.pop()
    open_parts[-1][1].append("".join(reversed(pieces) if began == _REVERSES else pieces))
