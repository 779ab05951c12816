"""How many tokens a text takes of a model's context, without a tokenizer: never too few.

Bytes per token, the worse of two tokenizers: prose 4.0, CJK 3.7, code 3.5, JSON 2.5, Arabic 2.0, hexadecimal 1.7,
emoji 1.6, base64 1.4. So two bytes are a token, and 1.4 bytes where the text is dense: characters of four bytes, and
long runs of ASCII without a space.
"""

from __future__ import annotations

import re

_DENSE = re.compile("[\U00010000-\U0010ffff]+|[!-~]{24,}")


def estimate_tokens(text: str) -> int:
    """An upper estimate of the tokens of a text."""
    size = _size_of(text)
    dense = sum(_size_of(match[0]) for match in _DENSE.finditer(text))
    # (size - dense) / 2 + dense / 1.4, rounded up.
    return -(-(7 * (size - dense) + 10 * dense) // 14)


def cut_to_tokens(text: str, most: int) -> str:
    """The beginning of a text that takes at most `most` tokens, with an ellipsis where something was cut."""
    if estimate_tokens(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(f"{text[:middle]}…") <= most:
            low = middle
        else:
            high = middle - 1
    return f"{text[:low]}…"


def _size_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
