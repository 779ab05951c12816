"""Where a command acts and as whom: flags, environment, files, working directory, runtime."""

from __future__ import annotations

import os

import pytest

from tests.surface.stage import Stage


def place(stage: Stage, *flags: str) -> dict[str, tuple[str, str]]:
    ran = stage.run("config", "--json", *flags)
    assert ran.code == 0, ran.err
    return {name: (one["value"], one["source"]) for name, one in ran.json.items()}


def test_a_flag_beats_the_environment_beats_the_folder_beats_the_user_beats_the_default(stage: Stage) -> None:
    folder_file = stage.here / "parley.toml"
    user_file = stage.here.parent / "user" / ".config" / "parley" / "parley.toml"
    user_file.parent.mkdir(parents=True)
    found = [place(stage)["lease"]]
    user_file.write_text('lease = "4m"\nagent = "from-user"\n')
    found.append(place(stage)["lease"])
    folder_file.write_text('lease = "3m"\nagent = "from-folder"\n')
    found.append(place(stage)["lease"])
    stage.patch.setenv("PARLEY_LEASE", "2m")
    stage.patch.setenv("PARLEY_AGENT", "from-environment")
    found.append(place(stage)["lease"])

    assert found == [
        ("30m", "default"),
        ("4m", str(user_file)),
        ("3m", str(folder_file)),
        ("2m", "$PARLEY_LEASE"),
    ]
    assert place(stage)["agent"] == ("from-environment", "$PARLEY_AGENT")
    assert place(stage, "--agent", "from-flag")["agent"] == ("from-flag", "flag")


def test_the_user_file_follows_xdg(stage: Stage) -> None:
    stage.patch.setenv("XDG_CONFIG_HOME", str(stage.here / "xdg"))
    (stage.here / "xdg" / "parley").mkdir(parents=True)
    (stage.here / "xdg" / "parley" / "parley.toml").write_text("tries = 7\n")

    assert place(stage)["tries"] == ("7", str(stage.here / "xdg" / "parley" / "parley.toml"))


def test_config_prints_every_setting_and_its_source(stage: Stage) -> None:
    ran = stage.run("config")

    rows = [line.split(maxsplit=2) for line in ran.out.splitlines()]
    assert ["home", str(stage.home), "($PARLEY_HOME)"] in rows
    assert ["project", "demo", "(the only project)"] in rows
    assert ["agent", "-", "(not found: cannot tell which agent you are)"] in rows
    assert ["body_chars", "20000", "(default)"] in rows


def test_a_lease_of_the_settings_that_is_no_duration_is_named_with_its_file(stage: Stage) -> None:
    (stage.here / "parley.toml").write_text('lease = "nonsense"\n')

    ran = stage.run("next", "-a", "codex")

    assert (ran.code, ran.error) == (78, "bad_config")
    assert "nonsense" in ran.err
    assert "parley.toml" in ran.err


@pytest.mark.parametrize("variable", ["PARLEY_HOME", "OACP_HOME"])
def test_the_home_is_found_from_the_environment(stage: Stage, variable: str) -> None:
    stage.patch.delenv("PARLEY_HOME")
    stage.patch.setenv(variable, str(stage.home))

    assert place(stage)["home"] == (str(stage.home), f"${variable}")


def test_our_own_variable_beats_the_other_tools(stage: Stage) -> None:
    stage.patch.setenv("OACP_HOME", "elsewhere")
    stage.patch.setenv("OACP_AGENT", "codex")
    stage.patch.setenv("AGENT_NAME", "gemini")

    assert place(stage)["home"] == (str(stage.home), "$PARLEY_HOME")
    assert place(stage)["agent"] == ("codex", "$OACP_AGENT")
    stage.patch.setenv("PARLEY_AGENT", "claude")
    assert place(stage)["agent"] == ("claude", "$PARLEY_AGENT")


def test_the_home_of_last_resort_is_oacp_in_the_users_home(stage: Stage) -> None:
    stage.patch.delenv("PARLEY_HOME")

    assert place(stage)["home"] == (str(stage.here.parent / "user" / "oacp"), "default")


def test_home_and_project_are_found_from_inside_the_project(stage: Stage) -> None:
    stage.patch.delenv("PARLEY_HOME")
    stage.run("init", "other", "--home", str(stage.home))
    stage.patch.chdir(stage.project / "packets" / "review")

    found = place(stage)

    marker = os.path.realpath(stage.project / "workspace.json")
    assert found["home"] == (os.path.realpath(stage.home), marker)
    assert found["project"] == ("demo", marker)


def test_home_and_project_are_found_by_a_marker_in_the_repository(stage: Stage) -> None:
    stage.patch.delenv("PARLEY_HOME")
    stage.run("init", "other", "--home", str(stage.home))
    (stage.here / ".oacp").symlink_to(stage.project / "workspace.json")
    deep = stage.here / "src" / "deep"
    deep.mkdir(parents=True)
    stage.patch.chdir(deep)

    assert place(stage)["project"] == ("demo", str(stage.here / ".oacp"))
    assert stage.run("inbox", "--agent", "codex").out == "The inbox of codex is empty.\n"


def test_a_project_is_named_by_flag_or_environment_when_there_are_several(stage: Stage) -> None:
    stage.run("init", "other", "--agents", "codex")

    ambiguous = stage.run("inbox", "-a", "codex")
    assert (ambiguous.code, ambiguous.error) == (4, "ambiguous")
    assert "--project with one of demo, other" in ambiguous.err
    assert stage.run("inbox", "-a", "codex", "--project", "other").code == 0
    stage.patch.setenv("PARLEY_PROJECT", "demo")
    assert stage.run("inbox", "-a", "codex").code == 0


