"""A repository knows its project: parley.toml, .oacp, .parley/ and repo_path, from every folder inside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surface.cli.test_finding_the_place import place
from tests.surface.stage import Stage


@pytest.fixture
def repository(stage: Stage) -> Path:
    """A repository; the working directory is deep inside it, and nothing in the environment names a home."""
    root = stage.here / "app"
    (root / ".git").mkdir(parents=True)
    (root / "src" / "deep").mkdir(parents=True)
    stage.patch.chdir(root / "src" / "deep")
    stage.patch.delenv("PARLEY_HOME")
    return root


def a_project(stage: Stage, home: Path, name: str, repo: Path | None = None) -> Path:
    words = ("--repo", str(repo)) if repo else ()
    ran = stage.run("init", name, "--home", str(home), "--agents", "claude,codex", *words)
    assert ran.code == 0, ran.err
    return home / "projects" / name


def bind(project: Path, repo: Path | None) -> None:
    """Write a repo_path, as another tool would."""
    path = project / "workspace.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "repo_path": str(repo) if repo else None}))


def user_home(stage: Stage) -> Path:
    return stage.here.parent / "user" / "oacp"


def test_parley_toml_is_found_from_below_and_its_home_is_relative_to_it(stage: Stage, repository: Path) -> None:
    a_project(stage, user_home(stage), "another")
    a_project(stage, repository / "mail", "app")
    (repository / "parley.toml").write_text('home = "mail"\nproject = "app"\n')

    found = place(stage)

    source = str(repository / "parley.toml")
    assert (found["home"], found["project"]) == ((str(repository / "mail"), source), ("app", source))
    assert stage.run("send", "codex", "Inside?", "-a", "claude").code == 0
    stage.patch.chdir(repository)
    assert "Inside?" in stage.run("inbox", "-a", "codex").out


def test_a_home_inside_the_repository_is_found_from_below(stage: Stage, repository: Path) -> None:
    a_project(stage, user_home(stage), "another")
    a_project(stage, repository / ".parley", "app")

    found = place(stage)

    assert found["home"] == (str(repository / ".parley"), str(repository / ".parley"))
    assert found["project"] == ("app", "the only project")


def test_a_repository_is_found_by_the_repo_path_of_its_project(stage: Stage, repository: Path) -> None:
    home = user_home(stage)
    a_project(stage, home, "other")
    app = a_project(stage, home, "app", repository)

    assert place(stage)["project"] == ("app", f"repo_path in {app}/workspace.json")


def test_the_nearest_repo_path_wins(stage: Stage, repository: Path) -> None:
    home = user_home(stage)
    a_project(stage, home, "app", repository)
    a_project(stage, home, "part", repository / "src")

    assert place(stage)["project"][0] == "part"
    stage.patch.chdir(repository)
    assert place(stage)["project"][0] == "app"


def test_a_linked_worktree_is_found_by_the_repo_path_of_its_repository(stage: Stage, repository: Path) -> None:
    home = user_home(stage)
    a_project(stage, home, "other")
    a_project(stage, home, "app", repository)
    a_project(stage, home, "part", repository / "src")
    (repository / ".git" / "worktrees" / "fix").mkdir(parents=True)
    tree = stage.here / "fix"
    (tree / "src").mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {repository}/.git/worktrees/fix\n")

    stage.patch.chdir(tree)
    assert place(stage)["project"][0] == "app"
    stage.patch.chdir(tree / "src")
    assert place(stage)["project"][0] == "part"


def test_the_only_project_is_not_taken_in_a_repository_when_it_belongs_to_another(
    stage: Stage, repository: Path
) -> None:
    other = stage.here / "other"
    other.mkdir()
    a_project(stage, user_home(stage), "theirs", other)

    ran = stage.run("inbox", "-a", "codex")

    assert (ran.code, ran.error) == (3, "unknown_project")
    assert f"no project for the repository {repository}: the only one in" in ran.err
    assert (
        f"belongs to {other} [unknown_project]\nhint: create one with: parley init, or add --project theirs\n"
        in ran.err
    )
    assert stage.run("inbox", "-a", "codex", "--project", "theirs").code == 0
    stage.patch.chdir(stage.here)  # no repository
    assert place(stage)["project"] == ("theirs", "the only project")


def test_a_repository_without_a_project_is_told_how_to_get_one(stage: Stage, repository: Path) -> None:
    for name in ("one", "two"):
        a_project(stage, user_home(stage), name)

    ran = stage.run("inbox", "-a", "codex")

    assert (ran.code, ran.error) == (4, "ambiguous")
    assert "\nhint: add --project with one of one, two, or create one for this repository: parley init\n" in ran.err


def test_the_only_project_of_the_repositorys_own_home_is_taken_wherever_it_was_moved_from(
    stage: Stage, repository: Path
) -> None:
    bind(a_project(stage, repository / ".parley", "app"), stage.here / "before")

    assert place(stage)["project"] == ("app", "the only project")


def test_flags_and_variables_go_before_what_the_repository_says(stage: Stage, repository: Path) -> None:
    a_project(stage, repository / ".parley", "app")
    a_project(stage, stage.here / "given", "one")

    assert place(stage, "--home", str(stage.here / "given"))["project"][0] == "one"
    stage.patch.setenv("PARLEY_HOME", str(stage.here / "given"))
    assert place(stage)["home"] == (str(stage.here / "given"), "$PARLEY_HOME")


def test_the_repository_goes_before_the_users_file(stage: Stage, repository: Path) -> None:
    user_file = stage.here.parent / "user" / ".config" / "parley" / "parley.toml"
    user_file.parent.mkdir(parents=True)
    user_file.write_text(f'home = "{stage.home}"\nproject = "demo"\n')
    assert place(stage)["home"] == (str(stage.home), str(user_file))

    bound = a_project(stage, stage.home, "app", repository)
    assert place(stage)["project"] == ("app", f"repo_path in {bound}/workspace.json")

    a_project(stage, repository / ".parley", "inside")
    found = place(stage)
    assert found["home"][0] == str(repository / ".parley")
    assert found["project"] == ("inside", "the only project")


def test_a_nearer_project_is_looked_for_in_the_home_above_it(stage: Stage, repository: Path) -> None:
    a_project(stage, repository / ".parley", "app")
    a_project(stage, repository / ".parley", "part")
    (repository / "parley.toml").write_text('project = "app"\n')
    (repository / "src" / "parley.toml").write_text('project = "part"\n')

    found = place(stage)

    assert (found["home"][0], found["project"][0]) == (str(repository / ".parley"), "part")


def test_a_project_above_a_nearer_home_does_not_count(stage: Stage, repository: Path) -> None:
    (repository / "parley.toml").write_text('project = "outer"\n')
    a_project(stage, repository / "src" / ".parley", "inner")

    assert place(stage)["project"] == ("inner", "the only project")


def contradict(stage: Stage, repository: Path, what: str) -> tuple[str, str]:
    """Two candidates in one folder that do not agree; both sources."""
    home = user_home(stage)
    app = a_project(stage, home, "app")
    toml, marker, inside = repository / "parley.toml", repository / ".oacp", repository / ".parley"
    if "marker" in what:
        marker.symlink_to(app / "workspace.json")
    if "inside" in what:
        a_project(stage, inside, "app")
    if "home" in what:
        toml.write_text('home = "mail"\n')
    if "project" in what:
        toml.write_text('project = "web"\n')
    sources = {"marker": marker, "inside": inside, "home": toml, "project": toml}
    first, second = (str(sources[word]) for word in what.split())
    return first, second


@pytest.mark.parametrize("what", ["home inside", "home marker", "project marker", "marker inside"])
def test_two_candidates_that_disagree_are_an_error_that_names_both(stage: Stage, repository: Path, what: str) -> None:
    first, second = contradict(stage, repository, what)

    ran = stage.run("inbox", "-a", "codex")

    assert (ran.code, ran.error) == (4, "ambiguous")
    assert f"{first} names the " in ran.err
    assert f"{second} names " in ran.err
    assert "remove one of them, or add --" in ran.err


@pytest.mark.parametrize(
    ("what", "flag"), [("home inside", "--home"), ("marker inside", "--home"), ("project marker", "--project")]
)
def test_a_flag_ends_the_contradiction(stage: Stage, repository: Path, what: str, flag: str) -> None:
    contradict(stage, repository, what)
    value = {"--home": str(user_home(stage)), "--project": "app"}[flag]

    assert place(stage, flag, value)["project"][0] == "app"


def test_candidates_that_agree_are_no_error(stage: Stage, repository: Path) -> None:
    app = a_project(stage, repository / ".parley", "app")
    (repository / "parley.toml").write_text('home = ".parley"\nproject = "app"\n')
    (repository / ".oacp").symlink_to(app / "workspace.json")

    assert place(stage)["project"][0] == "app"


def test_two_projects_with_one_repo_path_are_an_error_that_names_both(stage: Stage, repository: Path) -> None:
    home = user_home(stage)
    for name in ("app", "web"):
        bind(a_project(stage, home, name), repository)

    ran = stage.run("inbox", "-a", "codex")

    assert (ran.code, ran.error) == (4, "ambiguous")
    assert f"projects app and web in {home} both belong to {repository}" in ran.err
    assert stage.run("inbox", "-a", "codex", "--project", "app").code == 0


def test_config_shows_the_files_that_were_read(stage: Stage, repository: Path) -> None:
    (repository / "parley.toml").write_text('lease = "2m"\n')
    (repository / "src" / "parley.toml").write_text("tries = 3\n")

    out = stage.run("config").out

    files = f"{repository / 'src' / 'parley.toml'}, {repository / 'parley.toml'}"
    assert out.endswith(f"\nSettings files, the nearest first: {files}\n")


def test_config_names_what_is_ambiguous(stage: Stage, repository: Path) -> None:
    contradict(stage, repository, "home inside")

    found = place(stage)

    assert found["home"][0] == "-"
    assert ".parley names" in found["home"][1]
