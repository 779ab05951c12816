"""A full disk is said to be full, costs nothing that was acknowledged, and is over when there is space again."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.fault.conftest import missing
from tests.fault.team.crowd import Crowd
from tests.rigs.process import ServerProcess

pytestmark = [pytest.mark.fault, pytest.mark.slow]

# A disk of its own for the server, with a weight on it that can be taken off: more than the rest, for what is in the
# log is written to the file, too, as soon as there is room.
_PREPARE = """
set -e
mount -t tmpfs -o size=12m,mode=0700 none "$0"
head -c 7500000 /dev/zero > "$0/ballast"
exec "$@"
"""


def test_a_full_disk_is_507_and_afterwards_everything_goes_on(tmp_path: Path, root: None) -> None:
    if shutil.which("unshare") is None:
        missing("unshare is not installed")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    before = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _PREPARE, str(data))
    server = ServerProcess(data, before=before)
    server.start()
    assert server.process is not None
    inside = Path(f"/proc/{server.process.pid}/root") / data.relative_to("/")

    async def play() -> tuple[int, set[str], set[str], int]:
        crowd = Crowd(server.port, 1)
        await crowd.open_channel()
        client = crowd.client("alice")
        path = f"/channels/{crowd.channel_id}/messages"
        kept: set[str] = set()
        status = 201
        # First in large steps, then in ever smaller ones, until nothing fits any more.
        for size in (60_000, 6_000, 600, 60, 1):
            for number in range(20_000):  # whenever the log is cut, there is a little room again
                answer = await client.post(path, {"to": "*", "payload": {"n": number, "text": ["x" * size] * 3}})
                status = answer.status
                if status != 201:
                    break
                kept.add(answer.json["id"])

        (inside / "ballast").unlink()
        answer = await client.post(path, {"to": "*", "payload": {"n": -1}})
        kept.add(answer.json["id"])

        there = {one["id"] for one in (await client.get(path)).json}
        assert (await client.get("/readyz")).status == 200
        await client.close()
        return status, kept, there, answer.status

    try:
        status, kept, there, after = asyncio.run(play())
    finally:
        server.kill()

    assert status == 507
    assert after == 201
    assert kept == there
