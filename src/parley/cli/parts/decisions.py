"""Approvals and exchanges of a server or of a mailbox, for commands that work on both.

--home or --project select a mailbox; an address, a key or a context of a server, from an option, the environment or a
file, select the server. Without any of these it is the server of the saved login, or the mailbox that other commands
would use; a governed mailbox and a saved login are an error that names both.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from parley.cli.command import settings_of
from parley.cli.parts.remote import add_server_options, connection_of
from parley.domain.errors.errors import Ambiguous, NotFound, ParleyError
from parley.sdk.protocol.lookup import APPROVALS, CONVERSATIONS, EXCHANGES, find_id

if TYPE_CHECKING:
    import argparse

    from parley.sdk.blocking.connection import Connection
    from parley.sdk.protocol.lookup import Collection
    from parley.settings import Settings

Document: TypeAlias = dict[str, Any]


class ApprovalFilter(NamedTuple):
    """Which approvals to list, in which order; an empty field does not restrict the list."""

    status: str = ""
    cause: str = ""
    order: str = "oldest"


class ExchangeFilter(NamedTuple):
    """Which exchanges to list; an empty field does not restrict the list."""

    outcome: str = ""
    agent: str = ""
    conversation_id: str = ""
    # What only a server can filter by.
    user: str = ""
    org_unit: str = ""
    pair: str = ""
    purpose: str = ""
    classification: str = ""
    since: str | None = None
    until: str | None = None
    before: str = ""


class Decisions(Protocol):
    """Approvals, decisions about them, and their exchanges. Documents are those of the API."""

    def list_approvals(self, wanted: ApprovalFilter, *, after: str, limit: int) -> list[Document]: ...

    def get_approval(self, approval_id: str) -> Document: ...

    def decide(
        self, approval_id: str, decision: str, *, digest: str, note: str, answer: str | None = None
    ) -> Document: ...

    def list_exchanges(self, wanted: ExchangeFilter, *, after: str, limit: int) -> list[Document]: ...

    def get_exchange(self, exchange_id: str) -> Document: ...

    def close_exchange(self, exchange_id: str, reason: str) -> Document: ...


class ServerDecisions:
    """Approvals and exchanges of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_approvals(self, wanted: ApprovalFilter, *, after: str, limit: int) -> list[Document]:
        cursor = "before" if wanted.order == "newest" else "after"
        query = {cursor: after and self._find(APPROVALS, after), "limit": limit}
        # A server of before 0.7 knows no order: it is not told of the usual one.
        query |= {name: value for name, value in wanted._asdict().items() if value not in ("", "oldest")}
        approvals: list[Document] = self._connection.get("approvals", query=query)
        return approvals

    def get_approval(self, approval_id: str) -> Document:
        approval: Document = self._connection.get("approvals", self._find(APPROVALS, approval_id))
        return approval

    def _find(self, collection: Collection, text: str) -> str:
        """The id that a text means. An approval that waits is found before all that were decided."""
        session, run = self._connection.session, self._connection.run
        if collection is APPROVALS:
            with suppress(NotFound):
                return run(find_id(session, collection, text, status="pending"))
        return run(find_id(session, collection, text))

    def decide(self, approval_id: str, decision: str, *, digest: str, note: str, answer: str | None = None) -> Document:
        body = {"decision": decision, "digest": digest, "note": note}
        if answer is not None:
            body["answer"] = answer
        approval: Document = self._connection.post("approvals", approval_id, "decision", body=body)
        return approval

    def create_link(self, approval_id: str) -> Document:
        """A link by which its creator decides in a browser. A mailbox has none."""
        link: Document = self._connection.post("approvals", self._find(APPROVALS, approval_id), "link", body={})
        return link

    def list_exchanges(self, wanted: ExchangeFilter, *, after: str, limit: int) -> list[Document]:
        if wanted.conversation_id:
            wanted = wanted._replace(conversation_id=self._find(CONVERSATIONS, wanted.conversation_id))
        if wanted.before:
            wanted = wanted._replace(before=self._find(EXCHANGES, wanted.before))
        # A server of before 0.7 is not told of filters that it does not know.
        query = {name: value for name, value in wanted._asdict().items() if value}
        query |= {"after": after and self._find(EXCHANGES, after), "limit": limit}
        exchanges: list[Document] = self._connection.get("exchanges", query=query)
        return exchanges

    def get_exchange(self, exchange_id: str) -> Document:
        exchange: Document = self._connection.get("exchanges", self._find(EXCHANGES, exchange_id))
        return exchange

    def close_exchange(self, exchange_id: str, reason: str) -> Document:
        path = ("exchanges", self._find(EXCHANGES, exchange_id), "close")
        exchange: Document = self._connection.post(*path, body={"reason": reason})
        return exchange


def add_server_or_mailbox_options(parser: argparse.ArgumentParser, *, agent: bool = True) -> None:
    """Add the options of a server and of a mailbox."""
    add_server_options(parser, agent=agent)
    group = parser.add_argument_group("mailbox")
    group.add_argument(
        "--home", "--oacp-dir", default="", help="directory of all projects; selects a mailbox instead of a server"
    )
    group.add_argument("-p", "--project", default="", help="project; selects a mailbox instead of a server")
    if not agent and "--agent" not in parser._option_string_actions:  # `list` has its own
        group.add_argument("-a", "--agent", default="", metavar="AGENT", help="agent of the mailbox")


def decisions_of(args: argparse.Namespace, *, agent: bool = False) -> Decisions:
    """Connect to the server, or open the mailbox, that the options name."""
    if not means_mailbox(args, settings_of(args)):
        return ServerDecisions(connection_of(args, agent=agent))
    from parley.cli.parts.mailbox_decisions import MailboxDecisions

    return MailboxDecisions(args)


def means_mailbox(args: argparse.Namespace, settings: Settings) -> bool:
    """Whether the options and the settings name a mailbox and not a server."""
    if args.home or args.project:
        return True
    if any(settings.source_of(name) != "default" for name in ("url", "key", "context")):
        return False
    from parley.login_wiring import login_file
    from parley.wiring import find_place, has_rules

    try:
        place = find_place(settings)
    except ParleyError:
        return False
    logins = login_file(settings).load()
    in_use = logins.find(logins.current)
    if in_use is None:
        return True
    project = place.project.value
    if has_rules(settings, place.home.value, project):
        raise Ambiguous(
            f"a governed mailbox (project {project}) and a saved login ({in_use.url}) both fit",
            hint=f"add --project {project} for the mailbox, or --context {in_use.name} for the server",
        )
    return False
