"""Measuring: child processes with their wall time, CPU time and memory; calls in this process; always in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple


class Sample(NamedTuple):
    """Repetitions of one measurement."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        return median(self.values)

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def most(self) -> float:
        return max(self.values)


class Child(NamedTuple):
    """What one run of a command took; times in seconds."""

    wall: float
    cpu: float
    megabytes: float


class Runner:
    """Starts commands in a clean environment: no Python options, no agent's or user's settings."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "LANG": "C.UTF-8"}

    def run(self, command: list[str], output: str = os.devnull) -> Child:
        """Run a command to its end. Its memory is an upper bound: the kernel starts counting at this process's own."""
        redirect = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]
        began = time.perf_counter()
        pid = os.posix_spawn(command[0], command, self._environment, file_actions=redirect)
        _, status, usage = os.wait4(pid, 0)
        wall = time.perf_counter() - began
        if status:
            raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
        return Child(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)

    def output_of(self, command: list[str]) -> str:
        """The output of a command."""
        path = f"{self._folder}/output"
        self.run(command, path)
        with open(path, encoding="utf-8") as file:
            return file.read()

    def in_turns(self, times: int, *commands: list[str]) -> list[list[Child]]:
        """Run the commands in turns, each first once without counting; who begins changes from turn to turn."""
        for command in commands:
            self.run(command)
        runs: list[list[Child]] = [[] for _ in commands]
        for turn in range(times):
            order = range(len(commands)) if turn % 2 == 0 else reversed(range(len(commands)))
            for number in order:
                runs[number].append(self.run(commands[number]))
        return runs


def walls(runs: Sequence[Child]) -> Sample:
    return Sample(tuple(run.wall for run in runs))


def cpus(runs: Sequence[Child]) -> Sample:
    return Sample(tuple(run.cpu for run in runs))


def calls_in_turns(blocks: int, length: int, *calls: Callable[[], object]) -> list[Sample]:
    """Time single calls, in blocks of `length` that take turns."""
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    for block in range(blocks):
        order = range(len(calls)) if block % 2 == 0 else reversed(range(len(calls)))
        for number in order:
            for _ in range(length):
                began = time.perf_counter()
                calls[number]()
                times[number].append(time.perf_counter() - began)
    return [Sample(tuple(values)) for values in times]
