"""Server-sent events, from bytes."""

from __future__ import annotations

import pytest

from parley.domain.errors.errors import Unavailable
from parley.sdk.protocol.event_stream import EventParser, StreamEvent


def parsed(*pieces: bytes) -> list[StreamEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def test_an_event_has_its_id_its_name_and_its_data() -> None:
    events = parsed(b'id: 7\nevent: channel_message\ndata: {"a":1}\n\n')

    assert events == [StreamEvent("7", "channel_message", '{"a":1}')]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_it_does_not_matter_how_the_bytes_are_cut(size: int) -> None:
    content = "id: 1\nevent: a\ndata: grüße ✓\n\n: ping\n\nid: 2\ndata: x\ndata: y\n\n".encode()

    events = parsed(*[content[at : at + size] for at in range(0, len(content), size)])

    assert events == [StreamEvent("1", "a", "grüße ✓"), StreamEvent("2", "message", "x\ny")]


def test_lines_may_end_as_on_windows() -> None:
    assert parsed(b"id: 1\r\ndata: x\r\n\r\n") == [StreamEvent("1", "message", "x")]


def test_comments_and_unknown_fields_are_no_events() -> None:
    assert parsed(b": ping\n\n: ping\nwhat: ever\n\n\n\n") == []


def test_an_id_alone_says_how_far_the_stream_has_come() -> None:
    assert parsed(b": hello\nretry: 1000\nid: 42\n\n") == [StreamEvent("42", "", "")]


def test_an_id_is_of_one_event_only() -> None:
    assert parsed(b"id: 1\ndata: x\n\ndata: y\n\n")[1].id == ""


def test_what_is_not_complete_is_kept_back() -> None:
    assert parsed(b"id: 1\ndata: x\n") == []


@pytest.mark.parametrize(("line", "seconds"), [(b"retry: 250", 0.25), (b"retry: 999999999", 60.0), (b"retry: x", 1.0)])
def test_the_server_says_how_long_to_wait_within_reason(line: bytes, seconds: float) -> None:
    parser = EventParser()

    list(parser.feed(line + b"\n\n"))

    assert parser.retry_seconds == seconds


def test_an_event_without_end_is_refused() -> None:
    with pytest.raises(Unavailable, match="without end"):
        parsed(*[b"x" * 1_048_576] * 10)


def test_an_event_of_many_lines_without_end_is_given_up() -> None:
    parser = EventParser()
    line = b"data: " + b"x" * 65_530 + b"\n"

    def feed() -> None:
        for _ in range(200):
            list(parser.feed(line))

    with pytest.raises(Unavailable):
        feed()


def test_many_events_that_each_fit_are_read() -> None:
    parser = EventParser()
    event = (b"data: " + b"x" * 65_530 + b"\n") * 100 + b"\n"

    assert [len(sent.data) for _ in range(3) for sent in parser.feed(event)] == [100 * 65_531 - 1] * 3
