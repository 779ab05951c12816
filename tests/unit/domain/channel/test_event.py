import json

import pytest

from parley.domain.channel.event import CHANNEL_MESSAGE, RESERVED, SDK_CHANNEL_MESSAGE, SDK_TYPES, quoted, stored_type


def test_both_spellings_of_a_channel_message_are_kept_as_one() -> None:
    assert stored_type(SDK_CHANNEL_MESSAGE) == stored_type(CHANNEL_MESSAGE) == CHANNEL_MESSAGE
    assert stored_type("comment") == "comment"
    assert stored_type("") == ""


def test_a_payload_is_json_as_it_is() -> None:
    payload: dict[str, object] = {"text": "ü\n", "list": [1, 2.5, None, True], "nested": {"a": {}}}

    assert json.loads(quoted(payload)) == payload
    assert quoted({"ü": 1}) == '{"ü":1}'.encode()


def test_the_sdk_can_read_all_that_the_server_says_but_one_name() -> None:
    assert {CHANNEL_MESSAGE} == RESERVED - SDK_TYPES


@pytest.mark.parametrize("event_type", ["comment", "tool_call_started", "llm_request_failed", "task.progress"])
def test_what_agents_write_themselves_is_not_reserved(event_type: str) -> None:
    assert event_type in SDK_TYPES
    assert event_type not in RESERVED
