"""The proof that a signed checkpoint covers one entry of the audit log, as a file, and its check; pure."""

from __future__ import annotations

import binascii
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from parley.domain.audit.checkpoint import is_signed
from parley.domain.audit.merkle import is_included
from parley.domain.errors.errors import Invalid
from parley.wire.proofs.audit_log import (
    UNREADABLE,
    VERSION,
    CheckpointLine,
    EntryLine,
    checkpoint_document,
    entry_line,
    read_checkpoint,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.domain.audit.checkpoint import AuditCheckpoint, Verify
    from parley.domain.audit.entry import AuditEntry


class ProofFile(Struct, forbid_unknown_fields=True, kw_only=True):
    """That one entry is part of the log that a checkpoint signs: the neighbours from its leaf up to the root."""

    parley_audit_proof: int
    entry: EntryLine
    path: list[str]
    checkpoint: CheckpointLine


_encode = msgspec.json.Encoder().encode
_proof = msgspec.json.Decoder(ProofFile)


def proof_document(entry: AuditEntry, path: Sequence[bytes], checkpoint: AuditCheckpoint) -> bytes:
    """A proof as JSON, with the exact bytes of the entry's document."""
    tail = _encode({"path": [node.hex() for node in path], "checkpoint": checkpoint_document(checkpoint)})
    return b'{"parley_audit_proof":%d,"entry":%b,%b' % (VERSION, entry_line(entry).rstrip(), tail[1:])


def check_proof(content: bytes, verify: Verify, trusted: frozenset[str] = frozenset()) -> tuple[ProofFile, str]:
    """A proof and why it does not hold; "" when it does."""
    try:
        proof = _proof.decode(content)
        path = [binascii.unhexlify(node) for node in proof.path]
        leaf = bytes.fromhex(proof.entry.entry_hash)
        root = bytes.fromhex(proof.checkpoint.root)
    except (msgspec.MsgspecError, ValueError):
        raise Invalid("this is no proof", hint="make one with: parley audit prove ID") from None
    entry, checkpoint = proof.entry, read_checkpoint(proof.checkpoint)
    document = bytes(entry.document)
    if document:
        if sha256(b"\x00" + document).digest() != leaf:
            return proof, "the entry's hash does not match its content"
        try:
            facts = msgspec.json.decode(document, type=dict[str, Any])
        except UNREADABLE:
            return proof, "the entry cannot be read"
        if (facts.get("side"), facts.get("seq"), facts.get("tenant")) != (entry.side, entry.seq, checkpoint.tenant_id):
            return proof, "the entry was written for another place"
    if not is_included(leaf, entry.number - 1, checkpoint.size, path, root):
        return proof, "the path does not lead from the entry to the root"
    if not is_signed(checkpoint, verify, trusted):
        return proof, "the checkpoint is not signed by a known key"
    return proof, ""
