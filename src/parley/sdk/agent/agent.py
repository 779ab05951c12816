"""`@Agent("name")` on a class, and what such a class can do."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeVar, get_args

from parley.domain.channel.bookmark import MOST_OPEN
from parley.domain.errors.errors import Invalid
from parley.domain.names import agent_name
from parley.sdk.agent.handlers import check_handler_names, handlers_of
from parley.sdk.agent.uncaught import explain_unknown_options, of_agent
from parley.sdk.protocol.flow import some_seconds

if TYPE_CHECKING:
    import asyncio
    from collections import Counter
    from collections.abc import Awaitable, Callable, Iterable

    from parley.sdk.agent.channels import AgentChannels
    from parley.sdk.agent.handlers import Handlers
    from parley.sdk.agent.runtime import Runtime
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.client.direct import AsyncDirect

T = TypeVar("T")

_LEASE_MAX_SECONDS = 3_600

Start = Literal["unanswered", "now", "beginning"]


class Plan(NamedTuple):
    """An agent's name, and how it works.

    `concurrency` is how many things it deals with at once; with 1 it takes them in their order. `start` is where it
    begins when it comes for the first time: at the oldest question to it that nobody has answered, now, or at the
    beginning of all. `timeout`, in seconds, ends a call of a handler that takes longer; `drain` is how long what runs
    may take when the agent is told to stop. With `shared` several processes of the agent share its mail; `lease` is how
    many seconds a process may be silent before another gets what it has claimed.
    """

    name: str
    capabilities: tuple[str, ...] = ()
    role: str = ""
    title: str = ""
    concurrency: int = 10
    timeout: float | None = None
    drain: float = 30.0
    start: Start = "unanswered"
    shared: bool = False
    lease: float = 30.0


class BaseAgent:
    """What every agent can do. `@Agent(...)` adds it to a class by itself.

    Write it as a base (`class DataAgent(parley.BaseAgent)`) so that a type checker knows of `self.channels` and
    `run()`. No `__init__` is needed, and a class that has one need not call this one's.
    """

    __module__ = "parley"

    # Under a name that no class has by accident: an agent may well have a handler or an attribute called `plan`.
    __parley_plan__: ClassVar[Plan | None] = None
    _runtime: Runtime | None = None

    def __init_subclass__(cls) -> None:
        """Refuse handlers that would take the place of what is defined here."""
        super().__init_subclass__()
        check_handler_names(cls, BaseAgent)

    @property
    def name(self) -> str:
        """The agent's name."""
        return plan_of(self).name

    @property
    def channels(self) -> AgentChannels:
        """Channels to ask, notify and broadcast in."""
        return self._running.workplace.channels

    def direct(self, agent: str) -> AsyncDirect:
        """Talk to one agent directly, without an intent: `await self.direct("writer").ask({...})`."""
        from parley.sdk.client.direct import AsyncDirect

        return AsyncDirect(agent, self.channels.open_direct)

    @property
    def client(self) -> AsyncClient:
        """A client that speaks for this agent. There is none at a file mailbox."""
        client = self._running.workplace.client
        if client is None:
            raise Invalid("no server at a mailbox", hint="use self.channels")
        return client

    @property
    def log(self) -> logging.Logger:
        """A logger of this agent's own."""
        return logging.getLogger(f"parley.agent.{plan_of(self).name}")

    @property
    def counts(self) -> Counter[str]:
        """What it has done since it started: received, answered, failed, done."""
        return self._running.counts

    def wait(self, awaitable: Awaitable[T]) -> T:
        """The result of an awaitable, for handlers that are no coroutines: `self.wait(channel.ask(...))`."""
        from parley.sdk.agent.running import wait_in_thread

        return wait_in_thread(self._running, awaitable)

    @of_agent
    def run(self, address: str = "", *, key: str = "") -> None:
        """Work until SIGTERM or Ctrl-C; then finish what was begun.

        `address` says where: a server (`http://HOST:PORT`) or a file mailbox (`mailbox:PROJECT`, or the project's
        folder). Without it, PARLEY_URL. `key` is the agent's own or a service key; without it, PARLEY_KEY.
        """
        from parley.sdk.agent.running import run_agents

        run_agents(self, address=address, key=key)

    async def serve(
        self,
        address: str = "",
        *,
        key: str = "",
        stop: asyncio.Event | None = None,
        ready: Callable[[], None] | None = None,
    ) -> None:
        """`run` inside an event loop that is there already: works until `stop` is set."""
        from parley.sdk.agent.running import serve_agents

        await serve_agents([self], address=address, key=key, stop=stop, ready=ready)

    @property
    def _running(self) -> Runtime:
        if self._runtime is None:
            raise Invalid(f"{type(self).__name__} does not run", hint="call run(), or use this in a handler")
        return self._runtime


