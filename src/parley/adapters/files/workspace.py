"""Where things are: home / projects / <project> / agents / <agent> / inbox, outbox, dead_letter, .parley."""

from __future__ import annotations

import os

from parley.adapters.files.folders import Folder
from parley.domain.errors.errors import NotFound, NotRegular, ParleyError, UnknownAgent, UnknownProject
from parley.domain.names import agent_name, is_name, meant, project_name

PRIVATE = 0o700
# Others of the group may drop a message, but not list, delete or replace any: setgid, sticky, rwx-wx---.
INBOX_MODE = 0o3730
# A folder on the way to a shared inbox: others of the group may pass through it.
PASSAGE = 0o2710
DEAD_LETTERS = "dead_letter"
LEDGER_FOLDER = ".parley"
LEDGER_FILE = "ledger.db"


class AgentFolder:
    """One agent's folder."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        self.name = name
        self.path = f"{workspace.path}/agents/{name}"

    def open(self) -> Folder:
        try:
            with self._workspace.open() as project:
                return project.walk("agents", self.name)
        except UnknownProject:
            raise
        except NotFound:
            raise self._workspace.unknown_agent(self.name) from None

    def folder(self, *names: str) -> Folder:
        """A folder of the agent that must be there."""
        with self.open() as agent:
            return agent.walk(*names)

    def make_folder(self, *names: str, mode: int = PRIVATE) -> Folder:
        """A folder of the agent, made when it is missing."""
        current = self.open()
        for name in names:
            try:
                child = current.make(name, mode)
            finally:
                current.close()
            current = child
        return current

    def ledger_path(self, *, make: bool) -> str:
        """The file of the private ledger; `make` sees to it that its folder is there and durable."""
        if make:
            with self.make_folder(LEDGER_FOLDER) as private:
                if private.is_link(LEDGER_FILE):
                    raise NotRegular(f"{private.path}/{LEDGER_FILE} is a symbolic link")
        return f"{self.path}/{LEDGER_FOLDER}/{LEDGER_FILE}"

    @property
    def has_ledger(self) -> bool:
        return os.path.exists(self.ledger_path(make=False))


class Workspace:
    """One project in one home."""

    def __init__(self, home: str, project: str) -> None:
        self.home = home
        self.project = project_name(project)
        self.path = f"{home}/projects/{project}"

    def open(self) -> Folder:
        try:
            with Folder.root(self.home) as home:
                return home.walk("projects", self.project)
        except NotFound:
            hint = meant(self.project, projects(self.home)) or f"create it with: parley init {self.project}"
            raise UnknownProject(f"no project {self.project!r} in {self.home}", hint=hint) from None

    def unknown_agent(self, name: str) -> UnknownAgent:
        """The error for an agent that is not there, naming the one that was probably meant."""
        try:
            names = self.agents()
        except ParleyError:
            names = []
        hint = meant(name, names) or f"add it with: parley agent add {name}"
        return UnknownAgent(f"no agent {name!r} in project {self.project!r}", hint=hint)

    def agent(self, name: str) -> AgentFolder:
        return AgentFolder(self, agent_name(name))

    def agents(self) -> list[str]:
        """The names of all agents that have an inbox, sorted."""
        return [name for name in self.folders() if os.path.isdir(f"{self.path}/agents/{name}/inbox")]

    def folders(self) -> list[str]:
        """The names of all agents' folders, with or without an inbox, sorted."""
        try:
            with self.open() as project, project.sub("agents") as agents:
                names = [name for name in agents.names() if is_name(name)]
        except UnknownProject:
            raise
        except NotFound:
            return []
        return sorted(name for name in names if os.path.isdir(f"{self.path}/agents/{name}"))


def projects(home: str) -> list[str]:
    """The names of all projects in a home, sorted."""
    try:
        names = os.listdir(f"{home}/projects")
    except OSError:
        return []
    return sorted(n for n in names if is_name(n) and os.path.isdir(f"{home}/projects/{n}"))
