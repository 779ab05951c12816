"""`parley audit verify` on an export of the audit log: every hash, chain, tree and signature computed again."""

from __future__ import annotations

import os
import shutil
import urllib.request

from bench.channels.processes import KEY, Server, load, parley_up
from bench.figures import Figure, Goal
from bench.governance.sends import conversation, set_up
from bench.measure import Sample, walls
from bench.workspace import PARLEY, Bench

_GOAL = Goal(">=", 20_000, "/s")
_CONNECTIONS = 64


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/verifying"
    os.mkdir(home)
    wanted = 20_000 if bench.quick else 100_000
    exported = f"{home}/audit.jsonl"
    with parley_up(f"{home}/data") as server, load() as clients:
        set_up(server)
        requests = conversation(server.channel("talk"))
        while (entries := _export(server, exported)) < wanted:
            # Two entries a message; half of what is missing, then the rest: nobody knows how fast it goes.
            seconds = max(0.5, (wanted - entries) / 10_000)
            clients.do(
                "closed_loop",
                port=server.port,
                requests=requests,
                connections=_CONNECTIONS,
                seconds=seconds,
                warm=0.0,
            )
    (runs,) = bench.runner.in_turns(bench.repeat(15), [PARLEY, "audit", "verify", exported])
    rate = Sample(tuple(entries / wall for wall in walls(runs).values))
    what = f"entries verified by `parley audit verify`, {entries:,} in the export"
    return [
        Figure("verifying", what, "/s", rate, goal=_GOAL),
        Figure("verifying", "  the whole command", "ms", walls(runs)),
        Figure("verifying", "  memory", "MB", Sample(tuple(run.megabytes for run in runs))),
    ]


def _export(server: Server, path: str) -> int:
    """Write the audit log to a file, as an admin gets it; how many entries it has."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/api/v1/audit/export", headers={"X-API-Key": KEY})
    with urllib.request.urlopen(request, timeout=120) as answer, open(path, "wb") as file:
        shutil.copyfileobj(answer, file)
    with open(path, "rb") as file:
        return sum(line.startswith(b'{"number"') for line in file)
