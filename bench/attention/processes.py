"""What Parley costs while nothing happens: a hook with an empty inbox, and the first answer of the MCP server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from statistics import median

from bench.attention.record import ProcessCost
from tests.harness.programs import PARLEY
from tests.harness.stage import HarnessStage, a_stage

HOOK, HOOK_WALL, MCP = "hook, CPU", "hook, wall", "mcp"
_EVENT = {"hook_event_name": "PostToolBatch", "session_id": "bench", "prompt_id": "1", "permission_mode": "default"}
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


def measure(runs: int) -> list[ProcessCost]:
    """Run each command several times, in turns."""
    hooks: list[tuple[float, float]] = []
    answers: list[float] = []
    with a_stage("claude") as stage:
        stage.place.set_up()
        for _ in range(runs + 1):
            hooks.append(_hook(stage))
            answers.append(_first_answer(stage))
    # The first of each reads its files from the disk.
    return [
        _cost(HOOK, [cpu for cpu, _ in hooks[1:]]),
        _cost(HOOK_WALL, [wall for _, wall in hooks[1:]]),
        _cost(MCP, answers[1:]),
    ]


def _cost(name: str, values: list[float]) -> ProcessCost:
    return ProcessCost(name, len(values), round(median(values), 4), round(min(values), 4), round(os.getloadavg()[0], 1))


def _hook(stage: HarnessStage) -> tuple[float, float]:
    """CPU and wall time of one hook between two tools, with nothing waiting."""
    path = stage.place.home.parent / "event.json"
    path.write_text(json.dumps({**_EVENT, "cwd": str(stage.place.repository)}))
    files = [
        (os.POSIX_SPAWN_OPEN, 0, str(path), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    # As Claude Code does, by a shell; it takes about a millisecond of the time.
    command = ["/bin/sh", "-c", f'cd "{stage.place.repository}" && exec "{PARLEY}" hook --for claude']
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, stage.place.environment, file_actions=files)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    if status:
        raise RuntimeError(f"the hook ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, wall


def _first_answer(stage: HarnessStage) -> float:
    """Seconds from the start of `parley mcp` to its first answer."""
    request = f"{json.dumps(_INITIALIZE)}\n".encode()
    began = time.perf_counter()
    with subprocess.Popen(
        [PARLEY, "mcp", "--for", "claude"],
        env=stage.place.environment,
        cwd=stage.place.repository,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None  # both are pipes
        assert server.stdout is not None
        server.stdin.write(request)
        server.stdin.flush()
        answer = server.stdout.readline()
        seconds = time.perf_counter() - began
        server.stdin.close()
    if b'"result"' not in answer:
        raise RuntimeError(f"not an answer: {answer!r}")
    return seconds
