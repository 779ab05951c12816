"""A message file that is accepted can be written again as the same message, and its heading says the same."""

from __future__ import annotations

from parley.domain.errors.errors import Invalid, ParleyError, TooLarge, Unreadable
from parley.domain.times import format_time
from parley.wire.oacp.format import OacpFormat

FORMAT = OacpFormat()


def check(data: bytes) -> None:
    try:
        message = FORMAT.inspect(data).message
    except Unreadable:
        message = None
    try:
        heading = FORMAT.heading(data)
    except ParleyError:
        assert message is None, "a message without a heading"
        return
    if message is None:
        return
    assert (heading.id, heading.sender, heading.to, heading.kind) == (
        message.id,
        message.sender,
        message.to,
        message.kind.value,
    )
    assert heading.created_at == format_time(message.created_at, fraction=True)
    assert heading.subject == message.subject
    try:
        again = FORMAT.encode(message._replace(extras={}))
    except (TooLarge, Invalid):
        return
    assert FORMAT.decode(again)._replace(extras={}) == FORMAT.settle(message)._replace(extras={})
