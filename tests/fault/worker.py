"""The processes of the fault tests: senders, readers, an observer, and a stage that forks a fresh process for each act.

    worker.py send    HOME AGENT TO CLIENT HISTORY COUNT     COUNT messages; 0: until standard input ends
    worker.py read    HOME AGENT CLIENT HISTORY LEASE        until standard input has ended and nothing waits
    worker.py observe HOME AGENT CLIENT HISTORY              reads every file that ever shows in an inbox
    worker.py stage                                          see `tests.fault.acts`

PARLEY_TEST_MUTANT names a deliberately broken build from `tests.fault.mutants`.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable

from parley import LeaseLost, Mailbox
from parley.domain.errors.errors import ParleyError
from tests.fault.history import Recorder, body_of, tag_of

# Whether senders put what they send under the rules of an exchange.
RULES = {"exchange_type": "information_query"} if os.environ.get("PARLEY_TEST_RULES") else None
# A sender that goes on until it is told to stop waits while more messages than this wait for readers. Each claim looks
# at all of them, so where senders are faster than readers, these would not come to an end.
BACKLOG = 500


def send(home: str, agent: str, to: str, client: str, history: str, count: str) -> None:
    recorder = Recorder(history, client)
    mailbox = Mailbox("demo", agent=agent, home=home)
    ready()
    number = 0
    while number < int(count) or (count == "0" and not input_ended(0.01)):
        if count == "0" and any(len(os.listdir(_inbox(home, receiver))) > BACKLOG for receiver in to.split(",")):
            continue
        tag = f"{client}-{number:04d}"
        recorder.note("send", "invoke", tag, to)
        try:
            message = mailbox.send(to.split(","), "notification", tag, body_of(tag), rules=RULES)
        except ParleyError as error:
            recorder.note("send", "fail", tag, error.code)
        else:
            recorder.note("send", "ok", tag, message.id)
        number += 1


def read(home: str, agent: str, client: str, history: str, lease: str) -> None:
    recorder = Recorder(history, client)
    mailbox = Mailbox("demo", agent=agent, home=home)
    ready()
    ended = False
    while True:
        ended = ended or input_ended(0)
        asked = time.monotonic_ns()
        message = mailbox.next(lease or None)
        if message is None:
            # What a killed reader had under a lease returns when that is over.
            if ended and not (lease and mailbox.inbox()):
                return
            select.select([] if ended else [sys.stdin], [], [], 0.01)
            continue
        tag = tag_of(message)
        recorder.note("claim", "ok", tag, agent, asked)
        try:
            mailbox.done(message.id)
        except LeaseLost as error:
            recorder.note("done", "fail", tag, error.code)
        else:
            recorder.note("done", "ok", tag, agent)


def observe(home: str, agent: str, client: str, history: str) -> None:
    """Look at everything in the inbox as a tool does that knows no locks; note what is not whole."""
    recorder = Recorder(history, client)
    format_ = Mailbox("demo", agent=agent, home=home).kernel.format
    inbox = _inbox(home, agent)
    seen: set[tuple[str, int]] = set()
    ready()
    while not input_ended(0.002):
        for entry in os.scandir(inbox):
            if not entry.name.endswith(".yaml") or (entry.name, entry.inode()) in seen:
                continue
            try:
                with open(entry.path, "rb") as file:
                    tag = tag_of(format_.decode(file.read()))
            except FileNotFoundError:
                continue
            except ParleyError as error:
                tag = f"torn {entry.name}: {error.code}"
            seen.add((entry.name, entry.inode()))
            if tag.startswith("torn"):
                recorder.note("observe", "ok", tag, agent)
    recorder.note("observed", "ok", "", str(len(seen)))


def input_ended(patience: float) -> bool:
    """Whether whoever started this process closed its standard input."""
    readable, _, _ = select.select([sys.stdin], [], [], patience)
    return bool(readable) and not os.read(0, 1)


def _inbox(home: str, agent: str) -> str:
    return os.path.join(home, "projects", "demo", "agents", agent, "inbox")


def ready() -> None:
    os.write(1, b"ready\n")


ROLES: dict[str, Callable[..., None]] = {"send": send, "read": read, "observe": observe}


def main(role: str, *arguments: str) -> None:
    mutant = os.environ.get("PARLEY_TEST_MUTANT", "")
    if mutant:
        from tests.fault import mutants

        mutants.break_like(mutant)
    if role == "stage":
        from tests.fault import acts

        acts.serve()
    else:
        ROLES[role](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
