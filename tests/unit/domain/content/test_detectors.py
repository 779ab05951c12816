"""Content detectors. Every number and token here is made up while the test runs: none of them stands in this file."""

from __future__ import annotations

import base64
import codecs
import json
import random
import string
import uuid
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.classification import Classification, ContentPattern
from parley.domain.content.commitment import keywords_in
from parley.domain.content.detectors import (
    API_TOKEN,
    IBAN,
    PASSWORD,
    PAYMENT_CARD,
    PRIVATE_KEY,
    US_SSN,
    Detection,
    findings,
    level_with,
)
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
    "wh" + "sec_" + noise(43) + "=",
    "s" + "k_live_" + noise(24),
    "r" + "k_live_" + noise(24),
    "gl" + "pat-" + noise(20),
    "np" + "m_" + noise(36),
    "py" + "pi-" + noise(60),
    "hf" + "_" + noise(34),
]
PASSWORDS = [
    "password: hunter22", "password=hunter22", '{"password":"hunter22"}', "DB_PASSWORD=s3cret!x", "passwd: abc123",
    "Pwd=Adm1n2026;", "passphrase = 'correct4horse'", "postgres" + "ql://u:p@db.example/x", "https://ann:hunter2@x.org/",
    "api_key=" + noise(32), "aws_secret_access_key = " + noise(40),
]  # fmt: skip
NO_PASSWORDS = [
    "password: required", "password: str = field()", "the password is asked for", "password=os.environ",
    "password: $DB_1",
    "password: <your password 1>", "password: ********1", "password_hash: abc123abc", "PWD=/home/ann1/x",
    "passwords: 12",
    "https://example.org:8443/a@b", "postgres" + "ql://u:***@db", "postgres" + "ql://u:...@db", "api_key: str",
    "key=value1",
    "postgres" + "ql://${USER}:${PASSWORD}@db/x",
]  # fmt: skip
SSN = "-".join(("219", "09", "9999"))
# What these detectors do not find. The list is published, so it must be true.
KNOWN_MISSES = {
    "a card in words": "four one one one one one one one one one one one one one one one",
    "a card in Chinese numerals": "\u56db" + "\u4e00" * 15,
    "a card in pairs": " ".join(["41", *["11"] * 7]),
    "a card within a longer list": '["0001","4111","1111","1111","1111","0002"]',
    "a card as a list of digits": str([4, *[1] * 15]),
    "a card written backwards": card("4", 16)[::-1],
    "letters between the digits of a card": "4111x1111x1111x1111",
    "a card as the decimals of a number": "0." + card("4", 16),
    "a card within a hexadecimal number": "0x" + card("4", 16),
    "a card beside as many letters from a to f as hexadecimal has": "beef" + card("4", 16),
    "a card beside letters from a to f and another digit": "1f" + card("4", 16),
    "an account number behind letters": "x" + iban("DE", "3" * 18),
    "a token behind letters": "x" + "AK" + "IAIOSFODNN7EXAMPLE",
    "a social security number in a row, without its name": "".join(("219", "09", "9999")),
    "a social security number between other numbers": "12 219 09 9999",
    "a password without a digit": "password: correct-horse",
    "a password in prose": "log in with hunter22",
    "a token in two halves": "AK" + "IAIOSF and then ODNN7EXAMPLE",
    "Base64 twice": base64.b64encode(base64.b64encode(b"AK" + b"IAIOSFODNN7EXAMPLE")).decode(),
    "Base32": base64.b32encode(b"AK" + b"IAIOSFODNN7EXAMPLE").decode(),
    "compressed": base64.b64encode(zlib.compress(b"AK" + b"IAIOSFODNN7EXAMPLE")).decode(),
    "rot13": codecs.encode("AK" + "IAIOSFODNN7EXAMPLE", "rot13"),
    "a secret in plain words": "The launch is on the fourth of May.",
}
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


@pytest.mark.parametrize("by", [".", "/", "_", ", ", " - ", "\n", "\u2009", "\u00b7", "::"])
@pytest.mark.requirement("GOV-CONTENT-DISGUISED")
def test_a_payment_card_is_found_whatever_parts_its_groups(by: str) -> None:
    american, number = card("37", 15), card("4", 16)

    assert named(f"pay with {grouped(number, by)} now") == ["payment_card"]
    assert named(by.join((american[:4], american[4:10], american[10:]))) == ["payment_card"]
    assert named(f"{number[:8]}{by}{number[8:]}") == ["payment_card"]


@pytest.mark.parametrize(
    "zero", ["\u0660", "\u06f0", "\u0966", "\uff10", "\U0001d7ce", "\U000104a0", "\U0001fbf0", "\u0e50"]
)
def test_a_payment_card_is_found_in_the_digits_of_any_script(zero: str) -> None:
    number = "".join(chr(ord(zero) + int(digit)) for digit in card("4", 16))

    assert named(f"card {number}.") == named(grouped(number)) == ["payment_card"]


