"""`parley up`: one line when it is ready, one line when it cannot be."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from parley import wiring
from parley.app.team.team import Team
from parley.cli.server import up
from parley.domain.directory.callers import NO_TENANT, Key, KeyKind, key_digest
from parley.settings import load
from tests.rigs.process import ADMIN_KEY

PATIENCE = 60


def start(folder: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "parley.cli.main", "up", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.defpath, "HOME": str(folder), **environment},
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what it complained about."""
    _, complaint = process.communicate(timeout=PATIENCE)
    return process.returncode, complaint.strip()


def ready(process: subprocess.Popen[str]) -> dict[str, str | None]:
    assert process.stdout is not None
    told: dict[str, str | None] = json.loads(process.stdout.readline())
    return told


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    return process.returncode


def test_it_says_in_one_line_where_it_is_and_shows_its_first_key_once(tmp_path: Path) -> None:
    options = ("--json", "--port", "0", "--data", str(tmp_path / "data"))

    first = start(tmp_path, *options)
    told = ready(first)
    assert stop(first) == 0
    second = start(tmp_path, *options)
    again = ready(second)
    assert stop(second) == 0

    assert str(told["url"]).startswith("http://127.0.0.1:")
    assert str(told["admin_key"]).startswith("pk_")
    assert told["data"] == str(tmp_path / "data")
    assert again["admin_key"] is None


def test_what_it_keeps_is_for_its_owner_alone(tmp_path: Path) -> None:
    process = start(tmp_path, "--json", "--port", "0", "--data", str(tmp_path / "data"))
    ready(process)

    kept = list((tmp_path / "data").iterdir())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in kept if path.is_dir()}
    stop(process)

    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert folders <= {0o700}
    assert set(modes.values()) == {0o600}
    assert "parley.db" in modes


def test_a_port_that_is_taken_is_said_in_one_line_and_costs_no_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, complaint = ended(start(tmp_path, "--json", "--port", str(port), "--data", str(tmp_path / "data")))

    process = start(tmp_path, "--json", "--port", "0", "--data", str(tmp_path / "data"))
    told = ready(process)
    stop(process)

    assert code == 7
    assert f"port {port} is taken" in complaint
    assert "--port" in complaint
    assert str(told["admin_key"]).startswith("pk_")


@pytest.mark.parametrize(
    ("options", "environment", "code", "said"),
    [
        (("--host", "0.0.0.0"), {}, 78, "--behind-proxy"),
        (("--tls-cert", "cert.pem"), {}, 78, "both a certificate and its key"),
        (("--tls-cert", "none.pem", "--tls-key", "none.key"), {}, 78, "none.pem"),
        (("--port", "many"), {}, 2, "not a port"),
        ((), {"PARLEY_PORT": "many"}, 78, "$PARLEY_PORT"),
        ((), {"PARLEY_ADMIN_KEY": "admin"}, 78, "openssl rand -base64 32"),
        ((), {"PARLEY_ADMIN_KEY": "x" * 31}, 78, "at least 32 characters"),
        ((), {"PARLEY_ADMIN_KEY": "x" * 40}, 78, "at least 8 different characters"),
        ((), {"PARLEY_ADMIN_KEY": "my password " * 4}, 78, "no space"),
        ((), {"PARLEY_ADMIN_KEY": "schl\u00fcssel" * 5}, 78, "ASCII only"),
        ((), {"PARLEY_TRUSTED_PROXY": "10.0.0.0/8"}, 78, "did you mean PARLEY_TRUSTED_PROXIES?"),
        ((), {"PARLEY_APPROVALS_PROJECT": "demo"}, 78, "$PARLEY_APPROVALS_PROJECT: approvals_project is set, but"),
    ],
)
def test_what_is_not_safe_or_not_possible_is_refused_with_what_to_do(
    tmp_path: Path, options: tuple[str, ...], environment: dict[str, str], code: int, said: str
) -> None:
    given = options if "--port" in options or "PARLEY_PORT" in environment else (*options, "--port", "0")

    found, complaint = ended(start(tmp_path, "--data", str(tmp_path / "data"), *given, **environment))

    assert found == code
    assert said in complaint
    assert complaint.startswith("error: ")
    assert all(line.startswith("hint: ") for line in complaint.splitlines()[1:])


