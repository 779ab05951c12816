"""Base64 and hexadecimal: what the tokens of a text hold when somebody encoded it. Pure, and linear in the text."""

from __future__ import annotations

import re

# A token may begin anywhere behind a separator that Base64 has, too (x/c2No..., key-c2No...): one of these is right.
_OFFSETS = range(4)
_THREE_SPACES = b"ICAg"
_OTHER = bytes(
    [sign for sign in range(256) if not (chr(sign).isascii() and chr(sign).isalnum()) and sign not in b"+/-_"]
)
_SPLIT = bytes([ord(" ") if sign in _OTHER else sign for sign in range(256)])
# Six characters hold four letters.
_SHORTEST = 6
_HEX = re.compile(rb"(?<![0-9A-Za-z])(?:0[xX])?((?:[0-9A-Fa-f]{2}){4,})(?![0-9A-Za-z])")
# Encoders break lines after 64 or 76 characters.
_LINE_END = re.compile(rb"(?<=[0-9A-Za-z+/]{64})\r?\n(?=[0-9A-Za-z+/=])")


def decoded(raw: bytes) -> bytes:
    """What the tokens of a text hold, one after the other, if they are Base64 (also that of URLs) or hexadecimal."""
    from base64 import b64decode  # only for those who have some

    if b"\n" in raw:
        raw = _LINE_END.sub(b"", raw)
    tokens = [token for token in raw.translate(_SPLIT).split() if len(token) >= _SHORTEST and not token.islower()]
    parts = [
        b64decode(_THREE_SPACES.join([_whole(token[offset:]) for token in tokens]), altchars=b"-_")
        for offset in (_OFFSETS if tokens else ())
    ]
    parts += [bytes.fromhex(token.decode("ascii")) for token in _HEX.findall(raw)]
    return b" ".join(parts)


def _whole(token: bytes) -> bytes:
    return token + b"AAA"[: -len(token) % 4]
