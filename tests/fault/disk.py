"""A small ext4 whose power can be cut, in a mount namespace that dies with its process.

    disk.py SCENARIO FOLDER MUTANT OPTIONS     prints what went wrong, as JSON; OPTIONS is JSON too

Everything that must outlive the cut (what was acknowledged) lies in FOLDER, outside that file system.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fault.crowd import READER, Crowd, chance, pass_time
from tests.fault.history import look
from tests.fault.stage import Stage, agent_folder, make_home, until
from tests.fault.team.power import posting

_EXT4_IOC_SHUTDOWN = 0x8004587D
_WITHOUT_FLUSHING_THE_LOG = struct.pack("I", 2)
SENDER, OTHERS = "claude", ("codex", "gemini", "human")


class Disk:
    """An image with ext4 on it, mounted while it has power."""

    def __init__(self, folder: Path, size: str = "64M") -> None:
        self._image = folder / "disk.img"
        self.path = folder / "disk"
        self.path.mkdir()
        run("truncate", "-s", size, str(self._image))
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self.mount()

    def mount(self) -> None:
        # The log is written when somebody asks for it, not by a timer that would hide who forgot to ask.
        run("mount", "-o", "loop,commit=300", str(self._image), str(self.path))

    def cut(self) -> None:
        """From this moment on nothing reaches the disk; what was not asked for to be there is lost."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _EXT4_IOC_SHUTDOWN, _WITHOUT_FLUSHING_THE_LOG)
        finally:
            os.close(fd)

    def sync(self) -> None:
        """All of this disk, and of no other: on those somebody may want to see what is lost without it."""
        run("sync", "--file-system", str(self.path))

    def power_up(self) -> None:
        """Mount again: the journal is replayed."""
        run("umount", str(self.path))
        self.mount()


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")


def probe(folder: Path, _mutant: str, _options: dict[str, Any]) -> dict[str, Any]:
    disk = Disk(folder)
    disk.cut()
    disk.power_up()
    return {}


def delivery(folder: Path, mutant: str, options: dict[str, Any]) -> dict[str, Any]:
    """Files carried one after the other; the power goes when the last one is acknowledged."""
    disk, home = _home(folder)
    wrong, count = [], 0
    with Stage(folder / "stage", mutant) as stage:
        for cut in range(options["cuts"]):
            tags = [f"{cut}-{number}" for number in range(5)]
            files = [(f"file-{tag}.yaml", tag) for tag in tags]
            acknowledged = stage.act("deliver", home, SENDER, files=files, to=[OTHERS[0]]).acknowledged
            disk.cut()
            disk.power_up()
            there = look(agent_folder(home, OTHERS[0])).inbox
            count += len(acknowledged)
            wrong += [f"{tag} was delivered and is lost" for tag in acknowledged if tag not in there]
            wrong += [tag for tag in there if tag.startswith("torn")]
    return {"wrong": wrong, "acknowledged": count}


def sending(folder: Path, mutant: str, options: dict[str, Any]) -> dict[str, Any]:
    """Sends one after the other; the power goes when the last one is acknowledged."""
    disk, home = _home(folder)
    wrong, count = [], 0
    with Stage(folder / "stage", mutant) as stage:
        for cut in range(options["cuts"]):
            tags = [f"{cut}-{number}" for number in range(3)]
            sent = stage.act("send", home, SENDER, tags=tags, to=list(OTHERS), abrupt=True)
            disk.cut()
            disk.power_up()
            count += len(sent.acknowledged)
            wrong += [] if sent.acknowledged == tags else [f"not sent: {sent.said}"]
            for place, there in [
                *((agent, look(agent_folder(home, agent)).inbox) for agent in OTHERS),
                ("the outbox", look(agent_folder(home, SENDER)).outbox),
            ]:
                wrong += [f"{tag} was acknowledged and is lost to {place}" for tag in tags if tag not in there]
                wrong += [f"{place} has {tag}" for tag in there if tag.startswith("torn")]
            wrong += _after(stage, home, tags, cut)
    return {"wrong": wrong, "acknowledged": count}


def _after(stage: Stage, home: Path, tags: list[str], cut: int) -> list[str]:
    """The next commands find everything in order, and hand each message out once."""
    after = stage.act("send", home, SENDER, tags=[f"{cut}-after"], to=list(OTHERS))
    wrong = [] if after.acknowledged else [f"the next command said {after.said}"]
    wrong += stage.act("pending", home, SENDER).said
    for agent in OTHERS:
        handed = stage.act("drain", home, agent).acknowledged
        if sorted(handed) != sorted([*tags, f"{cut}-after"]):
            wrong.append(f"{agent} was handed {handed}")
    return wrong


def finishing(folder: Path, mutant: str, options: dict[str, Any]) -> dict[str, Any]:
    """`done`; the power goes when it is acknowledged."""
    disk, home = _home(folder)
    wrong, count = [], 0
    with Stage(folder / "stage", mutant) as stage:
        for cut in range(options["cuts"]):
            first, second = f"{cut}-first", f"{cut}-second"
            for delete in (False, True):
                name = f"{first}{delete}"
                stage.act("send", home, SENDER, tags=[second, name], urgent=name, to=[OTHERS[0]])
                lease = 3600 if cut % 2 else None
                done = stage.act("done", home, OTHERS[0], delete=delete, lease=lease, abrupt=True).acknowledged
                disk.cut()
                disk.power_up()
                handed = stage.act("drain", home, OTHERS[0], later=7200).acknowledged
                mail = look(agent_folder(home, OTHERS[0]))
                count += len(done)
                if done != [name] or handed != [second] or mail.inbox or mail.dead:
                    wrong.append(f"{done} was done, {handed} was handed out, {mail} is left")
                if (name in mail.archive) is delete:
                    wrong.append(f"{name} is in the wrong place: {mail}")
                second += "again"
    return {"wrong": wrong, "acknowledged": count}


