"""`parley console`: a link to the pages of a server, or of a project's mailboxes, which works once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.parts.mailboxes import has_no_server, mailbox_place
from parley.cli.parts.remote import access_of, add_server_options, connection_of
from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--open", action="store_true", help="open it in your browser; other users of this machine may see the link"
    )
    group = parser.add_argument_group("mailboxes")
    group.add_argument("-p", "--project", default="", help="show the mailboxes of this project, without a server")
    group.add_argument("--home", default="", help="directory of all projects (default: see parley config)")
    group.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="port of the mailbox pages on this machine (default: any)"
    )
    add_server_options(parser, agent=False)


def _console(args: argparse.Namespace) -> int:
    if args.project or args.home or args.port:
        from parley.cli.server.mailbox_console import serve_mailboxes

        return serve_mailboxes(args)
    try:
        return _print_server_link(args)
    except ParleyError as error:
        if not has_no_server(error, args) or mailbox_place(settings_of(args)) is None:
            raise
    from parley.cli.server.mailbox_console import serve_mailboxes

    return serve_mailboxes(args)


def _print_server_link(args: argparse.Namespace) -> int:
    link = connection_of(args, agent=False).send("POST", "sessions", "once").document
    url, screen = f"{access_of(args).url}/console/login#once={link['once']}", screen_of(args)
    if args.open:
        import webbrowser

        webbrowser.open(url)
    if args.json:
        screen.json({"url": url, "expires_at": link["expires_at"]})
    else:
        # Not wrapped: it is copied, or clicked.
        screen.line(f"Open {url}")
        screen.line("It signs you in once, within ten minutes.")
    return OK


COMMANDS = {
    "console": Command(
        "Open a server, or a project's mailboxes, in a browser",
        _add_arguments,
        _console,
        ("parley console", "parley console --open", "parley console --project demo", "parley console --json"),
    ),
}
