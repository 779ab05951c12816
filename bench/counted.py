"""`python bench/counted.py SOURCE COUNTER ARGUMENTS`: run `parley` of a source tree and count its function calls.

The number of calls does not depend on the load of the machine, as CPU time does. COUNTER is a file of eight bytes that
always holds the count so far: `parley` ends without running exit handlers, and a server is asked while it runs.
"""

import mmap
import sys
import threading
from types import FrameType


def main() -> None:
    source, counter = sys.argv[1:3]
    del sys.argv[1:3]
    sys.path[0] = source
    with open(counter, "r+b") as file:
        count = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

    def called(frame: FrameType, event: str, argument: object) -> None:
        del argument
        if event == "call" and frame.f_code.co_filename.startswith(source):
            count[0] += 1

    threading.setprofile(called)
    sys.setprofile(called)
    from parley.cli.main import entry

    entry()


main()
