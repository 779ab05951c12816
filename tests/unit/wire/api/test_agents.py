"""Tenants, keys, agents and roles as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.identity import Identity
from parley.domain.directory.callers import AgentStatus, Holder, Key, KeyKind, Role, Tenant
from parley.domain.errors.errors import Invalid
from parley.wire.api import agents as registry

NOW = "2026-03-13T14:30:00.000000+00:00"
AGENT = AgentRecord(id="a", tenant_id="default", version=3, registered_at=NOW, capabilities=("x",), metadata={"k": 1})
KEY = Key(id="key_1", tenant_id="", owner="acme", key_kind=KeyKind.AGENT, digest="d", agent_id="a", created_at=NOW)
AWAY = registry.Presence(online=False, last_seen_at="", open_asks=0)


def test_an_agent_without_an_identity_says_so_with_nulls() -> None:
    shown = registry.agent_of(AGENT, AgentStatus.UNHEALTHY, None, AWAY)

    assert (shown["agent_id"], shown["status"], shown["version"]) == ("a", "unhealthy", 3)
    assert shown["metadata"] == {"k": 1}
    assert shown["public_key"] is shown["did"] is shown["key_algorithm"] is None
    assert shown["previous_keys"] == []
    assert shown["heartbeat_config"].to_dict() == {
        "interval_seconds": 30,
        "unhealthy_after_seconds": 90,
        "dead_after_seconds": 300,
    }


def test_an_agent_with_an_identity_shows_it() -> None:
    identity = Identity(id="a", tenant_id="default", public_key="ed25519:A", did="did:key:z", registered_at=NOW)

    shown = registry.agent_of(AGENT, AgentStatus.ACTIVE, identity, AWAY)

    assert (shown["public_key"], shown["did"], shown["key_algorithm"]) == ("ed25519:A", "did:key:z", "Ed25519")
    assert (shown["key_registered_at"], shown["key_expires_at"]) == (NOW, None)


def test_a_key_is_shown_without_digest_or_secret() -> None:
    shown = registry.key_of(KEY)

    assert (shown["kind"], shown["tenant_id"], shown["agent_id"], shown["user_id"]) == ("agent", "acme", "a", None)
    assert "d" not in shown.to_dict().values()


def test_only_a_new_key_is_shown_with_its_secret() -> None:
    assert registry.new_key_of(KEY, "pk_x").to_dict() == {**registry.key_of(KEY).to_dict(), "key": "pk_x"}


def test_a_tenant_and_a_role_are_shown_by_name() -> None:
    tenant = Tenant(id="acme", tenant_id="", title="Acme", created_at=NOW)
    role = Role(id="r", tenant_id="default", holders=(Holder(agent="a", since=1),))

    assert registry.tenant_of(tenant).to_dict() == {"id": "acme", "name": "Acme", "created_at": NOW}
    assert registry.role_of(role).to_dict() == {"role_id": "r", "holders": ["a"]}


@pytest.mark.parametrize("text", ["2027-01-01T00:00:00", "2027-01-01T00:00:00Z", "2027-01-01 01:00:00+01:00"])
def test_a_time_without_an_offset_is_utc_where_the_sdk_sends_it(text: str) -> None:
    assert registry.lenient_moment(text, "key_expires_at") == datetime(2027, 1, 1, tzinfo=UTC)


def test_what_is_no_time_is_refused_by_its_field() -> None:
    with pytest.raises(Invalid, match="key_expires_at"):
        registry.lenient_moment("tomorrow", "key_expires_at")
    assert registry.lenient_moment(None, "key_expires_at") is None


def test_metadata_has_a_size() -> None:
    registry.check_metadata({"k": "x" * 10}, 18)

    with pytest.raises(Invalid, match="metadata"):
        registry.check_metadata({"k": "x" * 11}, 18)
