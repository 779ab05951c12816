"""Agents, keys and the server itself as the API answers with them."""

from __future__ import annotations

import msgspec

from parley.wire.api.records.directory import Implementation, NewKey, ServerInfo


def test_the_secret_of_a_new_key_is_not_printed() -> None:
    document = {"id": "key_1", "kind": "agent", "tenant_id": "t", "operator": False, "key": "hunter2"}

    key = msgspec.convert({**document, "created_at": "2026-03-13T14:30:00Z"}, NewKey)

    assert key.key == "hunter2"
    assert "hunter2" not in repr(key)
    assert "id='key_1'" in repr(key)


def test_a_server_is_described_in_the_words_of_its_protocol() -> None:
    info = ServerInfo(
        protocol="p",
        version="1",
        rfc_urls=["/rfc/0021"],
        capabilities=[],
        openapi_url="/openapi.json",
        api_base_url="/api/v1",
        implementation=Implementation(name="parley", version="2"),
    )

    assert list(info.to_dict()) == [
        "protocol",
        "version",
        "rfcUrls",
        "capabilities",
        "openApiUrl",
        "apiBaseUrl",
        "implementation",
    ]
