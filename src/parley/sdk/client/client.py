"""`parley.Client` and `parley.AsyncClient`: a server in Python, with the same verbs in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from parley.sdk.client.access import Access, AsyncAccess
from parley.sdk.client.agents import Agents, AsyncAgents
from parley.sdk.client.approvals import Approvals, AsyncApprovals
from parley.sdk.client.audit import AsyncAudit, Audit
from parley.sdk.client.channels import AsyncChannels, Channels
from parley.sdk.client.events import AsyncEvents, Events
from parley.sdk.client.intents import AsyncIntents, Intents
from parley.sdk.client.keys import AsyncKeys, Keys
from parley.sdk.client.messages import AsyncMessages, Messages
from parley.sdk.client.policies import AsyncRules, Rules
from parley.sdk.client.server import AsyncServer, Server
from parley.sdk.client.streams import AsyncStreams, Streams
from parley.sdk.client.tasks import AsyncTasks, Tasks
from parley.sdk.client.webhooks import AsyncWebhooks, Webhooks
from parley.sdk.protocol.connection import AsyncConnection, Connection
from parley.sdk.protocol.flow import target_of

if TYPE_CHECKING:
    from types import TracebackType

    from parley.sdk.transport.port import AsyncTransport, Transport

_HINTS = {
    "unreachable": "start one with: parley up; another address goes into url= or PARLEY_URL",
    "unauthorized": "give a valid key with key= or PARLEY_KEY",
    "required sender": "give agent= or PARLEY_AGENT, or name the sender",
    "bookmark_taken": "one process at a time runs an agent: stop the other one, or give this one another name",
    "sender_mismatch": "leave out agent= (or PARLEY_AGENT), or use a service key",
}


class _How(NamedTuple):
    """Which server, who speaks, and with how much patience."""

    url: str
    key: str
    agent: str
    timeout: float
    patience: float

    @property
    def hints(self) -> dict[str, str]:
        """What to do about a refusal, by its code."""
        return _HINTS if self.key else {**_HINTS, "unauthorized": "no key was given: key= or PARLEY_KEY"}

    def __repr__(self) -> str:
        return f"_How({self.url!r}, agent={self.agent!r})"  # without the key: this may go into logs


def _how(url: str, key: str, agent: str, timeout: float, patience: float) -> _How:
    """What is given, else what the settings say."""
    from parley.wiring import find_server

    return _How(*find_server(url, key, agent), timeout, patience)


def _shown(client: Client | AsyncClient) -> str:
    """Without the key: this goes into logs."""
    agent = f", agent={client.agent!r}" if client.agent else ""
    return f"{type(client).__name__}({client.url!r}{agent})"


class Client(
    Channels,
    Messages,
    Streams,
    Intents,
    Events,
    Access,
    Tasks,
    Agents,
    Approvals,
    Rules,
    Audit,
    Keys,
    Webhooks,
    Server,
):
    """A server, for code that waits for each answer. Threads may share one.

    What is not given is found as the command line finds it: `url` from PARLEY_URL, `key` from PARLEY_KEY, `agent` (for
    a key that speaks for several) from PARLEY_AGENT. `timeout` is how many seconds an answer may take, `patience` how
    long a server that asks for a pause is waited for. A request whose connection breaks is sent again where that is
    safe, so that nothing is lost and nothing happens twice. Every refusal is an error of its own class with a `code`.

        with parley.Client() as client:
            channel = client.open_channel(intent_id, "questions")
            answer = client.ask(channel.id, None, "data-agent", {"question": "Which schema?"})
    """

    def __init__(
        self,
        url: str = "",
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 30.0,
        patience: float = 10.0,
        transport: Transport | None = None,
    ) -> None:
        from parley.sdk.transport.blocking import BlockingHttp

        how = _how(url, key, agent, timeout, patience)
        self._begin(how, transport or BlockingHttp(target_of(how.url)))

    def _begin(self, how: _How, transport: Transport) -> None:
        self._how, self._transport = how, transport
        self.connection = Connection(**how._asdict(), hints=how.hints, transport=transport)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.connection.url

    @property
    def agent(self) -> str:
        """Who speaks; empty when that follows from the key."""
        return self.connection.agent

    def as_agent(self, name: str) -> Client:
        """The same key and the same connections, speaking for another agent; closing either closes both."""
        other = Client.__new__(Client)
        other._begin(self._how._replace(agent=name), self._transport)
        return other

    def close(self) -> None:
        """Let go of the connections; the next request opens new ones."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return _shown(self)


class AsyncClient(
    AsyncChannels,
    AsyncMessages,
    AsyncStreams,
    AsyncIntents,
    AsyncEvents,
    AsyncAccess,
    AsyncTasks,
    AsyncAgents,
    AsyncApprovals,
    AsyncRules,
    AsyncAudit,
    AsyncKeys,
    AsyncWebhooks,
    AsyncServer,
):
    """A server, for the tasks of one event loop. As `Client`, but every method is awaited.

        async with parley.AsyncClient() as client:
            channel = await client.open_channel(intent_id, "questions")
            async for item in client.follow(channel=channel.id):
                ...

    In another event loop it opens connections of its own.
    """

    def __init__(
        self,
        url: str = "",
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 30.0,
        patience: float = 10.0,
        transport: AsyncTransport | None = None,
    ) -> None:
        from parley.sdk.transport.asynchronous import AsyncHttp

        how = _how(url, key, agent, timeout, patience)
        self._begin(how, transport or AsyncHttp(target_of(how.url)))

    def _begin(self, how: _How, transport: AsyncTransport) -> None:
        self._how, self._transport = how, transport
        self.connection = AsyncConnection(**how._asdict(), hints=how.hints, transport=transport)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.connection.url

    @property
    def agent(self) -> str:
        """Who speaks; empty when that follows from the key."""
        return self.connection.agent

    def as_agent(self, name: str) -> AsyncClient:
        """The same key and the same connections, speaking for another agent; closing either closes both."""
        other = AsyncClient.__new__(AsyncClient)
        other._begin(self._how._replace(agent=name), self._transport)
        return other

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
        return _shown(self)
