"""Records as the client reads them from a server's answer."""

from __future__ import annotations

import msgspec
import pytest

from parley.domain.errors.errors import Unavailable
from parley.sdk.records import convert_answer, read_answer
from parley.wire.api.records.channels import Channel
from tests.unit.sdk.record_samples import CHANNEL


def test_an_answer_is_read_as_a_record_or_a_list_of_them() -> None:
    content = msgspec.json.encode(CHANNEL)

    assert read_answer(content, Channel) == convert_answer(CHANNEL, Channel)
    assert read_answer(b"[%b]" % content, list[Channel]) == [convert_answer(CHANNEL, Channel)]


def test_what_is_no_record_is_refused_as_an_answer_that_cannot_be_understood() -> None:
    with pytest.raises(Unavailable, match=r"cannot be understood.*\$\.name"):
        convert_answer({**CHANNEL, "name": 7}, Channel)
    with pytest.raises(Unavailable, match="cannot be understood"):
        read_answer(b"[" * 100_000, Channel)
