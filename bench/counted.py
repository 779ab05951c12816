"""`python bench/counted.py SOURCE COUNTER ARGUMENTS`: run `parley` of a source tree and count what it executes.

Counts do not depend on the load of the machine, as CPU time does. COUNTER is a file of three numbers of eight bytes:
whether to count, the bytecodes that were executed, and the calls of functions of the tree. It always holds the counts
so far: `parley` ends without running exit handlers, and a server is asked while it runs.
"""

from __future__ import annotations

import mmap
import sys
import threading

# What is imported here is not counted: a command has to load `typing` itself.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


def main() -> None:
    source, counter = sys.argv[1:3]
    del sys.argv[1:3]
    sys.path[0] = source
    with open(counter, "r+b") as file:
        count = memoryview(mmap.mmap(file.fileno(), 24)).cast("Q")
    counting = False

    # No two threads are between reading and writing a number: the interpreter switches only at calls and at loops.
    def executed(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401  # a trace function
        del frame, argument
        if event == "opcode" and count[0]:
            count[1] += 1
        return executed

    def called(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401  # a trace function
        nonlocal counting
        del event, argument
        if counting != bool(count[0]):
            counting = bool(count[0])
            _watch_running_frames(executed if counting else None)
        if not counting:
            return None
        if frame.f_code.co_filename.startswith(source):
            count[2] += 1
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return executed

    threading.settrace(called)
    sys.settrace(called)
    from parley.cli.main import entry

    entry()


def _watch_running_frames(function: Any) -> None:  # noqa: ANN401  # a trace function, or None
    """Functions that were called before the counter was switched, such as the loop of the thread that writes."""
    own = sys._getframe()
    for top in sys._current_frames().values():
        frame: FrameType | None = own.f_back.f_back if top is own and own.f_back else top
        while frame is not None:
            frame.f_trace, frame.f_trace_lines, frame.f_trace_opcodes = function, False, function is not None
            frame = frame.f_back


main()
