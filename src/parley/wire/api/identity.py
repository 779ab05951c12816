"""Identities as text and JSON: public keys, did:key, signatures, and the bytes that a signature is over; pure."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct, ValidationError, convert

from parley.domain.agents.identity import ALGORITHM, Proof
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.team import ProofInvalid
from parley.domain.times import stamp
from parley.wire.api.channels import Time
from parley.wire.api.records.directory import Identity
from parley.wire.api.records.record import Mapping, fill_record
from parley.wire.proofs.event_log import canonical

if TYPE_CHECKING:
    from parley.domain.agents.identity import Identity as StoredIdentity
    from parley.domain.channel.post import PostDraft
    from parley.wire.api.channels import MessageIn

KEY_PREFIX = "ed25519:"
_DID_PREFIX = "did:key:z"
_MULTICODEC = b"\xed\x01"  # an Ed25519 public key
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64

# The curve has eight points of small order. With one of them for a key, signatures are valid that nobody made.
_PRIME = 2**255 - 19
_EIGHTH = 0x5FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK = frozenset({0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH})

KeyText = Annotated[str, Meta(max_length=128, description="ed25519: and the 32 bytes of the key in base64url.")]
SignatureText = Annotated[str, Meta(max_length=256, description="The 64 bytes of the signature in base64url.")]


# ---------------------------------------------------------------- what comes in


class IdentityIn(Struct, forbid_unknown_fields=True):
    """A public key to register for an agent."""

    public_key: KeyText
    key_algorithm: Literal["Ed25519"] = "Ed25519"
    key_expires_at: Time | None = None


class ChallengeIn(Struct, forbid_unknown_fields=True):
    """The challenge, signed with the new key."""

    challenge: Annotated[str, Meta(max_length=128)]
    signature: SignatureText


class VerifyIn(Struct, forbid_unknown_fields=True):
    """A document, and the signature over its canonical JSON to verify."""

    payload: Mapping
    signature: SignatureText


class RotateIn(Struct, forbid_unknown_fields=True):
    """A new key. The old key signs the canonical JSON of the other three fields."""

    new_public_key: KeyText
    old_public_key: KeyText
    signature: SignatureText
    action: Literal["rotate"] = "rotate"


class ProofIn(Struct):
    """A proof in the metadata of a message, in the form of RFC-0018."""

    signature: SignatureText
    verification_method: str | None = None
    type: str = "Ed25519Signature2026"
    created: str | None = None


# ---------------------------------------------------------------- what goes out


def identity_of(stored: StoredIdentity) -> Identity:
    return fill_record(
        Identity,
        stored,
        agent_id=stored.id,
        key_algorithm=ALGORITHM,
        key_expires_at=stored.expires_at,
        metadata={},
    )


# ---------------------------------------------------------------- spellings


def raw_key(text: str, field: str = "public_key") -> bytes:
    """The 32 bytes of a public key, or what is wrong with its spelling."""
    raw = _decoded(text.removeprefix(KEY_PREFIX), _KEY_BYTES) if text.startswith(KEY_PREFIX) else None
    if raw is None:
        raise Invalid.because([Problem("invalid", field, "is not ed25519: with 32 bytes in base64url")])
    if int.from_bytes(raw, "little") % 2**255 % _PRIME in _WEAK:
        raise Invalid.because([Problem("invalid", field, "is a key for which anybody can sign")])
    return raw


def spelled_key(raw: bytes) -> str:
    """The one spelling of a public key that is kept."""
    return KEY_PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def raw_signature(text: str) -> bytes:
    """The 64 bytes of a signature; empty, which fits nothing, for what is none."""
    return _decoded(text.removeprefix(KEY_PREFIX), _SIGNATURE_BYTES) or b""


def did_key(raw: bytes) -> str:
    """The did:key of a public key."""
    return _DID_PREFIX + _base58(_MULTICODEC + raw)


def _decoded(text: str, length: int) -> bytes | None:
    try:
        content = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if len(content) == length else None


def _base58(content: bytes) -> str:
    """Bitcoin's base 58, in which a leading zero byte is a 1."""
    number, digits = int.from_bytes(content), ""
    while number:
        number, digit = divmod(number, 58)
        digits = _BASE58[digit] + digits
    return "1" * (len(content) - len(content.lstrip(b"\x00"))) + digits


# ---------------------------------------------------------------- what is signed


def challenge_contents(challenge: str) -> tuple[bytes, ...]:
    """A challenge may be signed as the text that it is, or as the 32 bytes that it spells."""
    raw = _decoded(challenge, _KEY_BYTES)
    return (challenge.encode(),) if raw is None else (challenge.encode(), raw)


def rotation_content(request: RotateIn) -> bytes:
    """The request without its signature."""
    return canonical(
        {"action": request.action, "new_public_key": request.new_public_key, "old_public_key": request.old_public_key}
    )


def message_contents(
    channel_id: str, sender: str, to: str, draft: PostDraft, message_in: MessageIn
) -> tuple[bytes, ...]:
    """The canonical JSON that the proof of a message is over: the message as it will be, without the proof itself.

    Its `expires_at` may be spelled as it was sent, or as it will be shown.
    """
    metadata = message_in.metadata or {}
    document = {
        "channel_id": channel_id,
        "sender": sender,
        "to": to or None,
        "message_type": draft.pattern.value,
        "correlation_id": draft.in_reply_to or None,
        "payload": message_in.payload,
        "expires_at": message_in.expires_at,
        "metadata": {name: value for name, value in metadata.items() if name != "proof"},
    }
    if draft.expires_at is None:
        return (canonical(document),)
    return (canonical(document), canonical({**document, "expires_at": stamp(draft.expires_at)}))


def proof_of(document: object) -> Proof:
    """The proof that stands in a message's metadata; one that cannot be read fits nothing."""
    try:
        proof = convert(document, ProofIn)
    except ValidationError:
        raise ProofInvalid("metadata.proof is not {type, created, verification_method, signature}") from None
    if not proof.type.lower().startswith("ed25519"):
        raise ProofInvalid("metadata.proof is of another type than Ed25519")
    return Proof(proof.verification_method or "", raw_signature(proof.signature))
