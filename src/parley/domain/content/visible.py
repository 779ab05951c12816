"""Text of others made safe to show: characters that control a terminal, or reorder or hide text, become visible."""

from __future__ import annotations

import re

# A joiner is harmless where it makes one emoji of two.
_EMOJI = "\u2600-\u27bf\ufe0f\U0001f000-\U0001faff"
# Controls, other line breaks, and characters that reorder or hide text.
UNSAFE = (
    "(?:[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u2028\u2029\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e01ef]"
    f"|(?<![{_EMOJI}])\u200d|\u200d(?![{_EMOJI}]))"
)


def safe(text: str) -> str:
    """Return `text` on one line, with control characters made visible."""
    if text.isprintable():
        return text
    # Half of a surrogate pair (from a file name) cannot be printed. As a range it would make UNSAFE slow to compile.
    return re.sub(UNSAFE, _visible, text).encode("utf-8", "backslashreplace").decode()


def safe_text(text: str) -> str:
    """Like `safe`, keeping line breaks and tabs."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return re.sub(f"(?![\n\t]){UNSAFE}", _visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")
