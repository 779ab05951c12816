"""An agent's mailbox with a thread of its own, for the tasks of an event loop."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from parley import wiring
from parley.app.mailbox import sweep
from parley.domain.errors.errors import Invalid, Unavailable
from parley.sdk.mailbox import Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_SCHEME = "mailbox:"
_PROJECTS = "projects"


class MailboxProject(NamedTuple):
    """Where mailboxes are."""

    home: str
    name: str


def project_at(address: str) -> MailboxProject:
    """The project that an address names: `mailbox:PROJECT`, found as on the command line, or its folder."""
    if address.startswith(_SCHEME):
        return MailboxProject(*wiring.find_mailboxes(address.removeprefix(_SCHEME)))
    folder = os.path.abspath(os.path.expanduser(address))
    above, name = os.path.split(folder)
    home, projects = os.path.split(above)
    if projects != _PROJECTS or not os.path.isdir(folder):
        raise Invalid(f"{address} is no project's folder", hint="name HOME/projects/PROJECT, or mailbox:PROJECT")
    return MailboxProject(home, name)


class MailboxThread:
    """One agent's mailbox, used in one thread only, one call at a time."""

    def __init__(self, project: MailboxProject, agent: str) -> None:
        self.agent = agent
        self._project = project
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"parley-mailbox-{agent}")
        self._mailbox: Mailbox | None = None

    async def open(self) -> None:
        """Open the mailbox; `UnknownAgent` when the project has no such agent."""

        def open_mailbox() -> Mailbox:
            mailbox = Mailbox(self._project.name, agent=self.agent, home=self._project.home)
            wiring.drive(sweep.sweep(mailbox.kernel))
            return mailbox

        self._mailbox = await self._in_thread(open_mailbox)

    async def run(self, function: Callable[[Mailbox], T]) -> T:
        """Run a function on the mailbox in the thread."""
        mailbox = self._open_mailbox
        return await self._in_thread(lambda: function(mailbox))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    def inbox_mark(self) -> tuple[int, int]:
        """A value that changes when the inbox does."""
        return self._open_mailbox.kernel.inbox.pulse()

    def other_agents(self) -> list[str]:
        """All other agents of the project."""
        return [name for name in wiring.agents_of(*self._project) if name != self.agent]

    @property
    def _open_mailbox(self) -> Mailbox:
        if self._mailbox is None:
            raise Unavailable("the mailbox is closed")
        return self._mailbox

    def close(self) -> None:
        """Close the mailbox; its claims end at once."""
        mailbox, self._mailbox = self._mailbox, None
        if mailbox is not None:
            self._executor.submit(mailbox.close)
        self._executor.shutdown()
