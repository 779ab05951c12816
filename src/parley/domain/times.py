"""Moments and durations as text: RFC 3339 in, `YYYY-MM-DDTHH:MM:SSZ` out."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from parley.domain.errors.errors import Invalid

# Patterns that a command seldom needs stay text: `re` compiles and remembers them when they are first used.
_RFC3339 = (
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
    r"(Z|z|[+-][0-9]{2}:?[0-9]{2})\Z"
)
# What other tools write beside that: no zone, no marks between the digits, hours only in the offset, a space before it.
_ISO_8601 = (
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})[Tt ]([0-9]{2})(:?)([0-9]{2})(?:\6([0-9]{2}(?:[.,][0-9]+)?))?"
    r" ?(Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?\Z"
)
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z"
_NAMED_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
# A time of day or a day with a time, in UTC, as `utc_time` shows it.
_SHOWN = r"(?:([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ])?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?: ?(?:Z|UTC))?\Z"
_DURATION_DIGITS_MAX = 9
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Instant(NamedTuple):
    """Now, by the wall clock and by a clock that cannot be set back.

    `uptime` counts seconds since `boot`; two instants of the same boot compare by it, so that a lease
    neither lives for ever nor dies at once when somebody sets the wall clock.
    """

    at: datetime
    boot: str
    uptime: float
    # How many seconds the wall clock is away from where it was expected, until it has stayed there for a while.
    step: float = 0.0
    # Since when the clock has run without a gap; None where nobody knows.
    since: datetime | None = None

    @property
    def stepped(self) -> bool:
        """Whether the wall clock jumped and it is not yet known whether on purpose."""
        return self.step != 0


def parse_time(text: str) -> datetime:
    """An aware UTC moment; the offset is required because local time means nothing to another machine."""
    moment = _canonical(text)
    if moment is not None:
        return moment
    match = re.match(_RFC3339, text)
    if match is None:
        raise Invalid(f"{text!r} is not a time like 2026-03-13T14:30:00Z", hint="or write 30m, 2h, 7d from now")
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        moment = datetime(
            int(year),
            int(month),
            int(day),
            int(hour),
            int(minute),
            min(int(second or 0), 59),  # a leap second is the end of its minute
            int((fraction or "0")[:6].ljust(6, "0")),
            tzinfo=UTC,
        )
        return moment if offset in "Zz" else moment - _offset(offset)
    except (ValueError, OverflowError):
        raise Invalid(f"{text!r} is not a moment that exists") from None


class ForeignTime(NamedTuple):
    """A moment as another tool wrote it. Without a zone it counts as UTC."""

    at: datetime
    has_zone: bool
    is_utc: bool


def read_foreign_time(text: str) -> ForeignTime:
    """A moment in any ISO 8601 form of a date with a time; `Invalid` for anything else."""
    if is_canonical(text):
        return ForeignTime(parse_time(text), has_zone=True, is_utc=True)
    match = re.match(_ISO_8601, text)
    if match is None:
        return ForeignTime(parse_time(text), has_zone=True, is_utc=True)
    year, _, month, day, hour, _, minute, second, zone = match.groups()
    offset = zone if zone and zone not in "Zz" else "Z"
    offset = offset + ":00" if len(offset) == 3 else offset
    try:
        moment = parse_time(f"{year}-{month}-{day}T{hour}:{minute}:{second or '00'}{offset}")
    except Invalid:
        raise Invalid(f"{text!r} is not a moment that exists") from None
    return ForeignTime(moment, has_zone=zone is not None, is_utc=not offset.strip("Zz+-0:"))


def is_canonical(text: str) -> bool:
    """Whether a time is in the one spelling that Parley writes, which sorts as text."""
    return _canonical(text) is not None


def _canonical(text: str) -> datetime | None:
    # Every third character from the fifth on is a mark; newer Pythons know midnight as 24.
    if len(text) != 20 or text[4::3] != "--T::Z" or not text.isascii() or text[11:13] == "24":
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _offset(text: str) -> timedelta:
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(text)
    return timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)


def format_time(moment: datetime, *, fraction: bool = False) -> str:
    """`moment` in UTC with a Z, to the second or with the fraction it has."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return (utc if fraction else utc.replace(microsecond=0)).isoformat() + "Z"


def parse_duration(text: str) -> timedelta:
    """30s, 5m, 2h, 7d, 1w."""
    written = text.strip()
    if not _is_duration(written) or int(written[:-1]) == 0:
        raise Invalid(f"{text!r} is not a duration", hint="write 30s, 5m, 2h, 7d or 1w")
    try:
        return timedelta(seconds=int(written[:-1]) * _SECONDS[written[-1]])
    except OverflowError:
        raise Invalid(f"{text!r} is longer than time goes") from None


def _is_duration(text: str) -> bool:
    """Whether a text is digits and a unit. Without a pattern: compiling one takes longer than most commands work."""
    number = text[:-1]
    return text[-1:] in _SECONDS and number.isascii() and number.isdigit() and len(number) <= _DURATION_DIGITS_MAX


