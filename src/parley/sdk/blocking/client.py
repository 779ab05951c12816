# Written by tools/gen_client.py from sdk/client/client.py. Change that, then run: make docs
"""`parley.Client`: a server in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from parley.sdk.blocking.access import Access
from parley.sdk.blocking.agents import Agents
from parley.sdk.blocking.approvals import Approvals
from parley.sdk.blocking.area import name_methods
from parley.sdk.blocking.audit import Audit
from parley.sdk.blocking.channels import Channels
from parley.sdk.blocking.connection import Connection
from parley.sdk.blocking.direct import Direct
from parley.sdk.blocking.events import Events
from parley.sdk.blocking.handle import ChannelHandle
from parley.sdk.blocking.intents import Intents
from parley.sdk.blocking.keys import Keys
from parley.sdk.blocking.messages import Messages
from parley.sdk.blocking.policies import Rules
from parley.sdk.blocking.queues import Queues
from parley.sdk.blocking.receipts import Receipts
from parley.sdk.blocking.server import Server
from parley.sdk.blocking.sessions import Sessions
from parley.sdk.blocking.streams import Streams
from parley.sdk.blocking.tasks import Tasks
from parley.sdk.blocking.timers import Timers
from parley.sdk.blocking.webhooks import Webhooks
from parley.sdk.client.options import find_options
from parley.sdk.tracebacks import short_tracebacks

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from parley.sdk.client.options import ClientOptions
    from parley.sdk.transport.port import Transport


class Client(
    Channels,
    Messages,
    Receipts,
    Streams,
    Intents,
    Events,
    Access,
    Tasks,
    Timers,
    Agents,
    Queues,
    Approvals,
    Rules,
    Audit,
    Keys,
    Webhooks,
    Sessions,
    Server,
):
    """A server, for code that waits for each answer. Threads may share one.

    What is not given is found as the command line finds it: `url` and `key` from PARLEY_URL and PARLEY_KEY or from the
    saved login (`parley up`, `parley login`), `agent` (for a key that speaks for several) from PARLEY_AGENT. A saved
    key goes only to the address that it was saved for. `url` may be several addresses, as a list or separated by
    commas: if one cannot be reached, the next one is used. `timeout` is how many seconds an answer may take, `patience`
    how long a server is waited for that cannot be reached or asks for a pause; `ask` waits for as long as its own
    `timeout` says. A request whose connection breaks is sent again where that is safe, so that nothing is lost and
    nothing happens twice. Every refusal is an error of its own class with a `code`.

        with parley.Client() as client:
            channel = client.open_channel(intent_id, "questions")
            answer = client.ask(channel.id, None, "data-agent", {"question": "Which schema?"})
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
        transport: Transport | None = None,
    ) -> None:
        options = find_options(url, key, agent, timeout, patience, saved=transport is None)
        self._begin(options, transport)

    def _begin(self, options: ClientOptions, transport: Transport | None) -> None:
        self._options = options
        self.connection = Connection(**options._asdict(), transport=transport)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.connection.url

    @property
    def agent(self) -> str:
        """Who speaks; empty when that follows from the key."""
        return self.connection.agent

    def as_agent(self, name: str, *, patience: float | None = None) -> Client:
        """The same key and the same connections, speaking for another agent; closing either closes both."""
        other = Client.__new__(Client)
        waits = self._options.patience if patience is None else patience
        other._begin(self._options._replace(agent=name, patience=waits), self.connection.transport)
        return other

    def direct(self, agent: str) -> Direct:
        """Talk to one agent directly, without an intent: `direct("writer").ask({...})`.

        The two of you have one channel, which nobody else sees and which the first message creates.
        """
        return Direct(agent, self._open_direct)

    def _open_direct(self, agent: str) -> ChannelHandle:
        channel = self.get_direct_channel(agent)
        return ChannelHandle(self, channel.channel_id, "direct", channel.intent_id)

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
        agent = f", agent={self.agent!r}" if self.agent else ""
        return f"{type(self).__name__}({self.url!r}{agent})"  # without the key: this may go into logs


name_methods(Client)
short_tracebacks(Client)
