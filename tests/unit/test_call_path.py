"""How many functions a newcomer reads to follow a message: measured, so that the path stays short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def spine(path: str) -> list[tuple[str, str]]:
    """The functions on the way, each with its file."""
    tool = [sys.executable, str(ROOT / "tools" / "trace_calls.py"), path]
    done = subprocess.run(tool, capture_output=True, text=True, check=True)
    hops = [line.split() for line in done.stdout.splitlines()[1:]]
    return [(place.partition(":")[0], name) for _, place, name in hops]


def test_a_plain_message_passes_few_functions_from_socket_to_stream() -> None:
    hops = spine("post")

    assert len(hops) <= 40
    assert len({file for file, _ in hops}) <= 20


def test_a_message_is_decided_in_three_functions_and_committed_by_one_call() -> None:
    hops = spine("post")

    assert [name for file, name in hops if file == "app/team/channels/posting.py"] == [
        "post",
        "decide_and_commit",
        "decide",
    ]
    assert "app/team/team.py" not in {file for file, _ in hops}
