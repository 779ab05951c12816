"""The file of saved logins."""

from __future__ import annotations

import json

import pytest

from parley.domain.errors.errors import BadConfig
from parley.domain.logins import Login, SavedLogins
from parley.wire.files.logins import read_logins, write_logins

LOCAL = Login("local", "http://127.0.0.1:8420", "pk_secret", kind="admin", tenant="default", data="/d")
HINT = "fix it, or remove it and log in again: parley login URL"


def test_what_was_written_is_read_again() -> None:
    saved = SavedLogins("local", (LOCAL, LOCAL._replace(name="other", user="ann")))

    assert read_logins(write_logins(saved), "f") == saved


def test_an_empty_document_has_no_logins() -> None:
    assert read_logins(b"{}", "f") == SavedLogins()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "logins.json is not JSON"),
        (b"{", "logins.json is not JSON"),
        (b"\xff", "logins.json is not JSON"),
        (b"[" * 100_000, "logins.json is not JSON"),
        (b"[]", "logins.json has no contexts"),
        (b'{"contexts": []}', "logins.json has no contexts"),
        (b'{"current": 1}', "logins.json has no contexts"),
        (b'{"contexts": {"a b": {}}}', "logins.json: 'a b' is not a context"),
        (b'{"contexts": {"a": "pk_secret"}}', "logins.json: 'a' is not a context"),
        (b'{"contexts": {"a": {"url": "http://x"}}}', 'logins.json: context "a" has no valid key'),
        (b'{"contexts": {"a": {"url": 5, "key": "pk_secret"}}}', 'logins.json: context "a" has no valid url'),
        (
            b'{"contexts": {"a": {"url": "u", "key": "pk_secret", "user": 1}}}',
            'logins.json: context "a" has no valid user',
        ),
    ],
)
def test_a_broken_file_is_named_without_anything_of_its_content(content: bytes, message: str) -> None:
    with pytest.raises(BadConfig) as refused:
        read_logins(content, "logins.json")

    assert (refused.value.message, refused.value.hint) == (message, HINT)


def test_fields_of_a_newer_version_are_left_out() -> None:
    content = json.dumps({"contexts": {"a": {"url": "u", "key": "k", "new": {}}}, "new": 1}).encode()

    assert read_logins(content, "f").logins == (Login("a", "u", "k"),)
