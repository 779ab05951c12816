"""Processes as others see them: named by number and host, and known to have ended only on this host."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from parley.sdk.agent.process import has_ended, process_name


def an_ended_process() -> str:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return f"{ended.pid}@{process_name().partition('@')[2]}"


def test_a_process_is_named_as_the_server_accepts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "Zoë's laptop")
    assert process_name() == f"{os.getpid()}@Zo--s-laptop"
    monkeypatch.setattr(platform, "node", str)
    assert process_name() == f"{os.getpid()}@localhost"


def test_only_a_process_of_this_host_is_known_to_have_ended() -> None:
    host = process_name().partition("@")[2]

    assert has_ended(an_ended_process())
    assert has_ended(process_name())  # an earlier process of a container that had the same number
    assert [has_ended(process) for process in (f"1@{host}", "1@some-other-host", f"x@{host}", "None", "")] == [
        False
    ] * 5
