"""The server's log is lines of JSON that nobody can forge."""

import json
import logging

from parley.cli.parts.log_lines import JsonLines


def a_record(message: str, **extra: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "name": "parley.http", "levelname": "ERROR", "created": 0.0, **extra})


def test_a_record_is_one_line_with_what_was_given_beside_it() -> None:
    line = JsonLines().format(a_record("the handler failed", action="http_handler_failed", code="internal"))

    assert json.loads(line) == {
        "at": "1970-01-01T00:00:00.000+00:00",
        "level": "error",
        "logger": "parley.http",
        "message": "the handler failed",
        "action": "http_handler_failed",
        "code": "internal",
    }


def test_line_ends_and_escapes_of_a_terminal_are_spelled_out() -> None:
    line = JsonLines().format(a_record("x", subject='a\n{"level":"info"}\x1b[2J\u2028'))

    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert json.loads(line)["subject"] == 'a\n{"level":"info"}\x1b[2J\u2028'
