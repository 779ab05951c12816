"""`parley up` and the login of whoever starts it: saved, moved with the server, and replaced when it was lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.process import ADMIN_KEY, KeptPort
from tests.surface.cli.team_stage import PATIENCE
from tests.surface.stage import Ran

pytestmark = pytest.mark.sqlite_only

NOT_SHOWN = "  (save it; it is not shown again)"


class Home:
    """A home directory, and commands that run there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {"PATH": os.defpath, "HOME": str(path)}
        self.file = path / ".config" / "parley" / "logins.json"

    @contextmanager
    def up(self, *options: str, **environment: str) -> Iterator[list[str]]:
        """A running server; what it printed until it was ready."""
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "parley.cli.main",
                "up",
                *(options if "--port" in options else ("--port", "0", *options)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={name: value for name, value in {**self.environment, **environment}.items() if value},
        )
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if line.startswith(("Stop with", "{")):
                    break
            yield lines
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)

    def run(self, *words: str, **environment: str) -> Ran:
        ended = subprocess.run(
            [sys.executable, "-m", "parley.cli.main", *words],
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    @property
    def logins(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return document


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def url_in(lines: list[str]) -> str:
    return lines[0].split()[4]


def test_the_first_start_saves_the_key_and_does_not_print_it(home: Home) -> None:
    with home.up() as lines:
        ran = home.run("whoami")

    assert lines[2:] == [
        f"Data in {home.path}/.local/share/parley",
        'Saved the admin key as context "local" in ~/.config/parley/logins.json',
        "Your commands and programs use this server now.",
        "Try: parley intent create 'First steps'",
        f"Console: {lines[0].removeprefix('Parley is up at ')}/console",
        "Stop with Ctrl-C.",
    ]
    assert (
        ran.out
        == f"server: {url_in(lines)}\ncontext: local\nkey: admin (operator), from context local\ntenant: default\n"
    )
    assert stat.S_IMODE(home.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.file.parent.stat().st_mode) == 0o700


EARLY = """\
import parley

@parley.Agent("early")
class Early(parley.BaseAgent):
    @parley.on_request
    async def answer(self, message):
        return {"answer": "here"}

Early().run()
"""


@pytest.mark.slow
def test_an_agent_that_starts_before_the_first_server_uses_the_key_that_is_saved_then(home: Home) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = KeptPort(port)
    agent = subprocess.Popen(
        [sys.executable, "-c", EARLY],
        env={**home.environment, "PARLEY_URL": f"http://127.0.0.1:{port}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert agent.stderr is not None
    try:
        assert "early: waits for its server" in agent.stderr.readline()
        with home.up("--port", str(port)):
            assert agent.stderr.readline().startswith("parley: early at work on")
            asked = home.run("ask", "early", "hi", "--agent", "boss", "--timeout", "60s")
    finally:
        agent.kill()
        agent.communicate()
        kept.close()

    assert asked.out.splitlines()[1:] == ["answer: here"]


@pytest.mark.slow
def test_a_server_that_starts_at_another_address_takes_its_logins_along(home: Home) -> None:
    with home.up():
        assert home.run("key", "create", "--user", "ann", "--save").code == 0
    with home.up() as lines:
        own, ann = home.run("whoami", "--json").json, home.run("whoami", "--context", "ann", "--json").json

    assert "Your commands and programs use this server now." in lines
    assert (own["url"], own["kind"]) == (url_in(lines), "admin")
    assert (ann["url"], ann["user_id"]) == (url_in(lines), "ann")
    assert "pk_" not in "".join(lines)


def test_the_saved_login_follows_xdg_config_home(home: Home) -> None:
    with home.up(XDG_CONFIG_HOME=str(home.path / "xdg")) as lines:
        ran = home.run("whoami", XDG_CONFIG_HOME=str(home.path / "xdg"))

    assert lines[3] == 'Saved the admin key as context "local" in ~/xdg/parley/logins.json'
    assert ran.code == 0
    assert not home.file.exists()


@pytest.mark.parametrize("option", ["--no-save", "--ephemeral"])
def test_a_key_that_is_not_saved_is_printed(home: Home, option: str) -> None:
    with home.up(option) as lines:
        [shown] = [line for line in lines if line.endswith(NOT_SHOWN)]
        key = shown.split()[2]
        ran = home.run("whoami", PARLEY_URL=url_in(lines), PARLEY_KEY=key)

    assert (ran.code, home.file.exists()) == (0, False)


def test_a_program_gets_the_key_as_json_and_nothing_is_saved_unless_it_says_so(home: Home) -> None:
    with home.up("--json", "--data", str(home.path / "a")) as lines:
        assert json.loads(lines[0])["admin_key"].startswith("pk_")
        assert not home.file.exists()
    with home.up("--json", "--save", "--data", str(home.path / "b")) as lines:
        assert json.loads(lines[0])["context"] == "local"
        assert home.run("whoami").code == 0


@pytest.mark.parametrize(
    ("blocked", "reason"),
    [
        ("a file", ".config is not a directory"),
        ("a link", "{file} is a link (remove it and log in again: parley login URL)"),
        (
            "open to others",
            "{file} can be read by other users (chmod 600 {file}; others may know its keys: see parley key rotate)",
        ),
        ("broken", "{file} is not JSON (fix it, or remove it and log in again: parley login URL)"),
    ],
)
def test_a_server_starts_where_nothing_can_be_saved_and_prints_its_key(home: Home, blocked: str, reason: str) -> None:
    if blocked == "a file":
        (home.path / ".config").write_text("")
    else:
        home.file.parent.mkdir(parents=True, mode=0o700)
        if blocked == "a link":
            home.file.symlink_to("/dev/null")
        else:
            home.file.write_text("{")
            home.file.chmod(0o644 if blocked == "open to others" else 0o600)

    with home.up() as lines:
        [problem] = [line for line in lines if line.startswith("Not saved: ")]
        [shown] = [line for line in lines if line.endswith(NOT_SHOWN)]
        assert home.run("intent", "list", PARLEY_URL=url_in(lines), PARLEY_KEY=shown.split()[2]).code == 0

    assert reason.format(file=home.file) in problem


def test_a_server_starts_in_a_home_that_is_read_only(home: Home, tmp_path: Path) -> None:
    data, read_only = tmp_path / "data", tmp_path / "read-only"
    read_only.mkdir()
    words = [sys.executable, "-m", "parley.cli.main", "up", "--port", "0", "--data", str(data)]
    mounted = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
    namespace = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m"]
    process = subprocess.Popen(
        [*namespace, "sh", "-c", mounted, "sh", str(read_only), *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(read_only), "XDG_CONFIG_HOME": ""},
    )
    assert process.stdout is not None
    lines = [next(process.stdout).rstrip("\n") for _ in range(6)]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)

    assert lines[3] == f"Not saved: {read_only}/.config/parley: Read-only file system"
    assert lines[5].endswith(NOT_SHOWN)


def test_a_server_starts_without_any_home(home: Home, tmp_path: Path) -> None:
    """As in a container that runs as a user whom nobody knows."""
    code = (
        "import os, sys; os.path.expanduser = lambda path: path; from parley.cli.main import main; main(sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "up", "--port", "0", "--data", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.defpath},
        cwd=tmp_path,
    )
    assert process.stdout is not None
    lines = [next(process.stdout).rstrip("\n") for _ in range(6)]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)

    assert lines[3] == "Not saved: there is no home directory to save logins in (set HOME or XDG_CONFIG_HOME)"
    assert not (tmp_path / "~").exists()


@pytest.mark.slow
def test_another_login_is_kept_and_the_way_back_is_said(home: Home) -> None:
    home.file.parent.mkdir(parents=True, mode=0o700)
    work = {"url": "https://parley.example.org", "key": "pk_work"}
    home.file.write_text(json.dumps({"current": "work", "contexts": {"work": work}}))
    home.file.chmod(0o600)

    with home.up() as lines:
        pass
    assert "To go back: parley context use work" in lines
    assert home.logins["contexts"]["work"] == work
    assert home.logins["current"] == "local"

    assert home.run("context", "use", "work").code == 0
    with home.up() as lines:
        pass
    assert 'In use is context "work"; to use this server: parley context use local' in lines
    assert home.logins["current"] == "work"


def test_a_second_start_names_the_server_that_runs_already_and_the_login_in_use(home: Home) -> None:
    with home.up() as lines:
        saved = home.logins
        ann = {**saved["contexts"]["local"], "key": "pk_ann", "kind": "human"}
        home.file.write_text(json.dumps({**saved, "contexts": {"ann": ann, **saved["contexts"]}}))
        ran = home.run("up", "--json")

    error = json.loads(ran.err)["error"]
    assert (error["message"], error["hint"]) == (
        f"a server is running on {home.path}/.local/share/parley",
        f'use it at {url_in(lines)} (context "local"), stop it first, or name another directory with --data',
    )


@pytest.mark.slow
def test_a_lost_login_is_replaced_by_a_new_admin_key(home: Home) -> None:
    with home.up():
        lost = home.logins["contexts"]["local"]["key"]
    home.file.unlink()

    with home.up() as lines:
        url = url_in(lines)
        assert lines[3:5] == [
            f"No login is saved for this server; log in with: parley login {url}",
            "If the key is lost, stop the server and run: parley up --new-admin-key",
        ]
        again = home.run("up", "--new-admin-key", "--port", "0", "--json")
        assert json.loads(again.err)["error"]["hint"] == "stop it first, or name another directory with --data"
    with home.up("--new-admin-key") as lines:
        [old] = [
            key
            for key in home.run("key", "list", "--json").json
            if key["id"] != home.run("whoami", "--json").json["key_id"]
        ]
        revoked = home.run("key", "revoke", old["id"])
        entries = home.run("audit", "list", "--action", "key_created", "--json").json
        refused = home.run("whoami", PARLEY_KEY=lost)

    assert lines[3] == 'Saved the admin key as context "local" in ~/.config/parley/logins.json'
    assert "pk_" not in "".join(lines)
    assert revoked.code == 0, revoked.err
    assert [entry["document"]["actor"] for entry in entries] == ["system", "system"]
    assert refused.code == 6


def test_a_saved_key_that_the_server_does_not_know_is_said_at_its_start(home: Home) -> None:
    with home.up():
        pass
    document = home.logins
    document["contexts"]["local"]["key"] = "pk_other"
    home.file.write_text(json.dumps(document))

    with home.up() as lines:
        url = url_in(lines)
        assert lines[3] == f'The saved key of context "local" is not valid here; log in with: parley login {url}'

    assert home.logins == document


def test_a_new_admin_key_and_a_given_one_exclude_each_other(home: Home) -> None:
    ran = home.run("up", "--new-admin-key", "--json", PARLEY_ADMIN_KEY=ADMIN_KEY)

    error = json.loads(ran.err)["error"]
    assert (error["message"], error["hint"]) == (
        "--new-admin-key and $PARLEY_ADMIN_KEY exclude each other",
        "leave one of them out",
    )


@pytest.mark.slow
def test_two_servers_of_one_user_have_a_login_each_and_none_outlives_its_data(home: Home) -> None:
    with home.up("--data", str(home.path / "a")), home.up("--data", str(home.path / "b")) as second:
        assert home.run("whoami", "--json").json["context"] == "local-2"
        assert home.run("whoami", "--context", "local", "--json").json["url"] != url_in(second)
    shutil.rmtree(home.path / "a")
    with home.up("--data", str(home.path / "c")):
        pass

    assert {name: login["data"] for name, login in home.logins["contexts"].items()} == {
        "local": str(home.path / "c"),
        "local-2": str(home.path / "b"),
    }


@pytest.mark.slow
def test_another_server_at_the_same_address_is_used_from_then_on(home: Home) -> None:
    with home.up("--data", str(home.path / "a")) as lines:
        port = url_in(lines).rpartition(":")[2]
    with home.up("--data", str(home.path / "b"), "--port", port):
        assert home.run("whoami", "--json").json["context"] == "local-2"
    with home.up("--data", str(home.path / "a"), "--port", port) as lines:
        ran = home.run("whoami", "--json")

    assert "To go back: parley context use local-2" in lines
    assert ran.json["context"] == "local"


def test_a_variable_that_goes_before_the_saved_login_does_not_stop_the_start(home: Home) -> None:
    with home.up(PARLEY_URL="http://127.0.0.1:1", PARLEY_KEY="pk_x") as lines:
        pass

    assert lines[-3] == "Try: parley intent create 'First steps'"
