"""An agent's cryptographic identity: the key it signs with, and the challenge by which it proves to have it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar, NamedTuple

from parley.domain.record import Record

ALGORITHM = "Ed25519"
CHALLENGE_LASTS = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Record):
    """The key that an agent has proved to hold; its id is the agent's."""

    kind: ClassVar[str] = "identity"

    public_key: str
    did: str
    registered_at: str
    expires_at: str = ""
    previous_keys: tuple[str, ...] = ()

    def valid(self, now: str) -> bool:
        return not (self.expires_at and self.expires_at <= now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge(Record):
    """The challenge that an agent signs to prove that it holds a key; its id is the agent's, so the last one counts."""

    kind: ClassVar[str] = "challenge"

    text: str
    public_key: str
    did: str
    ends_at: str
    key_expires_at: str = ""

    @property
    def due(self) -> str:
        return self.ends_at

    def open(self, now: str) -> bool:
        return now < self.ends_at


class Proof(NamedTuple):
    """A claimed signature of a sender, and the key; `method` is empty when it is not given."""

    method: str
    signature: bytes


def proved(challenge: Challenge, identity: Identity | None, now: str) -> Identity:
    """The identity after a passed challenge."""
    earlier = () if identity is None else identity.previous_keys
    if identity is not None and identity.public_key != challenge.public_key:
        earlier = (*earlier, identity.public_key)
    return Identity(
        id=challenge.id,
        tenant_id=challenge.tenant_id,
        version=identity.version if identity else 0,
        public_key=challenge.public_key,
        did=challenge.did,
        registered_at=now,
        expires_at=challenge.key_expires_at,
        previous_keys=earlier,
    )


def rotated(identity: Identity, public_key: str, did: str, now: str) -> Identity:
    """The identity with a new key; the previous one is stored, so that its signatures can still be verified."""
    return replace(
        identity,
        public_key=public_key,
        did=did,
        registered_at=now,
        expires_at="",
        previous_keys=(*identity.previous_keys, identity.public_key),
    )
