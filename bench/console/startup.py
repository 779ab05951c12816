"""The start of a server, what its first page takes more, and the start of one without the console."""

from __future__ import annotations

import http.client
import shutil
import sys
import time
from pathlib import Path

import parley
from bench.channels.processes import parley_up
from bench.console.measures import Values

_START = "import sys; sys.path.insert(0, {!r}); from parley.cli.main import main; sys.exit(main(sys.argv[1:]))"
# In place of the console: a server that never has a page to show.
_NO_CONSOLE = """def load_console(api: object, /, *, is_secure: bool) -> object:
    raise NotImplementedError
"""


def measure_start(folder: Path, runs: int) -> Values:
    """The start of a server, and what its first page takes more than the next one: the console is loaded by then."""
    values: Values = {"start": [], "first page": [], "next page": []}
    for _ in range(runs):
        began = time.perf_counter()
        with parley_up(str(folder / "data")) as server:
            values["start"].append(time.perf_counter() - began)
            for name in ("first page", "next page"):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                began = time.perf_counter()
                connection.request("GET", "/console/login")
                connection.getresponse().read()
                values[name].append((time.perf_counter() - began) * 1e3)
                connection.close()
    return values


def measure_absence(folder: Path, runs: int) -> Values:
    """The start of a server beside that of a copy without the console, in turns; the ratio of each turn."""
    programs = {name: _copy(folder / name, with_console=name == "with") for name in ("with", "without")}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    # The first start of each compiles its modules and is not counted.
    for run in range(runs + 1):
        # Each goes first every other time.
        for name in sorted(programs, reverse=run % 2 == 1):
            began = time.perf_counter()
            with parley_up(str(folder / f"data-{name}"), programs[name]):
                seconds[name].append(time.perf_counter() - began)
    turns = zip(seconds["with"][1:], seconds["without"][1:], strict=True)
    return {"start ratio": [with_it / without for with_it, without in turns]}


def _copy(folder: Path, *, with_console: bool) -> tuple[str, ...]:
    """A copy of Parley, and the line that starts it."""
    package = folder / "parley"
    shutil.copytree(Path(parley.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    if not with_console:
        console = package / "surfaces" / "console"
        shutil.rmtree(console)
        console.mkdir()
        (console / "__init__.py").touch()
        (console / "loading.py").write_text(_NO_CONSOLE)
    return sys.executable, "-c", _START.format(str(folder))
