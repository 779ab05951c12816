"""Limits of a server for tenants, channels and requests."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from datetime import timedelta
from typing import NamedTuple

# The longest that a request for messages may wait for new ones.
LONG_POLL_MAX_SECONDS = 60


class TeamLimits(NamedTuple):
    """All limits with their defaults; settings may change them."""

    http_body_bytes: int = 256 * 1024
    payload_depth: int = 32
    payload_keys: int = 1_000
    payload_string_bytes: int = 64 * 1024
    metadata_bytes: int = 16 * 1024
    channel_name_chars: int = 64
    channels_per_intent: int = 1_000
    members: int = 256
    max_messages: int = 1_000_000
    page: int = 1_000
    batch: int = 100
    intents_per_tenant: int = 100_000
    intents_per_agent: int = 20_000
    agents_per_tenant: int = 10_000
    keys_per_tenant: int = 10_000
    webhooks_per_tenant: int = 1_000
    webhooks_per_agent: int = 100
    tasks_per_intent: int = 10_000
    timers_per_agent: int = 1_000
    timer_days: int = 365
    streams_per_key: int = 20
    streams: int = 2_000
    requests_per_second: int = 200
    requests_burst: int = 400
    failed_logins_per_minute: int = 10
    decisions_per_minute: int = 30
    connections: int = 4_096
    connections_per_address: int = 256
    idle_seconds: int = 75
    # For connections on which no valid key was shown.
    stranger_idle_seconds: int = 5
    ask_seconds: int = 3_600
    expiry_days: int = 30
    idempotency_hours: int = 24
    retention_days: int = 7
    # Audit documents older than this are trimmed; 0 keeps them forever. Their hashes always stay.
    audit_retention_days: int = 0

    @property
    def retention(self) -> timedelta:
        return timedelta(days=self.retention_days)

    @property
    def longest_expiry(self) -> timedelta:
        return timedelta(days=self.expiry_days)
