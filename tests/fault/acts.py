"""What a fresh process does on a stage: one act, its answers written line by line to a file.

The stage imports everything once and forks for each act, so that an act costs milliseconds and its system calls
are its own. An act waits at its gate, so that a tracer can be attached before the part that counts.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import parley
from parley import wiring
from parley.app.mailbox import claims, read, sending
from parley.app.mailbox.kernel import Kernel
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.errors import ParleyError
from parley.domain.mailbox.delivery import Status
from parley.domain.message.compose import compose
from parley.domain.message.message import Draft, Kind, Priority
from parley.domain.times import Instant
from parley.settings import Settings, load
from tests.fault.history import body_of, tag_of

_PR_SET_PTRACER = 0x59616D61
_ANYBODY = ctypes.c_ulong(-1)


class Play(NamedTuple):
    """One act's surroundings."""

    home: str
    agent: str
    options: dict[str, Any]
    gate: Callable[[], None]
    say: Callable[[str], None]

    def settings(self) -> Settings:
        return load(self.options.get("settings", {}), {})

    def kernel(self) -> Kernel:
        kernel = wiring.open_kernel(
            self.home, "demo", self.agent, self.settings(), use_tmpfile=self.options.get("use_tmpfile", True)
        )
        if self.options.get("later"):
            kernel.clock = Later(kernel.clock.now, timedelta(seconds=self.options["later"]))
        return kernel

    def draft(self, tag: str) -> Draft:
        priority = Priority.P0 if tag == self.options.get("urgent") else Priority.P2
        sender = self.options.get("sender", self.agent)
        wishes = Wishes(purpose=Purpose.INFORMATION_QUERY) if self.options.get("governed") else None
        return Draft(sender, tuple(self.options["to"]), Kind.NOTIFICATION, tag, body_of(tag), priority, wishes=wishes)

    def leave(self, kernel: Kernel) -> None:
        """Close what is open, except where the act is to end with its last word."""
        if not self.options.get("abrupt"):
            kernel.close()

    @property
    def lease(self) -> timedelta | None:
        seconds = self.options.get("lease")
        return timedelta(seconds=seconds) if seconds else None


class Later(NamedTuple):
    """A clock that is ahead."""

    real: Callable[[], Instant]
    ahead: timedelta

    def now(self) -> Instant:
        real = self.real()
        return real._replace(at=real.at + self.ahead, uptime=real.uptime + self.ahead.total_seconds())


def send(play: Play) -> None:
    """Send each tag; `ok` when a send has returned."""
    kernel = play.kernel()
    play.gate()
    for tag in play.options["tags"]:
        try:
            wiring.drive(sending.send(kernel, play.draft(tag)))
        except ParleyError as error:
            play.say(f"error {error.code} {error.message}")
        else:
            play.say(f"ok {tag}")
    play.leave(kernel)


def deliver(play: Play) -> None:
    """Carry files without a ledger, under the names that are given: what another tool, or a recovery, does."""
    kernel = play.kernel()
    play.gate()
    for name, tag in play.options["files"]:
        try:
            wiring.drive(kernel.courier.deliver(play.options["to"][0], name, _content(kernel, play, tag)))
        except ParleyError as error:
            play.say(f"error {error.code} {error.message}")
        else:
            play.say(f"ok {tag}")


def _content(kernel: Kernel, play: Play, tag: str) -> bytes:
    now = kernel.clock.now().at
    return kernel.format.encode(compose(play.draft(tag), f"msg-{tag}", now, None))


def claim(play: Play) -> None:
    """`next`, once; the process lives on until its answer is written."""
    kernel = play.kernel()
    play.gate()
    claimed = wiring.drive(claims.claim_next(kernel, play.lease))
    play.say(f"ok {tag_of(claimed.message)}" if claimed else "nothing")
    kernel.close()


def done(play: Play) -> None:
    """`next` before the gate, `done` behind it."""
    kernel = play.kernel()
    claimed = wiring.drive(claims.claim_next(kernel, play.lease))
    assert claimed is not None
    tag = tag_of(claimed.message)
    play.say(f"claimed {tag}")
    play.gate()
    finished = wiring.drive(
        claims.done(kernel, claimed.message.id, delete=bool(play.options.get("delete")), token=claimed.lease.token)
    )
    play.say(f"ok {tag} {finished.how}")
    play.leave(kernel)


def drain(play: Play) -> None:
    """`next` and `done` until nothing waits."""
    kernel = play.kernel()
    play.gate()
    while claimed := wiring.drive(claims.claim_next(kernel, play.lease)):
        tag = tag_of(claimed.message)
        doubts = "".join(f" {doubt.code}" for doubt in claimed.doubts)
        wiring.drive(claims.done(kernel, claimed.message.id, token=claimed.lease.token))
        play.say(f"ok {tag}{doubts}")
    kernel.close()


def pending(play: Play) -> None:
    """Files of this side's sends that are not settled."""
    kernel = play.kernel()
    for delivery in wiring.drive(kernel.store.deliveries(Status.PENDING)):
        play.say(f"pending {delivery.file}")


def init(play: Play) -> None:
    wiring.create_project(play.home, "demo", tuple(play.options["agents"]), shared=play.options["shared"])
    play.say("ok")


def listing(play: Play) -> None:
    for item in wiring.drive(read.inbox(play.kernel())):
        play.say(f"ok {item.subject or item.file} {item.problem}".rstrip())


def poke(play: Play) -> None:
    """Plain system calls, each answered by `ok` or the name of its error."""
    for call, *arguments in play.options["calls"]:
        try:
            _POKES[call](*arguments)
        except OSError as error:
            play.say(f"{call} {os.strerror(error.errno or 0)}")
        else:
            play.say(f"{call} ok")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


_POKES: dict[str, Callable[..., object]] = {
    "list": os.listdir,
    "unlink": os.unlink,
    "rename": os.rename,
    "link": os.link,
    "write": _write,
    "chmod": os.chmod,
}

ACTS: dict[str, Callable[[Play], None]] = {
    act.__name__: act for act in (send, deliver, claim, done, drain, pending, init, listing, poke)
}


def serve() -> None:
    """Fork for each line of standard input; answer with the process id, then with its exit status."""
    for module in pkgutil.walk_packages(parley.__path__, "parley."):
        if not module.name.startswith("parley.cli"):  # so that no act imports anything, also not as another user
            importlib.import_module(module.name)
    for name in ("hashlib", "json", "shutil", "tomllib"):
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            os._exit(perform(order))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def perform(order: dict[str, Any]) -> int:
    """0 when the act came to its end, also by an error of Parley's; 1 for anything nobody expected."""
    out = os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    gate_fd = os.open(order["gate"], os.O_RDWR | os.O_CLOEXEC) if order["gate"] else -1
    if "umask" in order:
        os.umask(order["umask"])
    if order.get("user"):
        user, group, others = order["user"]
        os.setgroups(others)
        os.setgid(group)
        os.setuid(user)

    def gate() -> None:
        if gate_fd >= 0:
            os.write(out, b"at the gate\n")
            os.read(gate_fd, 1)

    def say(text: str) -> None:
        with contextlib.suppress(OSError):  # where an error was injected into this very call: nobody heard it
            os.write(out, f"{text}\n".encode())

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
    try:
        ACTS[order["act"]](Play(order["home"], order["agent"], order["options"], gate, say))
    except ParleyError as error:
        say(f"error {error.code} {error.message}")
    except Exception:  # noqa: BLE001  # the outermost frame of an act
        say("crash " + traceback.format_exc().replace("\n", " | "))
        return 1
    return 0