def test_a_home_with_several_projects_needs_the_name_of_one(tmp_path: Path) -> None:
    home = tmp_path / "people"
    given = {"PARLEY_APPROVALS_HOME": str(home)}
    options = ("--json", "--port", "0", "--data", str(tmp_path / "data"))
    wiring.create_project(str(home), "first", ("ann",))
    one = start(tmp_path, *options, **given)
    assert ready(one)["url"]
    stop(one)
    wiring.create_project(str(home), "second", ("ann",))

    code, complaint = ended(start(tmp_path, *options, **given))
    named = start(tmp_path, *options, **given, PARLEY_APPROVALS_PROJECT="second")

    assert (code, len(complaint.splitlines())) == (78, 1)
    assert "approvals_home is set, but approvals_project is not: 2 projects" in complaint
    assert ready(named)["url"]
    stop(named)


def test_a_directory_that_others_may_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)

    code, complaint = ended(start(tmp_path, "--port", "0", "--data", str(tmp_path / "data")))

    assert code == 78
    assert "chmod 700" in complaint


def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    options = ("--json", "--port", "0", "--data", str(tmp_path / "data"))
    first = start(tmp_path, *options)
    ready(first)

    code, complaint = ended(start(tmp_path, *options))
    stop(first)

    assert code == 4
    assert "a server is running" in complaint


def test_what_is_ephemeral_leaves_nothing_behind(tmp_path: Path) -> None:
    process = start(tmp_path, "--json", "--port", "0", "--ephemeral", TMPDIR=str(tmp_path))
    data = Path(str(ready(process)["data"]))
    assert data.is_relative_to(tmp_path)

    assert stop(process) == 0

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("package parley\nimport rego.v1\n\ndeny contains {\n", "acme.rego:4: this is unclosed"),
        ("package acme\n", "acme.rego: no module is of the package parley"),
        (None, "acme.rego: there is no .rego file"),
    ],
)
def test_with_broken_rules_of_ones_own_it_does_not_start_and_says_where(
    tmp_path: Path, text: str | None, said: str
) -> None:
    pytest.importorskip("regopy")
    rules = tmp_path / "acme.rego"
    if text is not None:
        rules.write_text(text)

    options = ("--data", str(tmp_path / "data"), "--port", "0")
    code, complaint = ended(start(tmp_path, *options, PARLEY_REGO=str(rules)))

    assert code == 78
    assert said in complaint
    assert len(complaint.splitlines()) <= 2


def test_with_rules_of_ones_own_it_starts_and_leaves_no_process_behind(tmp_path: Path) -> None:
    pytest.importorskip("regopy")
    rules = tmp_path / "acme.rego"
    rules.write_text('package parley\nimport rego.v1\ndeny contains "no" if input.level == "restricted"\n')

    server = start(tmp_path, "--json", "--ephemeral", "--port", "0", PARLEY_REGO=str(rules))
    ready(server)
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    before = children.read_text().split() if children.exists() else []
    assert stop(server) == 0

    assert all(not Path(f"/proc/{one}").exists() for one in before)


def test_a_variable_of_another_program_is_named_in_the_log_and_stops_nothing(tmp_path: Path) -> None:
    process = start(tmp_path, "--json", "--port", "0", "--data", str(tmp_path / "data"), PARLEY_SERVICE_HOST="10.0.0.7")
    ready(process)
    process.send_signal(signal.SIGTERM)
    code, log = ended(process)

    assert code == 0
    (warning,) = [line for line in map(json.loads, log.splitlines()) if line["level"] == "warning"]
    assert warning["variable"] == "PARLEY_SERVICE_HOST"
    assert "10.0.0.7" not in log


def test_a_configured_admin_key_is_valid_before_anybody_can_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listening(Exception):  # not an error
        pass

    async def serve(team: Team, *_: object, **__: object) -> None:
        key = await team.store.find_by_name(Key, NO_TENANT, "", key_digest(ADMIN_KEY))
        assert key is not None
        assert (key.key_kind, key.operator, team.nodes.starting) == (KeyKind.ADMIN, True, False)
        raise Listening

    monkeypatch.setattr("parley.surfaces.http.server.serve", serve)
    settings = load({}, {"HOME": str(tmp_path), "PARLEY_ADMIN_KEY": ADMIN_KEY})
    options = Namespace(behind_proxy=False, ephemeral=True)

    with pytest.raises(Listening):
        asyncio.run(up._serve(options, settings, str(tmp_path / "data"), "127.0.0.1", 0, None))
