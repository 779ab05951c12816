"""Values for completion, by the word that the help shows for an option or an argument, such as AGENT or CHANNEL.

Everything is read and nothing is written: neither the ledger nor the index of an inbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.cli.command import kernel_of, settings_of
from parley.cli.table import short_ids

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from parley.domain.message.message import Heading
    from parley.sdk.blocking.connection import Connection
    from parley.sdk.protocol.lookup import Collection

    Fetch = Callable[[Connection, argparse.Namespace], list["KnownValue"]]

# A server that takes longer is left alone: a person waits at the prompt.
SERVER_SECONDS = 0.3
# Message files of an inbox that are read, newest first.
_INBOX_FILES = 200
# Things of a server that are listed; of a channel, the newest on a page of the most messages that a server gives.
_PAGE = 200
_CHANNEL_PAGE = 1000


class KnownValue(NamedTuple):
    """A value that fits, what it is, and its id in full where the value is a name or the end of the id."""

    value: str
    about: str = ""
    whole: str = ""


def values_of(kinds: Sequence[str], args: argparse.Namespace) -> list[KnownValue]:
    """The values of some kinds where the command looks for them: saved logins, a mailbox or a server."""
    values = _contexts(args) if "CONTEXT" in kinds else []
    if _is_for_server(args):
        fetches = [_SERVER[kind] for kind in kinds if kind in _SERVER]
        return values + (_fetch(fetches, args) if fetches else [])
    for source in [_MAILBOX[kind] for kind in kinds if kind in _MAILBOX and hasattr(args, "project")]:
        values += source(args)
    return values


def _is_for_server(args: argparse.Namespace) -> bool:
    if not hasattr(args, "url"):
        return False
    if not hasattr(args, "project"):
        return True
    if hasattr(args, "server"):  # `parley agent` reads a project unless told otherwise
        return bool(args.server or args.url)
    from parley.cli.parts.decisions import means_mailbox

    return not means_mailbox(args, settings_of(args))


def _contexts(args: argparse.Namespace) -> list[KnownValue]:
    from parley.login_wiring import login_file

    return [KnownValue(login.name, login.holder) for login in login_file(settings_of(args)).load().logins]


# ---------------------------------------------------------------- mailboxes


def _projects(args: argparse.Namespace) -> list[KnownValue]:
    from parley.wiring import find_home, projects_of

    return [*map(KnownValue, projects_of(find_home(settings_of(args)).value))]


def _mailbox_agents(args: argparse.Namespace) -> list[KnownValue]:
    from parley.wiring import agents_of, find_home, find_project

    settings = settings_of(args)
    home = find_home(settings).value
    return [*map(KnownValue, agents_of(home, find_project(settings, home).value))]


def _headings(args: argparse.Namespace) -> list[Heading]:
    """The newest messages of the inbox that can be read."""
    from parley.domain.errors.errors import ParleyError
    from parley.wiring import drive

    kernel = kernel_of(args)
    names = sorted((name for name, _ in drive(kernel.inbox.names("inbox"))), reverse=True)
    headings = []
    for _, content, _, _ in kernel.inbox.peek(names[:_INBOX_FILES], "inbox"):
        if not isinstance(content, ParleyError):
            try:
                headings.append(kernel.format.heading(content))
            except ParleyError:
                continue  # the inbox shows what is wrong with it
    return headings


def _mailbox_messages(args: argparse.Namespace) -> list[KnownValue]:
    headings = _headings(args)
    return _by_ends([(heading.id, f"{heading.sender}: {heading.subject}") for heading in headings])


def _mailbox_conversations(args: argparse.Namespace) -> list[KnownValue]:
    subjects = {heading.conversation_id: heading.subject for heading in _headings(args) if heading.conversation_id}
    return [*map(KnownValue, subjects, subjects.values())]


def _mailbox_approvals(args: argparse.Namespace) -> list[KnownValue]:
    from parley.domain.exchange.approval import Approval
    from parley.wiring import drive

    store = kernel_of(args).store_if_any
    approvals = drive(store.records(Approval)) if store else ()
    return _by_ends([(approval.id, approval.status.value) for approval in approvals])


def _mailbox_exchanges(args: argparse.Namespace) -> list[KnownValue]:
    from parley.domain.exchange.exchange import Exchange
    from parley.wiring import drive

    store = kernel_of(args).store_if_any
    exchanges = drive(store.records(Exchange)) if store else ()
    return _by_ends([(exchange.id, exchange.outcome.value) for exchange in exchanges])


_MAILBOX: dict[str, Callable[[argparse.Namespace], list[KnownValue]]] = {
    "AGENT": _mailbox_agents,
    "APPROVAL": _mailbox_approvals,
    "CONVERSATION": _mailbox_conversations,
    "EXCHANGE": _mailbox_exchanges,
    "MESSAGE": _mailbox_messages,
    "PROJECT": _projects,
    "TO": _mailbox_agents,
}


# ---------------------------------------------------------------- servers


def _fetch(fetches: Sequence[Fetch], args: argparse.Namespace) -> list[KnownValue]:
    """What the server lists within the limit, else nothing. A thread: looking up a host name cannot be interrupted."""
    from threading import Thread

    from parley.cli.parts.remote import connection_of

    values: list[KnownValue] = []
    connection = connection_of(args, agent=hasattr(args, "agent"))

    def run() -> None:
        for fetch in fetches:
            try:
                values.extend(fetch(connection, args))
            except Exception as error:  # noqa: BLE001  # the outermost frame of a thread; completion prints no error
                _log(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(SERVER_SECONDS)
    return [*values]


def _log(error: Exception) -> None:
    from parley.cli.attention.limits import hook_log

    hook_log().write(f"completion: {getattr(error, 'code', 'internal')}: {type(error).__name__}: {error}")


def _agents(connection: Connection, _args: argparse.Namespace) -> list[KnownValue]:
    return [KnownValue(agent["agent_id"], agent["role_id"] or "") for agent in connection.get("agents")]


def _roles(connection: Connection, _args: argparse.Namespace) -> list[KnownValue]:
    return [KnownValue(role) for role in _role_names(_agents(connection, _args))]


def _receivers(connection: Connection, args: argparse.Namespace) -> list[KnownValue]:
    agents = _agents(connection, args)
    all_of = [KnownValue(f"role:{role}", "every agent with the role") for role in _role_names(agents)]
    return [*agents, *all_of, *_any_of(agents)]


def _queues(connection: Connection, args: argparse.Namespace) -> list[KnownValue]:
    agents = _agents(connection, args)
    return [*agents, *_any_of(agents)]


def _any_of(agents: Iterable[KnownValue]) -> list[KnownValue]:
    return [KnownValue(f"any:{role}", "one agent with the role") for role in _role_names(agents)]


def _role_names(agents: Iterable[KnownValue]) -> list[str]:
    return sorted({agent.about for agent in agents if agent.about})


def _intents(connection: Connection, _args: argparse.Namespace) -> list[KnownValue]:
    intents = connection.get("intents", query={"limit": _PAGE})["intents"]
    return [
        KnownValue(intent["title"], intent["status"], intent["id"])
        for intent in intents
        if intent["created_by"] != "system"
    ]


def _channels(connection: Connection, args: argparse.Namespace) -> list[KnownValue]:
    from parley.cli.parts.lookup import intent_of

    channels = connection.get("intents", intent_of(connection, args).id, "channels")
    return [KnownValue(channel["name"], "channel", channel["id"]) for channel in channels]


def _messages(connection: Connection, args: argparse.Namespace) -> list[KnownValue]:
    from parley.cli.parts.lookup import channel_of

    if not getattr(args, "channel", ""):
        return []
    messages = connection.get("channels", channel_of(connection, args), "messages", query={"limit": _CHANNEL_PAGE})
    newest = messages[: -_PAGE - 1 : -1]
    return _by_ends([(message["id"], f"{message['message_type']} from {message['sender']}") for message in newest])


def _policies(connection: Connection, _args: argparse.Namespace) -> list[KnownValue]:
    return [KnownValue(f"{policy['scope']}/{policy['name']}") for policy in connection.get("policies")["policies"]]


def _listed_at(name: str) -> Fetch:
    """The ends of ids in the collection of that name."""

    def fetch(connection: Connection, _args: argparse.Namespace) -> list[KnownValue]:
        from parley.sdk.protocol import lookup

        collection: Collection = getattr(lookup, name)
        documents = connection.get(collection.path, query={"limit": _PAGE} if collection.has_pages else None)
        notes = {
            document[collection.id_field]: str(document[collection.note_field]) if collection.note_field else ""
            for document in documents
        }
        return _by_ends([*notes.items()])

    return fetch


_SERVER: dict[str, Fetch] = {
    "AGENT": _agents,
    "APPROVAL": _listed_at("APPROVALS"),
    "CHANNEL": _channels,
    "CONVERSATION": _listed_at("CONVERSATIONS"),
    "EXCHANGE": _listed_at("EXCHANGES"),
    "INTENT": _intents,
    "LETTER": _listed_at("DEAD_LETTERS"),
    "MESSAGE": _messages,
    "QUEUE": _queues,
    "ROLE": _roles,
    "SCOPE/NAME": _policies,
    "TIMER": _listed_at("TIMERS"),
    "TO": _receivers,
}


def _by_ends(things: Sequence[tuple[str, str]]) -> list[KnownValue]:
    """Ids by the shortest ends that tell them apart, as tables show them."""
    ends = short_ids([whole for whole, _ in things])
    return [KnownValue(end, about, whole) for end, (whole, about) in zip(ends, things, strict=True)]
