from __future__ import annotations

import json

import pytest

from parley.domain.errors.errors import Invalid
from parley.sdk.agent.logs import describe_error


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
