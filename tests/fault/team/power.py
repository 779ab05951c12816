"""A server whose disk loses its power in the middle of what it does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.fault.team.crowd import BROKEN, Crowd
from tests.rigs.process import ServerProcess

SPEAKERS = 8
EACH = 25


async def _speak(crowd: Crowd, speaker: str, acknowledged: list[str]) -> None:
    client = crowd.client(speaker)
    try:
        for number in range(EACH):
            answer = await client.post(f"/channels/{crowd.channel_id}/messages", {"to": "*", "payload": {"n": number}})
            if answer.status == 201:
                acknowledged.append(answer.json["id"])
    except BROKEN:
        return
    finally:
        await client.close()


def posting(folder: Path, mutant: str, options: dict[str, Any]) -> dict[str, Any]:
    """Many speak at once; the power goes when the last of them is acknowledged. Then the server starts again."""
    from tests.fault.disk import Disk

    disk = Disk(folder)
    wrong: list[str] = []
    count = 0
    server = ServerProcess(disk.path / "data", mutant=mutant)
    server.start()
    crowd = Crowd(server.port, 1)
    asyncio.run(crowd.open_channel())
    # The founding is on the disk for sure, whatever is tried afterwards.
    if mutant:
        disk.sync()
    acknowledged: list[str] = []
    for cut in range(options["cuts"]):

        async def speak(cut: int = cut) -> None:
            await asyncio.gather(*(_speak(crowd, f"s{cut}-{one}", acknowledged) for one in range(SPEAKERS)))

        asyncio.run(speak())
        disk.cut()
        server.kill()
        disk.power_up()
        server.start()
        there = asyncio.run(_ids(crowd))
        wrong += [f"{one} was acknowledged and is lost" for one in acknowledged if one not in there]
        count += SPEAKERS * EACH
    server.kill()
    return {"wrong": wrong, "acknowledged": len(acknowledged), "tried": count}


async def _ids(crowd: Crowd) -> set[str]:
    client = crowd.client("")
    try:
        return {one["id"] for one in (await client.get(f"/channels/{crowd.channel_id}/messages")).json}
    finally:
        await client.close()
