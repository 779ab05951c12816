"""The strict reader, the reader of the plain form and PyYAML agree on every document that ours accept."""

from __future__ import annotations

import yaml

from parley.domain.errors.errors import Unreadable
from parley.domain.limits import DEFAULT_LIMITS
from parley.wire.yaml.plain import read_plain
from parley.wire.yaml.strict import read_located, read_strict


def check(data: bytes) -> None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    plain = read_plain(text, DEFAULT_LIMITS)
    located = read_located(text, DEFAULT_LIMITS)
    try:
        fields = read_strict(text, DEFAULT_LIMITS)
    except Unreadable:
        assert plain is None, "the plain reader takes what the strict one refuses"
        assert located.refusals, "a file that people write is taken although the strict reader refuses it"
        return
    assert located.fields == fields
    assert not located.refusals
    assert plain is None or plain == fields, "the plain reader reads something else"
    texts = read_strict(text, DEFAULT_LIMITS, nulls=False)
    assert yaml.load(text, Loader=yaml.CBaseLoader) == texts, "PyYAML reads something else"
