"""All mailboxes of a project at once, for people who look: nothing is claimed, and nothing is written.

What was read of the files stays in memory; a ledger is opened for each look, read-only, and closed again.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox import answers, find, read, reviews
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import NotFound, ParleyError, UnknownAgent, UnknownMessage
from parley.domain.message.message import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.listing import FoundMessage, Item, RefusedFile
    from parley.domain.mailbox.waiting import OwedAnswer
    from parley.domain.message.review import Review

_PLACES = ("inbox", "archive", "outbox")


class MailboxReader:
    """One mailbox, by a kernel that writes nothing."""

    def __init__(self, kernel: Kernel) -> None:
        self.agent = kernel.agent
        self._kernel = kernel

    @contextmanager
    def look(self) -> Iterator[Kernel]:
        """The kernel for one look: its ledger is read as it is now."""
        kernel = self._kernel.reopened()
        try:
            yield kernel
        finally:
            kernel.close()

    def pulse(self) -> tuple[int, int]:
        """Changes when the inbox may have changed."""
        return self._kernel.inbox.pulse()


class ProjectReader:
    """The mailboxes of a project; agents that are added later are found."""

    def __init__(self, name: str, agents: Callable[[], list[str]], open_kernel: Callable[[str], Kernel]) -> None:
        self.name = name
        self._agents = agents
        self._open_kernel = open_kernel
        self._readers: dict[str, MailboxReader] = {}

    def readers(self) -> list[MailboxReader]:
        """A reader for each agent, by name."""
        names = self._agents()
        self._readers = {name: self._readers.get(name) or MailboxReader(self._open_kernel(name)) for name in names}
        return list(self._readers.values())

    def reader(self, agent: str) -> MailboxReader:
        """The mailbox of one agent."""
        for reader in self.readers():
            if reader.agent == agent:
                return reader
        raise UnknownAgent(f"no agent {agent!r} in {self.name}")


class AgentOverview(NamedTuple):
    """One agent: what waits in its inbox, what was put aside, and which answers others owe it."""

    agent: str
    inbox: tuple[Item, ...] = ()
    dead_letters: tuple[RefusedFile, ...] = ()
    owed: tuple[OwedAnswer, ...] = ()
    # Why its mailbox cannot be read; empty when it can.
    problem: str = ""


class ThreadSummary(NamedTuple):
    """One conversation of a project, by the headings of its messages."""

    id: str
    subject: str
    people: tuple[str, ...]
    messages: int
    newest_at: str
    is_review: bool


def agents(project: ProjectReader) -> list[AgentOverview]:
    """Every agent of a project. One whose mailbox cannot be read hides no other."""
    return [_agent(reader) for reader in project.readers()]


def _agent(reader: MailboxReader) -> AgentOverview:
    try:
        with reader.look() as kernel:
            inbox, dead = drive(read.inbox(kernel)), drive(read.dead_letters(kernel))
            return AgentOverview(reader.agent, tuple(inbox), tuple(dead), tuple(drive(answers.waiting(kernel))))
    except ParleyError as error:
        return AgentOverview(reader.agent, problem=f"{error.message} [{error.code}]")


def outbox(project: ProjectReader, agent: str) -> list[Item]:
    """What an agent sent, newest first."""
    with project.reader(agent).look() as kernel:
        return drive(read.outbox(kernel))


def threads(project: ProjectReader) -> list[ThreadSummary]:
    """The conversations of a project, that with the newest message first."""
    items = _all_items(project)
    members: dict[str, list[Item]] = {}
    for item in items.values():
        members.setdefault(_thread_id(item, items), []).append(item)
    summaries = [_summary(thread_id, sorted(group, key=_age_key)) for thread_id, group in members.items()]
    return sorted(summaries, key=lambda summary: summary.newest_at, reverse=True)


def _all_items(project: ProjectReader) -> dict[str, Item]:
    """The headings of all messages of a project by id: of the copies of one message, any."""
    items: dict[str, Item] = {}
    for reader in project.readers():
        try:
            with reader.look() as kernel:
                for place in _PLACES:
                    items |= {item.id: item for item in drive(read.listing(kernel, place)) if not item.problem}
        except ParleyError:
            continue  # the page of agents says why
    return items


def _thread_id(item: Item, items: dict[str, Item]) -> str:
    """The conversation of a message; that of what it answers when it names none, else the first message of all."""
    passed: set[str] = set()
    while not item.conversation_id and item.in_reply_to in items and item.id not in passed:
        passed.add(item.id)
        item = items[item.in_reply_to]
    return item.conversation_id or item.id


def _age_key(item: Item) -> tuple[str, str]:
    return item.created_at, item.id


def _summary(thread_id: str, items: list[Item]) -> ThreadSummary:
    people = {name for item in items for name in (item.sender, *item.to)}
    is_review = any(item.kind == Kind.REVIEW_REQUEST for item in items)
    return ThreadSummary(
        thread_id, items[0].subject, tuple(sorted(people)), len(items), items[-1].created_at, is_review
    )


def thread(project: ProjectReader, ref: str) -> list[FoundMessage]:
    """The messages of a conversation in all mailboxes, oldest first, each once."""
    members: dict[tuple[str, str], FoundMessage] = {}
    for reader in project.readers():
        try:
            with reader.look() as kernel:
                for match in drive(find.thread(kernel, ref)):
                    members.setdefault((match.message.sender, match.message.id), match)
        except ParleyError:
            continue  # it is not in this mailbox
    if not members:
        raise UnknownMessage(f"no conversation {ref!r} in {project.name}")
    return find.oldest_first(members.values())


def review(project: ProjectReader, ref: str) -> Review | None:
    """Where the review in a conversation stands, as its author's mailbox has it; None for what is no review.

    A person closes a review in any mailbox: one that knows of it goes first.
    """
    views: list[tuple[str, Review]] = []
    for reader in project.readers():
        try:
            with reader.look() as kernel:
                views.append((reader.agent, drive(reviews.get(kernel, ref))))
        except ParleyError:
            continue  # this mailbox knows nothing of it
    return _chosen(views)


def _chosen(views: list[tuple[str, Review]]) -> Review | None:
    for _, view in views:
        if view.closure is not None:
            return view
    by_author = [view for agent, view in views if view.author == agent]
    return next((view for view in [*by_author, *(view for _, view in views)] if view.request_id), None)


def newest_reviews(project: ProjectReader, limit: int) -> list[tuple[ThreadSummary, Review | None]]:
    """The newest reviews of a project, each as `review` gives it. Every mailbox is listed once for all of them."""
    items = _all_items(project)
    summaries = [summary for summary in threads(project) if summary.is_review][:limit]
    views: dict[str, list[tuple[str, Review]]] = {summary.id: [] for summary in summaries}
    for reader in project.readers():
        try:
            with reader.look() as kernel:
                for thread_id, files in _files_of(kernel, views, items).items():
                    matches = drive(find.load_thread(kernel, files, thread_id))
                    with suppress(ParleyError):  # this mailbox has an answer, and not the request
                        views[thread_id].append((reader.agent, drive(reviews.follow(kernel, thread_id, matches))))
        except ParleyError:
            continue  # the page of agents says why
    return [(summary, _chosen(views[summary.id])) for summary in summaries]


def _files_of(kernel: Kernel, thread_ids: Container[str], items: dict[str, Item]) -> dict[str, list[tuple[str, Item]]]:
    """The files of one mailbox that belong to these threads."""
    files: dict[str, list[tuple[str, Item]]] = {}
    for place in _PLACES:
        for item in drive(read.listing(kernel, place)):
            if not item.problem and (thread_id := _thread_id(item, items)) in thread_ids:
                files.setdefault(thread_id, []).append((place, item))
    return files


def message(project: ProjectReader, agent: str, ref: str) -> FoundMessage:
    """A message as one agent has it."""
    with project.reader(agent).look() as kernel:
        return drive(find.find(kernel, ref))


def refused_file(project: ProjectReader, agent: str, name: str) -> tuple[RefusedFile, bytes]:
    """A file that is no message, and what is in it."""
    with project.reader(agent).look() as kernel:
        for file in drive(read.dead_letters(kernel)):
            if file.file == name:
                for _, content, *_ in kernel.inbox.peek([name], "dead_letter"):
                    return file, content if isinstance(content, bytes) else b""
        refused = drive(find.refused_file(kernel, name))
    if refused is None:
        raise NotFound(f"no file {name!r} of {agent}")
    return refused
