"""The only clock and the only randomness."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from parley.adapters import process
from parley.adapters.process import SystemClock, SystemIds


def test_now_is_the_wall_time_in_utc_and_uptime_never_goes_back() -> None:
    clock = SystemClock()

    before, first, second, after = datetime.now(UTC), clock.now(), clock.now(), datetime.now(UTC)

    assert before <= first.at <= second.at <= after
    assert first.at.tzinfo is UTC
    assert first.uptime <= second.uptime


def test_two_clocks_of_one_boot_agree_on_it() -> None:
    assert SystemClock().now().boot == SystemClock().now().boot != ""


def test_a_machine_without_a_boot_id_is_named_by_the_moment_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_BOOT_ID", "/nowhere/boot_id")

    assert re.fullmatch(r"boot-[0-9]+", SystemClock().now().boot)


@pytest.mark.parametrize("length", [4, 10, 12])
def test_a_suffix_has_its_length_and_its_alphabet(length: int) -> None:
    assert re.fullmatch(f"[a-z0-9]{{{length}}}", SystemIds().suffix(length))


def test_no_two_tokens_or_suffixes_are_alike() -> None:
    ids = SystemIds()

    assert len({ids.token() for _ in range(1_000)}) == 1_000
    assert len({ids.suffix(10) for _ in range(1_000)}) == 1_000
    assert re.fullmatch(r"[0-9a-f]{32}", ids.token())
