# Written by tools/gen_client.py from sdk/client/streams.py. Change that, then run: make docs
"""Streams: what happens in a channel, on an intent or to an agent, as it happens."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid
from parley.sdk.blocking.area import Area
from parley.sdk.records import LiveItem, StreamItem, read_answer
from parley.wire.api.records.channels import ChannelMessage, EvictedMessages, StreamTicket
from parley.wire.api.records.intents import Event

if TYPE_CHECKING:
    from collections.abc import Generator

    from parley.sdk.protocol.event_stream import StreamEvent

_MESSAGE = "channel_message"
_EVICTED = "evicted"


def _path(channel: str, intent: str, agent: str) -> tuple[str, str, str]:
    """Where the stream is."""
    named = {"channels": channel, "intents": intent, "agents": agent}
    chosen = [(word, name) for word, name in named.items() if name]
    if len(chosen) != 1:
        raise Invalid("name what to follow", hint="follow(channel=ID), follow(intent=ID) or follow(agent=NAME)")
    return ("subscribe", *chosen[0])


def _item(event: StreamEvent) -> StreamItem:
    content = event.data.encode()
    if event.name == _MESSAGE:
        return StreamItem(id=event.id, name=event.name, message=read_answer(content, ChannelMessage))
    if event.name == _EVICTED:
        return StreamItem(id=event.id, name=event.name, evicted=read_answer(content, EvictedMessages))
    return StreamItem(id=event.id, name=event.name, event=read_answer(content, Event))


class Streams(Area):
    """What a client follows."""

    def create_stream_ticket(self, path: str) -> StreamTicket:
        """A ticket for one stream, for a page in a browser: it works once, on this path, for half a minute.

        Add it to the address as `?ticket=...`. The key itself never belongs into an address.
        """
        return self._fetch(StreamTicket, "POST", "streams", "tickets", body={"path": path})

    def follow(self, *, channel: str = "", intent: str = "", agent: str = "", after: str = "") -> Generator[StreamItem]:
        """What happens in a channel, on an intent, or to an agent, for ever and as it happens.

        It begins with what is new, or behind the item whose `id` is `after`. When the connection breaks it goes on by
        itself where it was: nothing is lost, nothing comes twice. Raises what the server refuses, and `Unavailable`
        when there is no server to begin with. Leave the loop and `close()` it to end it.
        """
        path = _path(channel, intent, agent)
        events = self.connection.follow(*path, after=after)
        with closing(events):
            for event in events:
                yield _item(event)

    def follow_live(self, *topics: str, after: str = "") -> Generator[LiveItem]:
        """Several topics on one stream, for ever and as they happen.

        Topics are "approvals", "exchanges", "agents", "audit", "suspensions" (with an admin's key), "channel:ID" and
        "intent:ID". It begins, ends and goes on like `follow`; agents come only while it is connected.
        """
        events = self.connection.follow("live", after=after, query={"topics": ",".join(topics)})
        with closing(events):
            for event in events:
                yield LiveItem(id=event.id, name=event.name, document=read_answer(event.data.encode(), Any))
