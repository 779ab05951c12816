from __future__ import annotations

from parley.domain.directory.callers import NO_TENANT, Key, KeyKind, key_digest
from parley.domain.directory.session import SESSION_LIFETIME, started
from parley.domain.times import from_stamp, stamp

NOW = "2026-03-13T14:30:00.000000+00:00"


def a_key(expires_at: str = "") -> Key:
    return Key(
        id="key_1",
        tenant_id=NO_TENANT,
        owner="acme",
        key_kind=KeyKind.HUMAN,
        digest=key_digest("the key"),
        user_id="ann",
        created_at=NOW,
        expires_at=expires_at,
    )


def test_a_session_lasts_half_a_day_and_keeps_only_the_digest_of_its_secret() -> None:
    session = started("sess_1", "the secret", a_key(), "link", NOW)

    assert from_stamp(session.expires_at) == from_stamp(NOW) + SESSION_LIFETIME
    assert (session.owner, session.key_id, session.user_id, session.via) == ("acme", "key_1", "ann", "link")
    assert session.name == session.digest == key_digest("the secret")
    assert session.due == session.expires_at
    assert session.tenant_id == NO_TENANT


def test_a_session_never_outlives_its_key() -> None:
    early = stamp(from_stamp(NOW) + SESSION_LIFETIME / 2)
    late = stamp(from_stamp(NOW) + SESSION_LIFETIME * 2)

    ends = [started("sess_1", "s", a_key(end), "key", NOW).expires_at for end in (early, late)]

    assert ends == [early, stamp(from_stamp(NOW) + SESSION_LIFETIME)]