def parse_moment(text: str, now: datetime, *, ends: bool = False) -> datetime:
    """A duration from now, a time, or a day in UTC: its beginning, or its end where something is valid until it."""
    if is_day(text):
        return _day(text, now, ends=ends)
    try:
        if _is_duration(text.strip()):
            return now + parse_duration(text)
    except OverflowError:
        raise Invalid(f"{text!r} is further away than time goes") from None
    return parse_time(text)


def parse_shown_time(text: str, now: datetime) -> datetime | None:
    """A time in UTC as `utc_time` shows it, also without its day, its seconds or its zone; None for anything else."""
    match = re.match(_SHOWN, text.strip())
    if match is None:
        return None
    day, hour, minute, second = match.groups()
    day = day or now.astimezone(UTC).date().isoformat()
    try:
        return parse_time(f"{day}T{hour.zfill(2)}:{minute}:{second or '00'}Z")
    except Invalid:
        raise Invalid(f"{text!r} is not a moment that exists") from None


def parse_past(text: str, now: datetime, *, ends: bool = False) -> datetime:
    """A duration before now, a time, or a day in UTC: its beginning, or its end where a period ends with it."""
    if is_day(text):
        return _day(text, now, ends=ends)
    try:
        if _is_duration(text.strip()):
            return now - parse_duration(text)
    except OverflowError:
        raise Invalid(f"{text!r} is further away than time goes") from None
    try:
        return parse_time(text)
    except Invalid as error:
        hint = "or write 30m, 2h, 7d: so long ago; or a day like 2026-03-13" if error.hint else ""
        raise Invalid(error.message, hint=hint) from None


def is_day(text: str) -> bool:
    """Whether a text names a day: 2026-03-13, today, yesterday or tomorrow."""
    return text.strip().lower() in _NAMED_DAYS or re.match(_DAY, text.strip()) is not None


def _day(text: str, now: datetime, *, ends: bool) -> datetime:
    named = _NAMED_DAYS.get(text.strip().lower())
    day = text.strip() if named is None else (now.astimezone(UTC) + timedelta(days=named)).date().isoformat()
    try:
        begins = parse_time(f"{day}T00:00:00Z")
        return begins + timedelta(days=1) if ends else begins
    except Invalid:
        raise Invalid(f"{text!r} is not a day that exists") from None
    except OverflowError:
        raise Invalid(f"{text!r} is further away than time goes") from None


def age(since: datetime, now: datetime) -> str:
    """How long ago: seconds below a minute, minutes below an hour, hours below two days, then days."""
    passed = now - since
    minutes = passed.days * 1440 + passed.seconds // 60
    if minutes < 1:
        return f"{passed.seconds if minutes == 0 else 0}s"
    if minutes < 60:
        return f"{minutes}m"
    return f"{minutes // 60}h" if minutes < 60 * 48 else f"{minutes // (60 * 24)}d"


def ages(times: Iterable[str], now: datetime) -> list[str]:
    """The age of many moments, which are in UTC. Moments of one hour mostly have one age, which is computed once."""
    texts, by_hour = list[str](), dict[str, str]()
    for time in times:
        hour = time[:13]
        text = by_hour.get(hour)
        if text is None:
            moment = parse_time(time)
            start = moment.replace(minute=0, second=0, microsecond=0)
            end = moment.replace(minute=59, second=59, microsecond=999_999)
            # Empty for an hour whose moments are looked at one by one.
            text = by_hour[hour] = oldest if (oldest := age(start, now)) == age(end, now) else ""
        texts.append(text or age(parse_time(time), now))
    return texts


def seconds_text(seconds: float) -> str:
    """A number of seconds for people, to a tenth; less than one to two digits: `20`, `1.5`, `0.02`."""
    return f"{round(seconds, 1):g}" if seconds >= 1 else f"{seconds:.2g}"


def ago(since: datetime, now: datetime) -> str:
    """How long ago, for people: `3s ago`, `5m ago`, `2h ago`, `3d ago`."""
    return f"{age(since, now)} ago"


def clock_time(moment: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """A moment for people, in their zone: the time of today, else with its day and its zone."""
    local = moment.astimezone(zone)
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone(zone).date() else local_time(moment, zone)


def local_time(moment: datetime, zone: tzinfo | None = None) -> str:
    """A moment for people, in their zone, with its day and its zone: `2026-03-13 14:30:00+01:00`, in UTC with a `Z`."""
    text = moment.astimezone(zone).isoformat(" ", "seconds")
    return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text


def utc_time(moment: datetime) -> str:
    """A moment for people, in UTC, with its day and its zone: `2026-03-13 14:30:00Z`."""
    return local_time(moment, UTC)


def stamp(moment: datetime) -> str:
    """`moment` as the team's store and the HTTP API write it: of one length, so that it sorts as text."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="microseconds")


def from_stamp(text: str) -> datetime:
    """The moment of a stamp."""
    return datetime.fromisoformat(text)
