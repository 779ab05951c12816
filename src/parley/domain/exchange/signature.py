"""What a person signs when it lets a message go out, or speaks itself: exactly this message, once; pure.

A person's secret is the seed of an Ed25519 key. The governance file has the public half, so everybody can check, and
nobody who lacks the secret can make it up.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from parley.domain.hashes import digest
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.domain.message.message import Message

# A key or a signature of another use never fits here.
_SEED = b"parley mailbox person v1\n"
_STATEMENT = "parley mailbox approval v1"
_PREFIX = "ed25519:"
_SPELLED = re.compile(rf"{_PREFIX}((?:[0-9a-f]{{2}})+)", re.ASCII)
_KEY_BYTES = 32


def seed_of(secret: str) -> bytes:
    """The private key that follows from a person's secret."""
    return bytes.fromhex(digest(_SEED + secret.encode("utf-8", "surrogateescape")))


def encode_bytes(raw: bytes) -> str:
    """A public key or a signature as files have it."""
    return _PREFIX + raw.hex()


def raw_of(text: str) -> bytes:
    """The other way round; nothing for what is neither."""
    match = _SPELLED.fullmatch(text)
    return bytes.fromhex(match[1]) if match else b""


def is_public_key(text: str) -> bool:
    return len(raw_of(text)) == _KEY_BYTES


def statement(tenant: str, approval_id: str, by: str, number: int, message: Message) -> bytes:
    """What is signed: who decided what, for whom, in which round, and the digest of all that the message has.

    `message` is as a reader of its file sees it, with or without the signature.
    """
    parts = (
        _STATEMENT,
        tenant,
        approval_id,
        by,
        message.sender,
        ",".join(message.to),
        message.conversation_id,
        str(number),
        _content_digest(message),
    )
    # The length before each part: no two lists of parts have one spelling.
    return "".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogateescape")


def _content_digest(message: Message) -> str:
    """Of everything in a message but the signature itself, which cannot sign itself."""
    fields: dict[str, Any] = message._asdict()
    fields["created_at"] = stamp(message.created_at)
    fields["expires_at"] = stamp(message.expires_at) if message.expires_at is not None else ""
    fields["extras"] = dict(message.extras)
    beside = message.extras.get("ocip_ext")
    approval = beside.get("approval") if isinstance(beside, dict) else None
    if isinstance(beside, dict) and isinstance(approval, dict):
        unsigned = {key: value for key, value in approval.items() if key != "signature"}
        fields["extras"]["ocip_ext"] = {**beside, "approval": unsigned}
    return digest(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())
