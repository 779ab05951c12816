"""The inputs that fuzzing begins with: a file for each parser, an input a line, as a bytes literal of Python."""

from __future__ import annotations

import ast
from pathlib import Path

PARSERS = sorted(path.stem for path in (Path(__file__).parent / "parsers").glob("[a-z]*.py"))


def inputs_of(parser: str) -> list[bytes]:
    lines = _file_of(parser).read_text(encoding="ascii").splitlines()
    return [ast.literal_eval(line) for line in lines if line and not line.startswith("#")]


def add(parser: str, inputs: list[bytes]) -> int:
    """Append inputs that are not there yet; how many they were."""
    known = set(inputs_of(parser))
    new = [content for content in inputs if content not in known]
    with _file_of(parser).open("a", encoding="ascii") as file:
        file.writelines(f"{content!r}\n" for content in new)
    return len(new)


def unpack(parser: str, folder: Path) -> Path:
    """A folder with a file for each input, as the fuzzer wants them."""
    folder.mkdir(parents=True)
    for number, content in enumerate(inputs_of(parser)):
        (folder / f"{number:04}").write_bytes(content)
    return folder


def _file_of(parser: str) -> Path:
    return Path(__file__).parent / "corpus" / f"{parser}.txt"
