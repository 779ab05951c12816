"""Where the parts come together: the only place that names adapters."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files.inbox import FileInbox
from parley.adapters.files.workspace import AgentFolder, Workspace, find_marked, projects
from parley.adapters.process import SystemClock, SystemIds, monotonic, wall_time
from parley.app.kernel import Kernel, drive
from parley.domain.errors import Ambiguous, UnknownProject, UnknownSender
from parley.domain.names import agent_name
from parley.settings import Settings, Value, load
from parley.wire.oacp import OacpFormat

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from parley.adapters.files.layout import Added, Created
    from parley.app.team.hub import Team
    from parley.ports import Courier, Outbound, Store, TeamStore

__all__ = [
    "Kernel",
    "Opened",
    "Place",
    "SystemIds",
    "add_agent",
    "backup",
    "create_project",
    "drive",
    "find_agent",
    "find_home",
    "find_place",
    "find_project",
    "monotonic",
    "open_data",
    "open_kernel",
    "open_mailbox",
    "open_team",
    "read_card",
    "restore",
    "wall_time",
]


class Place(NamedTuple):
    """Where a command acts, and how that was found."""

    home: Value
    project: Value
    agent: Value


def find_home(settings: Settings) -> Value:
    """The home: as given, else by a marker in the working directory or above, else ~/oacp."""
    if settings.home:
        return Value("home", os.path.expanduser(settings.home), _source(settings, "home"))
    marked = find_marked(settings.cwd)
    if marked is not None:
        return Value("home", marked[0], "working directory")
    return Value("home", os.path.join(settings.user_home, "oacp"), "default")


def find_project(settings: Settings, home: str) -> Value:
    """The project: as given, else by the working directory, else the only one there is."""
    if settings.project:
        return Value("project", settings.project, _source(settings, "project"))
    marked = find_marked(settings.cwd)
    if marked is not None and os.path.realpath(home) == os.path.realpath(marked[0]):
        return Value("project", marked[1], "working directory")
    existing = projects(home)
    if len(existing) == 1:
        return Value("project", existing[0], "the only project")
    if not existing:
        raise UnknownProject(f"there is no project in {home}", hint="create one with: parley init PROJECT")
    raise Ambiguous(f"{len(existing)} projects in {home}", hint=f"add --project with one of {', '.join(existing)}")


def find_agent(settings: Settings, workspace: Workspace) -> Value:
    """The agent who speaks: as given, else the one whose card, else whose name, fits the runtime we run in."""
    if settings.agent:
        return Value("agent", settings.agent, _source(settings, "agent"))
    if settings.runtime:
        names = workspace.agents()
        fitting = [n for n in names if read_card(workspace.agent(n)).get("runtime", "").lower() == settings.runtime]
        fitting = fitting or [name for name in names if name == settings.runtime]
        if len(fitting) == 1:
            return Value("agent", fitting[0], f"runtime {settings.runtime}")
    raise UnknownSender("cannot tell which agent is speaking", hint="add --agent NAME, or set PARLEY_AGENT")


def find_place(settings: Settings) -> Place:
    """Home, project and agent."""
    home = find_home(settings)
    project = find_project(settings, home.value)
    return Place(home, project, find_agent(settings, Workspace(home.value, project.value)))


def open_kernel(home: str, project: str, agent: str, settings: Settings, *, use_tmpfile: bool = True) -> Kernel:
    """The kernel of one agent's mailbox; `UnknownProject` or `UnknownAgent` when it is not there."""
    workspace = Workspace(os.path.expanduser(home), project)
    folder = workspace.agent(agent_name(agent))
    folder.open().close()

    def open_store() -> Store:
        from parley.adapters.sqlite.store import SqliteStore  # listing an inbox may do without SQLite

        return SqliteStore(folder.ledger_path(make=True))

    def open_courier() -> Courier:
        from parley.adapters.files.courier import FileCourier

        return FileCourier(workspace, agent, settings.limits, use_tmpfile=use_tmpfile)

    return Kernel(
        agent,
        open_store=open_store,
        has_store=lambda: folder.has_ledger,
        open_courier=open_courier,
        inbox=FileInbox(workspace, folder, settings.limits),
        format=OacpFormat(settings.limits),
        clock=SystemClock(),
        ids=SystemIds(),
        limits=settings.limits,
        enforce_owner=settings.sender_check == "enforce",
    )


