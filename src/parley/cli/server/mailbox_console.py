"""`parley console` on a project's mailboxes: pages on this machine, until Ctrl-C."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.cli.command import screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import json_text
from parley.wiring import SystemClock, SystemIds, find_home, find_project, monotonic, open_project_reader, wall_time

if TYPE_CHECKING:
    import argparse

    from parley.app.mailbox.overview import ProjectReader

_HOST = "127.0.0.1"
# A person at a browser needs no more.
_CONNECTIONS_MAX = 64
_BODY_BYTES_MAX = 4_096
_DRAIN_SECONDS = 1.0


def serve_mailboxes(args: argparse.Namespace) -> int:
    """Serve the pages of the project that the options name, and print the link that opens them once."""
    import asyncio

    settings = settings_of(args)
    home = find_home(settings).value
    project = open_project_reader(home, find_project(settings, home).value, settings)
    project.readers()  # a project that is not there is an error now
    asyncio.run(_serve(args, project))
    if not args.json:
        screen_of(args).line("Stopped.")
    return OK


async def _serve(args: argparse.Namespace, project: ProjectReader) -> None:
    import asyncio
    import signal

    from parley.domain.errors.errors import Unavailable
    from parley.surfaces.http.http1.listener import listen
    from parley.surfaces.http.http1.message import HttpLimits
    from parley.surfaces.http.problem import problem
    from parley.surfaces.mailbox_console.console import MailboxConsole, Secrets

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ids, clock = SystemIds(), SystemClock()
    secrets = Secrets(ids.secret(), ids.secret())
    console = MailboxConsole(project, secrets, now=lambda: clock.now().at, monotonic=monotonic)
    limits = HttpLimits(body_bytes=_BODY_BYTES_MAX, connections=_CONNECTIONS_MAX)
    try:
        listener = await listen(console, _HOST, args.port, limits=limits, problem=problem, now=wall_time)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise Unavailable(f"cannot listen on port {args.port}: {reason}", hint="name another --port") from None
    url = f"http://{_HOST}:{listener.port}/console/login#once={secrets.link}"
    _print_link(args, project.name, url)
    await stop.wait()
    await listener.drain(_DRAIN_SECONDS)


def _print_link(args: argparse.Namespace, project: str, url: str) -> None:
    if args.open:
        import webbrowser

        webbrowser.open(url)
    if args.json:
        sys.stdout.write(json_text({"url": url, "project": project}) + "\n")
    else:
        screen = screen_of(args)
        # Not wrapped: it is copied, or clicked.
        screen.line(f"Open {url}")
        screen.prose(f"It shows the mailboxes of {project} and changes nothing. It works once, within ten minutes.")
        screen.line("Stop with Ctrl-C.")
    sys.stdout.flush()