def test_a_home_without_projects_says_how_to_make_one(stage: Stage) -> None:
    ran = stage.run("inbox", "-a", "codex", "--home", str(stage.here))

    assert (ran.code, ran.error) == (3, "unknown_project")
    assert "parley init PROJECT" in ran.err


@pytest.mark.parametrize(
    ("mark", "runtime"),
    [
        ("CLAUDECODE", "claude"),
        ("CLAUDE_CODE", "claude"),
        ("CODEX_CI", "codex"),
        ("CODEX_SHELL", "codex"),
        ("CODEX_THREAD_ID", "codex"),
        ("GEMINI_CLI", "gemini"),
    ],
)
def test_the_agent_is_found_by_the_marks_that_a_runtime_leaves(stage: Stage, mark: str, runtime: str) -> None:
    stage.patch.setenv(mark, "1")

    assert place(stage)["agent"] == (runtime, f"runtime {runtime}")


def test_the_agent_card_says_who_runs_in_a_runtime(stage: Stage) -> None:
    stage.run("agent", "add", "ann", "--runtime", "cursor")
    stage.patch.setenv("CLAUDECODE", "1")
    stage.patch.setenv("OACP_RUNTIME", "cursor")

    assert place(stage)["agent"] == ("ann", "runtime cursor")


def test_two_cards_for_one_runtime_are_no_answer(stage: Stage) -> None:
    stage.run("agent", "add", "ann", "--runtime", "cursor")
    stage.run("agent", "add", "ben", "--runtime", "cursor")
    stage.patch.setenv("OACP_RUNTIME", "cursor")

    ran = stage.run("inbox")

    assert (ran.code, ran.error) == (3, "unknown_sender")


def test_nobody_said_who_is_speaking(stage: Stage) -> None:
    ran = stage.run("inbox")

    assert (ran.code, ran.error) == (3, "unknown_sender")
    assert "--agent NAME" in ran.err


def test_a_working_directory_that_is_gone_is_no_reason_to_fail(stage: Stage) -> None:
    gone = stage.here / "gone"
    gone.mkdir()
    stage.patch.chdir(gone)
    gone.rmdir()

    assert stage.run("inbox", "-a", "codex").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lease = \n", "parley.toml"),
        ("colour = 1\n", "unknown setting 'colour' [bad_config]\nhint: see parley config\n"),
        ('homme = "x"\n', "unknown setting 'homme' (did you mean \"home\"?) [bad_config]\n"),
        ("tries = true\n", "tries must be text or a number"),
        ("tries = 0\n", "tries must be a whole number above 0"),
        ('tries = "many"\n', "not 'many'"),
        (f'tries = "{"9" * 5000}"\n', "whole number"),
        (f"tries = {'9' * 5000}\n", "parley.toml"),
        ("x = " + "[" * 100_000, "parley.toml"),
        ('sender_check = "perhaps"\n', "must be warn or enforce"),
        ("file_bytes = 1048577\n", "at most 1048576"),
        ('lease = "\\xff"\n', "parley.toml"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_named_with_file_and_key(stage: Stage, text: str, said: str) -> None:
    (stage.here / "parley.toml").write_text(text)
    before = stage.everything()

    ran = stage.run("send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "x", "--body", "y")

    assert (ran.code, ran.error) == (78, "bad_config")
    assert said in ran.err
    assert stage.everything() == before


def test_a_configuration_that_is_not_text_is_refused(stage: Stage) -> None:
    (stage.here / "parley.toml").write_bytes(b'lease = "\xff"\n')

    assert stage.run("inbox", "-a", "codex").error == "bad_config"


def test_a_configuration_that_cannot_be_read_is_refused(stage: Stage) -> None:
    (stage.here / "parley.toml").mkdir()

    ran = stage.run("inbox", "-a", "codex")

    assert (ran.code, ran.error) == (78, "bad_config")
    assert "Is a directory" in ran.err


def test_a_limit_in_the_environment_that_is_no_number_names_the_variable(stage: Stage) -> None:
    stage.patch.setenv("PARLEY_TRIES", "five")

    ran = stage.run("inbox", "-a", "codex")

    assert (ran.code, ran.error) == (78, "bad_config")
    assert "$PARLEY_TRIES: tries must be a whole number" in ran.err


def test_a_limit_of_the_settings_holds(stage: Stage) -> None:
    stage.patch.setenv("PARLEY_SUBJECT_CHARS", "5")

    ran = stage.run("send", "-a", "claude", "--to", "codex", "--type", "question", "--subject", "longer", "--body", "x")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "6 characters, at most 5" in ran.err


def test_a_variable_that_is_no_setting_stops_no_command_and_is_listed_by_config_without_its_value(stage: Stage) -> None:
    stage.patch.setenv("PARLEY_AGNET", "secret-of-mine")
    stage.patch.setenv("PARLEY_SERVICE_HOST", "10.0.0.7")

    assert stage.run("inbox", "-a", "codex").code == 0
    ran = stage.run("config")
    assert place(stage)["PARLEY_AGNET"] == ("-", "unknown, ignored: did you mean PARLEY_AGENT?")
    assert place(stage)["PARLEY_SERVICE_HOST"] == ("-", "unknown, ignored: not a setting")
    assert "PARLEY_AGNET" in ran.out
    assert "secret-of-mine" not in ran.out


def test_a_settings_file_that_is_a_link_to_nowhere_is_not_passed_over(stage: Stage) -> None:
    link = stage.here / "parley.toml"
    link.symlink_to("nowhere")

    ran = stage.run("inbox", "-a", "codex")

    refusal = f"error: {link}: No such file or directory [bad_config]\nhint: make it readable or remove it\n"
    assert (ran.code, ran.err) == (78, refusal)
