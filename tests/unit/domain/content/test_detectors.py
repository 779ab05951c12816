"""Content detectors. Every number and token here is made up while the test runs: none of them stands in this file."""

from __future__ import annotations

import string
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.classification import Classification, ContentPattern
from parley.domain.content.detectors import API_TOKEN, IBAN, PAYMENT_CARD, PRIVATE_KEY, Detection, findings, level_with
from parley.domain.directory.callers import SECRET_PREFIX
from tests.samples.messages import PROPERTY

CORPUS = Path(__file__).resolve().parents[3] / "conformance" / "ocip"
ALPHABET = string.ascii_letters + string.digits
CASE = ContentPattern("case number", "CASE-####/??", Classification.CONFIDENTIAL)
PROJECT = ContentPattern("project", "Projekt Gr\u00fcn", Classification.RESTRICTED)


def card(first: str, length: int, *, valid: bool = True) -> str:
    """A number with this beginning and, if it is valid, the last digit that Luhn asks for."""
    number = (first + "0918273645" * 2)[: length - 1]
    doubled = [int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(number))]
    last = -sum(value // 10 + value % 10 for value in doubled) % 10
    return number + str(last if valid else (last + 1) % 10)


def iban(country: str, account: str, *, valid: bool = True) -> str:
    check = 98 - int("".join(str(int(sign, 36)) for sign in f"{account}{country}00")) % 97
    return f"{country}{check if valid else (check + 1) % 97:02}{account}"


def grouped(number: str, by: str = " ") -> str:
    return by.join(number[place : place + 4] for place in range(0, len(number), 4))


def noise(length: int, alphabet: str = ALPHABET) -> str:
    return "".join(alphabet[(7 * place + 3) % len(alphabet)] for place in range(length))


def pem(what: str) -> str:
    return "-" * 5 + f"BEGIN {what}" + "-" * 5 + "\n" + noise(64) + "\n"


CARDS = [
    card("4", 16), card("4", 13), card("4", 19), card("51", 16), card("55", 16), card("2221", 16), card("34", 15),
    card("37", 15), card("6011", 16), card("65", 16), card("3569", 16), card("36", 14), card("300", 14), card("62", 19),
]  # fmt: skip
IBANS = [
    iban("DE", "3" * 18), iban("GB", "TEST" + "60161331" + "926819"), iban("NO", "8" * 11),
    iban("NL", "TEST" + "0" * 10), iban("FR", "2" * 10 + "0A0B0C" + "1" * 7),
    iban("MT", "TEST01100" + "0A1B2C3D4E5F6G7H8I"), iban("RU", "1" * 29),
]  # fmt: skip
TOKENS = [
    "AK" + "IA" + noise(16, string.ascii_uppercase + string.digits),
    "AS" + "IA" + noise(16, string.ascii_uppercase + string.digits),
    "gh" + "p_" + noise(36),
    "gh" + "s_" + noise(40),
    "github" + "_pat_" + noise(22) + "_" + noise(59),
    "xo" + "xb-" + noise(12, string.digits) + "-" + noise(24),
    "AI" + "za" + noise(35),
    "s" + "k-" + noise(48),
    "s" + "k-" + "ant-api03-" + noise(40),
    "s" + "k-" + "proj-" + noise(40),
    SECRET_PREFIX + noise(43),
    "ey" + "J" + noise(20) + ".ey" + "J" + noise(30) + "." + noise(43),
]
KEYS = [
    pem(kind + "PRIVATE KEY" + end)
    for kind, end in (("", ""), ("RSA ", ""), ("EC ", ""), ("OPENSSH ", ""), ("ENCRYPTED ", ""), ("PGP ", " BLOCK"))
]


def named(text: str) -> list[str]:
    return [finding.name for finding in findings([text])]


@pytest.mark.parametrize("number", CARDS)
def test_a_payment_card_makes_a_text_restricted(number: str) -> None:
    for text in (number, f"card={number};", f'{{"card":"{number}"}}', f"12 {number} 345", f"The card is {number}."):
        assert findings([text]) == (PAYMENT_CARD,)


@pytest.mark.parametrize("by", [" ", "-", "\u00a0", "\u2011"])
def test_a_payment_card_is_found_in_the_groups_that_are_printed(by: str) -> None:
    american = card("37", 15)

    assert named(f"pay with {grouped(card('4', 16), by)} 123 now") == ["payment_card"]
    assert named(f"1234{by}{grouped(card('52', 16), by)}") == ["payment_card"]
    assert named(by.join((american[:4], american[4:10], american[10:]))) == ["payment_card"]


@pytest.mark.parametrize(
    "text",
    [
        card("4", 16, valid=False),
        grouped(card("55", 16, valid=False)),
        card("1", 16),
        card("9", 16),
        card("4", 12),
        card("4", 15),
        card("4", 16) + "0",
        "0." + card("4", 16),
        card("4", 16) + ".5",
        "a" + card("4", 16),
        card("4", 16) + "f",
        "1710340200000 and 1710340200000000 and 1710340200000000000",
        "2026-03-13 14:30:59.123456 +0000, 4 4 4 4 4 4 4 4 4 4 4 4 4",
    ],
)
def test_a_number_that_is_no_card_raises_nothing(text: str) -> None:
    assert findings([text]) == ()


@pytest.mark.parametrize("number", IBANS)
def test_an_account_number_makes_a_text_confidential(number: str) -> None:
    for text in (
        number,
        number.lower(),
        grouped(number),
        grouped(number, "-"),
        f"to {grouped(number)} and on",
        f"({number})",
    ):
        assert findings([text]) == (IBAN,), text


@pytest.mark.parametrize(
    "text",
    [
        iban("DE", "3" * 18, valid=False),
        grouped(iban("DE", "3" * 18, valid=False)),
        iban("ZZ", "3" * 18),
        iban("DE", "3" * 18) + "0",
        iban("DE", "3" * 17),
        "x" + iban("DE", "3" * 18),
        "sha de89370400440532013000ffaaffaaffaaffaaff",
    ],
)
def test_what_only_begins_like_an_account_number_raises_nothing(text: str) -> None:
    assert findings([text]) == ()


@pytest.mark.parametrize("key", KEYS)
def test_a_private_key_makes_a_text_restricted(key: str) -> None:
    assert findings([f"here:\n{key}"]) == (PRIVATE_KEY,)


@pytest.mark.parametrize("what", ["CERTIFICATE", "PUBLIC KEY", "PGP PUBLIC KEY BLOCK", "RSA PUBLIC KEY", "private key"])
def test_what_may_be_known_of_a_key_raises_nothing(what: str) -> None:
    assert findings([pem(what)]) == ()


@pytest.mark.parametrize("token", TOKENS)
def test_an_api_token_makes_a_text_restricted(token: str) -> None:
    for text in (token, f"token={token}", f'{{"key":"{token}"}}', f"Use {token}, please.", f"Bearer {token}"):
        assert findings([text]) == (API_TOKEN,), text
    assert findings(["\u200b".join(token)]) == (API_TOKEN,)


@pytest.mark.parametrize("token", TOKENS)
def test_the_beginning_of_a_token_alone_raises_nothing(token: str) -> None:
    assert findings([token[:13]]) == ()
    assert findings([f"Tokens that begin with {token[:4]} are found."]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "ta" + "sk-" + noise(30),
        "s" + "k-learn-contrib-extensions-package",
        "high-ri" + "sk-" + noise(30),
        "pk_column_of_the_table",
        "github_pattern_matching",
        "eyJ.eyJ.x",
        "AKIArevolution",
    ],
)
def test_an_ordinary_word_that_begins_like_a_token_raises_nothing(text: str) -> None:
    assert findings([text]) == ()


