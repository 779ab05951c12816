"""Source text as a tree."""

from __future__ import annotations

import ast
import gc


def parsed(text: str, filename: str = "<unknown>") -> ast.Module:
    """The tree of a module. Python 3.11 gives up (`SystemError`) when the garbage collector runs something in between
    that parses, too, as a finalizer does that shows a traceback: so nothing is collected meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, filename)
    finally:
        if collects:
            gc.enable()
