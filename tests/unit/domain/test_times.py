"""Moments in, one spelling out."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid
from parley.domain.times import (
    age,
    ages,
    ago,
    clock_time,
    format_time,
    local_time,
    parse_duration,
    parse_moment,
    parse_past,
    parse_shown_time,
    parse_time,
    read_foreign_time,
    seconds_text,
    utc_time,
)
from tests.samples.messages import NOW, PROPERTY

any_moment = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001


@PROPERTY
@given(any_moment)
def test_what_is_written_is_read_back_to_the_second(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)
    assert format_time(parse_time(format_time(moment))) == format_time(moment)


@PROPERTY
@given(any_moment, any_moment)
def test_written_times_sort_like_moments(one: datetime, other: datetime) -> None:
    one, other = one.replace(microsecond=0), other.replace(microsecond=0)

    assert (format_time(one) < format_time(other)) == (one < other)


@PROPERTY
@given(any_moment, st.integers(-23 * 60, 23 * 60))
def test_an_offset_is_taken_into_account(moment: datetime, minutes: int) -> None:
    away = moment.astimezone(timezone(timedelta(minutes=minutes)))

    assert parse_time(away.isoformat()) == moment


@PROPERTY
@given(st.text(st.sampled_from("0123456789-:TtZz+., \u0660\n")))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    with contextlib.suppress(Invalid):
        assert parse_time(text).tzinfo is UTC
    with contextlib.suppress(Invalid):
        assert read_foreign_time(text).at.tzinfo is UTC


_FORMS = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y%m%dT%H%M%S", "%Y%m%d %H%M%S", "%Y-%m-%dT%H:%M:%S.%f"]


@PROPERTY
@given(
    st.datetimes(min_value=datetime(1000, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from(_FORMS),
    st.sampled_from(["", "Z", "z", "+00:00", "+0000", "+00", " +00:00", " Z", "-00:00"]),
)
def test_every_iso_8601_form_in_utc_is_the_same_moment(moment: datetime, form: str, zone: str) -> None:
    time = read_foreign_time(moment.strftime(form) + zone)

    assert time.at.replace(microsecond=0) == moment.replace(microsecond=0)
    assert (time.has_zone, time.is_utc) == (zone != "", True)


@pytest.mark.parametrize("text", ["2026-03-13T16:30:00+02:00", "20260313T1630+02", "2026-03-13 16:30 +0200"])
def test_a_foreign_time_in_a_local_zone_is_converted(text: str) -> None:
    assert read_foreign_time(text) == (NOW, True, False)


@pytest.mark.parametrize(
    "text", ["2026-03-13", "14:30:00Z", "2026-0313T14:30Z", "2026-03-13T1430:00Z", "2026-02-30T14:30:00", "1773412200"]
)
def test_what_is_no_date_with_a_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        read_foreign_time(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-13T14:30:00Z", NOW),
        ("2026-03-13t14:30:00z", NOW),
        ("2026-03-13 14:30:00Z", NOW),
        ("2026-03-13T14:30Z", NOW),
        ("2026-03-13T16:30:00+02:00", NOW),
        ("2026-03-13T16:30:00+0200", NOW),
        ("2026-03-13T09:00:00-05:30", NOW),
        ("2026-03-13T14:30:00.5Z", NOW + timedelta(milliseconds=500)),
        ("2026-03-13T14:30:00,25Z", NOW + timedelta(milliseconds=250)),
        ("2026-03-13T14:30:00.123456789Z", NOW + timedelta(microseconds=123_456)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_every_rfc_3339_spelling_is_read(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2026-03-13", "2026-03-13T14:30:00", "2026-03-13T14:30:00 Z", " 2026-03-13T14:30:00Z",
        "2026-03-13T14:30:00Z\n", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-03-13T24:00:00Z",
        "2026-03-13T14:60:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00", "2026-03-13T14:30:00+24:00", "2026-03-13T14:30:00+01:60",
        "2026-03-13T14:30:00+1:00", "2026-W11-5T14:30:00Z", "20260313T143000Z", "2026-03-13T14:30:00.Z",
        "\u0662026-03-13T14:30:00Z", "2026-03-13T14:30:00UTC", "1e400",
    ],
)  # fmt: skip
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_time(text)


def test_a_time_is_written_in_utc_without_its_fraction() -> None:
    away = datetime(2026, 3, 13, 16, 30, 59, 999_999, tzinfo=timezone(timedelta(hours=2)))

    assert format_time(away) == "2026-03-13T14:30:59Z"
    assert format_time(datetime(33, 1, 2, tzinfo=UTC)) == "0033-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("2h", 7_200), ("7d", 604_800), ("1w", 604_800), (" 1s ", 1)]
)
def test_durations_are_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "0s", "s", "5", "5 m", "-5m", "1.5h", "5M", "5y", "1h30m", "\u0665m", "1234567890s", "999999999w"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_duration(text)


def test_a_moment_is_a_duration_from_now_or_a_time() -> None:
    assert parse_moment("2h", NOW) == NOW + timedelta(hours=2)
    assert parse_moment("2026-03-14T00:00:00Z", NOW) == datetime(2026, 3, 14, tzinfo=UTC)


def test_a_day_to_come_begins_or_ends_in_utc() -> None:
    assert parse_moment("2026-03-14", NOW) == datetime(2026, 3, 14, tzinfo=UTC)
    assert parse_moment(" 2026-03-14", NOW, ends=True) == datetime(2026, 3, 15, tzinfo=UTC)
    assert parse_moment("tomorrow", NOW) == parse_moment((NOW + timedelta(days=1)).date().isoformat(), NOW)
    assert parse_past("Yesterday", NOW, ends=True) == parse_past("today", NOW) == parse_moment("today", NOW)
    with pytest.raises(Invalid, match="'2026-02-30' is not a day that exists"):
        parse_moment("2026-02-30", NOW)
    with pytest.raises(Invalid, match="further away than time goes"):
        parse_moment("9999-12-31", NOW, ends=True)


@pytest.mark.parametrize("text", ["someday", "0s", "999999999d", "999999999w", ""])
def test_a_moment_beyond_all_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_moment(text, NOW)


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(seconds=-5), "0s"),
        (timedelta(seconds=59), "59s"),
        (timedelta(minutes=1), "1m"),
        (timedelta(minutes=59, seconds=59), "59m"),
        (timedelta(hours=1), "1h"),
        (timedelta(hours=47, minutes=59), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=400), "400d"),
    ],
)
def test_an_age_is_short(passed: timedelta, shown: str) -> None:
    assert age(NOW - passed, NOW) == shown


@PROPERTY
@given(st.lists(st.timedeltas(timedelta(days=-3), timedelta(days=9))), st.integers(0, 59), st.booleans())
def test_many_ages_are_those_of_each(passed: list[timedelta], second: int, fraction: bool) -> None:
    now = NOW.replace(second=second)
    times = [format_time(now - length, fraction=fraction) for length in passed]

    assert ages(times, now) == [age(parse_time(time), now) for time in times]


def test_the_last_hour_that_there_is_has_an_age() -> None:
    assert ages(["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"], NOW) == ["0s", "739687d"]


def test_a_leap_second_and_a_long_fraction_are_times() -> None:
    assert parse_time("2016-12-31T23:59:60Z") == datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert parse_time("2026-03-13T14:30:00.123456789012Z").microsecond == 123456


def test_a_fraction_is_written_only_where_it_is_asked_for() -> None:
    moment = datetime(2026, 3, 13, 14, 30, 0, 900_000, tzinfo=UTC)

    assert format_time(moment) == "2026-03-13T14:30:00Z"
    assert format_time(moment, fraction=True) == "2026-03-13T14:30:00.900000Z"


def test_a_duration_that_has_passed_is_before_now_and_a_time_is_itself() -> None:
    assert parse_past("1h", NOW) == NOW - timedelta(hours=1)
    assert parse_past("2026-03-13T14:30:00Z", NOW) == datetime(2026, 3, 13, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "hint"), [("someday", "so long ago"), ("99999999w", ""), ("2026-02-30T00:00:00Z", "")]
)
def test_what_is_no_time_that_has_passed_is_refused(text: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_past(text, NOW)

    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(seconds=-5), "0s ago"),
        (timedelta(seconds=3), "3s ago"),
        (timedelta(seconds=60), "1m ago"),
        (timedelta(hours=5), "5h ago"),
        (timedelta(days=3), "3d ago"),
    ],
)
def test_how_long_ago_is_said_for_people(passed: timedelta, shown: str) -> None:
    assert ago(NOW - passed, NOW) == shown


def test_a_time_of_day_has_its_day_when_it_is_another() -> None:
    now = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)

    tokyo = timezone(timedelta(hours=9))

    assert clock_time(now.astimezone(tokyo), now, UTC) == "14:30:00"
    assert clock_time(now, now, tokyo) == "23:30:00"
    assert clock_time(now + timedelta(hours=1), now, tokyo) == "2026-03-14 00:30:00+09:00"
    assert local_time(now, tokyo) == "2026-03-13 23:30:00+09:00"
    assert local_time(now, UTC) == utc_time(now) == "2026-03-13 14:30:00Z"
    assert parse_time(local_time(now, tokyo)) == now


def test_a_day_is_a_period_from_its_beginning_to_its_end_in_utc() -> None:
    now = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)

    assert parse_past("2026-03-12", now) == datetime(2026, 3, 12, tzinfo=UTC)
    assert parse_past("2026-03-12", now, ends=True) == datetime(2026, 3, 13, tzinfo=UTC)
    assert parse_past("2h", now, ends=True) == datetime(2026, 3, 13, 12, 30, tzinfo=UTC)
    with pytest.raises(Invalid):
        parse_past("2026-02-30", now)


@pytest.mark.parametrize(
    "text", ["2026-03-13 14:30:00Z", "2026-03-13 14:30:00", "2026-03-13 14:30 UTC", "2026-03-13T14:30Z"]
)
def test_a_time_is_read_as_it_is_shown_in_utc(text: str) -> None:
    moment = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
    assert parse_shown_time(text, NOW) == moment
    assert utc_time(moment) == "2026-03-13 14:30:00Z"


def test_a_time_without_a_day_is_one_of_today_and_what_is_no_time_is_left_to_others() -> None:
    assert parse_shown_time("9:05", NOW) == NOW.replace(hour=9, minute=5, second=0, microsecond=0)
    assert parse_shown_time("2026-03-13 14:30:00+01:00", NOW) is None
    assert parse_shown_time("1h", NOW) is None
    with pytest.raises(Invalid, match="not a moment that exists"):
        parse_shown_time("25:00", NOW)


def test_seconds_are_shown_to_a_tenth_and_never_as_none() -> None:
    assert [seconds_text(seconds) for seconds in (19.9878, 30, 1.25, 0.02, 3600.0)] == [
        "20",
        "30",
        "1.2",
        "0.02",
        "3600",
    ]
