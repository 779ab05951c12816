"""Records for tests, made from what a server says."""

from __future__ import annotations

from parley.sdk.records import convert_answer
from parley.wire.api.records.rules import Approval

CHANNEL = {
    "id": "chan_1",
    "intent_id": "intent_1",
    "task_id": None,
    "name": "questions",
    "created_by": "alice",
    "members": ["alice"],
    "member_policy": "intent",
    "options": {"audit": True, "ttl_seconds": None, "max_messages": 7},
    "status": "open",
    "created_at": "2026-03-13T14:30:00.000001+00:00",
    "closed_at": None,
    "message_count": 0,
    "last_message_at": None,
    "said_by_a_newer_server": {"more": 1},
}


def an_approval() -> Approval:
    document = {
        "id": "appr_1",
        "status": "pending",
        "cause": "commitment",
        "reason": "it promises something",
        "detectedKeywords": ["promise"],
        "agent": "alice",
        "user": "ann",
        "deciders": ["ann"],
        "to": "bob",
        "exchange_type": "information_query",
        "classification": "internal",
        "visible_text": "We promise it.",
        "hidden_characters": [{"where": "text", "position": 3, "code_point": "U+200B", "name": "ZERO WIDTH SPACE"}],
        "digest": "sha256:1",
        "policy_version": "1-abc",
        "created_at": "2026-03-13T14:30:00.000000+00:00",
        "expires_at": "2026-03-14T14:30:00.000000+00:00",
    }
    return convert_answer(document, Approval)
