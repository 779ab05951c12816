"""One conversation across channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.parts import fresh, note
from parley.surfaces.console.seats import find_seat
from parley.surfaces.console.timeline import log, message_row
from parley.surfaces.console.visit import ApiRefused, Page

if TYPE_CHECKING:
    from parley.surfaces.console.visit import Document, Visit

_MESSAGES = 100
# Topics of the live stream that a page follows.
_CHANNELS_MAX = 15


async def detail_page(visit: Visit, conversation_id: str) -> Page:
    """The messages of a conversation in order, the newest at the end."""
    seat, messages = await _messages(visit, conversation_id)
    channels = await _channels(visit, messages, seat)
    rows = [message_row(visit, message, seat, channel=channels[message["channel_id"]]) for message in messages]
    path = address("threads", conversation_id, before=messages[0]["id"] if messages else None, seat=seat)
    is_full = len(messages) == _MESSAGES
    older = h("p", h("a", "Older messages", href=path, class_="button", rel="next")) if is_full else None
    nothing = None if rows else note("", "No message of this conversation is kept that you may see.")
    count = f"{len(messages)} message{'' if len(messages) == 1 else 's'}{' or more' if is_full else ''}"
    where = f"{len(channels)} channel{'' if len(channels) == 1 else 's'}"
    content = join(
        h("p", h("a", "Channels", href=address("channels")), class_="crumb"),
        h(
            "header",
            h("h1", "Conversation"),
            h("code", conversation_id, dir="auto"),
            h("span", f"{count} in {where}", class_="muted"),
            h("span", f"as {seat} sees it", class_="tag", dir="auto") if seat else None,
            class_="top",
        ),
        fresh("thread", nothing, log(rows, last=None, seat=seat, older=older)),
    )
    followed = [] if visit.query.get("before") else [f"channel:{name}" for name in channels][:_CHANNELS_MAX]
    return Page("Conversation", content, "channels", topics=",".join(followed), seat=seat)


async def _messages(visit: Visit, conversation_id: str) -> tuple[str, list[Document]]:
    """The newest messages, or those before one, as the first agent that sees any."""
    try:
        seat = await find_seat(visit, conversation_id=conversation_id)
        messages: list[Document] = await visit.get(
            "conversations", conversation_id, "messages", order="desc", before=visit.query.get("before"),
            limit=_MESSAGES, seat=seat,
        )  # fmt: skip
    except ApiRefused as refused:
        if refused.status != 404:
            raise
        return visit.query.get("seat", ""), []
    return seat, messages[::-1]


async def _channels(visit: Visit, messages: list[Document], seat: str) -> dict[str, str]:
    """The names of the channels that these messages are in."""
    names: dict[str, str] = {}
    for channel_id in dict.fromkeys([message["channel_id"] for message in messages]):
        try:
            names[channel_id] = (await visit.get("channels", channel_id, seat=seat))["name"]
        except ApiRefused:
            names[channel_id] = channel_id
    return names
