"""Write the blocking client, src/parley/sdk/blocking/, from the asynchronous one in src/parley/sdk/client/.

gen_client.py            write every module that is stale, and remove what has no source any more
gen_client.py --check    write nothing; exit 1 and name the stale modules when there are any

A module that awaits nothing serves both clients: it is imported, not copied.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "parley" / "sdk" / "client"
TARGET = SOURCE.parent / "blocking"
MARK = "# Written by tools/gen_client.py from sdk/client/{name}. Change that, then run: make docs\n"

# Words that are not the asynchronous ones without "async", "await" or "Async".
WORDS = (
    (r"\bawait ", ""),
    (r"\basync (?=def|for|with)", ""),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bAsyncHttp\b", "BlockingHttp"),
    (r"\b(Closing)?Async(?=[A-Z])", r"\1"),
    (r"\bsdk\.transport\.asynchronous\b", "sdk.transport.blocking"),
    (r"\basyncio\b", "time"),
    (r"\bconnect_async\b", "connect"),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\baclos(e|ing)\b", r"clos\1"),
)
# Imports in order and none unused, `yield from` where nothing is awaited.
FIXES = ("--select=I,F401,UP028", "--fix", "--unsafe-fixes", "--config=lint.isort.known-first-party=['parley']")
# What a docstring says of the one client and not of the other.
SENTENCES = {
    "A server, for the tasks of one event loop. In another event loop it opens connections of its own.": (
        "A server, for code that waits for each answer. Threads may share one."
    ),
    "The tasks of one event loop may share it": "Threads may share it",
    "`parley.AsyncClient`: a server in Python. `parley.Client` is generated from it.": (
        "`parley.Client`: a server in Python."
    ),
}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    modules = blocking_modules()
    present = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.py")}
    stale = sorted(name for name in modules | present if modules.get(name) != present.get(name))
    for name in stale:
        if arguments:
            print(f"src/parley/sdk/blocking/{name} is stale; run: make docs", file=sys.stderr)
        elif name in modules:
            (TARGET / name).write_text(modules[name], encoding="utf-8")
            print(f"wrote src/parley/sdk/blocking/{name}")
        else:
            (TARGET / name).unlink()
            print(f"removed src/parley/sdk/blocking/{name}")
    return 1 if arguments and stale else 0


def blocking_modules() -> dict[str, str]:
    """Every generated module by its name."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in SOURCE.glob("*.py")}
    copied = {name: text for name, text in sources.items() if "async def " in text}
    stems = "|".join(name.removesuffix(".py") for name in copied)
    for sentence in SENTENCES:
        if not any(sentence in text for text in copied.values()):
            sys.exit(f"no docstring says: {sentence}")
    return {"__init__.py": ""} | {name: tidied(name, blocking(text, stems)) for name, text in copied.items()}


def blocking(text: str, stems: str) -> str:
    """A module of the asynchronous client with every await taken out."""
    for sentence, other in SENTENCES.items():
        text = text.replace(sentence, other)
    text = re.sub(rf"\bparley\.sdk\.client\.({stems})\b", r"parley.sdk.blocking.\1", text)
    for word, other in WORDS:
        text = re.sub(word, other, text)
    return text


def tidied(name: str, text: str) -> str:
    """A module in the order and format of all others."""
    ruff = [sys.executable, "-m", "ruff"]
    stdin = ["--stdin-filename", str(TARGET / name), "-"]
    for command in (["check", "--quiet", *FIXES], ["format", "--quiet"]):
        ended = subprocess.run([*ruff, *command, *stdin], input=text, capture_output=True, text=True, check=True)
        text = ended.stdout
    return MARK.format(name=name) + text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