def broadcasting(folder: Path, mutant: str, options: dict[str, Any]) -> dict[str, Any]:
    """A broadcast dies after the first recipient has it, and the power goes: then everyone has it, or no one."""
    disk, home = _home(folder)
    wrong = []
    with Stage(folder / "stage", mutant) as stage:
        for cut in range(options["cuts"]):
            tag = f"{cut}-victim"
            kill = "linkat:signal=KILL:when=2"
            outcome = stage.act("send", home, SENDER, inject=kill, tags=[tag], to=list(OTHERS))
            disk.cut()
            disk.power_up()
            wrong += [] if outcome.killed else ["it was not killed"]
            had = [agent for agent in OTHERS if tag in look(agent_folder(home, agent)).inbox]
            wrong += _after(stage, home, [tag] if had else [], cut)
    return {"wrong": wrong}


def storm(folder: Path, mutant: str, options: dict[str, Any]) -> dict[str, Any]:
    """Senders and rival readers at work until the power goes, again and again."""
    disk = Disk(folder)
    dice = chance(options["seed"])
    wrong, acknowledged = [], 0
    with Stage(folder / "stage", mutant) as stage:
        for cut in range(options["cuts"]):
            outside = folder / str(cut)
            outside.mkdir()
            crowd = Crowd(outside, 3, mutant=mutant, home=disk.path / str(cut))
            try:
                clients = [crowd.add_sender(agent) for agent in crowd.agents] + [crowd.add_reader() for _ in range(2)]
                for client in clients:
                    crowd.wait_ready(client)
                until(lambda crowd=crowd: crowd.count("send") >= 3)  # type: ignore[misc]
                pass_time(dice.uniform(0.0, 0.5))
                disk.cut()
                for client in clients:
                    crowd.kill(client)
                disk.power_up()
                sent = {record.tag for record in crowd.records() if (record.op, record.phase) == ("send", "ok")}
                mail = look(agent_folder(crowd.home, READER))
                done = {record.tag for record in crowd.records() if (record.op, record.phase) == ("done", "ok")}
                lost = sent - {*mail.inbox, *mail.archive}
                wrong += [f"{tag} was acknowledged and is not there after the cut" for tag in sorted(lost)]
                wrong += [f"{tag} was done and lies in the inbox" for tag in mail.inbox if tag in done]
                for agent in crowd.agents:
                    stage.act("drain", crowd.home, agent)
                crowd.add_reader()
                crowd.finish("r")
            finally:
                crowd.abandon()
            acknowledged += len(sent) + len(done)
            wrong += crowd.violations()
    return {"wrong": wrong, "acknowledged": acknowledged}


def full(folder: Path, _mutant: str, options: dict[str, Any]) -> dict[str, Any]:
    """A disk without space: what is sent and what is finished, while it lasts and when there is room again."""
    disk, home = _home(folder)
    with Stage(folder / "stage") as stage:
        stage.act("send", home, SENDER, tags=["before"], to=list(OTHERS))
        stage.act("drain", home, OTHERS[1])
        ballast = disk.path / "ballast"
        with ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue
        tags = [f"full-{number}" for number in range(options["sends"])]
        sent = stage.act("send", home, SENDER, tags=tags, to=list(OTHERS))
        done = stage.act("done", home, OTHERS[0])
        ballast.unlink()
        after = stage.act("send", home, SENDER, tags=["after"], to=list(OTHERS))
        return {
            "sent": sent.said,
            "done": done.said,
            "after": after.said,
            "pending": stage.act("pending", home, SENDER).said,
            "handed": {agent: stage.act("drain", home, agent).acknowledged for agent in OTHERS},
            "outbox": look(agent_folder(home, SENDER)).outbox,
            "mail": {agent: look(agent_folder(home, agent))._asdict() for agent in OTHERS},
        }


def read_only(folder: Path, _mutant: str, _options: dict[str, Any]) -> dict[str, Any]:
    """A file system that was mounted read-only: what the commands say, and that looking still works."""
    disk, home = _home(folder)
    with Stage(folder / "stage") as stage:
        stage.act("send", home, SENDER, tags=["before"], to=list(OTHERS))
        stage.act("drain", home, OTHERS[1])
        run("mount", "-o", "remount,ro", str(disk.path))
        said = {
            "send": stage.act("send", home, SENDER, tags=["refused"], to=list(OTHERS)).said,
            "next": stage.act("claim", home, OTHERS[0]).said,
            "list": stage.act("listing", home, OTHERS[0]).said,
        }
        run("mount", "-o", "remount,rw", str(disk.path))
        said["after"] = stage.act("send", home, SENDER, tags=["after"], to=list(OTHERS)).said
        said["handed"] = stage.act("drain", home, OTHERS[0]).acknowledged
        return dict(said)


def _home(folder: Path) -> tuple[Disk, Path]:
    disk = Disk(folder)
    home = make_home(disk.path / "home", (SENDER, *OTHERS))
    disk.sync()
    return disk, home


SCENARIOS: dict[str, Callable[[Path, str, dict[str, Any]], dict[str, Any]]] = {
    scenario.__name__: scenario
    for scenario in (probe, delivery, sending, finishing, broadcasting, storm, full, read_only, posting)
}

if __name__ == "__main__":
    scenario, place, broken, choices = sys.argv[1:]
    print(json.dumps(SCENARIOS[scenario](Path(place), broken, json.loads(choices))))
