# Written by tools/gen_client.py from sdk/client/direct.py. Change that, then run: make docs
"""Talking to one agent directly, without naming an intent or a channel."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from parley.sdk.protocol.call_arguments import NOT_GIVEN, payload_from
from parley.sdk.tracebacks import short_tracebacks

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from parley.sdk.blocking.handle import ChannelHandle
    from parley.sdk.blocking.received import ReceivedMessage
    from parley.wire.api.records.channels import ChannelMessage


@short_tracebacks
class Direct:
    """The direct channel with one agent. Nobody else sees it; the first message creates it."""

    __module__ = "parley"

    def __init__(self, agent: str, open_channel: Callable[[str], ChannelHandle]) -> None:
        self.agent = agent
        self._open_channel = open_channel
        self._handle: ChannelHandle | None = None

    def channel(self) -> ChannelHandle:
        """The channel, to listen in it or to read what was said."""
        if self._handle is None:
            self._handle = self._open_channel(self.agent)
        return self._handle

    def channel_id(self) -> str:
        """The id of the channel, whether or not anything was said in it."""
        return (self.channel()).id

    def ask(
        self,
        payload: object = NOT_GIVEN,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        check: bool = True,
        **fields: Any,  # noqa: ANN401
    ) -> ReceivedMessage:
        """Ask the agent, and wait for its answer. See `ChannelHandle.ask`."""
        content = payload_from("ask", payload, fields)
        channel = self.channel()
        return channel.ask(self.agent, content, timeout=timeout, metadata=metadata, check=check)

    def ask_stream(
        self,
        payload: object = NOT_GIVEN,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        check: bool = True,
        **fields: Any,  # noqa: ANN401
    ) -> Generator[ReceivedMessage]:
        """Ask the agent, and follow its partial answers; the last one is the answer. See `ChannelHandle.ask_stream`."""
        content = payload_from("ask_stream", payload, fields)
        channel = self.channel()
        answers = channel.ask_stream(self.agent, content, timeout=timeout, metadata=metadata, check=check)
        with closing(answers):
            yield from answers

    def notify(
        self,
        payload: object = NOT_GIVEN,
        *,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> ReceivedMessage:
        """Tell the agent something, without waiting for anything."""
        content = payload_from("notify", payload, fields)
        return (self.channel()).notify(self.agent, content, metadata=metadata)

    def follow_up(
        self,
        answer: ChannelMessage,
        payload: object = NOT_GIVEN,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> ReceivedMessage:
        """Ask on after an answer, in the same conversation."""
        content = payload_from("follow_up", payload, fields)
        return (self.channel()).follow_up(answer, content, timeout=timeout, metadata=metadata)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.agent!r})"
