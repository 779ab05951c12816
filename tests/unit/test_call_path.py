"""What has to be read to follow one POST from the socket to the disk and to a stream does not grow unseen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_HOPS = 36
MOST_FILES = 17


def test_a_plain_post_takes_no_more_hops_and_files_than_it_did() -> None:
    traced = subprocess.run(
        [sys.executable, "tools/trace_calls.py", "post"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    spine = re.search(r"spine +(\d+) hops +(\d+) files", traced.stdout)

    assert spine is not None
    hops, files = map(int, spine.groups())
    assert (hops <= MOST_HOPS, files <= MOST_FILES) == (True, True), traced.stdout
    # What it counts is there: the request's head, the remembered decision, the commit and the stream.
    for function in ("HeadReader.read", "DecisionCache.find", "SqliteWriter.submit", "Tail.publish", "Openings.pieces"):
        assert f" {function}\n" in f"{traced.stdout}\n", function