@pytest.mark.parametrize("number", CARDS)
def test_a_payment_card_is_found_as_a_number_of_json(number: str) -> None:
    assert named(f'{{"card":{number}.0}}') == named(json.dumps({"card": int(number)})) == ["payment_card"]
    if len(number) < 17:
        assert named(json.dumps([float(number)])) == ["payment_card"]


@pytest.mark.parametrize("number", CARDS)
@pytest.mark.requirement("GOV-CONTENT-DISGUISED")
def test_a_payment_card_is_found_beside_letters_and_before_decimals(number: str) -> None:
    for form in ("x{}y", "card{}", "visa{}exp", "no{}", "{}USD", "{}.5", "{}.25 EUR", "1/{}", "{}/7", "n1x{}", "{}x2"):
        text = form.format(number)
        assert findings([text]) == (PAYMENT_CARD,), text
    assert named(f"a{card('4', 16)}") == named(f"x{grouped(card('4', 16))}y") == ["payment_card"]
    assert named(f"{card('4', 16)}f") == named(f"1.{grouped(card('4', 16), '-')}") == ["payment_card"]


NOT_HEXADECIMAL = "".join(sorted(set(string.ascii_letters) - set("abcdefABCDEF")))


@PROPERTY
@given(
    st.sampled_from(CARDS),
    st.text(ALPHABET, max_size=20),
    st.sampled_from(["", *NOT_HEXADECIMAL.replace("x", "").replace("X", ""), " ", '"', "\u043a"]),
    st.sampled_from(["", *NOT_HEXADECIMAL, " ", ".", ",", '"']),
    st.text(ALPHABET, max_size=20),
)
def test_whatever_stands_behind_a_letter_that_is_no_digit_hides_no_card(
    number: str, first: str, before: str, behind: str, last: str
) -> None:
    text = f"{first if before else ''}{before}{number}{behind}{last if behind else ''}"

    assert PAYMENT_CARD in findings([text])


def test_ids_digests_times_and_versions_are_no_secrets() -> None:
    draw = random.Random(7)
    texts = [str(uuid.UUID(int=draw.getrandbits(128))) for _ in range(2_000)]
    texts += [f"{draw.getrandbits(4 * size):0{size}x}" for size in (12, 20, 32, 40, 64) for _ in range(1_000)]
    texts += [f"v1.{count}-{count}-g{draw.getrandbits(160):040x}" for count in range(1_000)]
    texts += [f"msg_01{''.join(draw.choices('0123456789ABCDEFGHJKMNPQRSTVWXYZ', k=24))}" for _ in range(1_000)]
    texts += [repr(draw.random()) for _ in range(1_000)]
    texts += [f"00-{draw.getrandbits(128):032x}-a{draw.getrandbits(60):015x}-01" for _ in range(1_000)]
    for second in draw.sample(range(1_000_000_000, 2_000_000_000), 1_000):
        moment = datetime.fromtimestamp(second, UTC)
        texts += [f"{moment:%Y%m%dT%H%M%SZ}", f"{moment:%Y%m%d%H%M%S}Z", moment.isoformat(), f"t{second}000000us"]
        texts += [f"{moment:%Y.%m.%d}.{second}", f"conv-{moment:%Y%m%d}-claude-{second % 1000:03}", f"{second}.123456"]

    assert [text for text in texts if findings([text])] == []


def test_a_payment_card_is_found_in_the_items_of_a_list_and_digit_by_digit() -> None:
    number = card("4", 16)
    groups = [number[place : place + 4] for place in range(0, 16, 4)]

    for text in (json.dumps(groups), json.dumps(groups, separators=(",", ":")), "\n".join(groups), " ".join(number),
                 ".".join(number), f"[{', '.join(map(str, map(int, groups)))}]"):  # fmt: skip
        assert named(text) == ["payment_card"], text


def test_a_list_of_numbers_is_no_card() -> None:
    rows = [str([4000 + 37 * one, *[(1009 * (one + two)) % 9000 + 1000 for two in range(9)]]) for one in range(200)]

    assert [row for row in rows if named(row)] == []


