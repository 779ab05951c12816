"""A whole team in this process, without a network, for the tests of agents.

    def test_the_data_agent_answers():
        with parley.testing.stage() as stage:
            stage.start(DataAgent())
            assert stage.ask("data-agent-01", {"question": "Which schema?"}).payload == {"answer": "v3"}

The server is the real one, in an empty folder that goes away with the stage. As a pytest fixture:

    @pytest.fixture
    def stage():
        with parley.testing.stage() as stage:
            yield stage

Everything on a stage runs in threads of its own, so that its verbs may be used anywhere, also in a coroutine. The same
for agents at file mailboxes: `parley.testing.mailboxes("codex", "claude")`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from abc import ABC, abstractmethod
from concurrent.futures import wait
from contextlib import AsyncExitStack, ExitStack
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar

from parley import settings as all_settings
from parley import wiring
from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import AskTimeout
from parley.domain.message.message import Kind
from parley.sdk.agent.agent import plan_of, runtime_parts
from parley.sdk.agent.mailbox.payloads import body_of, plain_payload, subject_of, to_channel_message
from parley.sdk.agent.running import serve_agents
from parley.sdk.blocking.client import Client
from parley.sdk.blocking.session import ServerSession
from parley.sdk.client.client import AsyncClient
from parley.sdk.client.session import AsyncServerSession
from parley.sdk.mailbox import Mailbox
from parley.sdk.protocol.call_arguments import NOT_GIVEN
from parley.sdk.protocol.failures import check_answer
from parley.sdk.transport.in_process import URL, AsyncInProcess, InProcess, InProcessServer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from parley.domain.message.message import Message
    from parley.sdk.agent.agent import BaseAgent
    from parley.sdk.blocking.handle import ChannelHandle
    from parley.sdk.blocking.received import ReceivedMessage
    from parley.wire.api.records.channels import ChannelMessage
    from parley.wire.api.records.intents import Intent

__all__ = ["Mailboxes", "Stage", "mailboxes", "stage"]

T = TypeVar("T")

_START_SECONDS = 10.0
# An agent that does not end by itself is ended after this.
_STOP_SECONDS = 5.0
_CANCEL_RETRY_SECONDS = 0.2
_POLL_SECONDS = 0.005
_TESTER = "tester"
_CHANNEL = "test"
_PROJECT = "test"


def stage(**settings: str | int) -> Stage:
    """A stage with a server of its own; use it in `with` or `async with`.

    `settings` are those of a server, by their names in parley.toml: `stage(http_body_bytes=1000)`. The environment and
    the user's own settings do not count.
    """
    return Stage(**settings)


def mailboxes(*names: str) -> Mailboxes:
    """A new project with a file mailbox for each of these agents; use it in `with` or `async with`."""
    return Mailboxes(*names)


class _Background:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        import uvloop

        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.submit(work).result()

    def stop(self) -> None:
        if self.loop.is_closed():
            return
        is_blocked = self.run(self._cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        if is_blocked:
            raise TimeoutError(
                f"{self._thread.name}: a handler does not let itself be cancelled (except without a kind?)"
            )

    async def _cancel_all(self) -> bool:
        """End what runs; whether something does not end."""
        deadline = self.loop.time() + _STOP_SECONDS
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            if self.loop.time() > deadline:
                return True
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=_CANCEL_RETRY_SECONDS)
        await self.loop.shutdown_asyncgens()
        await self.loop.shutdown_default_executor()
        return False


class _RunningAgent:
    """One agent at work, in a thread of its own: as far from the others as in another process."""

    def __init__(self, agent: BaseAgent, address: str, client: AsyncClient | None) -> None:
        name = plan_of(agent).name
        self._background = _Background(f"parley-agent-{name}")
        self._stop = asyncio.Event()
        ready = Event()
        work = serve_agents([agent], address=address, client=client, stop=self._stop, ready=ready.set)
        self._serve_future = self._background.submit(work)
        self._serve_future.add_done_callback(lambda _: ready.set())
        started = False
        try:
            started = ready.wait(_START_SECONDS) and not self._serve_future.done()
        finally:
            if not started:
                self.stop(0.0)
        if not started:
            raise TimeoutError(f"{name} has not started within {_START_SECONDS:g} seconds")

    def check(self) -> None:
        """Raise what the agent has ended with, if it has."""
        if self._serve_future.done():
            self._serve_future.result()

    def stop(self, seconds: float) -> None:
        """Let it finish what it began, within this time; raises what it has ended with."""
        self._background.loop.call_soon_threadsafe(self._stop.set)
        try:
            wait([self._serve_future], seconds)
            if self._serve_future.done():
                self._serve_future.result()
        finally:
            self._background.stop()


class _AgentHost(ABC):
    """Agents in the background, and waiting for what they do."""

    def __init__(self) -> None:
        self._agents: dict[str, _RunningAgent] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._set_up(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_all(error)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._stop_all, error)

    @abstractmethod
    def _set_up(self, stack: ExitStack) -> None:
        """Set the stage up; what has to be taken down again goes onto the stack."""

    def _start_agent(self, agent: BaseAgent, address: str, client: AsyncClient | None) -> None:
        name = plan_of(agent).name
        if name in self._agents:
            raise Invalid(f"{name} is on the stage already", hint="stop it first")
        self._agents[name] = _RunningAgent(agent, address, client)

    def stop(self, agent: BaseAgent | str) -> None:
        """Stop an agent, as SIGTERM does; raises what it has ended with."""
        name = agent if isinstance(agent, str) else plan_of(agent).name
        if (running_agent := self._agents.pop(name, None)) is None:
            raise Invalid(f"{name} is not on the stage")
        running_agent.stop(self._stop_seconds)

    @property
    def _stop_seconds(self) -> float:
        """How long an agent may take to end."""
        return _STOP_SECONDS

    def wait_until(self, condition: Callable[[], T], timeout: float = 5.0) -> T:
        """Wait until a condition holds, and return what it gave. `AssertionError` when it does not in time."""
        deadline = wiring.monotonic() + timeout
        while not (result := condition()):
            for running_agent in self._agents.values():
                running_agent.check()
            if wiring.monotonic() > deadline:
                raise AssertionError(f"this did not come true within {timeout:g} seconds: {result!r}")
            time.sleep(_POLL_SECONDS)
        return result

    def _stop_all(self, error: BaseException | None) -> None:
        """Stop everyone, then take the stage down; what agents have ended with is raised, or noted on `error`."""
        failures: dict[str, Exception] = {}
        with self._stack:
            for name in tuple(self._agents):
                try:
                    self.stop(name)
                except Exception as ended_with:  # noqa: BLE001  # whatever it is
                    failures[name] = ended_with
        if error is not None:
            for name, failure in failures.items():
                error.add_note(f"the agent {name} has ended with {failure!r}")
        elif len(failures) == 1:
            raise next(iter(failures.values()))
        elif failures:
            raise ExceptionGroup("agents have ended with errors", list(failures.values()))


class Stage(_AgentHost):
    """A server in this process, and agents on it. See `stage`."""

    def __init__(self, **settings: str | int) -> None:
        super().__init__()
        for name in settings:
            if name not in all_settings.setting_names():
                raise Invalid(f"{name} is no setting", hint=f"known are {', '.join(all_settings.setting_names())}")
        self._flags = {name: str(value) for name, value in settings.items()}
        self.folder = ""
        self._admin_key = ""
        self._keys: dict[tuple[str, str], str] = {}
        self._clients: dict[str, Client] = {}
        self._intent: Intent | None = None
        # Agents that were started here.
        self._started: set[str] = set()
        self._running: AsyncExitStack | None = None

    # ------------------------------------------------------------ the server

    @property
    def _stop_seconds(self) -> float:
        return _STOP_SECONDS if self._running is not None else 0.0  # without a server agents cannot drain

    def _set_up(self, stack: ExitStack) -> None:
        self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-stage-"))
        self._background = _Background("parley-stage")
        stack.callback(self._background.stop)
        self._server = InProcessServer(self._background.loop)
        stack.callback(lambda: self._background.run(self._server.end()))
        stack.callback(self.stop_server)
        self.restart_server()

    def stop_server(self) -> None:
        """Stop the server abruptly: connections break, and new ones fail."""
        running, self._running = self._running, None
        if running is not None:
            self._background.run(self._server.vanish())
            self._background.run(running.aclose())

    def restart_server(self) -> None:
        """Start the server on what it had kept, in the place of the one that runs, if one does."""
        self.stop_server()
        self._background.run(self._open())

    async def _open(self) -> None:
        from parley.app.team.directory import keys
        from parley.app.team.work import background
        from parley.surfaces.http.origins import Origins
        from parley.surfaces.http.server import api_for, limits_for

        settings = all_settings.load(self._flags, {"HOME": self.folder})
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(wiring.open_team(settings, f"{self.folder}/data", durable=False))
            self._admin_key = await keys.first_start(opened.team, settings.admin_key) or self._admin_key
            jobs = [asyncio.ensure_future(job) for job in background.jobs(opened.team, opened.outbound)]
            stack.push_async_callback(_cancel_and_wait, jobs)
            api = api_for(opened.team, monotonic=wiring.monotonic, origins=Origins(frozenset()), limited=False)
            self._server.serve(api, limits_for(opened.team))
            self._running = stack.pop_all()

    # ------------------------------------------------------------ who speaks

    @property
    def admin(self) -> Client:
        """A client with the admin's key, which sees everything."""
        return self._client(self._admin_key)

    def key(self, agent: str = "", *, kind: str = "agent") -> str:
        """The key of an agent, made when it is first asked for; or one of another kind: service, admin or human."""
        secret = self._keys.get((kind, agent))
        if secret is None:
            owner = {"agent": {"agent_id": agent}, "human": {"user_id": agent}}.get(kind, {})
            secret = self._keys[kind, agent] = self.admin.create_key(kind, **owner).key
        return secret

    def client(self, agent: str = _TESTER, *, kind: str = "agent") -> Client:
        """A client that speaks for an agent; or, with `kind="human"`, for a person, who decides about approvals."""
        return self._client(self.key(agent, kind=kind))

    def _client(self, key: str) -> Client:
        if key not in self._clients:
            self._clients[key] = Client(URL, key=key, transport=InProcess(self._server)).as_agent("")
        return self._clients[key]

    def connect(self, agent: str = _TESTER, *, kind: str = "agent") -> ServerSession:
        """What `parley.connect()` gives an agent; or, with `kind="human"`, a person."""
        return ServerSession(self.client(agent, kind=kind))

    def connect_async(self, agent: str = _TESTER, *, kind: str = "agent") -> AsyncServerSession:
        """The same as `connect`, for the tasks of an event loop."""
        return AsyncServerSession(self.async_client(agent, kind=kind))

    def async_client(self, agent: str = _TESTER, *, kind: str = "agent") -> AsyncClient:
        """The same as `client`, for the tasks of an event loop."""
        key = self.key(agent, kind=kind)
        return AsyncClient(URL, key=key, transport=AsyncInProcess(self._server)).as_agent("")

    # ------------------------------------------------------------ what happens

    def start(self, *agents: BaseAgent) -> None:
        """Let agents work, each in a thread of its own, until the stage ends; on return they have begun."""
        for agent in agents:
            plan, _ = runtime_parts(agent)
            if self._intent is not None and plan.name not in self._started:
                self.client().grant_access(self._intent.id, plan.name, "write")
            self._started.add(plan.name)
            self._start_agent(agent, "", self.async_client(plan.name))

    def intent(self, title: str = "test", *, created_by: str = _TESTER, access: str | Iterable[str] = "open") -> Intent:
        """A new intent, which every agent may read and write; with `access`, "closed" or open to these agents."""
        return self.client(created_by).create_intent(title, access=access)

    def channel(self, name: str = _CHANNEL, *, sender: str = _TESTER) -> ChannelHandle:
        """A channel of the stage's own intent, in which all agents that were started on the stage take part."""
        return self.connect(sender).channel(self._own_intent.id, name)

    def ask(
        self,
        to: str,
        payload: object = NOT_GIVEN,
        *,
        channel: str = _CHANNEL,
        sender: str = _TESTER,
        timeout: float = 5.0,
        **options: Any,  # noqa: ANN401
    ) -> ReceivedMessage:
        """Ask an agent and wait for its answer, in a channel by its name: `stage.channel(channel).ask(...)`.

        `AgentFailed` when the answer is an error; with `check=False` such an answer is returned.
        """
        return self.channel(channel, sender=sender).ask(to, payload, timeout=timeout, **options)

    def notify(
        self,
        to: str,
        payload: object = NOT_GIVEN,
        *,
        channel: str = _CHANNEL,
        sender: str = _TESTER,
        **options: Any,  # noqa: ANN401
    ) -> ReceivedMessage:
        """Tell an agent something, in a channel by its name; `*` is everyone."""
        handle = self.channel(channel, sender=sender)
        return handle.broadcast(payload, **options) if to == "*" else handle.notify(to, payload, **options)

    def messages(self, channel: str = _CHANNEL) -> list[ChannelMessage]:
        """All that was said in a channel of the stage's own intent, in its order."""
        admin = self.admin
        messages: list[ChannelMessage] = []
        for place in admin.list_channels(self._own_intent.id):
            if channel in (place.name, place.id):
                while page := admin.list_messages(place.id, since=messages[-1].id if messages else None, limit=1000):
                    messages += page
        return messages

    @property
    def _own_intent(self) -> Intent:
        if self._intent is None:
            self._intent = self.intent()
            for agent in self._started:
                self.client().grant_access(self._intent.id, agent, "write")
        return self._intent


