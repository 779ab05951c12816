"""Settings: flag > PARLEY_* > the nearest parley.toml > user file > default. The only reader of the environment."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import BadConfig, Invalid
from parley.domain.limits import HARD_FILE_BYTES, Limits
from parley.domain.names import meant, near_misses, suggestion
from parley.domain.times import parse_duration

if TYPE_CHECKING:
    from parley.domain.store.limits import TeamLimits

# The environment variables of the real OACP tool, honoured after our own.
_OACP_VARIABLES = {"home": ("OACP_HOME",), "agent": ("OACP_AGENT", "AGENT_NAME"), "project": ("OACP_PROJECT",)}
# Of every variable with a setting: `os.environ` is slow to look up what it does not have.
_PREFIXES = ("PARLEY_", "OACP_", "AGENT_NAME")
_RUNTIME_VARIABLES = (
    ("CODEX_CI", "codex"),
    ("CODEX_SHELL", "codex"),
    ("CODEX_THREAD_ID", "codex"),
    ("CLAUDECODE", "claude"),
    ("CLAUDE_CODE", "claude"),
    ("GEMINI_CLI", "gemini"),
    ("GEMINI_AGENT", "gemini"),
    ("CURSOR_AGENT", "cursor"),
    ("OPENCODE", "opencode"),
)
# Where a coding agent tells its commands its own process.
_PID_VARIABLES = {"claude": "CLAUDE_PID", "opencode": "OPENCODE_PID"}
# Where one says whether a person attends its session.
_ATTENDED_VARIABLES = {"claude": "CLAUDE_CODE_SESSION_ATTENDED"}
_SESSION_VARIABLES = ("CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID", "GEMINI_SESSION_ID")
RUNTIMES = frozenset({"claude", "codex", "cursor", "gemini", "human", "opencode"})
# Of the variables that `watch` and `listen` give to the commands they run, after PARLEY_.
_HANDLER_PREFIX = "MESSAGE_"
# In a file they are relative to that file.
_PATHS = frozenset({"home", "data", "checkpoints", "rego", "approvals_home"})
_FILE = "parley.toml"
_NEAR_MAX = 3
# The source of a setting that nobody has set.
DEFAULT = "default"
FLAG = "flag"
# What `parley config` must not print.
SECRETS = frozenset({"key", "admin_key", "human_key"})


class Value(NamedTuple):
    """A setting and where it came from."""

    name: str
    value: str
    source: str


class Settings(NamedTuple):
    """All settings, frozen. A setting that is text is declared here, with its default, and nowhere else.

    Empty home, project or agent: to be found from the working directory.
    """

    limits: Limits
    runtime: str
    # The coding agent that runs us by its own word, `--for`, "" when no option says so.
    harness: str
    # The process of the coding agent that runs us, 0 when it does not say.
    agent_pid: int
    # Its session, "" when it does not say.
    session: str
    # Whether a person attends the session of that coding agent, unless it says otherwise.
    attended: bool
    editor: str
    user_home: str
    # Where this user's own files of Parley are, or "" without a home.
    user_folder: str
    # The user's own settings file, and the address of a server in it.
    user_file: str
    user_url: str
    cwd: str
    # The working directory and those above it in which files and folders of Parley count, the nearest first.
    folders: tuple[str, ...]
    # The repository that the working directory is in, or "".
    repository: str
    # The settings files that were read, the nearest first, and what those but the user's say of home and project.
    files: tuple[str, ...]
    places: tuple[Value, ...]
    sources: tuple[Value, ...]
    # Reads one more setting from the same sources.
    find: Callable[[str, str], Value]
    home: str = ""
    project: str = ""
    agent: str = ""
    lease: str = "30m"
    sender_check: str = "warn"
    wakes_per_hour: str = "12"
    quiet_hours: str = ""
    wake: str = "attended"
    url: str = "http://127.0.0.1:8420"
    key: str = ""
    context: str = ""
    intent: str = ""
    admin_key: str = ""
    human_key: str = ""
    data: str = ""
    checkpoints: str = ""
    store: str = ""
    store_connections: str = "10"
    node: str = ""
    linger: str = "0"
    host: str = "127.0.0.1"
    port: str = "8420"
    allowed_hosts: str = ""
    trusted_proxies: str = ""
    event_names: str = "rfc"
    new_intents: str = "closed"
    webhook_targets: str = "public"
    plain_http: str = "loopback"
    approval_links: str = "off"
    rego: str = ""
    approvals_home: str = ""
    approvals_project: str = ""
    approvals_agent: str = "parley"

    @property
    def team_limits(self) -> "TeamLimits":
        """The limits of a server; commands on a mailbox do not pay for them."""
        from parley.domain.store.limits import TeamLimits

        limits = TeamLimits(
            **{
                value.name: _to_int(value, minimum=0 if value.name.endswith("retention_days") else 1)
                for value in self.team_sources()
                if value.source != DEFAULT
            }
        )
        _check_bytes(self.find("http_body_bytes", str(limits.http_body_bytes)))
        return limits

    def source_of(self, name: str) -> str:
        """Where a setting came from."""
        return next(value.source for value in self.sources if value.name == name)

    def is_given(self, name: str) -> bool:
        """Whether a flag or a variable sets this setting."""
        source = self.source_of(name)
        return source == FLAG or source.startswith("$")

    def team_sources(self) -> tuple[Value, ...]:
        """The limits of a server, and where each came from."""
        return tuple([self.find(name, default) for name, default in _team_defaults().items()])


_TEXTS: dict[str, str] = Settings._field_defaults
_LIMITS = {name: str(default) for name, default in Limits._field_defaults.items()}


def _team_defaults() -> dict[str, str]:
    from parley.domain.store.limits import TeamLimits

    return {name: str(default) for name, default in TeamLimits._field_defaults.items()}


def setting_names() -> tuple[str, ...]:
    """Every setting, as a file names it."""
    return (*_TEXTS, *_LIMITS, *_team_defaults())


def load(flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read every source once. `BadConfig` names the file and the key."""
    env = os.environ if environ is None else environ
    cwd = _working_directory()
    user_home = os.path.expanduser("~") if environ is None else env.get("HOME", "/")
    config = env.get("XDG_CONFIG_HOME", "")
    if not config.startswith("/"):  # the XDG specification says to ignore it then
        config = os.path.join(user_home, ".config")
    user_folder = os.path.join(config, "parley")
    folders, repository = _search_path(cwd, os.path.realpath(user_home))
    user_file = os.path.join(user_folder, _FILE)
    # A link that leads nowhere is an error, as an unreadable file is: something else would be used in silence.
    files = [path for folder in folders if os.path.lexists(path := os.path.join(folder, _FILE)) and path != user_file]
    for path in files:
        check_owner(path, cwd)
    tables = [(path, _read(path)) for path in (*files, user_file)]
    variables = {variable: env[variable] for variable in env if variable.startswith(_PREFIXES)}

    def find(name: str, default: str) -> Value:
        return _value(name, default, flags or {}, variables, tables)

    values = {name: find(name, default) for name, default in (_TEXTS | _LIMITS).items()}
    _check_choice(values["sender_check"], ("warn", "enforce"))
    _check_choice(values["event_names"], ("rfc", "sdk"))
    _check_choice(values["new_intents"], ("open", "closed"))
    _check_choice(values["webhook_targets"], ("public", "any"))
    _check_choice(values["plain_http"], ("loopback", "any"))
    _check_choice(values["approval_links"], ("off", "decide"))
    _check_choice(values["wake"], ("always", "attended", "never"))
    if values["lease"].source != DEFAULT:
        _check_duration(values["lease"])
    _to_int(values["store_connections"], minimum=4)
    _to_int(values["linger"], minimum=0)
    _to_int(values["wakes_per_hour"], minimum=0)
    limits = Limits(**{name: _to_int(values[name]) for name in _LIMITS if values[name].source != DEFAULT})
    _check_bytes(values["file_bytes"])
    return Settings(
        **{name: values[name].value for name in _TEXTS},
        limits=limits,
        runtime=(runtime := _detect_runtime(env)),
        harness="",
        agent_pid=_agent_pid(env, runtime),
        session=_session(env),
        attended=_is_attended(env, runtime),
        editor=env.get("VISUAL") or env.get("EDITOR") or "",
        user_home=user_home,
        user_folder=user_folder if user_folder.startswith("/") else "",
        user_file=user_file,
        user_url=str(tables[-1][1].get("url", "")),
        cwd=cwd,
        folders=folders,
        repository=repository,
        files=tuple(path for path, table in tables if table or path in files),
        places=tuple(_from_file(n, path, t[n]) for path, t in tables[:-1] for n in ("home", "project") if n in t),
        sources=tuple(values.values()),
        find=find,
    )


