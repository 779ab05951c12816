"""A receipt file is read as far as it can be, and no further."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.adapters.files.receipts.lines import decode_steps, encode_step, file_name
from parley.domain.receipts import ReceiptState, ReceiptStep

AT = "2026-11-18T12:00:00.000000+00:00"
STEP = ReceiptStep(ReceiptState.OFFERED, AT, "s1", "claude prompt")
FILE = "20261118T1200Z_claude_question.yaml"


@pytest.mark.parametrize(
    "junk",
    [
        b"\x00\xff\n",
        b'{"state": "acted"}\n',
        b'{"state": "acted", "at": "yesterday", "file": "F"}\n',
        b'{"state": "acted", "at": "2026-01-01T00:00:00", "file": "F"}\n',
        b'{"state": "won", "at": "2026-01-01T00:00:00.000000+00:00", "file": "F"}\n',
        b'{"state": "acted", "at": "2026-01-01T00:00:00.000000+00:00", "file": "another.yaml"}\n',
        b'[1]\n"x"\n' + b"[" * 5_000,
        b'{"state": "acted", "at": "2026-01-01T00:0',
    ],
)
def test_what_is_no_step_is_passed_over_and_spoils_no_other(junk: bytes) -> None:
    junk = junk.replace(b"F", FILE.encode())

    assert decode_steps(junk + encode_step(STEP, FILE).encode() + junk, FILE) == (STEP,)


@given(st.binary())
def test_any_bytes_are_read(content: bytes) -> None:
    assert decode_steps(content, FILE) == ()


texts = st.text(max_size=200)


@given(st.builds(ReceiptStep, st.sampled_from(ReceiptState), st.just(AT), texts, texts, st.just("")), st.text())
def test_a_step_is_read_back(step: ReceiptStep, file: str) -> None:
    assert decode_steps(encode_step(step, file).encode(), file) == (step,)


@given(st.text())
def test_an_id_of_any_form_names_one_file_of_the_folder(message_id: str) -> None:
    name = file_name(message_id)

    assert "/" not in name
    assert not name.startswith(".")
    assert 0 < len(name.encode()) <= 200
