"""Loads the console when its first page is opened: a server that nobody looks at starts as fast as before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.surfaces.http.api import Api, Pages


def load_console(api: Api, /, *, is_secure: bool) -> Pages:
    """The console of a server; `is_secure`: browsers reach it by TLS."""
    from parley.surfaces.console.console import Console

    return Console(api, is_secure=is_secure)
