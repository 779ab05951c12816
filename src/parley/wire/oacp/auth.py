"""The `auth` trailer of a signed file: kept byte for byte, and refused in any spelling but the signer's.

    ...                         the signed bytes: everything up to here
    auth: "<base64url of compact JSON {"signatures":[{"protected":...,"signature":...}]}>"

The signature covers raw bytes, so a trailer that could be spelled twice would let one signed message look like two.
Whether the key is trusted is for the reader's own tools: Parley holds no keys.
"""

from __future__ import annotations

import base64
import binascii
import json
import re

from parley.domain.errors.errors import SignatureInvalid

_LINE = re.compile(r'auth: "([A-Za-z0-9_-]{1,16384})"\Z')
_MOST_SIGNATURES = 8


def check_trailer(text: str, keys: list[str]) -> None:
    """Raise `SignatureInvalid` unless the file ends in exactly one well-formed trailer line."""
    match = _LINE.match(text[:-1].rsplit("\n", 1)[-1]) if text.endswith("\n") else None
    if match is None or keys[-1] != "auth":
        raise SignatureInvalid("the auth trailer must be the last line, in double quotes")
    container = _decoded(match[1])
    signatures = container.get("signatures") if isinstance(container, dict) and len(container) == 1 else None
    if not isinstance(signatures, list) or not 1 <= len(signatures) <= _MOST_SIGNATURES:
        raise SignatureInvalid(f"the auth trailer must hold 1 to {_MOST_SIGNATURES} signatures")
    if not all(
        isinstance(signature, dict) and signature.keys() == {"protected", "signature"} for signature in signatures
    ):
        raise SignatureInvalid("a signature must be exactly {protected, signature}")
    canonical = json.dumps(container, sort_keys=True, separators=(",", ":")).encode()
    if base64.urlsafe_b64encode(canonical).rstrip(b"=").decode() != match[1]:
        raise SignatureInvalid("the auth trailer is not in the signer's own spelling")


def _decoded(value: str) -> object:
    try:
        return json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise SignatureInvalid("the auth trailer is not base64url of JSON") from None
