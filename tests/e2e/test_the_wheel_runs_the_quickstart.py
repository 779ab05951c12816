"""The package as a user gets it: built, installed by its name into an empty environment, and the README tried there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parley.domain.version import VERSION
from tools.record_session import commands

ROOT = Path(__file__).resolve().parents[2]
SAVED = re.compile(r"<!-- saved as (\S+) -->\n```python\n(.*?)```", re.DOTALL)
MINUTES = 5 * 60


def ran(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=MINUTES, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running(*command: str | Path, cwd: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds nothing but the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    ran(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder / "dist", ROOT, cwd=folder)
    (wheel,) = folder.glob("dist/*.whl")
    assert f"dist/{wheel.name}" in (ROOT / "docs" / "how-to" / "install.md").read_text()
    ran(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
    found = ("--find-links", folder / "dist", "agent-parley")
    ran(*pip, "--python", folder / "env", "install", "--quiet", *found, cwd=folder)
    return folder / "env" / "bin"


@pytest.mark.slow
def test_the_readmes_agent_answers_from_an_installed_wheel(installed: Path, tmp_path: Path) -> None:
    # given the README's agent, as the README says to save it, and a server
    ((name, text),) = SAVED.findall((ROOT / "README.md").read_text())
    (tmp_path / name).write_text(text)
    path = f"{installed}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    parley = installed / "parley"
    with running(parley, "up", "--ephemeral", "--port", "0", "--json", cwd=tmp_path, env=env) as server:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        env |= {"PARLEY_URL": said["url"], "PARLEY_KEY": said["admin_key"]}
        intent = json.loads(
            ran(parley, "intent", "create", "Research", "--access", "open", "--json", cwd=tmp_path, env=env)
        )["id"]

        # when it runs, and is asked by the command and by a client
        with running(installed / "python", name, cwd=tmp_path, env=env):
            asking = (
                "ask",
                "questions",
                "--intent",
                intent,
                "--agent",
                "research",
                "--to",
                "data-agent",
                "--wait-for-responders",
            )
            by_command = json.loads(ran(parley, *asking, "--field", "question=x", "--json", cwd=tmp_path, env=env))
            program = (
                "import parley, sys\n"
                "with parley.Client(agent='research') as client:\n"
                "    channel = client.open_channel(sys.argv[1], 'questions')\n"
                "    print(client.ask(channel.id, None, 'data-agent', {'question': 'x'}).payload['answer'])\n"
            )
            by_client = ran(installed / "python", "-c", program, intent, cwd=tmp_path, env=env)

    # then it answers both
    assert by_command["payload"] == {"answer": "v2.3"}
    assert by_client == "v2.3\n"


@pytest.mark.slow
def test_the_first_commands_of_the_readme_run_from_an_installed_wheel(installed: Path, tmp_path: Path) -> None:
    env = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path)}

    version = ran(installed / "parley", "--version", cwd=tmp_path, env=env)
    printed = [ran("/bin/sh", "-c", line, cwd=tmp_path, env=env) for line in commands((ROOT / "README.md").read_text())]

    assert version == f"parley {VERSION}\n"
    assert "mTLS or JWT for internal calls?" in printed[-1]


@pytest.mark.slow
def test_an_installed_wheel_tells_a_type_checker_that_it_is_typed(installed: Path) -> None:
    assert list(installed.parent.glob("lib/python3*/site-packages/parley/py.typed"))
