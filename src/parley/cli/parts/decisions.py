"""Approvals and exchanges of a server or of a mailbox, for commands that work on both.

--home or --project select a mailbox; an address or a key of a server, from an option, the environment or a file, select
the server. Without any of these it is the mailbox that other commands would use, else the default server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from parley.cli.command import settings_of
from parley.cli.parts.remote import add_server_options, connection_of
from parley.domain.errors.errors import NotFound, ParleyError

if TYPE_CHECKING:
    import argparse

    from parley.sdk.blocking.connection import Connection
    from parley.settings import Settings

Document: TypeAlias = dict[str, Any]
_PAGE = 500
_SHORTEST_SUFFIX = 4


class ExchangeFilter(NamedTuple):
    """Which exchanges to list; an empty field does not restrict the list."""

    outcome: str = ""
    agent: str = ""
    conversation_id: str = ""


class Decisions(Protocol):
    """Approvals, decisions about them, and their exchanges. Documents are those of the API."""

    def list_approvals(self, status: str, *, after: str, limit: int) -> list[Document]: ...

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

    def list_approvals(self, status: str, *, after: str, limit: int) -> list[Document]:
        query = {"status": status, "after": after, "limit": limit}
        approvals: list[Document] = self._connection.get("approvals", query=query)
        return approvals

    def get_approval(self, approval_id: str) -> Document:
        try:
            approval: Document = self._connection.get("approvals", approval_id)
        except NotFound:
            return self._get_by_suffix(approval_id)
        return approval

    def _get_by_suffix(self, suffix: str) -> Document:
        """The one pending approval whose id ends like this."""
        fitting: list[Document] = []
        page = self.list_approvals("pending", after="", limit=_PAGE)
        while page:
            fitting += [approval for approval in page if approval["id"].endswith(suffix.upper())]
            page = self.list_approvals("pending", after=page[-1]["id"], limit=_PAGE) if len(page) == _PAGE else []
        if len(fitting) == 1 and len(suffix) >= _SHORTEST_SUFFIX:
            return fitting[0]
        found = "no approval" if not fitting else "more than one approval"
        raise NotFound(f"{found} {suffix!r}", hint="look with: parley approvals list")

    def decide(self, approval_id: str, decision: str, *, digest: str, note: str, answer: str | None = None) -> Document:
        body = {"decision": decision, "digest": digest, "note": note}
        if answer is not None:
            body["answer"] = answer
        approval: Document = self._connection.post("approvals", approval_id, "decision", body=body)
        return approval

    def list_exchanges(self, wanted: ExchangeFilter, *, after: str, limit: int) -> list[Document]:
        query = wanted._asdict() | {"after": after, "limit": limit}
        exchanges: list[Document] = self._connection.get("exchanges", query=query)
        return exchanges

    def get_exchange(self, exchange_id: str) -> Document:
        exchange: Document = self._connection.get("exchanges", exchange_id)
        return exchange

    def close_exchange(self, exchange_id: str, reason: str) -> Document:
        exchange: Document = self._connection.post("exchanges", exchange_id, "close", body={"reason": reason})
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
    if not _means_mailbox(args, settings_of(args)):
        return ServerDecisions(connection_of(args, agent=agent))
    from parley.cli.parts.mailbox_decisions import MailboxDecisions

    return MailboxDecisions(args)


def _means_mailbox(args: argparse.Namespace, settings: Settings) -> bool:
    if args.home or args.project:
        return True
    if any(settings.source_of(name) != "default" for name in ("url", "key")):
        return False
    from parley.wiring import find_place

    try:
        find_place(settings)
    except ParleyError:
        return False
    return True
