"""`parley init` without a name, and with --here."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.surface.cli.test_finding_the_place import place
from tests.surface.stage import Stage


@pytest.fixture
def repository(stage: Stage) -> Path:
    """A repository, seen from deep inside; claude and codex are installed."""
    root = stage.here / "my app"
    (root / "src" / "deep").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    stage.patch.chdir(root / "src" / "deep")
    stage.patch.delenv("PARLEY_HOME")
    install(stage, "claude", "codex")
    return root


def install(stage: Stage, *commands: str) -> None:
    folder = stage.here.parent / "bin"
    folder.mkdir(exist_ok=True)
    for command in commands:
        (folder / command).touch(mode=0o755)
    stage.patch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_project_has_the_name_of_the_repository_and_the_agents_that_are_installed(
    stage: Stage, repository: Path
) -> None:
    ran = stage.run("init")

    path = stage.here.parent / "user" / "oacp" / "projects" / "my-app"
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"Created project my-app in {path}\n"
        f"Commands in every folder of {repository} find the project.\n"
        "Agents: claude, codex (installed on this machine)\n"
        "Try: parley send codex 'Hello?' --from claude\n"
    )
    assert place(stage)["project"][0] == "my-app"
    stage.patch.setenv("CODEX_SHELL", "1")
    assert place(stage)["agent"] == ("codex", "runtime codex")
    assert 'runtime: "codex"' in (path / "agents" / "codex" / "agent_card.yaml").read_text()


def test_every_coding_agent_is_found_and_the_one_that_runs_the_command_too(stage: Stage, repository: Path) -> None:
    install(stage, "opencode", "cursor-agent")
    stage.patch.setenv("GEMINI_CLI", "1")

    agents = stage.run("init", "--json").json["agents"]

    assert agents == ["claude", "codex", "cursor", "opencode", "gemini"]
    stage.patch.delenv("GEMINI_CLI")
    stage.patch.setenv("OPENCODE", "1")
    assert place(stage)["agent"] == ("opencode", "runtime opencode")


def test_a_second_init_says_what_is_there(stage: Stage, repository: Path) -> None:
    stage.run("init")
    install(stage, "gemini", "opencode")
    before = sorted(repository.rglob("*"))

    ran, as_json = stage.run("init"), stage.run("init", "--json").json

    path = stage.here.parent / "user" / "oacp" / "projects" / "my-app"
    assert ran.code == 0
    assert ran.out == (
        f"This repository has project my-app already, in {path}\n"
        "Agents: claude, codex\n"
        "Installed and not in the project: gemini (add it with: parley agent add gemini --runtime gemini)\n"
        "Installed and not in the project: opencode (add it with: parley agent add opencode --runtime opencode)\n"
    )
    assert (as_json["created"], as_json["agents"]) == (False, ["claude", "codex"])
    assert sorted(repository.rglob("*")) == before


def test_a_second_init_adds_the_agents_that_are_named_and_missing(stage: Stage, repository: Path) -> None:
    stage.run("init")

    wrong = stage.run("init", "--agents", "qa,a b")
    ran = stage.run("init", "--agents", "codex, gemini,qa")
    again = stage.run("init", "--agents", "qa", "--json").json

    assert (wrong.code, wrong.error) == (2, "bad_agent_name")
    assert (ran.code, ran.out.splitlines()[1:]) == (0, ["Added: gemini, qa", "Agents: claude, codex, gemini, qa"])
    assert (again["created"], again["added"]) == (False, [])
    runtimes = {agent["agent"]: agent["runtime"] for agent in stage.run("agent", "list", "--json").json}
    assert (runtimes["gemini"], runtimes["qa"]) == ("gemini", "")
    assert stage.run("init", "--shared").error == "project_exists"


def test_another_repository_that_is_named_is_bound_and_not_the_one_around(stage: Stage, repository: Path) -> None:
    stage.run("init")
    other = stage.here / "other"
    other.mkdir()

    made = stage.run("init", "--repo", str(other), "--json").json

    assert (made["project"], made["repo"], made["created"]) == ("other", str(other), True)
    assert made["agents"] == ["claude", "codex"]
    assert stage.run("init", "--repo", str(repository)).out.startswith("This repository has project my-app already")


def test_agents_can_be_named_and_there_may_be_none(stage: Stage, repository: Path) -> None:
    stage.patch.setenv("PATH", "/nowhere")

    assert stage.run("init").out.endswith(
        "No coding agent is installed here: found none of claude, codex, gemini, cursor-agent, opencode.\n"
        "Add agents with: parley agent add NAME --project my-app, a coding agent with --runtime"
        " claude|codex|cursor|gemini|opencode\n"
    )
    assert stage.run("init", "--here", "--home", "x").code == 2


def test_outside_of_a_repository_it_wants_a_name(stage: Stage) -> None:
    ran = stage.run("init")

    assert (ran.code, ran.error) == (2, "invalid")
    assert ran.err == (
        f"error: no project name given, and {stage.here} is not in a git repository [invalid]\n"
        "hint: use parley init PROJECT, or run it inside a repository\n"
    )


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("app", "app"),
        ("my app", "my-app"),
        (".dotfiles", "dotfiles"),
        ("größe", "gr--e"),
        ("日本", "project"),
        ("a..b", "a.b"),
        ("con", "project"),
        ("x" * 200, "x" * 64),
        ("--", "project"),
    ],
)
def test_the_name_of_every_repository_becomes_a_valid_one(stage: Stage, folder: str, name: str) -> None:
    (stage.here / folder / ".git").mkdir(parents=True)
    stage.patch.chdir(stage.here / folder)

    assert stage.run("init", "--json", "--home", str(stage.here / "fresh")).json["project"] == name


def test_a_project_of_that_name_that_is_not_of_this_repository_is_not_taken(stage: Stage, repository: Path) -> None:
    stage.run("init", "my-app", "--home", str(stage.here.parent / "user" / "oacp"))

    ran = stage.run("init")

    assert (ran.code, ran.error) == (4, "project_exists")
    assert "choose a name: parley init PROJECT --repo ." in ran.err


def test_a_project_that_parley_toml_names_is_created(stage: Stage, repository: Path) -> None:
    (repository / "parley.toml").write_text('home = "mail"\nproject = "web"\n')

    made = stage.run("init", "--json").json

    assert (made["project"], made["home"]) == ("web", str(repository / "mail"))
    assert place(stage)["project"][0] == "web"


def test_a_linked_worktree_gets_the_project_of_its_repository(stage: Stage, repository: Path) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", str(repository)]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(stage.here / "fix")], check=True)
    stage.patch.chdir(stage.here / "fix")

    assert stage.run("init", "--json").json["repo"] == str(repository)
    assert place(stage)["project"][0] == "my-app"


def test_here_keeps_the_mailboxes_in_the_repository_and_git_does_not_see_them(stage: Stage, repository: Path) -> None:
    ran = stage.run("init", "--here")

    home = repository / ".parley"
    assert ran.code == 0
    assert f"Created project my-app in {home}/projects/my-app\n" in ran.out
    assert f"Git ignores .parley/; commands in every folder of {repository} find the project.\n" in ran.out
    assert place(stage)["home"] == (str(home), str(home))
    assert stage.run("send", "codex", "Inside?", "--from", "claude").code == 0
    status = subprocess.run(
        ["git", "-C", str(repository), "status", "--porcelain", "--untracked-files=all"],
        capture_output=True,
        check=True,
    )
    assert status.stdout == b""
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_here_twice_says_what_is_there(stage: Stage, repository: Path) -> None:
    stage.run("init", "--here")

    ran = stage.run("init", "--here")

    assert (ran.code, ran.err) == (0, "")
    assert "This repository has project my-app already, in " in ran.out
    assert stage.run("init").out == ran.out


def test_here_with_a_name_and_outside_of_a_repository(stage: Stage) -> None:
    stage.patch.delenv("PARLEY_HOME")

    made = stage.run("init", "notes", "--here", "--agents", "claude", "--json").json

    assert (made["project"], made["home"]) == ("notes", str(stage.here / ".parley"))
    assert place(stage)["project"][0] == "notes"


@pytest.mark.parametrize("words", [("--here",), ("other", "--here")])
def test_here_does_not_compete_with_a_project_that_a_file_of_the_repository_names(
    stage: Stage, repository: Path, words: tuple[str, ...]
) -> None:
    (repository / "parley.toml").write_text('home = "mail"\nproject = "my-app"\n')
    stage.run("init")

    ran = stage.run("init", *words)

    assert (ran.code, ran.error) == (4, "project_exists")
    assert "this repository has project my-app in " in ran.err
    assert not (repository / ".parley").exists()


def test_here_replaces_a_project_elsewhere_and_says_so(stage: Stage, repository: Path) -> None:
    before = stage.run("init", "--json").json

    ran = stage.run("init", "--here")

    assert ran.code == 0
    assert f"note: project my-app in {before['home']} was used here before; its messages stay there\n" in ran.out
    assert place(stage)["home"][0] == str(repository / ".parley")


def test_here_says_when_a_variable_hides_it(stage: Stage, repository: Path) -> None:
    stage.patch.setenv("PARLEY_HOME", str(stage.here / "given"))

    ran = stage.run("init", "--here")

    assert "note: PARLEY_HOME is set and goes before .parley/; unset it to use this project\n" in ran.out


@pytest.mark.parametrize("option", ["--home", "--repo"])
def test_here_and_another_place_are_refused(stage: Stage, repository: Path, option: str) -> None:
    ran = stage.run("init", "--here", option, str(stage.here))

    assert (ran.code, ran.error) == (2, "invalid")
    assert f"--here and {option} together" in ran.err


def test_files_of_the_repository_are_left_alone(stage: Stage, repository: Path) -> None:
    (repository / ".gitignore").write_text("build/\n")
    before = {path: path.read_bytes() for path in repository.iterdir() if path.is_file()}

    stage.run("init", "--here")

    assert {path: path.read_bytes() for path in repository.iterdir() if path.is_file()} == before
    assert sorted(os.listdir(repository / ".parley")) == [".gitignore", "agents", "projects"]


def test_a_repository_inside_another_gets_a_project_of_its_own(stage: Stage, repository: Path) -> None:
    stage.run("init")
    inner = repository / "vendor" / "lib"
    inner.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(inner)], check=True)
    stage.patch.chdir(inner)
    before = place(stage)["project"][0]

    ran = stage.run("init")

    assert (before, place(stage)["project"][0]) == ("my-app", "lib")
    assert "note: project my-app in " in ran.out
    assert "This repository has project lib already" in stage.run("init").out
    stage.patch.chdir(repository)
    assert place(stage)["project"][0] == "my-app"
