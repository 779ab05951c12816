"""A signed file has one spelling of its trailer; every other is refused."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import SignatureInvalid
from parley.wire.oacp.auth import check_trailer
from tests.samples.messages import PROPERTY

SIGNATURE = {"protected": "eyJhbGciOiJFZERTQSJ9", "signature": "c2lnbmF0dXJl"}


def spelled(container: object, *, separators: tuple[str, str] = (",", ":"), sort_keys: bool = True) -> str:
    """The container as base64url of JSON, by default in the signer's own spelling."""
    document = json.dumps(container, sort_keys=sort_keys, separators=separators)
    return base64.urlsafe_b64encode(document.encode()).rstrip(b"=").decode()


GOOD = spelled({"signatures": [SIGNATURE]})


def check(text: str, keys: tuple[str, ...] = ("id", "auth")) -> None:
    check_trailer(text, list(keys))


@pytest.mark.parametrize("count", [1, 8])
def test_a_trailer_in_the_signers_spelling_is_accepted(count: int) -> None:
    check(f'id: x\nauth: "{spelled({"signatures": [SIGNATURE] * count})}"\n')


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"id: x\nauth: {GOOD}\n", id="not quoted"),
        pytest.param(f"id: x\nauth: '{GOOD}'\n", id="single quotes"),
        pytest.param(f'id: x\nauth:  "{GOOD}"\n', id="two spaces"),
        pytest.param(f'id: x\nauth: "{GOOD}" \n', id="a space behind"),
        pytest.param(f'id: x\nauth: "{GOOD}" # c\n', id="a comment behind"),
        pytest.param(f'id: x\n"auth": "{GOOD}"\n', id="a quoted key"),
        pytest.param(f'id: x\nauth: "{GOOD}"', id="no final newline"),
        pytest.param(f'id: x\nauth: "{GOOD}"\n\n', id="a blank line behind"),
        pytest.param(f'id: x\nauth: "{GOOD}"\r\n', id="a carriage return"),
        pytest.param(f'id: x\nauth: "{GOOD}"\n...\n', id="an end mark"),
        pytest.param(f'id: x\nauth: "{GOOD}="\n', id="padding"),
        pytest.param(f'id: x\nauth: "{GOOD[:-1]}"\n', id="cut short"),
        pytest.param(f'id: x\nauth: "\\x{ord(GOOD[0]):02x}{GOOD[1:]}"\n', id="an escape"),
        pytest.param('id: x\nauth: ""\n', id="empty"),
        pytest.param(f'id: x\nauth: "{"A" * 16_385}"\n', id="too long"),
    ],
)
def test_a_trailer_spelled_in_any_other_way_is_refused(text: str) -> None:
    """A11: one signed message must not be able to look like two."""
    with pytest.raises(SignatureInvalid) as refusal:
        check(text)

    assert refusal.value.code == "signature_invalid"


def test_a_trailer_that_is_not_the_last_field_is_refused() -> None:
    """A11: what stands in the last line must also be the last field, not a line of a block."""
    with pytest.raises(SignatureInvalid):
        check(f'auth: "{GOOD}"\nbody: |\n  auth: "{GOOD}"\n', ("auth", "body"))
    with pytest.raises(SignatureInvalid):
        check(f'auth: "x"\nid: "y"\nauth: "{GOOD}"\n', ("auth", "id"))


@pytest.mark.parametrize(
    "trailer",
    [
        pytest.param(spelled([SIGNATURE]), id="a list"),
        pytest.param(spelled("text"), id="a text"),
        pytest.param(spelled({"signatures": []}), id="no signature"),
        pytest.param(spelled({"signatures": [SIGNATURE] * 9}), id="nine signatures"),
        pytest.param(spelled({"signatures": SIGNATURE}), id="not a list"),
        pytest.param(spelled({"signatures": [SIGNATURE], "more": 1}), id="another field"),
        pytest.param(spelled({"signatures": [{**SIGNATURE, "header": {}}]}), id="a header outside the signature"),
        pytest.param(spelled({"signatures": [{"signature": "x"}]}), id="nothing protected"),
        pytest.param(spelled({"signatures": ["x"]}), id="a text for a signature"),
        pytest.param(spelled({"signatures": [SIGNATURE]}, separators=(", ", ": ")), id="other spaces"),
        pytest.param(
            spelled({"signatures": [dict(reversed(SIGNATURE.items()))]}, sort_keys=False), id="another order of keys"
        ),
        pytest.param(base64.urlsafe_b64encode(b"not json").decode(), id="not JSON"),
        pytest.param(base64.urlsafe_b64encode(b"[" * 9_000).decode(), id="deep JSON"),
        pytest.param(base64.urlsafe_b64encode(b"\xff\xfe\xfd").decode(), id="not UTF-8"),
        pytest.param("A", id="not base64"),
    ],
)
def test_a_container_of_any_other_form_is_refused(trailer: str) -> None:
    with pytest.raises(SignatureInvalid):
        check(f'id: x\nauth: "{trailer}"\n')


@PROPERTY
@given(st.text("ABCabc019_-", min_size=1, max_size=60))
def test_a_random_trailer_is_refused_and_never_a_crash(trailer: str) -> None:
    with pytest.raises(SignatureInvalid):
        check(f'id: x\nauth: "{trailer}"\n')