def open_mailbox(home: str = "", project: str = "", agent: str = "") -> tuple[Kernel, Settings]:
    """The kernel of the mailbox that these name, what is left out found as on the command line."""
    settings = load({"home": home, "project": project, "agent": agent})
    place = find_place(settings)
    return open_kernel(place.home.value, place.project.value, place.agent.value, settings), settings


def create_project(
    home: str, project: str, agents: tuple[str, ...], *, repo: str = "", shared: bool = False
) -> Created:
    """A new project in a home; see `adapters.files.layout`."""
    from parley.adapters.files import layout

    return layout.create_project(home, project, agents, at=SystemClock().now().at, repo=repo, shared=shared)


def add_agent(home: str, project: str, agent: str, *, runtime: str = "", shared: bool = False) -> Added:
    """One more agent in a project; no error when it is there already."""
    from parley.adapters.files import layout

    return layout.add_agent(home, project, agent, at=SystemClock().now().at, runtime=runtime, shared=shared)


def read_card(folder: AgentFolder) -> dict[str, str]:
    """What an agent's card says about it; nothing when there is none."""
    from parley.adapters.files import layout

    return layout.read_card(folder)


class Opened(NamedTuple):
    """A team's kernel over its data directory, and its way out."""

    team: Team
    outbound: Outbound


@asynccontextmanager
async def open_team(settings: Settings, data: str, *, durable: bool = True) -> AsyncIterator[Opened]:
    """The kernel of a server over a data directory, which it holds alone until it is closed."""
    from parley.adapters.data_directory import DataDirectory
    from parley.adapters.outbound import HttpOutbound
    from parley.adapters.process import SteadyClock
    from parley.adapters.signatures import Ed25519Signatures
    from parley.adapters.sqlite.team_store import SqliteTeamStore
    from parley.app.team.hub import Team
    from parley.domain.kinds import KINDS

    with DataDirectory(data) as directory:
        store = SqliteTeamStore(directory.store_path, KINDS, durable=durable)
        try:
            sdk_names = settings.event_names == "sdk"
            limits = settings.team_limits
            outbound = HttpOutbound(private=settings.webhook_targets == "any")
            ports = (store, SteadyClock(), SystemIds(), Ed25519Signatures())
            team = Team(*ports, limits, sdk_event_names=sdk_names, outbound=outbound)
            yield Opened(team, outbound)
        finally:
            await store.close()


def backup(data: str, target: str, progress: Callable[[int, int], None]) -> None:
    """Copy the store of a data directory, in use or not, to a file."""
    from parley.adapters.data_directory import store_in
    from parley.adapters.sqlite import team_file

    team_file.copy(store_in(data), target, progress)


def restore(source: str, data: str, progress: Callable[[int, int], None], *, force: bool = False) -> None:
    """Put a backup into a data directory that no server holds; what is there already goes only with `force`."""
    from parley.adapters.data_directory import DataDirectory
    from parley.adapters.sqlite import team_file

    with DataDirectory(data) as directory:
        team_file.put_back(source, directory.store_path, progress, force=force)


@asynccontextmanager
async def open_data(data: str) -> AsyncIterator[TeamStore]:
    """The store of a data directory, only to read from it: a server may hold it meanwhile."""
    from parley.adapters.data_directory import store_in
    from parley.adapters.sqlite.team_store import SqliteTeamStore
    from parley.domain.kinds import KINDS

    store = SqliteTeamStore(store_in(data), KINDS, reads_only=True)
    try:
        yield store
    finally:
        await store.close()


def _source(settings: Settings, name: str) -> str:
    return next(value.source for value in settings.sources if value.name == name)
