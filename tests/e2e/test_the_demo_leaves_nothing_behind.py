"""`parley demo` as a process: what it shows, what goes on when a person decides, and what is left when it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
PATIENCE = 60


class Home:
    """A fresh home, a repository to stand in, and a folder for temporary files: all three stay as they are."""

    def __init__(self, path: Path) -> None:
        self.home, self.repository, self.temporary = (path / name for name in ("home", "repository", "temporary"))
        for folder in (self.home, self.repository / ".git", self.temporary):
            folder.mkdir(parents=True)
        # It would lead to a database that is not there.
        (self.repository / "parley.toml").write_text('store = "postgresql://nobody@127.0.0.1:1/nothing"\n')
        self._before = self._tree()

    def _tree(self) -> list[str]:
        folders = (self.home, self.repository, self.temporary)
        return sorted(str(path) for folder in folders for path in folder.rglob("*"))

    @contextmanager
    def demo(self, *options: str, terminal: str = "") -> Iterator[subprocess.Popen[str]]:
        environment = {"HOME": str(self.home), "PATH": os.defpath, "TMPDIR": str(self.temporary), "LANG": "C.UTF-8"}
        if "PYTHONPATH" in os.environ:
            environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        # The first terminal that the leader of a session opens is the one that it loses.
        streams = f'<"{terminal}" >"{terminal}" 2>&1' if terminal else "</dev/null 2>&1"
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$0" demo "$@" {streams}', str(BIN / "parley"), *options],
            stdout=subprocess.PIPE,
            cwd=self.repository,
            env=environment,
            start_new_session=True,
            # Under nohup the tests ignore it, and the demo would, too.
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509  # it takes no lock
            text=True,
            encoding="utf-8",
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def check_nothing_is_left(self, process: subprocess.Popen[str]) -> None:
        assert process.wait(PATIENCE) == 0
        assert self._tree() == self._before
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)


def lines_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """What the demo prints, up to the line with these words."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if words in line:
            return lines
    raise AssertionError("\n".join(lines))


class Browser:
    """A person's browser, which has signed in by their link."""

    def __init__(self, link: str) -> None:
        url = urlsplit(link)
        self._port = url.port
        self._host = url.netloc
        self._cookie = ""
        headers = self._send("POST", "/console/login", {"once": url.fragment.removeprefix("once=")})[0]
        self._cookie = headers["set-cookie"].partition(";")[0]

    def open(self, path: str) -> str:
        return self._send("GET", path)[1]

    def decide(self, decision: str) -> None:
        """Open the approval that waits, and decide."""
        found = re.search(r'href="(/console/approvals/appr_\w+)"', self.open("/console/approvals"))
        assert found is not None
        digest = re.search(r'name="digest" value="(\w+)"', self.open(found[1]))
        assert digest is not None
        self._send("POST", found[1], {"decision": decision, "digest": digest[1], "note": "as we said"})

    def _send(self, method: str, path: str, form: dict[str, str] | None = None) -> tuple[dict[str, str], str]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        headers = {"Host": self._host, "Sec-Fetch-Site": "same-origin", "Cookie": self._cookie}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        connection.request(method, path, urlencode(form) if form else None, headers)
        answer = connection.getresponse()
        assert answer.status in (200, 303), (path, answer.status, answer.read())
        body = answer.read().decode()
        connection.close()
        return {name.lower(): value for name, value in answer.getheaders()}, body


def links_of(lines: list[str]) -> dict[str, str]:
    links = [line.strip() for line in lines if "#once=" in line]
    return {urlsplit(link).netloc.partition(".")[0]: link for link in links}


def test_it_ends_by_itself_and_prints_a_link_for_each_person(tmp_path: Path) -> None:
    home = Home(tmp_path)

    with home.demo("--for", "1s", "--json") as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.read())
        home.check_nothing_is_left(process)

    assert sorted(document) == ["links", "url"]
    assert sorted(document["links"]) == ["admin", "ann", "bob"]
    assert all(f"{name}.localhost:" in link for name, link in document["links"].items())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_while_people_look_at_it(tmp_path: Path, number: signal.Signals) -> None:
    home = Home(tmp_path)

    with home.demo() as process:
        links = links_of(lines_until(process, "Stop with Ctrl-C"))
        assert "Acme" in Browser(links["ann"]).open("/console/approvals")
        servers = Browser(links["admin"]).open("/console/servers")
        assert (">demo<" in servers, ":8420" in servers) == (True, False)
        process.send_signal(number)
        assert "The demo has ended" in lines_until(process, "The demo has ended")[-1]
        home.check_nothing_is_left(process)


def test_a_signal_ends_it_while_it_starts(tmp_path: Path) -> None:
    home = Home(tmp_path)

    with home.demo() as process:
        while not any(home.temporary.iterdir()):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        home.check_nothing_is_left(process)


def test_it_ends_when_its_terminal_goes(tmp_path: Path) -> None:
    home = Home(tmp_path)
    ours, theirs = pty.openpty()

    with home.demo(terminal=os.ttyname(theirs)) as process:
        shown = b""
        while b"Stop with Ctrl-C" not in shown:
            shown += os.read(ours, 65_536)
        os.write(ours, b"\n")
        while shown.count(b"bob.localhost") < 2:  # Enter prints fresh links
            shown += os.read(ours, 65_536)
        os.close(theirs)
        os.close(ours)
        home.check_nothing_is_left(process)


def test_it_ends_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    home = Home(tmp_path)

    with home.demo() as process:
        lines_until(process, "Stop with Ctrl-C")
        assert process.stdout is not None
        process.stdout.close()
        home.check_nothing_is_left(process)


def test_the_conversation_goes_on_when_people_decide(tmp_path: Path) -> None:
    home = Home(tmp_path)

    with home.demo() as process:
        lines = lines_until(process, "refused: confidential")
        links = links_of(lines)
        assert any("We commit to Friday.  held for bob" in line for line in lines)
        assert any("We promise Acme ten seats with ENG-1234.  held for ann" in line for line in lines)

        Browser(links["bob"]).decide("approve")
        lines_until(process, "approved by bob")
        lines_until(process, 'Engineering says: "We commit to Friday." Please tell Acme.')
        Browser(links["ann"]).decide("reject")
        lines_until(process, "rejected by ann")
        lines_until(process, "Ann does not want me to promise that.")

        process.send_signal(signal.SIGINT)
        home.check_nothing_is_left(process)


def test_a_time_that_is_no_time_is_refused_before_anything_starts(tmp_path: Path) -> None:
    home = Home(tmp_path)

    for length in ("2h", "soon"):
        with home.demo("--for", length) as process:
            assert process.stdout is not None
            assert "error:" in process.stdout.read()
            assert process.wait(PATIENCE) == 2
