"""argparse as the OACP tool uses it, without what it imports only for help."""

from __future__ import annotations

import argparse
from functools import partial


class _Formatter(argparse.HelpFormatter):
    """Asks for the terminal's width when help is formatted. argparse asks, and imports shutil, for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=78)

    def format_help(self) -> str:
        import shutil

        self._width = shutil.get_terminal_size().columns - 2
        self._max_help_position = min(24, max(self._width - 20, 4))
        return super().format_help()


make_parser = partial(argparse.ArgumentParser, formatter_class=_Formatter)