class Mailboxes(_AgentHost):
    """File mailboxes in a folder of their own, and agents at them. See `mailboxes`."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        self._home = ""
        self._mailboxes: dict[str, Mailbox] = {}

    def _set_up(self, stack: ExitStack) -> None:
        self._home = stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-mailboxes-"))
        wiring.create_project(self._home, _PROJECT, tuple(dict.fromkeys((*self._names, _TESTER))))
        stack.callback(self._close)

    def _close(self) -> None:
        for mailbox in self._mailboxes.values():
            mailbox.close()

    @property
    def home(self) -> str:
        """The folder of all of it, as PARLEY_HOME has it."""
        return self._home

    @property
    def address(self) -> str:
        """The project's folder: the address with which an agent runs here."""
        return f"{self._home}/projects/{_PROJECT}"

    def mailbox(self, agent: str = _TESTER) -> Mailbox:
        """The mailbox of an agent, for the thread of the test."""
        if agent not in self._mailboxes:
            self._mailboxes[agent] = Mailbox(_PROJECT, agent=agent, home=self._home)
        return self._mailboxes[agent]

    def start(self, *agents: BaseAgent) -> None:
        """Let agents work, each in a thread of its own, until the end; on return they have begun."""
        for agent in agents:
            plan, _ = runtime_parts(agent)
            wiring.add_agent(self._home, _PROJECT, plan.name)
            self._start_agent(agent, self.address, None)

    def ask(
        self,
        to: str,
        payload: object,
        *,
        channel: str = _CHANNEL,
        sender: str = _TESTER,
        timeout: float = 5.0,
        check: bool = True,
    ) -> ChannelMessage:
        """Ask an agent and wait for its answer, which is archived. `AgentFailed` as on a server's stage."""
        question = self._send(Kind.QUESTION, to, payload, channel, sender)
        mailbox, deadline = self.mailbox(sender), wiring.monotonic() + timeout

        def find_answer() -> str:
            answer_ids = [item.id for item in mailbox.inbox() if item.in_reply_to == question.id]
            if not answer_ids and wiring.monotonic() > deadline:
                raise AskTimeout(f"{to} did not answer within {timeout:g} seconds")
            return answer_ids[0] if answer_ids else ""

        file = mailbox.read(self.wait_until(find_answer, timeout + 1))
        mailbox.done(file)
        answer = to_channel_message(sender, file, answers=True)
        return check_answer(answer) if check else answer

    def notify(self, to: str, payload: object, *, channel: str = _CHANNEL, sender: str = _TESTER) -> ChannelMessage:
        """Tell an agent something."""
        return to_channel_message(sender, self._send(Kind.NOTIFICATION, to, payload, channel, sender))

    def _send(self, kind: Kind, to: str, payload: object, channel: str, sender: str) -> Message:
        mailbox = self.mailbox(sender)
        fields = plain_payload(payload)
        subject = subject_of(fields, channel, mailbox.kernel.limits.subject_chars)
        return mailbox.send(to, kind, subject, body_of(kind, fields), tag=channel)


async def _cancel_and_wait(works: Sequence[asyncio.Future[None]]) -> None:
    for work in works:
        work.cancel()
    await asyncio.gather(*works, return_exceptions=True)
