"""Flag, environment, file, default: in this order, and nothing unreadable passes in silence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parley import settings
from parley.domain.errors.errors import BadConfig
from parley.domain.limits import DEFAULT_LIMITS, HARD_FILE_BYTES
from parley.domain.store.limits import TeamLimits


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and a user's home, both empty."""
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def load(place: Path, flags: dict[str, str] | None = None, /, **environ: str) -> settings.Settings:
    return settings.load(flags, {"HOME": str(place / "home"), **environ})


def local_file(place: Path, text: str) -> Path:
    path = place / "work" / "parley.toml"
    path.write_text(text, encoding="utf-8")
    return path


def user_file(place: Path, text: str) -> Path:
    path = place / "home" / ".config" / "parley" / "parley.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def source(loaded: settings.Settings, name: str) -> tuple[str, str]:
    return next((one.value, one.source) for one in loaded.sources if one.name == name)


def test_without_a_word_everything_has_its_default(place: Path) -> None:
    loaded = load(place)

    assert (loaded.home, loaded.project, loaded.agent) == ("", "", "")
    assert (loaded.lease, loaded.sender_check) == ("30m", "warn")
    assert loaded.limits == DEFAULT_LIMITS
    assert loaded.team_limits == TeamLimits()
    values = (*loaded.sources, *loaded.team_sources())
    assert {value.source for value in values} == {"default"}
    assert [value.name for value in values] == list(settings.setting_names())


def test_each_source_gives_way_to_the_one_before_it(place: Path) -> None:
    user = user_file(place, 'agent = "user"\n')
    assert source(load(place), "agent") == ("user", str(user))

    local = local_file(place, 'agent = "local"\n')
    assert source(load(place), "agent") == ("local", str(local))

    assert source(load(place, AGENT_NAME="name"), "agent") == ("name", "$AGENT_NAME")
    assert source(load(place, AGENT_NAME="name", OACP_AGENT="oacp"), "agent") == ("oacp", "$OACP_AGENT")
    everything = {"AGENT_NAME": "name", "OACP_AGENT": "oacp", "PARLEY_AGENT": "ours"}
    assert source(load(place, **everything), "agent") == ("ours", "$PARLEY_AGENT")
    assert source(load(place, {"agent": "flag"}, **everything), "agent") == ("flag", "flag")


@pytest.mark.parametrize(
    ("variable", "name"),
    [("OACP_HOME", "home"), ("PARLEY_HOME", "home"), ("OACP_PROJECT", "project"), ("PARLEY_PROJECT", "project")],
)
def test_the_variables_of_the_other_tool_are_heard(place: Path, variable: str, name: str) -> None:
    assert getattr(load(place, **{variable: " x "}), name) == "x"


def test_an_empty_word_is_no_word(place: Path) -> None:
    assert source(load(place, {"agent": ""}, PARLEY_AGENT=" ", OACP_AGENT="oacp"), "agent") == ("oacp", "$OACP_AGENT")


def test_the_user_file_may_lie_elsewhere(place: Path) -> None:
    folder = place / "elsewhere" / "parley"
    folder.mkdir(parents=True)
    (folder / "parley.toml").write_text('project = "there"\n', encoding="utf-8")

    assert load(place, XDG_CONFIG_HOME=str(place / "elsewhere")).project == "there"


def test_limits_are_whole_numbers_from_any_source(place: Path) -> None:
    local_file(place, 'subject_chars = 100\ntries = "7"\n')

    limits = load(place, PARLEY_RECIPIENTS="3").limits

    assert (limits.subject_chars, limits.tries, limits.recipients) == (100, 7, 3)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "\u0661", "2147483648", "9" * 5_000, "1_000", "+1"])
def test_a_limit_that_is_no_number_above_zero_is_refused(place: Path, value: str) -> None:
    with pytest.raises(BadConfig, match=r"\$PARLEY_TRIES: tries"):
        load(place, PARLEY_TRIES=value)


def test_a_file_may_have_one_mebibyte_and_not_a_byte_more(place: Path) -> None:
    assert load(place, PARLEY_FILE_BYTES=str(HARD_FILE_BYTES)).limits.file_bytes == HARD_FILE_BYTES
    with pytest.raises(BadConfig, match="at most 1048576"):
        load(place, PARLEY_FILE_BYTES=str(HARD_FILE_BYTES + 1))


