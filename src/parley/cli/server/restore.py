"""`parley restore`: restore a backup into a data directory that no server uses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.remote import DATA_HELP, show_result
from parley.cli.server.backup import ProgressBar

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="backup that `parley backup` wrote")
    parser.add_argument("--data", default="", metavar="DIR", help=DATA_HELP)
    parser.add_argument("--force", action="store_true", help="replace the present data")
    add_json(parser)


def _restore(args: argparse.Namespace) -> int:
    from parley import wiring
    from parley.settings import data_directory

    data, source = data_directory(settings_of(args)), os.path.abspath(args.file)
    progress = ProgressBar("Restoring")
    try:
        wiring.restore(source, data, progress.update, force=args.force)
    finally:
        progress.end()
    document = {"file": source, "data": data}
    line = f"Restored {safe(source)} to {safe(data)}; to start a server on it: parley up --data {safe(data)}"
    show_result(args, screen_of(args), document, line)
    return OK


COMMANDS = {
    "restore": Command(
        "Check a backup and restore it into a data directory",
        _add_arguments,
        _restore,
        ("parley restore team-2026-03-14.db --data ./team", "parley restore team.db --force"),
    ),
}
