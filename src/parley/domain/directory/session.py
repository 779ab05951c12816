"""A sign-in of a browser: a secret of its own that stands for a key, until it ends or the key does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from parley.domain.directory.callers import NO_TENANT, key_digest
from parley.domain.record import Record
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from parley.domain.directory.callers import Key

SESSION_PREFIX = "pss_"
SESSION_LIFETIME = timedelta(hours=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSession(Record):
    """A sign-in; only the SHA-256 of its secret is kept. `owner` is the tenant of its key."""

    kind: ClassVar[str] = "login_session"

    owner: str
    key_id: str
    digest: str
    user_id: str = ""
    # How it began: with the key itself, or with a link that is used once.
    via: str = "key"
    created_at: str
    expires_at: str

    @property
    def name(self) -> str:
        return self.digest

    @property
    def due(self) -> str:
        return self.expires_at


def started(session_id: str, secret: str, key: Key, via: str, now: str) -> LoginSession:
    """The session of a key that begins now: for half a day, and never longer than the key."""
    end = stamp(from_stamp(now) + SESSION_LIFETIME)
    return LoginSession(
        id=session_id,
        tenant_id=NO_TENANT,
        owner=key.owner,
        key_id=key.id,
        digest=key_digest(secret),
        user_id=key.user_id,
        via=via,
        created_at=now,
        expires_at=min(end, key.expires_at) if key.expires_at else end,
    )
