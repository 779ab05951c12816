"""A policy document is read or refused with its flaws; what was read can be written and means the same."""

from __future__ import annotations

from contextlib import suppress

import yaml

from parley.domain.errors.errors import ParleyError
from parley.domain.rules.policy import KEYS
from parley.wire.files.policy import DOMAIN, encode_value, read_policy
from parley.wire.files.policy_cases import read_cases
from parley.wire.files.project import read_governance


def check(data: bytes) -> None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    for read in (read_cases, read_governance):
        with suppress(ParleyError):
            read(text, "fuzz.yaml")
    try:
        fragment = read_policy(text, "fuzz.yaml")
    except ParleyError:
        return
    keys = {key: encode_value(getattr(fragment, key)) for key in KEYS if getattr(fragment, key) is not None}
    assert keys, "a policy that sets nothing was accepted"
    again = yaml.safe_dump({DOMAIN: keys}, allow_unicode=True)
    assert read_policy(again, "fuzz.yaml") == fragment
