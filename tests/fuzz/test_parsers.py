"""Every parser that meets foreign bytes holds its properties: on the corpus, and on what a fuzzer makes of it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fault.conftest import FULL, missing
from tests.fuzz import corpus

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300 if FULL else 3
# A process inherits the peak of the memory of the one that started it, and the fuzzer would take it for its own: that
# of a test runner may be gigabytes, that of a shell is not.
BY_A_SHELL = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
# A parser that loses a tab which comes as a piece of its own: no input of the corpus shows it.
BROKEN_PARSER = """
import atheris
with atheris.instrument_imports(include=["parley"]):
    from parley.sdk.protocol.event_stream import EventParser
feed = EventParser.feed
EventParser.feed = lambda self, content: feed(self, b"" if content == b"\\t" else content)
"""


@pytest.mark.parametrize("parser", corpus.PARSERS)
def test_a_parser_holds_on_its_corpus(parser: str) -> None:
    check = importlib.import_module(f"tests.fuzz.parsers.{parser}").check
    inputs = corpus.inputs_of(parser)

    assert len(inputs) >= 10
    for content in inputs:
        check(content)


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("parser", corpus.PARSERS)
def test_a_parser_holds_on_what_a_fuzzer_makes_of_its_corpus(parser: str, tmp_path: Path) -> None:
    done = _fuzz(["-m", "tests.fuzz.fuzz", parser, "--seconds", str(SECONDS), "--seed", "1"], tmp_path)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    runs = re.search(r"Done (\d+) runs", done.stderr)
    assert runs is not None
    assert int(runs[1]) > 100, "the fuzzer hardly ran"
    print(f"{parser}: {runs[1]} inputs in {SECONDS} s")


@pytest.mark.slow
@pytest.mark.fault
def test_the_fuzzer_finds_a_parser_that_reads_pieces_otherwise_than_the_whole(tmp_path: Path) -> None:
    run = "import sys; sys.argv = ['fuzz', 'event_stream', '--seconds', '60']; from tests.fuzz import fuzz; fuzz.main()"
    done = _fuzz(["-c", BROKEN_PARSER + run], tmp_path)

    assert done.returncode != 0
    assert "pieces are read otherwise than the whole" in done.stdout


def _fuzz(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec("atheris") is None:
        missing("atheris is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*BY_A_SHELL, sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
