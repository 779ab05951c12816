"""Approvals and exchanges of a server, or of a mailbox: the same commands, asked in the same words.

A mailbox is meant when --home or --project is given; a server when its address or a key is, as an option, in the
environment or in a file. Without any of that it is the mailbox that other commands would find, else the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from parley.cli.command import settings_of
from parley.cli.parts.remote import add_server
from parley.cli.parts.remote import connection_of as server_of
from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.settings import Settings


class Answers(Protocol):
    """What a command asks of either."""

    def get(self, *path: str, query: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401  # JSON
        ...

    def post(self, *path: str, body: Any = None) -> Any:  # noqa: ANN401  # JSON
        ...


def add_either(parser: argparse.ArgumentParser, *, agent: bool = True) -> None:
    """The options of a server and those of a mailbox."""
    add_server(parser, agent=agent)
    group = parser.add_argument_group("mailbox")
    group.add_argument("--home", "--oacp-dir", default="", help="the home of all projects: without a server")
    group.add_argument("-p", "--project", default="", help="the project: without a server")
    if not agent and "--agent" not in parser._option_string_actions:  # `list` has its own
        group.add_argument("-a", "--agent", default="", metavar="AGENT", help="whose mailbox")


def connection_of(args: argparse.Namespace, *, agent: bool = True) -> Answers:
    """The server or the mailbox that the options name."""
    settings = settings_of(args)
    if not _means_mailbox(args, settings):
        return server_of(args, agent=agent)
    from parley.cli.parts.mailbox_decisions import MailboxAnswers

    return MailboxAnswers(args)


def _means_mailbox(args: argparse.Namespace, settings: Settings) -> bool:
    if args.home or args.project:
        return True
    sources = {one.name: one.source for one in settings.sources}
    if any(sources[name] != "default" for name in ("url", "key")):
        return False
    from parley.wiring import find_place

    try:
        find_place(settings)
    except ParleyError:
        return False
    return True
