from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from parley.domain.errors.errors import Invalid
from parley.sdk.agent.logs import describe_error, log_event, message_facts
from parley.wire.api.records.channels import ChannelMessage


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_an_error_is_one_line_with_the_place_in_the_code_of_its_author() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")

    line = test_an_error_is_one_line_with_the_place_in_the_code_of_its_author.__code__.co_firstlineno + 2
    assert describe_error(caught.value) == (
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1) "
        f"(test_logs.py, line {line})"
    )


def test_of_several_lines_the_first_is_told() -> None:
    assert describe_error(raised(ValueError("one\ntwo"))).startswith("ValueError: one (test_logs.py")


def test_an_error_without_words_is_named() -> None:
    assert describe_error(KeyError()) == "KeyError"


def test_our_own_errors_say_what_to_do() -> None:
    assert describe_error(Invalid("wrong", hint="write it right")) == "wrong (write it right)"


def test_a_long_text_is_cut() -> None:
    assert len(describe_error(ValueError("x" * 5_000))) == 500


def test_an_error_that_cannot_even_be_printed_is_told_by_its_kind() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe_error(Unprintable()) == "Unprintable"


def test_what_cannot_be_sent_of_a_text_is_left_out() -> None:
    assert describe_error(ValueError("half \ud800")) == "ValueError: half ?"


def a_message(channel: str = "questions") -> ChannelMessage:
    return ChannelMessage(
        id="msg_1",
        channel_id="chan_1",
        channel=channel,
        sender="alice",
        message_type="request",
        payload={},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_what_is_logged_about_a_message_names_its_id_sender_and_channel(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("parley.agent.test")
    log_event(log, "bob", "agent_answer_refused", "its answer was refused", "too long", about=a_message())
    log_event(log, "bob", "agent_request_withdrawn", "stops working", message_id="msg_2")

    first, second = caplog.records
    assert first.getMessage() == "bob: its answer was refused: msg_1 from alice in questions (too long)"
    assert [vars(first)[name] for name in ("agent", "message_id", "sender", "channel")] == [
        "bob", "msg_1", "alice", "questions",
    ]  # fmt: skip
    assert second.getMessage() == "bob: stops working: msg_2"
    assert message_facts(object()) == {}


def test_a_program_without_logging_prints_times_and_when_an_agent_stops() -> None:
    program = (
        "import logging\n"
        "from parley.sdk.agent.logs import log_event, print_log_if_unconfigured\n"
        "log = logging.getLogger('parley.agent')\n"
        "print(print_log_if_unconfigured(), print_log_if_unconfigured())\n"
        "log_event(log, 'bob', 'agent_started', 'works', level=logging.INFO)\n"
        "log_event(log, 'bob', 'agent_stopped', 'stopped; received 2', level=logging.INFO)\n"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout == "True False\n"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO bob: stopped; received 2\n", ran.stderr)


def test_a_program_that_has_configured_logging_is_left_alone() -> None:
    program = (
        "import logging; logging.basicConfig()\n"
        "from parley.sdk.agent.logs import print_log_if_unconfigured\n"
        "print(print_log_if_unconfigured(), logging.getLogger('parley.agent').handlers)\n"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout == "False []\n"