def test_the_sender_check_is_warn_or_enforce(place: Path) -> None:
    assert load(place, PARLEY_SENDER_CHECK="enforce").sender_check == "enforce"
    with pytest.raises(BadConfig, match="warn or enforce"):
        load(place, PARLEY_SENDER_CHECK="maybe")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('colour = "red"\n', "unknown setting 'colour'"),
        ("agent = \n", "parley.toml"),
        ("tries = 1.5\n", "tries must be text or a number"),
        ("tries = true\n", "tries must be text or a number"),
        ("agent = ['a']\n", "agent must be text or a number"),
        ("[agent]\n", "agent must be text or a number"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_fault(place: Path, text: str, said: str) -> None:
    path = local_file(place, text)

    with pytest.raises(BadConfig, match=said) as refusal:
        load(place)

    assert str(path) in refusal.value.message
    assert refusal.value.code == "bad_config"


def test_a_file_that_is_not_utf_8_is_refused(place: Path) -> None:
    local_file(place, "").write_bytes(b'agent = "\xff"\n')

    with pytest.raises(BadConfig):
        load(place)


def test_a_file_that_cannot_be_opened_is_refused(place: Path) -> None:
    (place / "work" / "parley.toml").mkdir()

    with pytest.raises(BadConfig, match=r"parley\.toml"):
        load(place)


@pytest.mark.parametrize(
    ("environ", "runtime"),
    [
        ({}, ""),
        ({"CLAUDECODE": "1"}, "claude"),
        ({"CLAUDE_CODE": "1"}, "claude"),
        ({"CODEX_CI": "1"}, "codex"),
        ({"CODEX_THREAD_ID": "x"}, "codex"),
        ({"GEMINI_CLI": "1"}, "gemini"),
        ({"CLAUDECODE": " "}, ""),
        ({"OACP_RUNTIME": "Gemini", "CLAUDECODE": "1"}, "gemini"),
        ({"OACP_RUNTIME": "unheard-of", "CLAUDECODE": "1"}, "claude"),
    ],
)
def test_the_runtime_is_known_by_its_word_or_its_marks(place: Path, environ: dict[str, str], runtime: str) -> None:
    assert load(place, **environ).runtime == runtime


@pytest.mark.parametrize(
    ("environ", "on_terminal", "in_pipe"),
    [
        ({}, True, False),
        ({"TERM": "xterm"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": ""}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": ""}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
    ],
)
def test_colours_are_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], on_terminal: bool, in_pipe: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert settings.wants_colour(is_terminal=True) is on_terminal
    assert settings.wants_colour(is_terminal=False) is in_pipe


@pytest.mark.parametrize(
    ("text", "width"), [("80", 80), ("1", 1), ("", 0), ("0", 0), ("wide", 0), ("-5", 0), ("99999", 0), ("²", 0)]
)
def test_columns_are_a_number(monkeypatch: pytest.MonkeyPatch, text: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", text)

    assert settings.columns() == width


@pytest.mark.parametrize(
    ("environ", "editor"), [({}, ""), ({"EDITOR": "vi"}, "vi"), ({"EDITOR": "vi", "VISUAL": "code -w"}, "code -w")]
)
def test_the_editor_is_the_users_own(place: Path, environ: dict[str, str], editor: str) -> None:
    assert load(place, **environ).editor == editor


def test_a_nesting_without_end_is_refused(place: Path) -> None:
    local_file(place, "agent = " + "[" * 5_000 + "]" * 5_000 + "\n")

    with pytest.raises(BadConfig):
        load(place)


def test_a_working_directory_that_is_gone_is_no_obstacle(place: Path) -> None:
    (place / "work").rmdir()

    assert load(place).cwd == "/"


def test_settings_cannot_be_changed(place: Path) -> None:
    with pytest.raises(AttributeError):
        load(place).agent = "other"  # type: ignore[misc]


def test_the_environment_is_read_when_none_is_given(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.setenv("PARLEY_AGENT", "from-the-environment")

    assert settings.load().agent == "from-the-environment"
    assert settings.load().user_home == str(place / "home")
    assert settings.load().cwd == str(place / "work")


def test_checkpoints_lie_where_the_setting_says_else_beside_the_store(place: Path) -> None:
    assert settings.checkpoints_directory(load(place), "/data") == "/data/checkpoints"
    assert settings.checkpoints_directory(load(place, PARLEY_CHECKPOINTS="/mnt/other"), "/data") == "/mnt/other"


def test_audit_documents_may_be_kept_for_ever(place: Path) -> None:
    assert load(place).team_limits.audit_retention_days == 0
    assert load(place, PARLEY_AUDIT_RETENTION_DAYS="30").team_limits.audit_retention_days == 30


def test_a_limit_of_a_server_is_no_concern_of_a_mailbox(place: Path) -> None:
    loaded = load(place, PARLEY_HTTP_BODY_BYTES="none")

    assert loaded.limits == DEFAULT_LIMITS
    with pytest.raises(BadConfig, match=r"\$PARLEY_HTTP_BODY_BYTES: http_body_bytes"):
        _ = loaded.team_limits


def test_a_body_of_a_request_is_no_longer_than_any_file(place: Path) -> None:
    with pytest.raises(BadConfig, match="at most 1048576"):
        _ = load(place, PARLEY_HTTP_BODY_BYTES=str(HARD_FILE_BYTES + 1)).team_limits


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("PARLEY_AGNET", "did you mean PARLEY_AGENT?"),
        ("PARLEY_TRUSTED_PROXY", "did you mean PARLEY_TRUSTED_PROXIES?"),
        ("PARLEY_MAX_MESSAGE", "did you mean PARLEY_MAX_MESSAGES?"),
        ("PARLEY_SERVICE_HOST", ""),  # of a container platform, for a service called parley
        ("PARLEY_PORT_8420_TCP", ""),
        ("PARLEY_FUTURE_THING", ""),
        ("PARLEY_", ""),
    ],
)
def test_a_variable_that_is_no_setting_is_named_with_the_one_that_was_meant(variable: str, hint: str) -> None:
    assert settings.unknown_variables({variable: "x", "PARLEY_PORT": "1", "HOME": "/"}) == {variable: hint}


def test_no_setting_and_no_variable_for_handlers_is_unknown() -> None:
    names = [*settings.setting_names(), "message_id", "message_file", "message_channel"]

    assert settings.unknown_variables({f"PARLEY_{name.upper()}": "" for name in names}) == {}
    assert settings.unknown_variables({"SPARLEY_AGNET": "", "OACP_AGNET": "", "parley_agent": ""}) == {}


def test_a_file_counts_from_below_up_to_the_root_of_the_repository(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "work" / ".git").mkdir()
    below = place / "work" / "src" / "deep"
    below.mkdir(parents=True)
    (place / "parley.toml").write_text("tries = 9\n")
    root = local_file(place, 'lease = "1m"\ntries = 3\n')
    (below.parent / "parley.toml").write_text("tries = 4\n")
    monkeypatch.chdir(below)

    loaded = load(place)

    assert source(loaded, "tries") == ("4", str(below.parent / "parley.toml"))
    assert source(loaded, "lease") == ("1m", str(root))
    assert loaded.files == (str(below.parent / "parley.toml"), str(root))
    assert loaded.repository == str(place / "work")


def test_below_the_users_home_a_file_counts_up_to_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = place / "home" / "notes" / "deep"
    below.mkdir(parents=True)
    (place / "parley.toml").write_text("tries = 9\n")
    (place / "home" / "parley.toml").write_text("tries = 3\n")
    monkeypatch.chdir(below)

    assert source(load(place), "tries") == ("3", str(place / "home" / "parley.toml"))
    assert load(place).repository == ""
    (place / "home" / ".git").mkdir()  # of files that the user keeps under version control
    assert load(place).repository == ""


def test_outside_of_a_repository_and_of_the_home_only_the_working_directory_counts(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "work" / "below").mkdir()
    local_file(place, "tries = 9\n")
    assert load(place).limits.tries == 9

    monkeypatch.chdir(place / "work" / "below")
    assert load(place).limits == DEFAULT_LIMITS
    assert load(place, HOME="/").limits == DEFAULT_LIMITS


def test_a_linked_worktree_belongs_to_its_repository(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "work" / ".git" / "worktrees" / "fix").mkdir(parents=True)
    local_file(place, "tries = 9\n")
    for number, target in enumerate((f"{place}/work", "../work")):
        tree = place / f"fix{number}"
        (tree / "src").mkdir(parents=True)
        (tree / ".git").write_text(f"gitdir: {target}/.git/worktrees/fix\n")
        monkeypatch.chdir(tree / "src")

        loaded = load(place)

        assert loaded.repository == str(place / "work")
        assert loaded.folders == (str(tree / "src"), str(tree), str(place / "work"))
        assert loaded.limits.tries == 9


@pytest.mark.parametrize("text", ["gitdir: ../main/.git/modules/sub\n", "gitdir: /gone/.git/worktrees/x\n", "", "\xff"])
def test_any_other_git_file_is_a_repository_of_its_own(place: Path, text: str) -> None:
    (place / "work" / ".git").write_bytes(text.encode("latin-1"))

    assert load(place).repository == str(place / "work")


def test_paths_in_a_file_are_relative_to_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "work" / ".git").mkdir()
    (place / "work" / "src").mkdir()
    names = ("home", "data", "checkpoints", "rego", "approvals_home")
    local_file(place, "".join(f'{name} = "./{name}/../x"\n' for name in names))
    user = user_file(place, 'data = "~/data"\n')
    monkeypatch.chdir(place / "work" / "src")

    loaded = load(place)

    assert [source(loaded, name)[0] for name in names] == [str(place / "work" / "x")] * len(names)
    (place / "work" / "parley.toml").unlink()
    monkeypatch.setenv("HOME", str(place / "home"))
    assert source(load(place), "data") == (str(place / "home" / "data"), str(user))


def test_a_file_of_another_user_above_the_working_directory_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "work" / ".git").mkdir()
    (place / "work" / "mine").mkdir()
    path = local_file(place, "tries = 9\n")
    monkeypatch.chdir(place / "work" / "mine")
    look = os.lstat
    theirs = os.stat_result((0o100644, 1, 1, 1, 4712, 0, 0, 0, 0, 0))
    monkeypatch.setattr(os, "lstat", lambda at, **options: theirs if at == str(path) else look(at, **options))

    with pytest.raises(BadConfig, match="belongs to another user"):
        load(place)

    monkeypatch.chdir(path.parent)  # here a file counts whoever wrote it
    assert load(place).limits.tries == 9


@pytest.mark.parametrize(("variable", "runtime"), [("CURSOR_AGENT", "cursor"), ("OPENCODE", "opencode")])
def test_further_coding_agents_are_known_by_their_marks(place: Path, variable: str, runtime: str) -> None:
    assert load(place, **{variable: "1"}).runtime == runtime
