"""Runs what the pages show, so that no page can lie.

In README.md and docs/ every console and python block is run, page by page from the top, in a fresh home folder:

    ```console                      each line after `$ ` in a shell, `> ` continues it; it must exit with 0
    $ parley read nosuch            # exits 3
    error: no message ...           the lines below are its output; a line of `...` stands for any lines

`<!-- saved as NAME -->` above a block writes it to that file instead of running it, in whatever language it is.

Commands run at 80 columns. Ids, times and folders differ from run to run. Where a page shows an id, the one that came
instead takes its place in the commands further down; an end of an id in a table, too. `<!-- run: COMMAND -->` runs
without being shown; `<!-- not run: why -->` spares the next block. Commands of which the page shows no output may print
what they like.

`parley up &` starts a server on a free port, waits until it is ready, and ends it with the page; the address that the
page shows stands for that of the run. What else ends in `&` runs until the page ends, or until `kill %N`
stops the N-th of them, the server among them; a `parley listen` has begun to listen before the page goes on, as it has
when a person types. What is exported is there for python blocks too, and what was saved can be imported. A comment
behind a `print(...)` is what it prints.

`postgresql://parley@db.example.org/parley` is a real database, the page's own.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from parley.domain.message.kinds import KINDS
from tests.postgres.cluster import drop, new_database

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SHOWN_HOME = "/home/me"
# The width of a terminal that nobody has made wider.
COLUMNS = "80"
SHOWN_STORE = "postgresql://parley@db.example.org/parley"
# What takes longer than this never ends.
_PATIENCE = 300

_BLOCK = re.compile(
    r"^<!-- run: (?P<hidden>.+?) -->$"
    r"|^(?P<spared><!-- not run: .+? -->\n)?(?:<!-- saved as (?P<file>\S+) -->\n)?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_EXITS = re.compile(r"\s+# exits (\d+)$", re.MULTILINE)
_MESSAGE_ID = re.compile(r"msg-\d{8}T?\d{4,6}Z?-([A-Za-z0-9.]+)-([a-z0-9]{4,10})\b")
_TOKEN = re.compile(r"\b[0-9a-f]{32}\b")
_TEAM_ID = re.compile(r"\b(?:intent|chan|msg|evt|key|task|sub|conv|exch|appr|aud)_[0-9A-HJKMNP-TV-Z]{26}\b")
# Headings of the columns in which a table shows ids by their ends.
_ID_HEADS = re.compile(r"(?:(?<=  )|^)(?:ID|CONVERSATION|EXCHANGE)(?=  |$)")
_END_CHARS = 4
_LABEL = re.compile(r"\b\d+-[0-9a-f]{12}\b")
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
_SIGNER = re.compile(r"\b[0-9a-f]{16}\b")
_SECRET = re.compile(r"\b(?:(?:p[ks]o?|pal)_[A-Za-z0-9_-]{43}|whsec_[A-Za-z0-9+/]{43}=)")
_HASH = re.compile(r"sha256:[A-Za-z0-9_-]{43}")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_SERVER = re.compile(r"parley up (?P<options>.*?)\s*&$|parley up &$")
_PRINTED = re.compile(r"\bprint\(.*\)  # (.+)$", re.MULTILINE)
_ASSIGNMENTS = re.compile(r"^((?:\w+=\S* )*)")
_KILL = re.compile(r"kill %(\d+)")
_LOGGED = '{"at": "'
_BEGUN = re.compile(
    r'^parley_requests_total\{method="GET",route="[^"]*subscribe[^"]*",status="200"\} (\d+)', re.MULTILINE
)
# The longest first: handoff is the beginning of handoff_complete.
_KINDS = "|".join(sorted(KINDS, key=len, reverse=True))
_VARYING = (
    (_MESSAGE_ID, r"msg-\1-ID"),
    (_TOKEN, "TOKEN"),
    (_TEAM_ID, "ID"),
    (_LABEL, "LABEL"),
    (_DIGEST, "DIGEST"),
    (_SIGNER, "SIGNER"),
    (re.compile(r"…[0-9A-Za-z]{4}\b"), "…END"),
    (_SECRET, "SECRET"),
    (_ADDRESS, "ADDRESS"),
    (_HASH, "HASH"),
    (re.compile(r"\([\d,]+ bytes\)"), "(SIZE)"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?Z?"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d+[smhd] ago\b"), "AGO"),
    # A second message of a minute has its id in the name of its file; whether a minute has passed is chance.
    (re.compile(rf"\d{{8}}T\d{{4}}Z_([A-Za-z0-9]+)_({_KINDS})(_[a-z0-9]{{4,10}})?\.yaml"), r"\1_\2.yaml"),
    (re.compile(r"conv-\d{8}-"), "conv-DAY-"),
    (re.compile(r"\b\d{1,2}[sm]\b"), "AGE"),
    (re.compile(r"[-─ ]+"), " "),
)


class Block(NamedTuple):
    """A piece of a page that is run, or saved to a file."""

    page: str
    line: int
    language: str
    text: str
    file: str = ""


def without_varying(line: str) -> str:
    """A line without ids, times and whatever else differs from run to run."""
    for pattern, plain in _VARYING:
        line = pattern.sub(plain, line)
    return line


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """What is run of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["hidden"]:
            yield Block(page.name, line, "console", f"$ {match['hidden']}\n")
        elif not match["spared"] and (match["file"] or match["language"] in {"console", "python"}):
            yield Block(page.name, line, match["language"], match["text"], match["file"] or "")


