"""An agent's key: proved by a challenge, replaced by rotation."""

from __future__ import annotations

from parley.domain.agents.identity import Challenge, Identity, proved, rotated

NOW = "2026-03-13T14:30:00.000000+00:00"
SOON = "2026-03-13T14:35:00.000000+00:00"


def a_challenge(public_key: str = "ed25519:A") -> Challenge:
    return Challenge(
        id="a", tenant_id="default", text="t", public_key=public_key, did="did:key:zA", ends_at=SOON, key_expires_at=""
    )


def an_identity(*, expires_at: str = "") -> Identity:
    return Identity(
        id="a",
        tenant_id="default",
        version=2,
        public_key="ed25519:A",
        did="did:key:zA",
        registered_at=NOW,
        expires_at=expires_at,
    )


def test_a_challenge_is_open_until_its_time_is_over() -> None:
    assert a_challenge().open(NOW)
    assert not a_challenge().open(SOON)
    assert a_challenge().due == SOON


def test_a_passed_challenge_makes_the_identity() -> None:
    made = proved(a_challenge(), None, NOW)

    assert (made.id, made.public_key, made.did, made.previous_keys) == ("a", "ed25519:A", "did:key:zA", ())
    assert made.version == 0


def test_proving_the_same_key_again_leaves_no_trace_of_it_as_an_earlier_one() -> None:
    assert proved(a_challenge(), an_identity(), NOW).previous_keys == ()


def test_another_key_leaves_the_one_before_among_the_earlier_ones() -> None:
    made = proved(a_challenge("ed25519:B"), an_identity(), NOW)

    assert made.previous_keys == ("ed25519:A",)
    assert made.version == 2


def test_a_rotation_remembers_the_old_key_and_drops_its_end() -> None:
    changed = rotated(an_identity(expires_at=SOON), "ed25519:B", "did:key:zB", SOON)

    assert (changed.public_key, changed.did) == ("ed25519:B", "did:key:zB")
    assert changed.previous_keys == ("ed25519:A",)
    assert changed.expires_at == ""


def test_a_key_counts_until_it_expires() -> None:
    assert an_identity().valid(SOON)
    assert an_identity(expires_at=SOON).valid(NOW)
    assert not an_identity(expires_at=SOON).valid(SOON)