def unknown_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables PARLEY_... that are no setting, each with a hint at the one that was probably meant, or "".

    A command ignores them, because other programs may set some: a container platform does for a service called parley.
    """
    env = os.environ if environ is None else environ
    names = [name.upper() for name in setting_names()]
    unknown = {}
    for variable in sorted(env):
        prefix, name = variable[:7], variable[7:]
        if prefix == "PARLEY_" and name not in names and not name.startswith(_HANDLER_PREFIX):
            # Compared without what all of them begin with.
            unknown[variable] = meant(name, names).replace("did you mean ", "did you mean PARLEY_")
    return unknown


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"  # removed under our feet: then nothing is found from it


def _search_path(cwd: str, user_home: str) -> tuple[tuple[str, ...], str]:
    """The folders in which files of Parley count, the nearest first, and the repository, or "".

    They lead up to the root of the git repository or to the user's home, whichever comes first. Outside of both, only
    the working directory counts: above it anybody might have put something. A linked worktree belongs to its
    repository, which is looked at last.
    """
    folders = [cwd]
    while True:
        folder = folders[-1]
        if folder == user_home != "/":  # even where it is under version control, it is no project
            return tuple(folders), ""
        git = os.path.join(folder, ".git")
        if os.path.lexists(git):
            repository = _main_worktree(git) or folder
            return (*folders, *(() if repository == folder else (repository,))), repository
        above = os.path.dirname(folder)
        if above == folder:
            return (cwd,), ""
        folders.append(above)


def _main_worktree(git: str) -> str:
    """The repository of a linked worktree, whose `.git` is a file that names its folder there; else ""."""
    if os.path.isdir(git):
        return ""
    try:
        with open(git, encoding="utf-8") as file:
            target = file.read(4096).strip()
    except (OSError, ValueError):
        return ""
    target, worktrees, _ = target.removeprefix("gitdir: ").partition("/.git/worktrees/")
    repository = os.path.normpath(os.path.join(os.path.dirname(git), target))
    return repository if worktrees and os.path.isdir(f"{repository}/.git") else ""


def check_owner(path: str, cwd: str) -> None:
    """Refuse what another user has put above the working directory. It may be of its owner, of ours or of root."""
    if os.path.dirname(path) == cwd:
        return
    owner = os.lstat(path).st_uid
    if owner not in (os.geteuid(), 0) and owner != os.stat(cwd).st_uid:
        raise BadConfig(f"{path} belongs to another user", hint="run parley elsewhere, or make the file yours")


def _read(path: str) -> dict[str, object]:
    if not os.path.lexists(path):
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror}", hint="make it readable or remove it") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number or a nesting without end
        raise BadConfig(f"{path}: {error}") from None
    names = setting_names()
    for name in table:
        if name not in names:
            close = suggestion(near_misses(name, names, _NEAR_MAX))
            raise BadConfig(f"{path}: unknown setting {name!r}", hint=close or "see: parley config")
    return table


def _value(
    name: str,
    default: str,
    flags: Mapping[str, str],
    env: Mapping[str, str],
    tables: list[tuple[str, dict[str, object]]],
) -> Value:
    if flags.get(name):
        return Value(name, flags[name], FLAG)
    for variable in (f"PARLEY_{name.upper()}", *_OACP_VARIABLES.get(name, ())):
        if env.get(variable, "").strip():
            return Value(name, env[variable].strip(), f"${variable}")
    for path, table in tables:
        if name in table:
            return _from_file(name, path, table[name])
    return Value(name, default, DEFAULT)


def _from_file(name: str, path: str, value: object) -> Value:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise BadConfig(f"{path}: {name} must be text or a number")
    text = str(value)
    if name in _PATHS and text:
        text = os.path.normpath(os.path.join(os.path.dirname(path), os.path.expanduser(text)))
    return Value(name, text, path)


def _to_int(value: Value, *, minimum: int = 1) -> int:
    text = value.value
    if not text.isascii() or not text.isdigit() or len(text) > 10 or not minimum <= int(text) < 2**31:
        raise BadConfig(f"{value.source}: {value.name} must be a whole number above {minimum - 1}, not {text[:70]!r}")
    return int(text)


def _check_choice(value: Value, choices: tuple[str, ...]) -> None:
    if value.value not in choices:
        raise BadConfig(f"{value.source}: {value.name} must be {' or '.join(choices)}, not {value.value!r}")


def _check_bytes(value: Value) -> None:
    if int(value.value) > HARD_FILE_BYTES:
        raise BadConfig(f"{value.source}: {value.name} may be at most {HARD_FILE_BYTES}")


def _check_duration(value: Value) -> None:
    try:
        parse_duration(value.value)
    except Invalid as error:
        raise BadConfig(f"{value.source}: {value.name}: {error.message}", hint=error.hint) from None


def _detect_runtime(env: Mapping[str, str]) -> str:
    """Which coding agent runs us, by its own word or by the marks it leaves in the environment."""
    name = env.get("OACP_RUNTIME", "").strip().lower()
    if name in RUNTIMES:
        return name
    return next((runtime for mark, runtime in _RUNTIME_VARIABLES if env.get(mark, "").strip()), "")


def _agent_pid(env: Mapping[str, str], runtime: str) -> int:
    text = env.get(_PID_VARIABLES.get(runtime, ""), "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0


def _is_attended(env: Mapping[str, str], runtime: str) -> bool:
    return env.get(_ATTENDED_VARIABLES.get(runtime, ""), "").strip() != "0"


def for_harness(settings: Settings, harness: str, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a program that a coding agent runs, by that agent's own word: where one runs another, both
    leave their marks in the environment.
    """
    env = os.environ if environ is None else environ
    agent_pid, attended = _agent_pid(env, harness), _is_attended(env, harness)
    return settings._replace(runtime=harness, harness=harness, agent_pid=agent_pid, attended=attended)