@pytest.mark.parametrize("text", ["CASE-1234/ab", "see case-0000/XY.", "xCASE-99991/q", "\uff23ASE-1234/\u00fcb"])
def test_a_policys_pattern_is_found_whatever_the_case(text: str) -> None:
    expected = () if text.startswith("x") else (Detection("case number", Classification.CONFIDENTIAL),)

    assert findings([text], (CASE,)) == expected


def test_every_other_sign_of_a_pattern_stands_for_itself() -> None:
    pattern = ContentPattern("p", "a.*[b]\\d(#", Classification.RESTRICTED)

    assert [one.name for one in findings(["xA.*[B]\\D(7"], (pattern,))] == ["p"]
    assert findings(["aXX[b]1(7", "a.*b7(7"], (pattern,)) == ()
    assert [one.name for one in findings(["projekt GRU\u0308N"], (PROJECT,))] == ["project"]


def test_ordinary_sentences_raise_nothing() -> None:
    sentences = (CORPUS / "ordinary_sentences.txt").read_text(encoding="utf-8").splitlines()

    assert findings(sentences) == ()
    assert findings(["\n".join(sentences)]) == ()


def test_findings_are_told_once_each_and_in_one_order() -> None:
    texts = [f"{CARDS[0]} CASE-1234/ab", TOKENS[0], KEYS[0], f"{IBANS[0]} projekt gr\u00fcn {CARDS[1]}"]
    expected = ["payment_card", "iban", "private_key", "api_token", "project", "case number"]

    assert [one.name for one in findings(texts, (PROJECT, CASE))] == expected
    assert [one.name for one in findings(reversed(texts), (PROJECT, CASE))] == expected


@PROPERTY
@given(
    st.lists(st.one_of(st.text(), st.sampled_from([*CARDS, *IBANS, *KEYS, *TOKENS]))), st.sampled_from(Classification)
)
def test_findings_never_lower_a_level(texts: list[str], declared: Classification) -> None:
    found = findings(texts, (CASE,))

    level = level_with(declared, found)

    assert level.rank >= declared.rank
    assert all(level.rank >= one.level.rank for one in found)
    assert level in {declared, *[one.level for one in found]}


def test_what_was_declared_stays_where_nothing_was_found() -> None:
    for declared in Classification:
        assert level_with(declared, ()) is declared


@pytest.mark.parametrize(
    ("piece", "name"),
    [(card("4", 16, valid=False) + " ", "payment_card"), ("DE00 ", "iban")],
)
def test_a_text_made_for_looking_at_it_to_take_long_counts_as_found(piece: str, name: str) -> None:
    assert named(piece * 100) == []
    assert named(piece * 5000) == [name]


@pytest.mark.parametrize(
    "piece",
    ["4", "4 ", "4000 ", "DE00", "DE00 ", "ey" + "J", "eyJaaaaaa.", "s" + "k-", " s" + "k-a", "-----BEGIN ",
     "gh" + "p_", "case-", "case-000", "\u0435", "xo" + "xb-", "a"],
)  # fmt: skip
def test_sixteen_times_the_text_is_no_more_than_some_sixteen_times_the_work(piece: str) -> None:
    def work(length: int) -> float:
        text, best = (piece * (length // len(piece) + 1))[:length] + " 1234567890123", 1.0
        for _ in range(7):
            begun = thread_time()
            findings([text], (CASE, PROJECT))
            best = min(best, thread_time() - begun)
        return best

    # Processor time, so that a busy machine does not count. Quadratic work would be 256 times as much.
    assert work(65_536) < 160 * max(work(4_096), 50e-6)