class Agent:
    """Make a class an agent of this name.

        @Agent("data-agent-01")
        class DataAgent:
            @on_message(channel="questions")
            async def answer(self, message):
                return {"answer": 42}

        DataAgent().run()

    `concurrency` is how many messages it deals with at once (1 keeps their order). `timeout`, in seconds, ends a
    handler that takes longer. `start` is where it begins when it comes for the first time: at the oldest question to
    it that nobody has answered ("unanswered"), "now", or at the "beginning"; at a mailbox it takes all that waits.
    `drain` is how many seconds what runs may take when it is told to stop.

    With `shared=True` you can start several processes of the agent: each message goes to one of them. Otherwise the
    process that starts last takes over. `lease`, in seconds, is how long a process that falls silent keeps a message
    that it has claimed (from its `shared` mail, or because it was for `any:ROLE`); then another gets it.
    """

    __module__ = "parley"

    @explain_unknown_options
    def __init__(  # noqa: PLR0913  # one parameter a choice
        self,
        name: str,
        *,
        capabilities: Iterable[str] = (),
        role: str = "",
        title: str = "",
        concurrency: int = 10,
        timeout: float | None = None,
        drain: float = 30.0,
        start: Start = "unanswered",
        shared: bool = False,
        lease: float = 30.0,
    ) -> None:
        argument: object = name
        if not isinstance(argument, str):  # most likely the class itself
            subject = getattr(argument, "__name__", repr(argument))
            raise Invalid(f"{subject}: an agent needs a name", hint="write @Agent('NAME') above the class")
        if isinstance(capabilities, str):
            raise Invalid(f"Agent({name!r}): capabilities is a list of texts, not one text")
        if concurrency not in range(1, MOST_OPEN):
            raise Invalid(f"Agent({name!r}): concurrency is a number from 1 to {MOST_OPEN - 1}, not {concurrency!r}")
        if timeout is not None:
            some_seconds(f"Agent({name!r}): timeout", timeout)
        if drain != 0:
            some_seconds(f"Agent({name!r}): drain", drain)
        if start not in get_args(Start):
            raise Invalid(f"Agent({name!r}): start is one of {', '.join(get_args(Start))}, not {start!r}")
        if not 1 <= some_seconds(f"Agent({name!r}): lease", lease) <= _LEASE_MAX_SECONDS:
            raise Invalid(
                f"Agent({name!r}): lease is a number of seconds from 1 to {_LEASE_MAX_SECONDS}, not {lease!r}"
            )
        self._plan = Plan(
            agent_name(name), tuple(capabilities), role, title, concurrency, timeout, drain, start, bool(shared), lease
        )

    def __call__(self, cls: type[T]) -> type[T]:
        """The class, as an agent."""
        if not isinstance(cls, type):
            raise Invalid(f"@Agent({self._plan.name!r}) belongs above a class")
        if issubclass(cls, BaseAgent):
            cls.__parley_plan__ = self._plan
            return cls
        attributes = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        agent_class: type[T] = type(cls.__name__, (cls, BaseAgent), {**attributes, "__parley_plan__": self._plan})
        return agent_class


def plan_of(agent: object) -> Plan:
    """The plan of an agent; `Invalid` when it is none."""
    plan = agent.__parley_plan__ if isinstance(agent, BaseAgent) else None
    if plan is None:
        class_name = agent.__name__ if isinstance(agent, type) else type(agent).__name__
        hint = (
            f"write {class_name}() with its parentheses"
            if isinstance(agent, type)
            else "put @Agent('NAME') above its class"
        )
        raise Invalid(f"{class_name} is no agent", hint=hint)
    return plan


def runtime_parts(agent: object) -> tuple[Plan, Handlers]:
    """The plan and the handlers of an agent; `Invalid` when it is none."""
    plan, handlers = plan_of(agent), handlers_of(agent)
    if not handlers:
        raise Invalid(f"{type(agent).__name__} has no handlers", hint="put @on_message() above a method")
    return plan, handlers