def _session(env: Mapping[str, str]) -> str:
    """The session of the coding agent that runs us; a name of any form is cut and made visible where it is shown."""
    return next((name[:64] for mark in _SESSION_VARIABLES if (name := env.get(mark, "").strip())), "")


def data_directory(settings: Settings) -> str:
    """Where a server keeps its store: as given, else the user's data folder."""
    if settings.data:
        return os.path.abspath(os.path.expanduser(settings.data))
    share = os.environ.get("XDG_DATA_HOME") or os.path.join(settings.user_home, ".local", "share")
    return os.path.join(share, "parley")


def state_directory() -> str:
    """Where Parley keeps what only this user's programs need, such as the log of hooks."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "parley")


def claude_config_file(settings: Settings) -> str:
    """Where Claude Code keeps which MCP servers its user has added."""
    return os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or settings.user_home, ".claude.json")


def without_password(store: str) -> str:
    """The address of a store as it may be shown."""
    scheme, _, rest = store.partition("://")
    user, at, where = rest.rpartition("@")
    where = where.partition("?")[0]  # a password can stand there, too
    return f"{scheme}://{user.partition(':')[0]}{at}{where}" if store else ""


def checkpoints_directory(settings: Settings, data: str) -> str:
    """Where signed checkpoints are kept outside of the store: as given, best on another disk, else beside it."""
    if settings.checkpoints:
        return os.path.abspath(os.path.expanduser(settings.checkpoints))
    return os.path.join(data, "checkpoints")


def wants_colour(*, is_terminal: bool) -> bool:
    """Whether output has colours: NO_COLOR forbids them, FORCE_COLOR wants them also where there is no terminal."""
    if "NO_COLOR" in os.environ:
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    return forced != "0" if forced else is_terminal and os.environ.get("TERM") != "dumb"


def columns() -> int:
    """The width of lines that COLUMNS asks for; 0 without it."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0


def child_environment(**additions: str) -> dict[str, str]:
    """This process's environment with additions, for a command that we start."""
    return {**os.environ, **additions}
