"""The published schemas of records."""

from __future__ import annotations

from parley.wire.api.records import channels, directory, intents, rules
from parley.wire.api.records.channels import Channel, ChannelMessage, Subscription
from parley.wire.api.records.directory import AgentInfo
from parley.wire.api.schemas import CHOICES, schema_components


def test_what_the_server_always_writes_is_required_and_has_no_default() -> None:
    _, components = schema_components([Channel, ChannelMessage], "{name}")

    assert components["Channel"]["required"] == list(Channel.__struct_fields__)
    assert set(components["ChannelMessage"]["properties"]) - set(components["ChannelMessage"]["required"]) == {
        "channel",
        "intent_id",
        "intent",
    }
    assert "default" not in components["Channel"]["properties"]["task_id"]


def test_the_values_of_a_field_are_published_wherever_it_stands() -> None:
    _, components = schema_components([AgentInfo, Subscription], "{name}")
    agent, subscription = (components[name]["properties"] for name in ("AgentInfo", "Subscription"))

    assert agent["status"]["enum"] == ["active", "dead", "deregistered", "draining", "unhealthy"]
    assert agent["supported_exchange_types"]["items"]["enum"][0] == "commitment_request"
    assert "" not in subscription["disabled_reason"]["anyOf"][0]["enum"]


def test_every_choice_is_of_a_field_that_a_record_has() -> None:
    records = {name: kind for module in (channels, directory, intents, rules) for name, kind in vars(module).items()}

    for name, fields in CHOICES.items():
        assert fields.keys() <= set(records[name].__struct_encode_fields__), name
