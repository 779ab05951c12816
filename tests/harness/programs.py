"""The four coding agents as programs: what their homes hold so that they start without questions, and their commands.

Each runs with a home and a repository of its own, with `env -i`, and with a scripted model in place of a real one.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.packages import cache, locked

PARLEY = Path(sys.executable).with_name("parley")
_KEY = "sk-ant-dummy-0123456789abcdefghijklmnop"
_COMMAND_SECONDS = 180
# Stands for `parley` where what it is given is recorded.
_RECORDER = Path(__file__).with_name("recorder.py")
AGENTS = ("claude", "codex", "gemini", "opencode")


class Program(NamedTuple):
    """How one coding agent is started: files of its home, its variables, and its commands."""

    name: str
    files: Callable[[Workplace], Mapping[str, str]]
    variables: Callable[[Workplace], Mapping[str, str]]
    # One prompt, then the end.
    print_command: Callable[[str], list[str]]
    # In a terminal, until it is closed.
    terminal_command: list[str]
    # What its screen shows once it waits for a person.
    ready: str


class Workplace:
    """A home, a repository with a project of Parley, and one coding agent that is set up in it."""

    def __init__(self, folder: Path, program: Program, model_url: str, record: Path | None = None) -> None:
        self.home = folder / "home"
        self.repository = folder / "repository"
        self.program = program
        self.model_url = model_url
        self.name = program.name
        for made in (self.home, self.repository, folder / "bin", folder / "tmp"):
            made.mkdir(parents=True)
        self._link_programs(folder / "bin", record)
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SHELL": "/bin/bash",
            "TMPDIR": str(folder / "tmp"),
            **program.variables(self),
        }
        self.run("git", "init", "--quiet", "--initial-branch=main")
        for path, text in program.files(self).items():
            target = self.home / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self.parley("init", "--agents", ",".join(AGENTS))

    def _link_programs(self, folder: Path, record: Path | None) -> None:
        for name in AGENTS:
            package = locked()[name]
            if package.program.endswith(".js"):
                (folder / name).write_text(f'#!/bin/sh\nexec node {shlex.quote(str(package.path))} "$@"\n')
                (folder / name).chmod(0o755)
            else:
                (folder / name).symlink_to(package.path)
        if record is None:
            (folder / "parley").symlink_to(PARLEY)
            return
        record.mkdir()
        (folder / "parley").write_text(
            f"#!{PARLEY.with_name('python')}\n{_RECORDER.read_text()}".replace("RECORD", str(record))
        )
        (folder / "parley").chmod(0o755)

    def run(self, *command: str, check: bool = True, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end in the repository, with nothing of our environment."""
        ran = subprocess.run(
            command,
            env=self.environment,
            cwd=self.repository,
            input=text,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if check and ran.returncode:
            raise RuntimeError(f"{shlex.join(command)} ended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}")
        return ran

    def parley(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of Parley."""
        return self.run("parley", *arguments, check=check)

    def document(self, *arguments: str) -> Any:  # noqa: ANN401  # whatever the command says
        """What a command of Parley prints with --json."""
        return json.loads(self.parley(*arguments, "--json").stdout)

    def set_up(self) -> None:
        """Do what a user does: run setup, and the command that it names for Claude Code."""
        said = self.parley("setup", self.name, "--yes").stdout
        for line in said.splitlines():
            if "add the tools with: " in line:
                self.run(*shlex.split(line.partition("with: ")[2]))

    def send(self, text: str, *more: str, sender: str = "") -> str:
        """Send a message to the coding agent and return its id."""
        sender = sender or next(name for name in AGENTS if name != self.name)
        sent = self.document("send", self.name, text, "--from", sender, *more)
        return str(sent["id"])

    def print_mode(self, prompt: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Let the coding agent handle one prompt."""
        return self.run(*self.program.print_command(prompt), check=check)


def _claude_files(place: Workplace) -> dict[str, str]:
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [_KEY[-20:]], "rejected": []},
        "projects": {str(place.repository): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    return {".claude.json": json.dumps(state)}


def _claude_variables(place: Workplace) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": place.model_url,
        "ANTHROPIC_API_KEY": _KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _codex_files(place: Workplace) -> dict[str, str]:
    config = f"""\
model = "gpt-5"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{place.model_url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[features]
plugins = false
apps = false

[analytics]
enabled = false

[projects."{place.repository}"]
trust_level = "trusted"
"""
    return {".codex/config.toml": config}


def _codex_variables(_place: Workplace) -> dict[str, str]:
    return {"SCRIPTED_KEY": "scripted"}


def _gemini_files(_place: Workplace) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "enableAutoUpdate": False},
    }
    return {".gemini/settings.json": json.dumps(settings)}


def _gemini_variables(place: Workplace) -> dict[str, str]:
    return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": place.model_url}


def _opencode_files(place: Workplace) -> dict[str, str]:
    plugin = locked()["opencode_plugin"]
    config = {
        "provider": {
            "scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "scripted",
                "options": {"baseURL": f"{place.model_url}/v1", "apiKey": "scripted"},
                "models": {"scripted": {"name": "scripted"}},
            }
        },
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
    }
    needs = {"dependencies": {"@opencode-ai/plugin": plugin.version}}
    # OpenCode asks the package registry, and tries again for 70 seconds, for what the lock does not name.
    lock = {"lockfileVersion": 3, "packages": {"": needs}}
    for folder in (place.home / ".config" / "opencode", place.repository / ".opencode"):
        modules = folder / "node_modules" / "@opencode-ai"
        modules.mkdir(parents=True)
        (modules / "plugin").symlink_to(plugin.folder)
        (folder / "package.json").write_text(json.dumps(needs))
        (folder / "package-lock.json").write_text(json.dumps(lock))
        (folder / ".gitignore").write_text("*\n")
    return {".config/opencode/opencode.json": json.dumps(config)}


def _opencode_variables(_place: Workplace) -> dict[str, str]:
    return {
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


PROGRAMS = {
    "claude": Program(
        "claude",
        _claude_files,
        _claude_variables,
        lambda prompt: ["claude", "-p", prompt],
        ["claude"],
        "shift+tab to cycle",
    ),
    "codex": Program(
        "codex",
        _codex_files,
        _codex_variables,
        lambda prompt: ["codex", "exec", "--dangerously-bypass-hook-trust", prompt],
        # Without options: with any, a session does not run in the daemon, and is slow to be woken.
        ["codex"],
        "gpt-5 default",
    ),
    "gemini": Program(
        "gemini",
        _gemini_files,
        _gemini_variables,
        lambda prompt: ["gemini", "-p", prompt],
        ["gemini"],
        "Type your message",
    ),
    "opencode": Program(
        "opencode",
        _opencode_files,
        _opencode_variables,
        lambda prompt: ["opencode", "run", prompt],
        ["opencode"],
        "Ask anything",
    ),
}


def scratch_folder() -> Path:
    """Where homes are made: not below /tmp, where Codex does not start its sandbox."""
    folder = cache() / "homes"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
