"""Ed25519 by the `cryptography` package."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Ed25519Signatures:
    """See `ports.Signatures`."""

    def verify(self, public_key: bytes, signature: bytes, content: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, content)
        except (InvalidSignature, ValueError):
            return False
        return True
