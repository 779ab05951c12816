"""`parley demo`: a server with people and agents on it that leaves nothing behind.

folder ──> server ──> people, agents, policy ──> first round ──> links ──> rounds ... signal, time, terminal gone
  └──────────────────────────── removed when it ends ────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.command import Command, add_json
from parley.cli.exits import OK
from parley.cli.output import json_text
from parley.domain.errors.errors import Invalid
from parley.domain.times import parse_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Coroutine

    from parley.cli.demo.narration import Narrator
    from parley.cli.demo.story import Story
    from parley.sdk.client.client import AsyncClient

_DEFAULT_LENGTH = "1h"
_DRAIN_SECONDS = 2.0
_HOST = "127.0.0.1"
_ADMIN = "admin"


class DemoServer(NamedTuple):
    """The server of the demo, and the key of its admin."""

    url: str
    port: int
    admin_key: str


class Visitor(NamedTuple):
    """Somebody for whom the demo prints a link. Each has a host name of their own, and so a cookie of their own."""

    name: str
    about: str
    client: AsyncClient


class Demo(NamedTuple):
    """The server, who gets a link to it, the clients of the agents by name, and what they play."""

    server: DemoServer
    visitors: list[Visitor]
    agents: dict[str, AsyncClient]
    story: Story


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="length",
        default=_DEFAULT_LENGTH,
        metavar="DURATION",
        help=f"end after this time, at most an hour (default: {_DEFAULT_LENGTH})",
    )
    add_json(parser)


def _demo(args: argparse.Namespace) -> int:
    import uvloop

    from parley.cli.demo.agents import DECISION_SECONDS

    seconds = parse_duration(args.length).total_seconds()
    if seconds > DECISION_SECONDS:
        raise Invalid(f"--for {args.length} is too long", hint=f"the demo runs for at most {_DEFAULT_LENGTH}")
    os.umask(0o077)
    uvloop.run(_run(args, seconds))
    return OK


async def _run(args: argparse.Namespace, seconds: float) -> None:
    import tempfile

    from parley.cli.demo.narration import Narrator

    stop = asyncio.Event()
    # Before the folder is made: what ends the process removes it.
    _stop_on_signals(stop)
    narrator = Narrator(stop, is_silent=args.json)
    with tempfile.TemporaryDirectory(prefix="parley-demo-") as folder:
        # No settings file of a repository counts here: it could name a database.
        os.chdir(folder)
        try:
            await _until(stop, _play(args, folder, narrator, seconds))
        finally:
            os.chdir("/")
    if not args.json:
        narrator.write(["The demo has ended, and nothing of it is left."])


def _stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup lets a command outlive its terminal.
        if signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _until(stop: asyncio.Event, play: Coroutine[None, None, None]) -> None:
    """Play until it ends, or until somebody stops it; what it fails with is raised."""
    playing, stopping = asyncio.ensure_future(play), asyncio.ensure_future(stop.wait())
    await asyncio.wait((playing, stopping), return_when=asyncio.FIRST_COMPLETED)
    playing.cancel()
    stopping.cancel()
    with suppress(asyncio.CancelledError):
        await playing


async def _play(args: argparse.Namespace, folder: str, narrator: Narrator, seconds: float) -> None:
    async with open_demo(folder, narrator) as demo:
        await demo.story.begin(demo.agents)
        await _print_beginning(args, demo.server, demo.visitors, narrator)
        works = [demo.story.go_on()]
        if not args.json and _can_ask_for_links():
            works.append(_print_fresh_links(demo.server, demo.visitors, narrator))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*works)


@asynccontextmanager
async def open_demo(folder: str, narrator: Narrator) -> AsyncIterator[Demo]:
    """The server with its people, agents and policy, before the story begins; the agents are stopped at the end."""
    from parley.cli.demo.story import INTENT, PEOPLE, POLICY, Story
    from parley.sdk.client.client import AsyncClient

    async with _serve(folder) as server, AsyncExitStack() as stack:

        async def client(key: str) -> AsyncClient:
            return await stack.enter_async_context(AsyncClient(server.url, key=key).as_agent(""))

        admin = await client(server.admin_key)
        await admin.put_policy("enterprise", "default", POLICY)
        agents: dict[str, AsyncClient] = {}
        visitors: list[Visitor] = []
        for person in PEOPLE:
            for agent in person.agents:
                await admin.register_agent(agent, user_id=person.name, org_unit=person.org_unit)
                agents[agent] = await client((await admin.create_key("agent", agent_id=agent)).key)
            key = (await admin.create_key("human", user_id=person.name)).key
            about = f"{person.org_unit}, decides for {' and '.join(person.agents)}"
            visitors.append(Visitor(person.name, about, await client(key)))
        visitors.append(Visitor(_ADMIN, "sees everything, decides nothing", admin))
        owner, *others = agents
        intent = await agents[owner].create_intent(INTENT, status="active", access=others)
        story = Story(narrator, intent.id)
        try:
            yield Demo(server, visitors, agents, story)
        finally:
            await story.end()


@asynccontextmanager
async def _serve(folder: str) -> AsyncIterator[DemoServer]:
    """A server on a free port of this machine, with its data in the folder and the settings of nobody."""
    from parley import settings as all_settings
    from parley import wiring
    from parley.app.team.directory import keys
    from parley.app.team.work import background
    from parley.cli.demo.story import PEOPLE
    from parley.cli.server.stopping import shut_down
    from parley.surfaces.console.loading import load_console
    from parley.surfaces.http import server

    # By itself it would have the name of the port that it would listen on without being told.
    settings = all_settings.load({"node": "demo"}, {"HOME": folder})
    names = ",".join([_host_of(name) for name in (*[person.name for person in PEOPLE], _ADMIN)])
    reach = server.Reach(server.names_of(_HOST, names, behind_proxy=False))
    async with wiring.open_team(settings, os.path.join(folder, "data"), durable=False) as opened:
        listener = await server.serve(
            opened.team,
            _HOST,
            0,
            now=wiring.wall_time,
            monotonic=wiring.monotonic,
            reach=reach,
            limited=False,
            pages=load_console,
        )
        opened.team.nodes.url = f"http://{_HOST}:{listener.port}"
        jobs = [asyncio.ensure_future(job) for job in background.jobs(opened.team, opened.outbound)]
        try:
            admin_key = await keys.first_start(opened.team, "")
            yield DemoServer(opened.team.nodes.url, listener.port, admin_key or "")
        finally:
            await shut_down(opened.team, listener, jobs, drain=_DRAIN_SECONDS)


def _host_of(name: str) -> str:
    """A name of this machine for one visitor: browsers keep the cookies of each name apart."""
    return f"{name}.localhost"


async def _print_beginning(
    args: argparse.Namespace, server: DemoServer, visitors: list[Visitor], narrator: Narrator
) -> None:
    links = await login_links(server, visitors)
    if args.json:
        narrator.begin([json_text({"url": server.url, "links": links})])
        return
    narrator.begin(
        [
            f"Parley demo at {server.url}: two departments, two people, four agents.",
            "",
            *_link_lines(visitors, links),
            "",
            "Open the links side by side. Each signs in once, within ten minutes.",
            *(["Press Enter for fresh ones."] if _can_ask_for_links() else []),
            f"Stop with Ctrl-C. The demo ends by itself after {args.length}, and leaves nothing behind.",
            "",
        ]
    )


async def login_links(server: DemoServer, visitors: list[Visitor]) -> dict[str, str]:
    """A link for each, which signs in once."""
    return {
        visitor.name: f"http://{_host_of(visitor.name)}:{server.port}/console/login"
        f"#once={(await visitor.client.create_login_link()).once}"
        for visitor in visitors
    }


def _link_lines(visitors: list[Visitor], links: dict[str, str]) -> list[str]:
    # Not wrapped: they are copied, or clicked.
    return [
        line for visitor in visitors for line in (f"  {visitor.name}, {visitor.about}:", f"    {links[visitor.name]}")
    ]


def _can_ask_for_links() -> bool:
    """Whether a person at a terminal can press Enter; in the background, reading would stop the process."""
    try:
        return sys.stdin is not None and sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


async def _print_fresh_links(server: DemoServer, visitors: list[Visitor], narrator: Narrator) -> None:
    """Print links again each time that Enter is pressed, until this is cancelled."""
    loop, pressed, terminal = asyncio.get_running_loop(), asyncio.Event(), sys.stdin.fileno()

    def read() -> None:
        if not _can_ask_for_links() or not os.read(terminal, 1024):
            loop.remove_reader(terminal)
        else:
            pressed.set()

    loop.add_reader(terminal, read)
    try:
        while await pressed.wait():
            pressed.clear()
            narrator.write(_link_lines(visitors, await login_links(server, visitors)))
    finally:
        loop.remove_reader(terminal)


COMMANDS = {
    "demo": Command(
        "Show people and agents at work, and leave nothing behind",
        _add_arguments,
        _demo,
        ("parley demo", "parley demo --for 10m", "parley demo --for 30s --json"),
    ),
}
