"""The process that asks Rego: one interpreter, one thread, nothing of our environment. `adapters.rego` starts it.

It is run as a file and knows nothing of Parley. A line of JSON in, a line of JSON out:

    {"modules": {name: text}, "sample": {...}}   ──>  {"ready": true} | {"missing": true} | {"error", "file", "line"}
    [input, ...]                                 ──>  [{"deny": [...], "hold": [...]} | {"failed": "..."}, ...]

A process of its own, because the interpreter of the library is not one for several threads, because it can be ended
when it takes too long, because some mistakes in rules end the process that compiles them, and because a rule can read
the environment. The library also writes to standard output what it thinks of rules: that must not reach ours.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from contextlib import suppress
from typing import IO, Any

QUERY = "[data.parley.deny, data.parley.hold]"
# So that both are always defined, and that a `deny` which is no set of messages does not compile.
BUILT_IN = """package parley
import rego.v1
deny contains message if { false; message := "" }
hold contains message if { false; message := "" }
"""
_BUILT_IN_NAME = "parley.rego (built in)"
_RULE = re.compile(r"^\s*(deny|hold)\s+contains\b", re.MULTILINE)
_PACKAGE = re.compile(r"^\s*package\s+parley\s*(#.*)?$", re.MULTILINE)
_RUNTIME = re.compile(r"\bopa\s*[.\[][\s\"`]*runtime\b")
_ERROR = re.compile(r"^(?!Errors:$|-+$)(\S.*)\n-- (.*)$", re.MULTILINE)
_SETS_HINT = 'deny and hold must be sets of messages, as in: deny contains "why" if input.level == "restricted"'


class RulesError(Exception):
    """Rules that cannot be used, and where."""

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line


class Rules:
    """Compiled rules; asked by one thread only."""

    def __init__(self, modules: dict[str, str], sample: dict[str, Any], library_output: IO[bytes]) -> None:
        from regopy import Interpreter, RegoError

        self._failures = (RegoError, ValueError, LookupError, TypeError)
        _check_texts(modules)
        self._interpreter = Interpreter()
        # Else a built-in that fails only makes its rule untrue: what should have been denied would pass.
        self._interpreter.strict_built_in_errors = True
        for name, text in (*modules.items(), (_BUILT_IN_NAME, BUILT_IN)):
            try:
                self._interpreter.add_module(name, text)
            except self._failures:
                raise _compile_error(library_output, name) from None
        self._bundle = self._interpreter.build(QUERY)
        # Asked all the same, what did not compile ends the process.
        if not self._bundle.ok():
            raise _compile_error(library_output, "")
        try:
            self._interpreter.set_input(sample)
            self._interpreter.query_bundle(self._bundle)
        except self._failures:
            raise RulesError(
                "the rules cannot be asked: they call what is not there, or each other in a circle"
            ) from None

    def evaluate(self, input_document: dict[str, Any]) -> dict[str, Any]:
        """What the rules say to one input. Whatever is not exactly two lists of texts has failed."""
        try:
            self._interpreter.set_input(input_document)
            output = self._interpreter.query_bundle(self._bundle)
            if not output.ok():
                return {"failed": "a rule could not be evaluated"}
            answer = json.loads(str(output))
        except self._failures:
            return {"failed": "the rules gave no answer"}
        match answer:
            case {"expressions": [[list() as deny, list() as hold]]} if all(isinstance(x, str) for x in (*deny, *hold)):
                return {"deny": deny, "hold": hold}
        return {"failed": "the rules answered with something else than messages"}


def _check_texts(modules: dict[str, str]) -> None:
    for name, text in modules.items():
        match = _RUNTIME.search(text)
        if match is not None:
            line = text.count("\n", 0, match.start()) + 1
            raise RulesError("opa.runtime tells the environment, and is not for rules", name, line)
    parley_modules = [text for text in modules.values() if _PACKAGE.search(text)]
    if not parley_modules:
        raise RulesError("no module is of the package parley", next(iter(modules), ""))
    if not any(_RULE.search(text) for text in parley_modules):
        raise RulesError(f"there is neither deny nor hold in the package parley; {_SETS_HINT}", next(iter(modules), ""))


def _compile_error(library_output: IO[bytes], name: str) -> RulesError:
    """What the library wrote about it: the first thing that has a place, else the first."""
    sys.stdout.flush()
    library_output.seek(0)
    errors = _ERROR.findall(library_output.read().decode("utf-8", "replace"))
    for message, where in errors:
        file, _, place = where.strip().rpartition(".rego:")
        line = place.partition(":")[0]
        if file and line.isdigit():
            return RulesError(message, f"{file}.rego", int(line))
    message = next((text for text, _ in errors if text), "cannot be compiled")
    return RulesError(f"{_SETS_HINT} ({message})" if message.startswith("Invalid rule body") else message, name)


def serve(lines: IO[bytes], answers: IO[bytes], library_output: IO[bytes]) -> None:
    """Compile what the first line holds, then answer the others until there are no more."""

    def answer(document: object) -> None:
        answers.write(json.dumps(document).encode() + b"\n")
        answers.flush()

    setup = json.loads(lines.readline() or b"{}")
    try:
        rules = Rules(setup["modules"], setup["sample"], library_output)
    except ImportError:
        answer({"missing": True})
        return
    except RulesError as error:
        answer({"error": error.message, "file": error.file, "line": error.line})
        return
    answer({"ready": True})
    for line in lines:
        answer([rules.evaluate(input_document) for input_document in json.loads(line)])


def main() -> None:
    """Keep standard output for ourselves: what the library writes goes into a file, and then nowhere."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The library reserves more than a limit of memory allows. So: where memory runs out, it is this process that goes.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")
    with os.fdopen(os.dup(1), "wb") as answers, tempfile.TemporaryFile() as library_output:
        os.dup2(library_output.fileno(), 1)
        os.dup2(library_output.fileno(), 2)
        serve(sys.stdin.buffer, answers, library_output)


if __name__ == "__main__":
    main()
