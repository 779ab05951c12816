"""What a person signs is one message: whatever is changed in it, it is another statement."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from parley.domain.exchange.signature import encode_bytes, is_public_key, raw_of, seed_of, statement
from parley.domain.message.message import Kind, Message, Priority
from tests.samples.messages import NOW

EXTRAS: dict[str, Any] = {
    "ocip": {"exchange_round": "1"},
    "ocip_ext": {"hops": "1", "approval": {"id": "appr_1", "by": "ann"}},
}
MESSAGE = Message(
    id="msg-1",
    sender="claude",
    to=("codex",),
    kind=Kind.QUESTION,
    priority=Priority.P2,
    created_at=NOW,
    subject="Friday",
    body={"text": "We commit to it.", "more": ["a", "b"]},
    conversation_id="conv-1",
    extras=EXTRAS,
)


def signed(message: Message = MESSAGE, **changes: Any) -> bytes:  # noqa: ANN401  # of any parameter
    given: dict[str, Any] = {"tenant": "acme", "approval_id": "appr_1", "by": "ann", "number": 1, **changes}
    return statement(**given, message=message)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "msg-2"},
        {"sender": "gemini"},
        {"to": ("gemini",)},
        {"to": ("codex", "gemini")},
        {"kind": Kind.NOTIFICATION},
        {"priority": Priority.P0},
        {"created_at": NOW + timedelta(seconds=1)},
        {"expires_at": NOW},
        {"subject": "Monday"},
        {"body": "We commit to it."},
        {"body": {"text": "We commit to it.", "more": ["b", "a"]}},
        {"conversation_id": "conv-2"},
        {"in_reply_to": "msg-0"},
        {"context_keys": "k"},
        {"extras": {**EXTRAS, "ocip": {"exchange_round": "2"}}},
        {"extras": {**EXTRAS, "model": "m"}},
        {"extras": {**EXTRAS, "ocip_ext": {"hops": "2", "approval": {"id": "appr_1", "by": "ann"}}}},
    ],
)
def test_another_message_is_another_statement(change: dict[str, Any]) -> None:
    assert signed(MESSAGE._replace(**change)) != signed()


@pytest.mark.parametrize("change", [{"tenant": "globex"}, {"approval_id": "appr_2"}, {"by": "ben"}, {"number": 2}])
def test_another_decision_is_another_statement(change: dict[str, Any]) -> None:
    assert signed(**change) != signed()


def test_no_two_lists_of_parts_have_one_spelling() -> None:
    assert signed(tenant="acme1", approval_id="x") != signed(tenant="acme", approval_id="1x")


def test_the_signature_is_no_part_of_what_it_signs() -> None:
    approval: Any = {"id": "appr_1", "by": "ann", "signature": "ed25519:00"}
    carried = MESSAGE._replace(extras={**EXTRAS, "ocip_ext": {"hops": "1", "approval": approval}})

    assert signed(carried) == signed()


def test_the_order_of_fields_is_no_matter_and_any_text_can_be_signed() -> None:
    turned = MESSAGE._replace(extras=dict(reversed(EXTRAS.items())))

    assert signed(turned) == signed()
    assert signed(MESSAGE._replace(subject="\ud800", body="\u0000")) != signed()


def test_every_secret_has_a_seed_of_its_own_which_is_not_its_digest() -> None:
    assert len(seed_of("pk_ann")) == 32
    assert seed_of("pk_ann") == seed_of("pk_ann") != seed_of("pk_ben")
    assert seed_of("pk_ann").hex() == "e85366bdd48c11467f3d21058c0fab856b80b8e351435d92071b78416b80272d"


def test_keys_and_signatures_are_spelled_in_one_way() -> None:
    assert raw_of(encode_bytes(b"\x00\xff")) == b"\x00\xff"
    assert is_public_key(encode_bytes(b"k" * 32))
    for text in ("", "ed25519:", "ed25519:0", "ed25519:FF", "00ff", "ed25519:00 "):
        assert raw_of(text) == b""
        assert not is_public_key(text)
    assert not is_public_key(encode_bytes(b"k" * 31))
