"""Keys, did:key, signatures, and the bytes that are signed."""

from __future__ import annotations

import base64
import json

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import ProofInvalid
from parley.domain.message.message import Pattern
from parley.domain.store.limits import TeamLimits
from parley.wire.api import identity
from parley.wire.api.channels import MessageIn, draft_of
from parley.wire.api.identity import RotateIn

# The first test vector of the did:key method for Ed25519.
VECTOR_DID = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
VECTOR_HEX = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"


def spelled(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_a_key_is_spelled_as_did_key_by_the_published_vector() -> None:
    assert identity.did_key(bytes.fromhex(VECTOR_HEX)) == VECTOR_DID


def test_leading_zero_bytes_are_ones_in_base_58() -> None:
    assert identity._base58(b"\x00\x00\x01") == "112"


def test_a_public_key_is_read_padded_or_not_and_written_in_one_way() -> None:
    raw = bytes(range(32))

    bare, padded = f"ed25519:{spelled(raw)}", f"ed25519:{spelled(raw)}="

    assert identity.raw_key(bare) == identity.raw_key(padded) == raw
    assert identity.spelled_key(raw) == bare


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ed25519:",
        spelled(bytes(32)),
        f"ed25519:{spelled(bytes(31))}",
        f"ed25519:{spelled(bytes(33))}",
        f"rsa:{spelled(bytes(32))}",
        "ed25519:" + "!" * 43,
        "ed25519:" + "ä" * 43,
    ],
)
def test_what_is_no_public_key_is_named(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        identity.raw_key(text, "new_public_key")

    assert refused.value.problems[0].field == "new_public_key"


@pytest.mark.parametrize(
    "weak",
    [
        "00" * 32,
        "01" + "00" * 31,
        "01" + "00" * 30 + "80",
        "ec" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    ],
)
def test_a_key_for_which_anybody_can_sign_is_refused(weak: str) -> None:
    with pytest.raises(Invalid, match="anybody"):
        identity.raw_key("ed25519:" + spelled(bytes.fromhex(weak)))


def test_a_signature_that_cannot_be_read_fits_nothing() -> None:
    raw = bytes(range(64))

    assert identity.raw_signature(spelled(raw)) == identity.raw_signature("ed25519:" + spelled(raw)) == raw
    assert identity.raw_signature(spelled(raw)[:-2]) == b""
    assert identity.raw_signature("no signature") == b""


def test_a_challenge_may_be_signed_as_text_or_as_its_bytes() -> None:
    raw = bytes(range(32))

    assert identity.challenge_contents(spelled(raw)) == (spelled(raw).encode(), raw)
    assert identity.challenge_contents("?") == (b"?",)


def test_a_rotation_is_signed_without_its_signature() -> None:
    given = RotateIn(new_public_key="ed25519:N", old_public_key="ed25519:O", signature="s")

    assert identity.rotation_content(given) == (
        b'{"action":"rotate","new_public_key":"ed25519:N","old_public_key":"ed25519:O"}'
    )


def contents(given: MessageIn, to: str = "bob") -> list[dict[str, object]]:
    draft = draft_of(given, TeamLimits(metadata_bytes=1000))
    return [json.loads(one) for one in identity.message_contents("chan_1", "alice", to, draft, given)]


def test_the_proof_is_over_everything_else_that_the_sender_says() -> None:
    given = MessageIn({"b": 1, "a": 2.0}, Pattern.REQUEST, to="bob", metadata={"proof": {}, "trace": "t"})

    (document,) = contents(given)

    assert document == {
        "channel_id": "chan_1",
        "sender": "alice",
        "to": "bob",
        "message_type": "request",
        "correlation_id": None,
        "payload": {"a": 2, "b": 1},
        "expires_at": None,
        "metadata": {"trace": "t"},
    }


def test_the_signed_content_is_canonical() -> None:
    given = MessageIn({"b": 1, "a": 2.0}, metadata={"proof": {}})

    (content,) = identity.message_contents("c", "s", "", draft_of(given, TeamLimits(metadata_bytes=1000)), given)

    assert content == (
        b'{"channel_id":"c","correlation_id":null,"expires_at":null,"message_type":"notify","metadata":{},'
        b'"payload":{"a":2,"b":1},"sender":"s","to":null}'
    )


def test_an_end_may_be_signed_as_it_was_sent_or_as_it_will_be_shown() -> None:
    given = MessageIn({}, to="bob", expires_at="2026-03-13T15:00:00Z")

    assert [one["expires_at"] for one in contents(given)] == [
        "2026-03-13T15:00:00Z",
        "2026-03-13T15:00:00.000000+00:00",
    ]


def test_a_proof_is_read() -> None:
    raw = bytes(range(64))

    proof = identity.proof_of(
        {"type": "Ed25519Signature2026", "created": "x", "verification_method": "did:key:z", "signature": spelled(raw)}
    )

    assert (proof.method, proof.signature) == ("did:key:z", raw)


@pytest.mark.parametrize("given", [None, [], "x", {}, {"signature": 3}, {"signature": "s", "type": "RsaSignature2018"}])
def test_what_is_no_proof_is_refused(given: object) -> None:
    with pytest.raises(ProofInvalid):
        identity.proof_of(given)
