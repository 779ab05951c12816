"""Fuzz one parser, guided by the code that its inputs reach (atheris).

    python -m tests.fuzz.fuzz http_request --seconds 60          from the corpus in tests/fuzz/corpus
    python -m tests.fuzz.fuzz http_request --seconds 600 --keep  add the inputs that reached new code to the corpus
    python -m tests.fuzz.fuzz http_request --input crash-1234    run one input, with its traceback

Ends with 0 when nothing was found. A finding is printed and written to the working directory.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz import corpus

# Inputs are short: what a parser does with long ones is a matter of its limits, which have tests of their own.
LONGEST_INPUT_BYTES = 4096
# Larger inputs found by the fuzzer are not worth a line of the corpus.
LONGEST_KEPT_BYTES = 300
MOST_KEPT = 60


def main() -> int:
    arguments = _arguments()
    if arguments.input is not None:
        check = importlib.import_module(f"tests.fuzz.parsers.{arguments.parser}").check
        check(arguments.input.read_bytes())
        return 0
    if arguments.keep:
        return _grow(arguments.parser, arguments.seconds)
    with tempfile.TemporaryDirectory() as folder:
        seeds = corpus.unpack(arguments.parser, Path(folder) / "seeds")
        run(arguments.parser, [f"-max_total_time={arguments.seconds}", f"-seed={arguments.seed}", str(seeds)])
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz one parser.")
    parser.add_argument("parser", choices=corpus.PARSERS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--keep", action="store_true", help="add what reached new code to the corpus")
    parser.add_argument("--input", type=Path, help="run this input and nothing else")
    return parser.parse_args()


def run(parser: str, options: list[str]) -> None:
    """Fuzz in this process; libFuzzer ends it."""
    import atheris  # type: ignore[import-untyped]

    with atheris.instrument_imports(include=["parley", "tests.fuzz.parsers"]):
        module = importlib.import_module(f"tests.fuzz.parsers.{parser}")
    atheris.Setup([sys.argv[0], f"-max_len={LONGEST_INPUT_BYTES}", "-timeout=10", *options], module.check)
    atheris.Fuzz()


def _grow(parser: str, seconds: int) -> int:
    """Fuzz, then add the shortest of the inputs that reached new code."""
    with tempfile.TemporaryDirectory() as folder:
        seeds, found = corpus.unpack(parser, Path(folder) / "seeds"), Path(folder) / "found"
        found.mkdir()
        options = [f"-max_total_time={seconds}", str(found), str(seeds)]
        program = f"from tests.fuzz.fuzz import run; run({parser!r}, {options!r})"
        done = subprocess.run([sys.executable, "-c", program], check=False)
        if done.returncode:
            return done.returncode
        inputs = sorted((path.read_bytes() for path in found.iterdir()), key=len)
        kept = [content for content in inputs if len(content) <= LONGEST_KEPT_BYTES][:MOST_KEPT]
        print(f"{corpus.add(parser, kept)} inputs added to the corpus of {parser}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
