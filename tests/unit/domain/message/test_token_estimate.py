"""What a text costs a model is never estimated too low."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.message.token_estimate import cut_to_tokens, estimate_tokens

# Tokens as two tokenizers (o200k, Claude 2) counted them, the worse one.
MEASURED = [
    ("The quick brown fox jumps over the lazy dog, and then it rests for a while. " * 4, 73),
    ("0123456789abcdef" * 16, 151),
    ("😀😁😂🤣😃😄😅😆" * 4, 80),
]


@pytest.mark.parametrize(("text", "tokens"), MEASURED)
def test_an_estimate_is_at_least_what_was_measured(text: str, tokens: int) -> None:
    assert tokens <= estimate_tokens(text) <= 3 * tokens


def test_prose_takes_a_token_for_two_bytes_and_dense_text_for_less() -> None:
    assert estimate_tokens("a b " * 7) == 14
    assert estimate_tokens("x" * 28) == 20
    assert estimate_tokens("") == 0


@given(st.text(), st.text())
def test_more_text_never_takes_fewer_tokens(text: str, more: str) -> None:
    assert estimate_tokens(text + more) >= estimate_tokens(text)


@given(st.text(), st.integers(min_value=3, max_value=50))
def test_a_cut_text_fits_and_keeps_its_beginning(text: str, most: int) -> None:
    cut = cut_to_tokens(text, most)

    assert estimate_tokens(cut) <= most
    assert cut == text or text.startswith(cut.removesuffix("…"))
