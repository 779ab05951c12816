"""Ed25519 by the `cryptography` package, and the server's own key.

The key is created at the first start; its private part is readable by the owner only.
"""

from __future__ import annotations

import os
import stat

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from parley.domain.errors.errors import Invalid, Unavailable
from parley.domain.errors.team import UnsafeMode
from parley.durable_files import replace_file

_PRIVATE = "audit.key"
_PUBLIC = "audit.pub"
_OTHERS = 0o077
_KEY_MAX_BYTES = 4_096


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


class Ed25519Signer:
    """See `ports.outside.Signer`."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._public = key.public_key().public_bytes_raw()

    @property
    def public_key(self) -> bytes:
        return self._public

    def sign(self, content: bytes) -> bytes:
        return self._key.sign(content)


def open_signer(folder: str) -> Ed25519Signer:
    """The key of a data directory, which the caller holds alone; a new one when it has none."""
    path = os.path.join(folder, _PRIVATE)
    try:
        if not os.path.lexists(path):
            new_key = Ed25519PrivateKey.generate()
            replace_file(path, new_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        key = _read(path)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        public_path = os.path.join(folder, _PUBLIC)
        if not os.path.exists(public_path) or _read_content(public_path) != public:
            replace_file(public_path, public)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror or error}") from None
    return Ed25519Signer(key)


def _read(path: str) -> Ed25519PrivateKey:
    about = os.lstat(path)
    if not stat.S_ISREG(about.st_mode) or about.st_mode & _OTHERS or about.st_uid != os.geteuid():
        raise UnsafeMode(f"{path} is open to other users", hint=f"chmod 600 {path}")
    try:
        key = load_pem_private_key(_read_content(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        # A new one in its place would not sign for what the old one did: that is for a person to decide.
        raise Unavailable(f"{path} holds no Ed25519 key", hint="put it back from a copy")
    return key


def _read_content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_KEY_MAX_BYTES)
