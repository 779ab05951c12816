"""What a transaction asks for: the scope of names."""

from __future__ import annotations

from parley.domain.channel.channel import Channel
from parley.domain.store.source import name_key


def _channel(intent_id: str, label: str, tenant: str = "default") -> Channel:
    return Channel(
        id=f"chan_{intent_id}_{label}",
        tenant_id=tenant,
        intent_id=intent_id,
        label=label,
        created_by="a",
        created_at="2026-03-13T08:00:00.000000+00:00",
    )


def test_two_records_of_one_parent_and_name_share_a_key() -> None:
    first = _channel("intent_1", "goals")
    assert name_key(first) == ("default", Channel.kind, "intent_1", "goals")
    assert name_key(first) == name_key(_channel("intent_1", "goals"))


def test_the_same_name_below_another_parent_or_in_another_tenant_is_another_name() -> None:
    keys = {
        name_key(_channel("intent_1", "goals")),
        name_key(_channel("intent_2", "goals")),
        name_key(_channel("intent_1", "goals", "other")),
    }
    assert len(keys) == 3
