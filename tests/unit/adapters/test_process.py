"""The only clock and the only randomness."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from parley.adapters import process
from parley.adapters.process import (
    SteadyClock,
    SystemClock,
    SystemIds,
    encode_noise,
    encode_time,
    has_ended,
    process_mark,
)


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


def test_suffixes_of_one_process_sort_in_the_order_they_were_made_however_many_come_in_a_millisecond() -> None:
    ids = SystemIds()
    minute, made = -1, [""]

    # Once more when a minute ended meanwhile: they sort within one.
    while datetime.now(UTC).minute != minute:
        minute = datetime.now(UTC).minute
        made = [ids.suffix(4) for _ in range(100)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_a_secret_holds_256_bits_and_is_never_the_same() -> None:
    ids = SystemIds()

    made = {ids.secret() for _ in range(100)}

    assert len(made) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", one) for one in made)


def test_a_ulid_spells_time_and_noise_in_crockfords_alphabet() -> None:
    assert encode_time(0) == "0" * 10
    assert encode_time(2**48 - 1) == "7" + "Z" * 9
    # The example of the ULID specification begins with this time.
    assert encode_time(1_469_922_850_259) == "01ARZ3NDEK"
    assert encode_noise(bytes(range(32))) == encode_noise(bytes(range(224, 256))) == "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def test_ulids_sort_by_their_time() -> None:
    moments = [0, 1, 31, 32, 1_023, 1_024, 2**20 - 1, 2**20, 2**40 - 1, 2**40, 2**48 - 1]

    assert sorted(map(encode_time, moments)) == list(map(encode_time, moments))


def test_ulids_are_never_the_same_however_many_there_are() -> None:
    ids = SystemIds()

    made = [ids.ulid() for _ in range(10_000)]

    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", one) for one in made)


class Walls:
    """A wall clock and a monotonic one that a test sets apart."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.monotonic = 50.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


def steady(newest: datetime | None = None) -> tuple[Walls, SteadyClock]:
    walls = Walls()
    return walls, SteadyClock(lambda: walls.wall, lambda: walls.monotonic, newest=newest)


def moment(wall: float) -> datetime:
    return datetime.fromtimestamp(wall, UTC)


def shown(clock: SteadyClock) -> float:
    return clock.now().at.timestamp()


def test_a_steady_clock_follows_the_wall_while_nobody_sets_it() -> None:
    walls, clock = steady()

    walls.pass_by(3_600)

    assert shown(clock) == pytest.approx(walls.wall, abs=1e-3)
    assert not clock.now().stepped


@pytest.mark.parametrize("seconds", [30.0, -30.0])
def test_a_small_step_of_the_wall_is_followed_slowly_and_never_backwards(seconds: float) -> None:
    walls, clock = steady()
    walls.wall += seconds

    times = []
    for _ in range(100):
        walls.pass_by(1)
        times.append(shown(clock))

    # 500 parts in a million: after 100 seconds by 50 ms.
    assert times[-1] == pytest.approx(1_000_100 + (0.05 if seconds > 0 else -0.05), abs=1e-3)
    assert times == sorted(times)
    assert not clock.now().stepped


@pytest.mark.parametrize("seconds", [3_600.0, -3_600.0])
def test_a_large_step_is_not_believed_before_it_has_lasted_five_minutes(seconds: float) -> None:
    walls, clock = steady()
    walls.wall += seconds

    walls.pass_by(1)
    assert clock.now().stepped
    walls.pass_by(299)
    assert shown(clock) == pytest.approx(1_000_300, abs=1e-3)
    assert clock.now().step == seconds
    walls.pass_by(1)

    assert shown(clock) == pytest.approx(walls.wall, abs=1e-3)
    assert not clock.now().stepped


def test_a_large_step_that_is_taken_back_leaves_no_trace() -> None:
    walls, clock = steady()
    walls.wall += 3_600
    walls.pass_by(10)
    clock.now()

    walls.wall -= 3_600
    walls.pass_by(10)

    assert not clock.now().stepped
    assert shown(clock) == pytest.approx(walls.wall, abs=1e-3)


def test_a_start_long_after_the_newest_record_is_in_doubt_for_five_minutes() -> None:
    walls, clock = steady(newest=moment(Walls().wall - 40 * 86_400))

    assert shown(clock) == pytest.approx(walls.wall, abs=1e-3)
    assert clock.now().step == 40 * 86_400
    walls.pass_by(299)
    assert clock.now().stepped
    walls.pass_by(1)

    assert not clock.now().stepped


@pytest.mark.parametrize("seconds", [0.0, 30.0, 3_599.0, -59.0])
def test_a_start_soon_after_the_newest_record_is_believed(seconds: float) -> None:
    walls, clock = steady(newest=moment(Walls().wall - seconds))

    assert not clock.now().stepped
    assert shown(clock) == pytest.approx(walls.wall, abs=1e-3)


def test_a_start_before_the_newest_record_goes_on_from_there_until_the_wall_is_believed() -> None:
    walls, clock = steady(newest=moment(Walls().wall + 3_600))

    assert shown(clock) == pytest.approx(walls.wall + 3_600, abs=1e-3)
    assert clock.now().step == -3_600
    walls.pass_by(300)

    assert shown(clock) == pytest.approx(walls.wall, abs=1e-3)
    assert not clock.now().stepped


def test_ids_never_fall_when_the_wall_is_set_back() -> None:
    walls, clock = steady()
    ids = SystemIds(clock.milliseconds)
    before = ids.ulid()[:10]

    walls.wall -= 3_600
    clock.now()
    walls.pass_by(300)

    assert shown(clock) == pytest.approx(walls.wall, abs=1e-3)
    assert ids.ulid()[:10] >= before


def test_ids_made_from_one_helping_of_noise_differ_and_sort_by_time() -> None:
    ids = SystemIds()

    made = [ids.ulid() for _ in range(1_000)]

    assert len(set(made)) == 1_000
    assert len({one[10:] for one in made}) == 1_000
    assert sorted(one[:10] for one in made) == [one[:10] for one in made]


def test_the_mark_of_a_process_is_its_own_until_it_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        mark = process_mark(child.pid)
        assert mark
        assert not has_ended(mark)
        child.communicate()

    assert has_ended(mark)


def test_a_process_whose_exit_code_nobody_has_asked_for_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        mark = process_mark(child.pid)
        assert not has_ended(mark)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie

        assert has_ended(mark)


def test_a_process_that_has_the_number_of_another_is_another() -> None:
    pid, started, namespace = process_mark(os.getpid()).split(":", 2)

    assert has_ended(f"{pid}:{int(started) + 1}:{namespace}")


def test_a_process_of_another_container_is_not_known_to_have_ended() -> None:
    assert not has_ended("1234567:1:pid:[1]")
    assert not has_ended("")
    assert not has_ended("no mark")


def test_a_process_that_is_not_there_has_no_mark() -> None:
    assert process_mark(2**22 + 5) == ""
