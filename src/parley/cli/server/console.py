"""`parley console`: a link to the pages of a server, which signs in once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.parts.remote import access_of, add_server_options, connection_of

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--open", action="store_true", help="open it in your browser; other users of this machine may see the link"
    )
    add_server_options(parser, agent=False)


def _console(args: argparse.Namespace) -> int:
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
        "Print a link that opens a server's pages in a browser",
        _add_arguments,
        _console,
        ("parley console", "parley console --open", "parley console --json"),
    ),
}
