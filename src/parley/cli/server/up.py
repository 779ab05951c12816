"""`parley up`: start a server and run it until it is stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.cli.command import Command, add_json, settings_of
from parley.cli.exits import OK
from parley.cli.output import json_text
from parley.domain.errors.errors import BadConfig, Invalid, NotFound, ParleyError, Unavailable
from parley.settings import data_directory, unknown_variables, without_password

if TYPE_CHECKING:
    import argparse
    import asyncio
    from ssl import SSLContext

    from parley.app.team.team import Team
    from parley.settings import Settings
    from parley.surfaces.http.http1.listener import Listener

_DRAIN_SECONDS = 10.0
ADMIN_KEY_MIN_CHARS = 32
_ADMIN_KEY_DIFFERENT_CHARS = 8
# Open long polls are answered with "stopping" this long before the end.
_ANSWER_BEFORE_END_SECONDS = 2.0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", default="", help="port to listen on; 0 for any free port (default: 8420)")
    parser.add_argument("--host", default="", help="address to listen on (default: 127.0.0.1, this machine only)")
    parser.add_argument("--data", default="", metavar="DIR", help="data directory (default: see parley config)")
    parser.add_argument(
        "--store",
        default="",
        metavar="URL",
        help="PostgreSQL database to share with other servers, instead of a file in --data",
    )
    parser.add_argument(
        "--node",
        default="",
        metavar="NAME",
        help="name of this server among those that share the database (default: machine and port)",
    )
    parser.add_argument(
        "--linger",
        default="",
        metavar="SECONDS",
        help="keep serving for this many seconds after a stop signal, reporting not ready (default: 0)",
    )
    parser.add_argument("--ephemeral", action="store_true", help="keep data only until the server stops")
    parser.add_argument("--tls-cert", default="", metavar="FILE", help="certificate for https")
    parser.add_argument("--tls-key", default="", metavar="FILE", help="private key of the certificate")
    parser.add_argument(
        "--behind-proxy", action="store_true", help="allow plain http, since a proxy in front of this server encrypts"
    )
    parser.add_argument(
        "--allow-root", action="store_true", help="allow running as root on an address that other machines can reach"
    )
    add_json(parser)


def _up(args: argparse.Namespace) -> int:
    from parley.cli.parts.log_lines import logging_as_json

    with logging_as_json():
        _begin(args)
    return OK


def _begin(args: argparse.Namespace) -> None:
    import gc
    import os
    import tempfile

    from parley.surfaces.http import server

    settings = settings_of(args)
    host, port = settings.host, _port(settings)
    _check_variables()
    _check_admin_key(settings)
    _check_approval_mailboxes(settings)
    context = server.tls_context(args.tls_cert, args.tls_key)
    root = os.geteuid() == 0 and not args.allow_root
    server.check_exposure(host, encrypted=context is not None, behind_proxy=args.behind_proxy, root=root)
    os.umask(0o077)
    # A server runs long, unlike other commands. Each message allocates some hundred objects and keeps few of them.
    gc.set_threshold(5_000, 10, 10)
    gc.enable()
    if args.ephemeral and settings.store:
        raise Invalid("--ephemeral and --store exclude each other", hint="leave one of them out")
    if args.ephemeral:
        with tempfile.TemporaryDirectory(prefix="parley-") as folder:
            _run(args, settings, folder, host, port, context)
    else:
        _run(args, settings, data_directory(settings), host, port, context)


def _port(settings: Settings) -> int:
    text = settings.port
    if not text.isascii() or not text.isdigit() or int(text[:6]) > 65_535:
        source = settings.source_of("port")
        kind, where = (Invalid, "--port") if source == "flag" else (BadConfig, source)
        raise kind(f"{where}: {text[:20]!r} is not a port", hint="use a number from 0 to 65535")
    return int(text)


def _check_variables() -> None:
    """Refuse a variable that looks like a misspelt setting: what it should limit or protect would be missing."""
    import logging

    for variable, hint in unknown_variables().items():
        if hint:
            raise BadConfig(f"${variable} is not a setting", hint=hint)
        extra = {"action": "settings", "variable": variable}
        logging.getLogger("parley.settings").warning("ignored a variable that is not a setting", extra=extra)


def _check_admin_key(settings: Settings) -> None:
    """Refuse an admin key that could be guessed, or that no header can carry."""
    key = settings.admin_key
    if not key:
        return
    if len(key) < ADMIN_KEY_MIN_CHARS:
        flaw = f"an admin key has at least {ADMIN_KEY_MIN_CHARS} characters"
    elif not all("!" <= character <= "~" for character in key):
        flaw = "an admin key has letters, digits and signs of ASCII only, no space and no line end"
    elif len(set(key)) < _ADMIN_KEY_DIFFERENT_CHARS:
        flaw = f"an admin key has at least {_ADMIN_KEY_DIFFERENT_CHARS} different characters"
    else:
        return
    raise BadConfig(f"{settings.source_of('admin_key')}: {flaw}", hint="make one with: openssl rand -base64 32")


def _check_approval_mailboxes(settings: Settings) -> None:
    """Refuse to start if it is unclear which mailboxes get the notifications about approvals."""
    from parley import wiring
    from parley.domain.errors.errors import Ambiguous

    if settings.approvals_project and not settings.approvals_home:
        raise BadConfig(
            f"{settings.source_of('approvals_project')}: approvals_project is set, but approvals_home is not",
            hint="set PARLEY_APPROVALS_HOME to the directory of its projects",
        )
    if settings.approvals_home and not settings.approvals_project:
        try:
            wiring.approvals_project(settings)
        except Ambiguous as error:
            source = settings.source_of("approvals_home")
            raise BadConfig(
                f"{source}: approvals_home is set, but approvals_project is not: {error.message}",
                hint="set PARLEY_APPROVALS_PROJECT to one of them",
            ) from None
        except NotFound:
            pass  # it may be created later; notifications are retried


def _run(
    args: argparse.Namespace, settings: Settings, data: str, host: str, port: int, context: SSLContext | None
) -> None:
    import uvloop

    uvloop.run(_serve(args, settings, data, host, port, context))


async def _serve(
    args: argparse.Namespace, settings: Settings, data: str, host: str, port: int, context: SSLContext | None
) -> None:
    import asyncio
    import gc
    import signal

    from parley import wiring
    from parley.app.team.directory import keys
    from parley.app.team.work import background
    from parley.domain.names import is_loopback
    from parley.surfaces.http import server
    from parley.surfaces.http.origins import LOCAL_NAMES

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    names = server.names_of(host, settings.allowed_hosts, behind_proxy=args.behind_proxy)
    async with wiring.open_team(settings, data, durable=not args.ephemeral) as opened:
        if settings.admin_key:
            await keys.first_start(opened.team, settings.admin_key)
        else:
            opened.team.nodes.starting = True
        listener = await server.serve(
            opened.team,
            host,
            port,
            now=wiring.wall_time,
            monotonic=wiring.monotonic,
            reach=server.Reach(names, args.behind_proxy, settings.trusted_proxies),
            limited=not is_loopback(host),
            ssl=context,
        )
        opened.team.nodes.url = _url(context, host, listener.port)
        await background.heartbeat(opened.team)
        # Only once the server can be reached: a key that is created must be printed.
        admin_key = None if settings.admin_key else await keys.first_start(opened.team, "")
        opened.team.nodes.starting = False
        opened.outbound.avoid(listener.port, names - LOCAL_NAMES)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, opened.team.policies.look.set)
        jobs = [asyncio.ensure_future(job) for job in background.jobs(opened.team, opened.outbound)]
        _print_address(args, opened.team.nodes.url, admin_key, data, settings.store)
        gc.freeze()  # what is loaded so far stays: the collector need not scan it again
        await stop.wait()
        await _shut_down(opened.team, listener, jobs, int(settings.linger))


async def _shut_down(team: Team, listener: Listener, jobs: list[asyncio.Task[None]], linger: int) -> None:
    """Stop gracefully: hand leases to other nodes, report not ready, answer open requests."""
    import asyncio
    from contextlib import suppress

    team.nodes.leaving = True
    if team.nodes.nodes is not None:
        await _cancel_jobs(jobs)
        with suppress(ParleyError):  # then the other nodes notice it by the missing heartbeat
            await team.nodes.leave()
    if linger:
        listener.leave()
        await asyncio.sleep(linger)
    team.tail.close()
    last = asyncio.get_running_loop().call_later(
        _DRAIN_SECONDS - _ANSWER_BEFORE_END_SECONDS, team.waits.fail, _stopping_error()
    )
    await listener.drain(_DRAIN_SECONDS)
    last.cancel()
    await _cancel_jobs(jobs)


async def _cancel_jobs(jobs: list[asyncio.Task[None]]) -> None:
    import asyncio

    for job in jobs:
        job.cancel()
    await asyncio.gather(*jobs, return_exceptions=True)


def _stopping_error() -> Unavailable:
    return Unavailable("this server is stopping", hint="retry with the same idempotency key")


def _url(context: SSLContext | None, host: str, port: int) -> str:
    address = f"[{host}]" if ":" in host else host
    return f"{'https' if context else 'http'}://{address}:{port}"


def _print_address(args: argparse.Namespace, url: str, admin_key: str | None, data: str, store: str) -> None:
    """Print the address of the server, and the admin key if one was created."""
    if args.json:
        document = {"url": url, "admin_key": admin_key, "data": data}
        lines = [json_text({**document, "store": without_password(store)} if store else document)]
    else:
        lines = [
            f"Parley is up at {url}  (API: {url}/api/v1, documentation: {url}/docs)",
            f"Data in {without_password(store) or data}",
        ]
        if admin_key:
            lines += ["", f"  Admin key: {admin_key}  (save it; it is not shown again)", ""]
            lines += [f"Try: export PARLEY_URL={url} PARLEY_KEY={admin_key}", "     parley intent create 'First steps'"]
        lines.append("Stop with Ctrl-C.")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


COMMANDS = {
    "up": Command(
        "Start a server for channels over HTTP",
        _add_arguments,
        _up,
        (
            "parley up",
            "parley up --port 9000 --data ./team",
            "parley up --ephemeral --json",
            "parley up --store postgresql://parley@db.example/parley --node a",
            "parley up --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem",
        ),
    ),
}
