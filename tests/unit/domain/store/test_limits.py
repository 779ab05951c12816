from __future__ import annotations

from datetime import timedelta

from parley.domain.store.limits import TeamLimits


def test_the_defaults_are_those_that_are_published() -> None:
    limits = TeamLimits()

    assert limits.http_body_bytes == 256 * 1024
    assert (limits.payload_depth, limits.payload_keys) == (32, 1_000)
    assert (limits.payload_string_bytes, limits.metadata_bytes) == (64 * 1024, 16 * 1024)
    assert (limits.channel_name_chars, limits.channels_per_intent, limits.members) == (64, 1_000, 256)
    assert (limits.streams_per_key, limits.streams) == (20, 2_000)
    assert (limits.requests_per_second, limits.requests_burst, limits.failed_logins_per_minute) == (200, 400, 10)
    assert limits.decisions_per_minute == 30
    assert (limits.ask_seconds, limits.idempotency_hours) == (3_600, 24)


def test_days_are_said_as_spans_too() -> None:
    limits = TeamLimits(retention_days=0, expiry_days=1)

    assert (limits.retention, limits.longest_expiry) == (timedelta(0), timedelta(days=1))
    assert TeamLimits().retention == timedelta(days=7)
    assert TeamLimits().longest_expiry == timedelta(days=30)


def test_connections_are_limited_in_all_and_by_address() -> None:
    limits = TeamLimits()

    assert (limits.connections, limits.connections_per_address) == (4_096, 256)
    assert (limits.idle_seconds, limits.stranger_idle_seconds) == (75, 5)
