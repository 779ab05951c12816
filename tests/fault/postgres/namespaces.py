"""Nodes on machines of their own, as far as the network goes: each in a network namespace, with one cable to us.

    clients ── 198.18.N.1 ══ 198.18.N.2 ── node          the same cable, two networks: what is cut off from the
    PostgreSQL ── 198.19.N.1 ══ 198.19.N.2 ──┘            database can still be asked

A direction is cut by a route that leads nowhere: packets vanish without a word, as in a partition.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_IP = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin") or ""
_NUMBERS = range(1, 255)


class Taken(OSError):
    """Somebody else on this machine has it."""


class Namespace:
    """One node's network."""

    def __init__(self, number: int) -> None:
        self.name = f"parley-{os.getpid()}-{number}"
        self._link = f"parley{number}"
        self.node = f"198.18.{number}.2"
        self.database = f"198.19.{number}.1"
        self._node_for_database = f"198.19.{number}.2"
        self._ours = f"198.18.{number}.1"

    @property
    def before(self) -> tuple[str, ...]:
        """Put before a command, it runs in here."""
        return (_IP, "netns", "exec", self.name)

    def make(self) -> None:
        """`Taken` when others have its number; OSError when it cannot be made, by this account or in this place."""
        _ip("netns", "add", self.name)
        try:
            # Whoever has the cable has the number, and its addresses: the others are refused here.
            _ip("link", "add", self._link, "type", "veth", "peer", "name", "uplink", "netns", self.name)
        except OSError:
            _ip("netns", "del", self.name)
            raise
        try:
            self._plug_in()
        except OSError:
            self.remove()
            raise

    def _plug_in(self) -> None:
        for address in (self._ours, self.database):
            _ip("addr", "add", f"{address}/30", "dev", self._link)
        _ip("link", "set", self._link, "up")
        for address in (self.node, self._node_for_database):
            _ip("-n", self.name, "addr", "add", f"{address}/30", "dev", "uplink")
        for device in ("lo", "uplink"):
            _ip("-n", self.name, "link", "set", device, "up")

    def cut(self, *, there: bool = True, back: bool = True) -> None:
        """From now on nothing gets from the node to the database, or back, or neither."""
        if there:
            _ip("-n", self.name, "route", "add", "blackhole", self.database)
        if back:
            _ip("route", "add", "blackhole", self._node_for_database)

    def heal(self) -> None:
        """Everything gets through again."""
        with suppress(OSError):
            _ip("-n", self.name, "route", "del", "blackhole", self.database)
        with suppress(OSError):
            _ip("route", "del", "blackhole", self._node_for_database)

    def remove(self) -> None:
        """Take all of it away, as far as it is there. Its end of the cable takes ours along."""
        self.heal()
        for command in (("link", "del", self._link), ("netns", "del", self.name)):
            with suppress(OSError):
                _ip(*command)


@contextmanager
def namespaces(count: int) -> Iterator[list[Namespace]]:
    """So many. OSError when this place has none to give."""
    made: list[Namespace] = []
    numbers = random.SystemRandom().sample(_NUMBERS, len(_NUMBERS))
    try:
        for number in numbers:
            if len(made) == count:
                break
            one = Namespace(number)
            with suppress(Taken):
                one.make()
                made.append(one)
        if len(made) < count:
            raise OSError("others have all numbers")
        yield made
    finally:
        for one in made:
            one.remove()


def _ip(*arguments: str) -> str:
    if not _IP:
        raise OSError("there is no `ip` here: install iproute2")
    done = subprocess.run([_IP, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        kind = Taken if "File exists" in done.stderr else OSError
        raise kind(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
