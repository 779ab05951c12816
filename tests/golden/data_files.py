"""What version 0.5.0 has written, and copies of it to open.

`server.tar.gz` is the data directory of a server, `server.sql` the same content as PostgreSQL dumped it, `audit.jsonl`
and `proof.json` what its audit log was exported as, and `workspace.tar.gz` a home with two projects. `known.json` holds
the ids and keys in them. The stories in `data_stories/` say how they were filled, and what must work on them.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from tests.golden.stories import FOLDER

DATA = FOLDER / "data"
STORIES = "data_stories"


def known(what: str) -> dict[str, str]:
    """The ids and keys in the data of a `server` or a `workspace`."""
    document: dict[str, dict[str, str]] = json.loads((DATA / "known.json").read_text(encoding="utf-8"))
    return document[what]


def unpacked(name: str, folder: Path) -> Path:
    """A copy of a recorded folder."""
    with tarfile.open(DATA / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="fully_trusted")  # with the modes that Parley gave
    return folder / name


def pack(name: str, folder: Path) -> None:
    """Keep a folder, without times and owners."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime = info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(DATA / f"{name}.tar.gz", "w:gz") as archive:
        archive.add(folder, name, filter=plain)


def write_known(**values: dict[str, Any]) -> None:
    (DATA / "known.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
