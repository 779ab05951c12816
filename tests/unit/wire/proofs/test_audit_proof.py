"""A proof shows one entry without the others, and does not hold when it was changed."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from parley.domain.audit.entry import entry_hash
from parley.domain.audit.merkle import inclusion
from parley.domain.errors.errors import Invalid
from parley.wire.proofs.audit_proof import check_proof, proof_document
from tests.samples.audit import a_log, checkpoints_of, signer, verify

LOG = a_log(20)
MARKS = checkpoints_of(LOG, 8, 20)


def test_an_entry_is_proved_alone() -> None:
    path = inclusion([bytes.fromhex(one.entry_hash) for one in LOG], 6)
    content = proof_document(LOG[6], path, MARKS[1])

    proof, why = check_proof(content, verify)

    assert (proof.entry.number, why) == (7, "")
    assert json.loads(content)["entry"]["document"]["id"] == LOG[6].id
    assert check_proof(content, verify, frozenset({signer(2).public_key.hex()}))[1] != ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"internal", b"public!!"),
        (b'"number":7', b'"number":8'),
        (b'"side":"alice","seq"', b'"side":"carol","seq"'),
        (b'"size":20', b'"size":21'),
        (b'"path":["', b'"path":["' + b"0" * 64 + b'","'),
    ],
)
def test_a_proof_that_was_changed_does_not_hold(old: bytes, new: bytes) -> None:
    path = inclusion([bytes.fromhex(one.entry_hash) for one in LOG], 6)
    content = proof_document(LOG[6], path, MARKS[1])
    assert old in content

    assert check_proof(content.replace(old, new, 1), verify)[1] != ""


def test_wherever_a_byte_of_a_proof_is_no_utf_8_it_does_not_hold() -> None:
    path = inclusion([bytes.fromhex(one.entry_hash) for one in LOG], 6)
    content = proof_document(LOG[6], path, MARKS[1])

    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] |= 0x80
        with suppress(Invalid):
            assert check_proof(bytes(changed), verify)[1] != ""


@pytest.mark.parametrize("document", [b'"text"', b"[1]", b'{"\xff":1}', b"{"])
def test_an_entry_that_is_none_proves_nothing_though_its_hash_fits(document: bytes) -> None:
    entry = LOG[0]._replace(number=1, entry_hash=entry_hash(document), document=document)
    (mark,) = checkpoints_of([entry], 1)

    try:
        assert check_proof(proof_document(entry, (), mark), verify)[1] == "the entry cannot be read"
    except Invalid:
        assert document == b"{"  # which ends within the proof, so that this is none


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"parley_audit_proof":1}'])
def test_what_is_no_proof_is_said(content: bytes) -> None:
    with pytest.raises(Invalid, match="no proof"):
        check_proof(content, verify)
