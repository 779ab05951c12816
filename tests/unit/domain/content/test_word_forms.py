"""Words in a text, however they are spelt."""

from __future__ import annotations

import base64
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.word_forms import Vocabulary, vocabulary, with_words, words_in
from tests.samples.messages import PROPERTY

KNOWN = vocabulary({"schedule": "+schedule +scheduling", "book": "book booked", "agree": "agree"})

# Texts that would be slow for a search that goes back: each is repeated. "committee" and its like make all passes run.
TEXTS = {
    "one letter": "a",
    "nearly the word": "schedul",
    "the word within words": "xbookx",
    "another word": "notebook ",
    "many short words": "ab cd ef ",
    "single letters": "b o o ",
    "dots": "b.o.o.",
    "capitals inside": "aB",
    "capitals": "A",
    "digits for letters": "5ch3du1 ",
    "tokens": "aB3dEf ",
    "one token": "aB3d",
    "look-alikes": "\u0435",
    "many look-alikes": "".join(chr(sign) for sign in range(0x400, 0x450)),
    "marks": "a\u0301",
    "ideographs": "\u4f60",
    "a sign for a sentence": "\ufdfa",
    "nested quantifiers": "(a+)+",
    "blanks": " ",
    "from right to left": "\u202ea",
    "tags": "\U000e0061",
    "overrides": "a\u202eb\u202c",
    "overrides in overrides": "\u202e",
    "thin spaces": "b\u2009",
    "signs inside": "s/c/h/",
    "nearly the word with signs": "s////////c////////h////////",
    "tags of HTML": "a<b>",
    "signs for letters": "(6!|",
    "hexadecimal": "6a6b",
}


def found(text: str, known: Vocabulary = KNOWN) -> set[str]:
    return words_in([text], known)


@pytest.mark.parametrize(
    "text",
    ["schedule", "Scheduling!", "rescheduling", "(schedule)", '{"schedule":1}', "schedule_review", "scheduleReview"],
)
def test_a_form_is_found_as_a_word_of_its_own(text: str) -> None:
    assert found(text) == {"schedule"}


def test_only_a_form_that_says_so_is_found_with_re_before_it() -> None:
    assert found("reschedule") == {"schedule"}
    assert found("rebook") == set()


@pytest.mark.parametrize(
    "text", ["notebook", "bookish", "scheduler", "MacBook", "orderBooks", "xscheduling", "a green"]
)
def test_a_word_that_contains_one_is_another(text: str) -> None:
    assert found(text) == set()


@pytest.mark.parametrize(
    "text",
    ["b o o k", "B.O.O.K", "b-o-o-k", "b, o, o, k", '["b","o","o","k"]', "bo-ok", "b*oo*k", "b\x00ook", "b00k", "8OOK",
     "canBook", "HTTPBook", "doBOOK", "we\u4e66book\u5427", "bo\u4e66ok", "koob\u202e", "\u202ekoob"],
)  # fmt: skip
def test_a_word_is_found_with_its_letters_apart_or_replaced(text: str) -> None:
    assert found(text) == {"book"}


@pytest.mark.parametrize("text", ["5chedu1e", "scheduIe", "$CHEDULE", "sch3du|e", "sche\u00addule", "SCHEDU1NG"])
def test_signs_that_look_like_a_letter_stand_for_it(text: str) -> None:
    assert found(text) == ({"schedule"} if text != "SCHEDU1NG" else set())


@pytest.mark.parametrize("text", ["book2", "2book", "v1book", "book@example.org", "book3"])
def test_a_digit_parts_words_as_well(text: str) -> None:
    assert found(text) == {"book"}


def test_texts_are_looked_at_one_by_one() -> None:
    assert words_in(["bo", "ok"], KNOWN) == set()
    assert words_in(iter(["nothing", "book it", "agree"]), KNOWN) == {"book", "agree"}
    assert words_in([], KNOWN) == set()


def test_what_only_tags_say_is_read() -> None:
    hidden = "".join(chr(0xE0000 + ord(sign)) for sign in "agree to it")

    assert found(f"A harmless text.{hidden}") == {"agree"}


@PROPERTY
@given(
    st.sampled_from(sorted(KNOWN.forms.values())),
    st.text("abcdefghijklmnopqrstuvwxyz ,.:-\n", max_size=40),
    st.text("abcdefghijklmnopqrstuvwxyz ,.:-\n", max_size=40),
    st.sampled_from([str.lower, str.upper, str.title]),
    st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]),
    st.booleans(),
)
def test_a_word_in_base64_is_found_wherever_it_stands(
    word: str, before: str, after: str, case: object, encode: object, padded: bool
) -> None:
    assert callable(case)
    assert callable(encode)
    token = encode(f"{before} {case(word)} {after}".encode()).decode()
    token = token if padded else token.rstrip("=")

    assert word in found(f'{{"data":"{token}"}}')
    assert word in found(encode(case(word).encode()).decode())


def test_a_policys_words_are_found_with_regular_endings() -> None:
    more = with_words(KNOWN, ("pledge", "deliver", "carry"))

    for text in (
        "pledge",
        "pledges",
        "pledged",
        "pledging",
        "Delivers",
        "delivered",
        "carries",
        "carried",
        "d e l i v e r",
    ):
        assert len(found(text, more)) == 1, text
    assert found("deliverable", more) == set()
    assert more.words == ("schedule", "book", "agree", "pledge", "deliver", "carry")


def test_a_policys_phrase_is_found_as_words_in_a_row() -> None:
    more = with_words(KNOWN, ("sign off", "purchase-order"))

    assert found("please SIGN\n off", more) == {"sign off"}
    assert found("sign_off", more) == {"sign off"}
    assert found("a purchase order", more) == {"purchase-order"}
    assert found("design off", more) == set()


def test_a_policys_word_in_another_script_is_found_anywhere() -> None:
    more = with_words(KNOWN, ("\u627f\u8bfa", "\u041e\u0431\u0435\u0449\u0430\u044e", "Zus\u00e4ge", "24/7"))

    assert found("\u6211\u4eec\u627f\u8bfa\u3002", more) == {"\u627f\u8bfa"}
    assert found("\u043e\u0431\u0435\u0449\u0430\u044e!", more) == {"\u041e\u0431\u0435\u0449\u0430\u044e"}
    assert found("ZUS\u00c4GE", more) == {"Zus\u00e4ge"}
    assert found("open 24/7.", more) == {"24/7"}


def test_a_policys_word_without_a_sign_is_never_found() -> None:
    assert found("anything ", with_words(KNOWN, ("", " ", "\u200b"))) == set()


def test_a_policys_word_never_takes_a_form_away() -> None:
    more = with_words(KNOWN, ("book", "booked"))

    assert found("booked", more) == {"book"}
    assert more.words == ("schedule", "book", "agree", "booked")


@pytest.mark.parametrize("piece", TEXTS.values(), ids=TEXTS)
def test_sixteen_times_the_text_is_no_more_than_some_sixteen_times_the_work(piece: str) -> None:
    def text(length: int) -> str:
        return (piece * (length // len(piece) + 1))[:length] + " notebook scheduler disagree"

    def work(length: int) -> float:
        whole, best = [text(length)], 1.0
        for _ in range(7):
            begun = thread_time()
            words_in(whole, KNOWN)
            best = min(best, thread_time() - begun)
        return best

    # Processor time, so that a busy machine does not count. Quadratic work would be 256 times as much.
    assert work(65_536) < 160 * max(work(4_096), 50e-6)
