"""`parley version`: show the version of Parley."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, add_json, screen_of
from parley.cli.exits import OK

if TYPE_CHECKING:
    import argparse


def _version(args: argparse.Namespace) -> int:
    from parley import __version__

    screen = screen_of(args)
    if args.json:
        screen.json({"version": __version__})
    else:
        screen.line(f"parley {__version__}")
    return OK


COMMANDS = {
    "version": Command("Show the version of Parley", add_json, _version, ("parley version", "parley version --json"))
}
