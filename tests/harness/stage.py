"""One coding agent with its model: a workplace that is made for a test and removed after it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.harness.programs import PROGRAMS, Workplace, scratch_folder
from tests.harness.scripted_model import Rule, ScriptedModel, handle_messages


class HarnessStage(NamedTuple):
    """A coding agent in its workplace, and the model that it talks to."""

    place: Workplace
    model: ScriptedModel
    # What hooks and servers were given, where that is recorded.
    record: Path


@contextmanager
def a_stage(name: str, rule: Rule = handle_messages, *, record: bool = False) -> Iterator[HarnessStage]:
    """A coding agent that is set up for Parley. PARLEY_HARNESS_KEEP=1 keeps its folder."""
    folder = Path(tempfile.mkdtemp(dir=scratch_folder(), prefix=f"{name}-"))
    records = folder / "records"
    try:
        with ScriptedModel(rule, folder / "model.log") as model:
            yield HarnessStage(
                Workplace(folder, PROGRAMS[name], model.url, records if record else None), model, records
            )
    finally:
        _kill_users_of(folder)
        if not os.environ.get("PARLEY_HARNESS_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)


def _kill_users_of(folder: Path) -> None:
    """End what a program left behind, such as the daemon of Codex: every process with its home in this folder."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if f"HOME={folder}/".encode() in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
