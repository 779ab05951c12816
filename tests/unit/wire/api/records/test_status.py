"""The status of servers: what an operator's tool reads."""

from __future__ import annotations

import msgspec

from parley.wire.api.records.status import ServerStatus, StoreStatus


def test_what_does_not_apply_to_a_store_is_null() -> None:
    schema = msgspec.json.schema(StoreStatus)["$defs"]["StoreStatus"]["properties"]

    assert {"type": "null"} in schema["row_security"]["anyOf"]
    assert schema["bytes"] == {"type": "integer"}


def test_a_status_names_what_needs_an_operator() -> None:
    assert ServerStatus.__struct_fields__ == ("ok", "concerns", "nodes", "store")
