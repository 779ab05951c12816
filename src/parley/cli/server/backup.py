"""`parley backup`: write a consistent copy of a server's data while it runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.remote import DATA_HELP, show_result
from parley.domain.errors.errors import Conflict, Invalid

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_BAR = 30


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="file to write; it must not exist")
    parser.add_argument("--data", default="", metavar="DIR", help=DATA_HELP)
    add_json(parser)


def _backup(args: argparse.Namespace) -> int:
    from parley import wiring
    from parley.settings import data_directory

    data, target = data_directory(settings_of(args)), os.path.abspath(args.file)
    if os.path.lexists(target):
        raise Conflict(f"file {target} exists already", hint="name another file, or remove it")
    if not os.path.isdir(os.path.dirname(target)):
        raise Invalid(f"no directory {os.path.dirname(target)}", hint="create it first")
    progress = ProgressBar("Copying")
    try:
        wiring.backup(data, target, progress.update)
    finally:
        progress.end()
    size = os.path.getsize(target)
    document = {"file": target, "data": data, "bytes": size}
    show_result(args, screen_of(args), document, f"Backed up {safe(data)} to {safe(target)} ({size:,} bytes)")
    return OK


class ProgressBar:
    """A progress bar on standard error, if that is a terminal."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._write: Callable[[str], object] | None = None
        self._shown = -1
        if sys.stderr is not None and sys.stderr.isatty():
            self._write = sys.stderr.write

    def update(self, done: int, total: int) -> None:
        percent = 100 * done // total if total else 100
        if self._write is not None and percent != self._shown:
            self._shown = percent
            full = percent * _BAR // 100
            self._write(f"\r{self._doing}: {percent} % [{'#' * full}{'.' * (_BAR - full)}]")
            sys.stderr.flush()

    def end(self) -> None:
        if self._write is not None and self._shown >= 0:
            self._write("\r\x1b[K")
            sys.stderr.flush()


COMMANDS = {
    "backup": Command(
        "Back up a server's data to a file while it runs",
        _add_arguments,
        _backup,
        ("parley backup team-$(date +%F).db", "parley backup /mnt/backups/team.db --data ./team --json"),
    ),
}