ENCODINGS: dict[str, Callable[[str], str]] = {
    "Base64": lambda text: base64.b64encode(text.encode()).decode(),
    "Base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "Base64 of URLs": lambda text: base64.urlsafe_b64encode(b"\xff\xfe" + text.encode()).decode(),
    "Base64 behind other letters": lambda text: "key-" + base64.b64encode(text.encode()).decode(),
    "Base64 in a path": lambda text: f"https://x.example/{base64.urlsafe_b64encode(text.encode()).decode()}",
    "Base64 in lines": lambda text: base64.encodebytes((text + " " + "x" * 90 + " " + text).encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "large hexadecimal": lambda text: text.encode().hex().upper(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.requirement("GOV-CONTENT-DISGUISED")
def test_what_is_found_is_found_encoded_as_well(encoding: str) -> None:
    encode = ENCODINGS[encoding]
    for secret, found in ((CARDS[0], PAYMENT_CARD), (grouped(CARDS[0]), PAYMENT_CARD), (IBANS[0], IBAN), (SSN, US_SSN),
                          *[(key, PRIVATE_KEY) for key in KEYS], *[(token, API_TOKEN) for token in TOKENS],
                          (PASSWORDS[0], PASSWORD)):  # fmt: skip
        for text in (secret, f"it is {secret} here", f'{{"k":"{secret}"}}'):
            assert found in findings([f"see {encode(text)} ."]), text


@pytest.mark.parametrize("before", ["key-", "_", "x_", "--", "\u00e9-"])
def test_a_token_is_found_behind_a_sign(before: str) -> None:
    assert [token for token in TOKENS if API_TOKEN not in findings([before + token])] == []


@pytest.mark.parametrize("text", PASSWORDS)
def test_a_password_makes_a_text_restricted(text: str) -> None:
    assert findings([text]) == findings([f"Please use {text} there."]) == (PASSWORD,)


@pytest.mark.parametrize("text", NO_PASSWORDS)
def test_what_only_speaks_of_passwords_raises_nothing(text: str) -> None:
    assert findings([text]) == ()


@pytest.mark.parametrize("by", ["-", " ", "\u00a0", "\u2011", "", ".", "/"])
@pytest.mark.parametrize(
    "name", ["SSN ", "ssn", "his_ssn=", '"ssn": "', "Social Security Number (SSN): ", "social_security_no: "]
)
def test_a_social_security_number_is_found_behind_its_name_in_every_form(name: str, by: str) -> None:
    assert findings([name + SSN.replace("-", by)]) == (US_SSN,)


@pytest.mark.parametrize("text", ["{}", "It is {}.", '{{"n":"{}"}}', "call\n{}\nnow", "({}, Ann)"])
def test_a_social_security_number_with_spaces_is_found_where_no_other_number_is_beside_it(text: str) -> None:
    assert findings([text.format(SSN.replace("-", " "))]) == (US_SSN,)
    for other in (
        "512 64 20480", "1 219 09 9999", "219 09 9999 2", "0.219 09 9999", "219 09 9999.5", "219 00 9999",
        "666 09 9999", "219  09  9999", "044 219 09 99", "+41 44 219 09 99", "12:00:219 09 9999",
    ):  # fmt: skip
        assert findings([text.format(other)]) == (), other


def test_a_social_security_number_makes_a_text_restricted() -> None:
    assert findings([f"SSN {SSN}."]) == (US_SSN,)
    for text in (f"000{SSN[3:]}", f"666{SSN[3:]}", f"9{SSN[1:]}", f"1{SSN}", f"{SSN}0", f"{SSN}-1", "2026-03-1399"):
        assert findings([text]) == (), text


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("card no." + card("4", 16), PAYMENT_CARD),
        ("4111 1111-1111 1111", PAYMENT_CARD),
        ("0x" + ("AK" + "IAIOSFODNN7EXAMPLE").encode().hex(), API_TOKEN),
        ("0X" + ("AK" + "IAIOSFODNN7EXAMPLE").encode().hex().upper(), API_TOKEN),
        ("BEARER " + "abcdefgh12345678901234", API_TOKEN),
        ("Authorization: Bearer\t" + "abcdefgh12345678901234", API_TOKEN),
        ('{"aws_secret_access_key":"' + "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + 'EXAMPLEKEY"}', PASSWORD),
    ],
)
def test_a_secret_is_found_in_every_usual_spelling(text: str, finding: Detection) -> None:
    assert findings([text]) == (finding,)


@pytest.mark.parametrize("text", KNOWN_MISSES.values(), ids=KNOWN_MISSES)
@pytest.mark.requirement("GOV-CONTENT-MISSES")
def test_what_is_said_to_be_missed_is_missed(text: str) -> None:
    assert findings([text]) == ()


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
        "v1.2." + card("4", 16),
        "0x" + card("4", 16),
        "0xdeadbe" + card("4", 16),
        "beef" + card("4", 16),
        "a1b" + card("4", 16),
        card("4", 16) + "f00d",
        "e3b0c442-" + grouped(card("4", 16), "-") + "aabbccdd",
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
        f"IBAN{number}",
        f"myiban{grouped(number)}",
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
     "gh" + "p_", "case-", "case-000", "\u0435", "xo" + "xb-", "a",
     "4/", "4111,", "4111::::", "-s" + "k-", "-ey" + "J", ".ey" + "J", "password:", "pwd=a", "://a:", "://a:b",
     "bearer ",
     "Bearer a", "wh" + "sec_", "-p" + "k_", "aB", "ab12", "A" * 64 + "\n", "123-45-",
     "4111111111111111a", "a4111111111111111", "123 45 ", "ssn", "ssn1"],
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


@pytest.mark.parametrize("piece", ["4/", "4111,", "aB3d", "password:a", "\u202ea", "\u0435", "-s" + "k-", "s/c/h/"])
def test_a_message_of_256_kib_is_looked_at_within_two_seconds(piece: str) -> None:
    text = (piece * (262_144 // len(piece)))[:262_144] + " notebook 1234567890123"

    begun = thread_time()
    findings([text])
    keywords_in([text])

    assert thread_time() - begun < 2
