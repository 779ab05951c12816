"""A signal ends a sleep at once, and anything else only when it is done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from parley.surfaces.hook.stops import Stopped, StopSignals


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_ends_a_sleep_at_once() -> None:
    stops = StopSignals(signal.SIGUSR1)
    child = os.fork()
    if not child:
        os.kill(os.getppid(), signal.SIGUSR1)
        os._exit(0)
    with pytest.raises(Stopped), stops.asleep():
        time.sleep(600)
    os.waitpid(child, 0)


def test_a_signal_before_a_sleep_is_remembered() -> None:
    stops = StopSignals(signal.SIGUSR1)
    stops.check()
    os.kill(os.getpid(), signal.SIGUSR1)

    with pytest.raises(Stopped):
        stops.check()
    with pytest.raises(Stopped), stops.asleep():
        time.sleep(600)
