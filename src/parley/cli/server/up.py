"""`parley up`: start a server and run it until it is stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.cli.command import Command, add_json, settings_of
from parley.cli.exits import OK
from parley.cli.output import json_text
from parley.domain.errors.errors import BadConfig, Conflict, Invalid, NotFound, ParleyError
from parley.settings import data_directory, unknown_variables, without_password

if TYPE_CHECKING:
    import argparse
    from ssl import SSLContext

    from parley.app.team.team import Team
    from parley.settings import Settings

ADMIN_KEY_MIN_CHARS = 32
_ADMIN_KEY_DIFFERENT_CHARS = 8


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    import argparse

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
    parser.add_argument(
        "--new-admin-key", action="store_true", help="create one more admin key, if the others were lost, and save it"
    )
    parser.add_argument(
        "--save",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="save a new admin key for commands and programs of this user (default: on this machine only, and not with "
        "--json or --ephemeral)",
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
    if args.new_admin_key and settings.admin_key:
        source = settings.source_of("admin_key")
        raise Invalid(f"--new-admin-key and {source} exclude each other", hint="leave one of them out")
    if args.ephemeral and settings.store:
        raise Invalid("--ephemeral and --store exclude each other", hint="leave one of them out")
    if args.ephemeral:
        with tempfile.TemporaryDirectory(prefix="parley-") as folder:
            _run(args, settings, folder, host, port, context)
    else:
        data = data_directory(settings)
        try:
            _run(args, settings, data, host, port, context)
        except Conflict as error:
            _name_running_server(error, settings, data)
            raise


def _name_running_server(error: Conflict, settings: Settings, data: str) -> None:
    """Say where the server is that already runs on the data directory, as a saved login knows it."""
    from contextlib import suppress

    from parley.domain.directory.callers import KeyKind
    from parley.login_wiring import login_file

    with suppress(ParleyError):  # it is only a hint
        saved = login_file(settings).load()
        own = [login for login in saved.logins if login.data == data]
        # The one in use, else the admin's.
        own.sort(key=lambda login: (login.name != saved.current, login.kind != KeyKind.ADMIN))
        login = own[0] if own else None
        if login is not None and error.message.startswith("a server is running"):
            error.hint = f'use it at {login.url} (context "{login.name}"), {error.hint}'


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
    if not args.json:
        _write(["Stopped. Nothing that was acknowledged is lost."])


async def _serve(
    args: argparse.Namespace, settings: Settings, data: str, host: str, port: int, context: SSLContext | None
) -> None:
    import asyncio
    import gc
    import signal

    from parley import wiring
    from parley.app.team.directory import keys
    from parley.app.team.work import background
    from parley.cli.server.stopping import shut_down
    from parley.domain.names import is_loopback
    from parley.surfaces.console.loading import load_console
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
            reach=server.Reach(names, args.behind_proxy, settings.trusted_proxies, context),
            limited=not is_loopback(host),
            pages=load_console,
        )
        opened.team.nodes.url = _url(context, host, listener.port)
        await background.heartbeat(opened.team)
        # Only once the server can be reached: a key that is created must be printed.
        admin_key = None if settings.admin_key else await keys.first_start(opened.team, "")
        if args.new_admin_key and admin_key is None:
            admin_key = await keys.add_operator_key(opened.team)
        opened.team.nodes.starting = False
        opened.outbound.avoid(listener.port, names - LOCAL_NAMES)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, opened.team.policies.look.set)
        jobs = [asyncio.ensure_future(job) for job in background.jobs(opened.team, opened.outbound)]
        await _print_address(args, settings, opened.team, admin_key, data)
        gc.freeze()  # what is loaded so far stays: the collector need not scan it again
        await stop.wait()
        if not args.json and sys.stdout.isatty():
            _write(["Stopping: open requests are answered first."])
        await shut_down(opened.team, listener, jobs, linger=int(settings.linger))


def _url(context: SSLContext | None, host: str, port: int) -> str:
    address = f"[{host}]" if ":" in host else host
    return f"{'https' if context else 'http'}://{address}:{port}"


async def _print_address(
    args: argparse.Namespace, settings: Settings, team: Team, admin_key: str | None, data: str
) -> None:
    """Print the address of the server, and what became of the admin key: saved, or shown this once."""
    from parley.app.team.directory import keys
    from parley.cli.parts.own_login import OwnLogin, describe_own_login, find_own_login, save_own_login, saved_keys
    from parley.domain.logins import OwnServer

    url, place = team.nodes.url, without_password(settings.store) or data
    saves, own, is_valid = _saves_login(args, settings), OwnLogin(), True
    if saves:
        accepted = {key for key in saved_keys(settings, place) if await keys.find_valid(team, key)}
        server = OwnServer(url, place, frozenset(accepted), shared=bool(settings.store))
        if admin_key:
            key = await keys.find_valid(team, admin_key)
            own = save_own_login(settings, server, admin_key, key.id if key else "")
        else:
            own = find_own_login(settings, server)
            is_valid = own.login is not None and await keys.find_valid(team, own.login.key) is not None
    if args.json:
        document = {"url": url, "admin_key": admin_key, "data": data}
        document |= {"context": own.login.name} if own.login else {}
        _write([json_text({**document, "store": place} if settings.store else document)])
        return
    lines = [f"Parley is up at {url}", f"API: {url}/api/v1  Reference: {url}/docs", f"Data in {place}"]
    if saves:
        lines += describe_own_login(own, url, is_new=admin_key is not None, is_valid=is_valid)
    if admin_key and own.login is None:
        lines += ["", f"  Admin key: {admin_key}  (save it; it is not shown again)", ""]
        lines += [f"Try: export PARLEY_URL={url} PARLEY_KEY={admin_key}", "     parley intent create 'First steps'"]
    elif admin_key:
        lines.append("Try: parley intent create 'First steps'")
    lines.append(await _console_line(team, admin_key or (own.login.key if own.login else "")))
    _write([*lines, "Stop with Ctrl-C."])


async def _console_line(team: Team, secret: str) -> str:
    """Where the pages are. On a terminal it is a link that signs in once; logs keep no secrets."""
    from parley.app.team.directory import keys, sessions

    key = await keys.find_valid(team, secret) if secret and sys.stdout.isatty() else None
    if key is None:
        return f"Console: {team.nodes.url}/console"
    link = await sessions.issue_link_of(team, key)
    return f"Console: {team.nodes.url}/console/login#once={link.secret} (once, within ten minutes)"


def _saves_login(args: argparse.Namespace, settings: Settings) -> bool:
    """Whether the admin key is saved for this user. Programs read it from --json, and what is ephemeral has no use."""
    from parley.domain.names import is_loopback

    if args.save is not None:
        return bool(args.save)
    return is_loopback(settings.host) and not args.json and not args.ephemeral


def _write(lines: list[str]) -> None:
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
            "parley up --new-admin-key",
            "parley up --ephemeral --json",
            "parley up --store postgresql://parley@db.example/parley --node a",
            "parley up --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem",
        ),
    ),
}
