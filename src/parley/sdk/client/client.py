"""`parley.AsyncClient`: a server in Python. `parley.Client` is generated from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from parley.sdk.client.access import AsyncAccess
from parley.sdk.client.agents import AsyncAgents
from parley.sdk.client.approvals import AsyncApprovals
from parley.sdk.client.area import name_methods
from parley.sdk.client.audit import AsyncAudit
from parley.sdk.client.channels import AsyncChannels
from parley.sdk.client.connection import AsyncConnection
from parley.sdk.client.direct import AsyncDirect
from parley.sdk.client.events import AsyncEvents
from parley.sdk.client.handle import AsyncChannelHandle
from parley.sdk.client.intents import AsyncIntents
from parley.sdk.client.keys import AsyncKeys
from parley.sdk.client.messages import AsyncMessages
from parley.sdk.client.options import find_options
from parley.sdk.client.policies import AsyncRules
from parley.sdk.client.queues import AsyncQueues
from parley.sdk.client.receipts import AsyncReceipts
from parley.sdk.client.server import AsyncServer
from parley.sdk.client.sessions import AsyncSessions
from parley.sdk.client.streams import AsyncStreams
from parley.sdk.client.tasks import AsyncTasks
from parley.sdk.client.timers import AsyncTimers
from parley.sdk.client.webhooks import AsyncWebhooks
from parley.sdk.tracebacks import short_tracebacks

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from parley.sdk.client.options import ClientOptions
    from parley.sdk.transport.port import AsyncTransport


class AsyncClient(
    AsyncChannels,
    AsyncMessages,
    AsyncReceipts,
    AsyncStreams,
    AsyncIntents,
    AsyncEvents,
    AsyncAccess,
    AsyncTasks,
    AsyncTimers,
    AsyncAgents,
    AsyncQueues,
    AsyncApprovals,
    AsyncRules,
    AsyncAudit,
    AsyncKeys,
    AsyncWebhooks,
    AsyncSessions,
    AsyncServer,
):
    """A server, for the tasks of one event loop. In another event loop it opens connections of its own.

    What is not given is found as the command line finds it: `url` and `key` from PARLEY_URL and PARLEY_KEY or from the
    saved login (`parley up`, `parley login`), `agent` (for a key that speaks for several) from PARLEY_AGENT. A saved
    key goes only to the address that it was saved for. `url` may be several addresses, as a list or separated by
    commas: if one cannot be reached, the next one is used. `timeout` is how many seconds an answer may take, `patience`
    how long a server is waited for that cannot be reached or asks for a pause; `ask` waits for as long as its own
    `timeout` says. A request whose connection breaks is sent again where that is safe, so that nothing is lost and
    nothing happens twice. Every refusal is an error of its own class with a `code`.

        async with parley.AsyncClient() as client:
            channel = await client.open_channel(intent_id, "questions")
            answer = await client.ask(channel.id, None, "data-agent", {"question": "Which schema?"})
    """

    __module__ = "parley"

    def __init__(
        self,
        url: str | Iterable[str] = "",
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 30.0,
        patience: float = 10.0,
        transport: AsyncTransport | None = None,
    ) -> None:
        options = find_options(url, key, agent, timeout, patience, saved=transport is None)
        self._begin(options, transport)

    def _begin(self, options: ClientOptions, transport: AsyncTransport | None) -> None:
        self._options = options
        self.connection = AsyncConnection(**options._asdict(), transport=transport)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.connection.url

    @property
    def agent(self) -> str:
        """Who speaks; empty when that follows from the key."""
        return self.connection.agent

    def as_agent(self, name: str, *, patience: float | None = None) -> AsyncClient:
        """The same key and the same connections, speaking for another agent; closing either closes both."""
        other = AsyncClient.__new__(AsyncClient)
        waits = self._options.patience if patience is None else patience
        other._begin(self._options._replace(agent=name, patience=waits), self.connection.transport)
        return other

    def direct(self, agent: str) -> AsyncDirect:
        """Talk to one agent directly, without an intent: `direct("writer").ask({...})`.

        The two of you have one channel, which nobody else sees and which the first message creates.
        """
        return AsyncDirect(agent, self._open_direct)

    async def _open_direct(self, agent: str) -> AsyncChannelHandle:
        channel = await self.get_direct_channel(agent)
        return AsyncChannelHandle(self, channel.channel_id, "direct", channel.intent_id)

    async def close(self) -> None:
        """Let go of the connections; the next request opens new ones."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        agent = f", agent={self.agent!r}" if self.agent else ""
        return f"{type(self).__name__}({self.url!r}{agent})"  # without the key: this may go into logs


name_methods(AsyncClient)
short_tracebacks(AsyncClient)
