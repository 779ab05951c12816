"""How much of anything one message may hold."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from typing import NamedTuple

HARD_FILE_BYTES = 1024 * 1024


class Limits(NamedTuple):
    """All limits with their defaults; settings may change them, `HARD_FILE_BYTES` stays."""

    file_bytes: int = 256 * 1024
    yaml_depth: int = 16
    yaml_nodes: int = 5_000
    id_chars: int = 200
    subject_chars: int = 200
    tag_chars: int = 64
    body_chars: int = 20_000
    context_words: int = 500
    recipients: int = 10
    tries: int = 5
    inbox_messages: int = 50_000


DEFAULT_LIMITS = Limits()
