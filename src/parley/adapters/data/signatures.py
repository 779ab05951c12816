"""Ed25519 by the `cryptography` package."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from parley.domain.errors.errors import Invalid


def read_public_key(content: bytes) -> bytes:
    """The raw key of a PEM file; `Invalid` for anything else."""
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise Invalid("this is no Ed25519 public key", hint="give the server's audit.pub, or 64 hexadecimal digits")
    return key.public_bytes_raw()


class Ed25519Signatures:
    """See `ports.outside.Signatures` and `ports.mailbox.MailSignatures`."""

    def public_key(self, seed: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()

    def sign(self, seed: bytes, content: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(seed).sign(content)

    def verify(self, public_key: bytes, signature: bytes, content: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, content)
        except (InvalidSignature, ValueError):
            return False
        return True
