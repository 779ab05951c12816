"""A reader of a work queue as a process of its own, which notes when it begins and ends each job.

    python -m tests.fault.team.queue_worker NAME JOURNAL LEASE

The server is in PARLEY_URL and PARLEY_KEY. Says "ready" once it works.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from typing import Any

from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.running import serve_agents
from parley.wire.api.records.channels import ChannelMessage

CONCURRENCY = 4


def main(name: str, journal: str, lease: str) -> None:
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(what: str, message_id: str) -> None:
        # One clock for all processes of the machine.
        line = {"pid": os.getpid(), "at": time.monotonic(), what: message_id}
        os.write(descriptor, json.dumps(line).encode() + b"\n")

    @Agent(name, role="coder", concurrency=CONCURRENCY, lease=float(lease), start="now", drain=1)
    class Worker(BaseAgent):
        @on_message(kind="request")
        async def work(self, message: ChannelMessage) -> dict[str, Any]:
            note("begins", message.id)
            try:
                await asyncio.sleep(message.payload["seconds"])
            finally:
                note("ends", message.id)
            return {"n": message.payload["n"], "pid": os.getpid()}

    # A process that lost its tests ends, too.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()
    asyncio.run(serve_agents([Worker()], ready=lambda: print("ready", flush=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
