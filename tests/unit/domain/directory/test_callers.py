"""Who is there: keys, callers, addresses and roles."""

from __future__ import annotations

import hashlib

import pytest

from parley.domain.directory.callers import (
    EVERYONE,
    Caller,
    Holder,
    Key,
    KeyKind,
    Role,
    address,
    key_digest,
    party_name,
    with_holder,
    without_holder,
)
from parley.domain.errors.errors import BadAgentName, Invalid
from parley.domain.errors.team import WrongSender
from parley.domain.record import UNSETTLED

NOW = "2026-03-13T14:30:00.000000+00:00"
LATER = "2026-03-13T14:31:00.000000+00:00"


def a_key(*, expires_at: str = "", revoked_at: str = "") -> Key:
    return Key(
        id="key_1",
        tenant_id="",
        owner="default",
        key_kind=KeyKind.AGENT,
        digest="d",
        created_at=NOW,
        expires_at=expires_at,
        revoked_at=revoked_at,
    )


def a_caller(kind: KeyKind, agent: str = "", user: str = "") -> Caller:
    return Caller("default", agent, kind, "key_1", user)


def test_of_a_key_only_the_sha_256_is_kept() -> None:
    assert key_digest("pk_secret") == hashlib.sha256(b"pk_secret").hexdigest()


def test_a_key_is_found_by_its_digest() -> None:
    assert a_key().name == "d"


def test_a_key_is_valid_until_it_expires_or_is_revoked() -> None:
    assert a_key().valid(NOW)
    assert a_key(expires_at=LATER).valid(NOW)
    assert not a_key(expires_at=NOW).valid(NOW)
    assert not a_key(revoked_at=LATER).valid(NOW)


@pytest.mark.parametrize("kind", [KeyKind.SERVICE, KeyKind.ADMIN])
def test_a_service_or_admin_key_speaks_for_any_agent(kind: KeyKind) -> None:
    assert a_caller(kind).speaking_as("bob").agent == "bob"


@pytest.mark.parametrize("kind", [KeyKind.AGENT, KeyKind.HUMAN])
def test_no_other_key_speaks_for_another(kind: KeyKind) -> None:
    with pytest.raises(WrongSender):
        a_caller(kind, "alice").speaking_as("bob")


def test_an_agent_speaks_for_itself_named_or_not() -> None:
    alice = a_caller(KeyKind.AGENT, "alice")

    assert alice.speaking_as("") == alice.speaking_as("alice") == alice


def test_only_a_key_for_the_whole_tenant_that_names_nobody_sees_all() -> None:
    assert a_caller(KeyKind.ADMIN).all_seeing
    assert a_caller(KeyKind.SERVICE).all_seeing
    assert not a_caller(KeyKind.SERVICE, "alice").all_seeing
    assert not a_caller(KeyKind.AGENT, "alice").all_seeing
    assert not a_caller(KeyKind.HUMAN, user="eva").all_seeing


def test_the_log_always_has_a_name_for_the_caller() -> None:
    assert a_caller(KeyKind.AGENT, "alice").actor == "alice"
    assert a_caller(KeyKind.HUMAN, user="eva").actor == "user:eva"
    assert a_caller(KeyKind.ADMIN).actor == "admin:key_1"


@pytest.mark.parametrize("name", ["system", "role:x", "*", "", "a b", "../x", "a" * 65])
def test_reserved_and_impossible_names_are_no_agents(name: str) -> None:
    with pytest.raises(BadAgentName):
        party_name(name)


@pytest.mark.parametrize("to", [EVERYONE, "role:billing", "alice"])
def test_a_message_goes_to_an_agent_a_role_or_everyone(to: str) -> None:
    assert address(to) == to


@pytest.mark.parametrize("to", ["role:", "role:a b", "system", "a/b"])
def test_a_message_goes_nowhere_else(to: str) -> None:
    with pytest.raises(Invalid):
        address(to)


def test_a_holder_counts_from_the_commit_that_granted_the_role() -> None:
    role = Role(id="r", tenant_id="default", holders=(Holder(agent="a", since=3),))

    settled = with_holder(role, "b").with_position(9)

    assert settled.holders == (Holder(agent="a", since=3), Holder(agent="b", since=9))


def test_a_role_is_held_once_and_given_back() -> None:
    role = with_holder(with_holder(Role(id="r", tenant_id="default"), "a"), "a")

    assert role.holders == (Holder(agent="a", since=UNSETTLED),)
    assert role.held_by("a")
    assert not without_holder(role, "a").held_by("a")