class Stage:
    """One page's home folder, environment and memory of ids."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._prelude = ""
        self._exported: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._names: dict[str, object] = {"__name__": "page"}
        self._store = ""
        # What runs beside the page, the server among it.
        self._running: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """End what the page started, the latest first."""
        for process in reversed(self._running):
            try:
                _end(process)
            finally:
                if process.stdout is not None:
                    process.stdout.close()
        if self._store:
            drop(self._store)
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(f"{self.home}/"):
                del sys.modules[name]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in {"LANG", "LC_ALL", "TMPDIR"}}
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{BIN}:/usr/bin:/bin",
            "PYTHON": sys.executable,
            "COLUMNS": COLUMNS,
        }

    def run(self, block: Block) -> None:
        if block.file:
            (self.home / block.file).write_text(self._current(block.text), encoding="utf-8")
            return
        if block.language == "python":
            self._execute(block)
            return
        for command, expected in commands(block.text):
            self._run_command(block, command, expected)

    def _execute(self, block: Block) -> None:
        code = compile("\n" * block.line + self._current(block.text), block.page, "exec")
        printed = StringIO()
        with (
            patch.dict(os.environ, {"HOME": str(self.home), "XDG_CONFIG_HOME": "", **self._exported}),
            patch.object(sys, "path", [str(self.home), *sys.path]),
            redirect_stdout(printed),
        ):
            exec(code, self._names)
        lines = iter(printed.getvalue().splitlines())
        for shown in _PRINTED.findall(block.text):
            assert shown in lines, f"{block.page}:{block.line}: nothing printed {shown}\n{printed.getvalue()}"

    def _run_command(self, block: Block, command: str, expected: list[str]) -> None:
        wanted = _EXITS.search(command)
        script = self._current(_EXITS.sub("", command))
        if _SERVER.fullmatch(script):
            self._serve(block, script, expected)
            return
        if script.endswith("&"):
            self._begin(script.removesuffix("&"))
            return
        if job := _KILL.fullmatch(script):
            _end(self._running[int(job[1]) - 1])
            return
        set_once = re.match(r"export (\w+)=\$\(", script)
        if set_once:
            script += f' && echo "${set_once[1]}"'
        elif re.match(r"(export|cd) ", script):
            self._prelude += script + "\n"
        done = subprocess.run(
            ["bash", "-c", self._prelude + script],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        output = (done.stdout + done.stderr).splitlines()
        where = f"{block.page}:{block.line}: $ {script}\n" + "\n".join(output)
        assert done.returncode == (int(wanted[1]) if wanted else 0), f"exit code {done.returncode}\n{where}"
        if set_once:
            # The command is not run again for every line that follows.
            self._prelude += f"export {set_once[1]}={shlex.quote(done.stdout.strip())}\n"
        if script.startswith("export "):
            self._note_exported(script)
        if expected:
            self._compare(expected, output, where)

    def _note_exported(self, script: str) -> None:
        listed = subprocess.run(
            ["bash", "-c", self._prelude + "env -0"], env=self.environment, capture_output=True, text=True, check=True
        )
        now = dict(line.split("=", 1) for line in listed.stdout.split("\0") if line)
        self._exported |= {name: now[name] for name in re.findall(r"\b(\w+)=", script) if name in now}

    def _serve(self, block: Block, script: str, expected: list[str]) -> None:
        """Start the page's server on a free port and read what it says until it is ready."""
        server = self._start(f"exec {script.removesuffix('&')} --port 0", subprocess.PIPE)
        assert server.stdout is not None
        output: list[str] = []
        for line in server.stdout:
            output.append(line.rstrip("\n"))
            if line.startswith("Stop with"):
                break
        if expected:
            self._compare(expected, output, f"{block.page}:{block.line}: $ {script}\n" + "\n".join(output))

    def _begin(self, script: str) -> None:
        """Run a command beside the page."""
        before = self._streams() if "parley listen" in script else 0
        # In the shell's place, so that it has ended when its process has.
        process = self._start(_ASSIGNMENTS.sub(r"\1exec ", script, count=1), subprocess.DEVNULL)
        deadline = time.monotonic() + _PATIENCE
        while "parley listen" in script and self._streams() == before:
            assert process.poll() is None, f"ended at once: {script}"
            assert time.monotonic() < deadline, f"does not listen: {script}"
            time.sleep(0.02)

    def _start(self, script: str, output: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["bash", "-c", self._prelude + script],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def _streams(self) -> int:
        """How many streams the page's server has begun, by its own count."""
        saved = json.loads((self.home / ".config" / "parley" / "logins.json").read_text(encoding="utf-8"))
        login = saved["contexts"][saved["current"]]
        counted = ["curl", "-sf", f"{login['url']}/metrics", "-H", f"X-API-Key: {login['key']}"]
        done = subprocess.run(counted, capture_output=True, text=True, check=True)
        return sum(int(count) for count in _BEGUN.findall(done.stdout))

    def _current(self, text: str) -> str:
        """A page's text with the ids of this run instead of those the page was written with."""
        text = text.replace(SHOWN_HOME, str(self.home))
        if SHOWN_STORE in text:
            self._store = self._store or new_database()
            text = text.replace(SHOWN_STORE, self._store)
        for shown, actual in self._now.items():
            text = re.sub(rf"(?<![A-Za-z0-9]){shown}(?![A-Za-z0-9])", actual, text)
        days = {now for now in self._now.values() if now.startswith("conv-")}
        return re.sub(r"conv-\d{8}-", days.pop(), text) if days else text

    def _compare(self, expected: list[str], output: list[str], where: str) -> None:
        # The log of a server goes to the same terminal, sometimes before the server says where it is.
        output = [line for line in output if not line.startswith(_LOGGED)]
        left = iter(zip(output, _ends(output), strict=True))
        skipping = False
        for line, ends in zip(expected, _ends(expected), strict=True):
            if line.strip() == "...":
                skipping = True
                continue
            for actual, actual_ends in left:
                # An id is shown whole or by its end, so it is compared as this run has it.
                if self._plain(actual) == self._plain(self._with_ends(line, ends, actual_ends)):
                    self._learn(line, actual)
                    self._now.update(zip(ends, actual_ends, strict=False))
                    break
                assert skipping, f"the page says\n  {line}\nbut there came\n  {actual}\n{where}"
            else:
                raise AssertionError(f"the page says\n  {line}\nbut the output ended\n{where}")
            skipping = False
        rest = [line for line, _ in left if line.strip()]
        assert skipping or not rest, f"the page does not show\n  {rest[0]}\n{where}"

    def _with_ends(self, line: str, ends: list[str], actual: list[str]) -> str:
        """A shown line as this run has it; the ends of ids that are not known yet are those that came."""
        unknown = {end: now for end, now in zip(ends, actual, strict=False) if end not in self._now}
        line = self._current(line)
        for end, now in unknown.items():
            line = re.sub(rf"(?<![A-Za-z0-9]){end}(?![A-Za-z0-9])", now, line, count=1)
        return line

    def _plain(self, line: str) -> str:
        line = line.replace(str(self.home), SHOWN_HOME)
        if self._store:
            line = line.replace(self._store, SHOWN_STORE)
        line = without_varying(line)
        return line.strip()

    def _learn(self, shown: str, actual: str) -> None:
        for old, new in zip(_MESSAGE_ID.finditer(shown), _MESSAGE_ID.finditer(actual), strict=True):
            self._now[old[0]] = new[0]
            self._now[old[2]] = new[2]
        for old, new in zip(_TEAM_ID.finditer(shown), _TEAM_ID.finditer(actual), strict=True):
            self._now[old[0][-_END_CHARS:]] = new[0][-_END_CHARS:]
        for pattern in (_TOKEN, _TEAM_ID, _LABEL, _DIGEST, _SECRET, _ADDRESS):
            self._now.update(zip(pattern.findall(shown), pattern.findall(actual), strict=True))
        for day in re.findall(r"conv-\d{8}-", actual):
            self._now[day] = day


def _ends(lines: list[str]) -> list[list[str]]:
    """The ends of ids that each line shows, by the headings of its table."""
    columns: list[int] = []
    ends: list[list[str]] = []
    for line in lines:
        heads = [match.start() for match in _ID_HEADS.finditer(line)]
        cells = [line[at:].split(" ", 1)[0] for at in columns if line[max(0, at - 2) : at].strip() == ""]
        ends.append([] if heads else [cell for cell in cells if len(cell) == _END_CHARS])
        columns = heads or (columns if line.strip() else [])
    return ends


def _end(process: subprocess.Popen[str]) -> None:
    """Stop a background command, with whatever it started, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(_PATIENCE)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the output that the page shows."""
    command, expected = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], []
        elif line.startswith(">") and not expected and command:
            command += "\n" + line[2:]
        else:
            expected.append(line)
    if command:
        yield command, expected
