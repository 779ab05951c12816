"""What a server says about rules, as records: exchanges, approvals, policies, suspensions and the audit log."""

from __future__ import annotations

from parley.wire.api.records.audit import AuditCheckpoint, AuditCheckpoints, AuditEntry, AuditPage, AuditProof, Erasure
from parley.wire.api.records.rules import (
    Approval,
    Exchange,
    Explanation,
    Policies,
    Policy,
    PolicyInForce,
    PolicyRevision,
    Replay,
    Suspension,
)

__all__ = [
    "Approval",
    "AuditCheckpoint",
    "AuditCheckpoints",
    "AuditEntry",
    "AuditPage",
    "AuditProof",
    "Erasure",
    "Exchange",
    "Explanation",
    "Policies",
    "Policy",
    "PolicyInForce",
    "PolicyRevision",
    "Replay",
    "Suspension",
]
