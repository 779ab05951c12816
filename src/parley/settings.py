"""Settings: flag > PARLEY_* > ./parley.toml > user file > default. The only reader of the environment."""

# Annotations are evaluated here: from text, a NamedTuple would compile each of them at every start.

import os
from collections.abc import Mapping
from typing import NamedTuple

from parley.domain.errors.errors import BadConfig, Invalid
from parley.domain.limits import HARD_FILE_BYTES, Limits
from parley.domain.store.limits import TeamLimits
from parley.domain.times import parse_duration

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
)
_RUNTIMES = frozenset({"claude", "codex", "cursor", "gemini", "human"})
_TEXTS = {
    "home": "",
    "project": "",
    "agent": "",
    "lease": "30m",
    "sender_check": "warn",
    "url": "http://127.0.0.1:8420",
    "key": "",
    "admin_key": "",
    "human_key": "",
    "data": "",
    "checkpoints": "",
    "store": "",
    "store_connections": "10",
    "node": "",
    "linger": "0",
    "host": "127.0.0.1",
    "port": "8420",
    "allowed_hosts": "",
    "event_names": "rfc",
    "webhook_targets": "public",
    "rego": "",
    "approvals_home": "",
    "approvals_project": "",
    "approvals_agent": "parley",
}
# The source of a setting that nobody has set.
DEFAULT = "default"
# What `parley config` must not print.
SECRETS = frozenset({"key", "admin_key", "human_key"})
_LIMITS = {name: int(default) for name, default in Limits._field_defaults.items()}
_TEAM_LIMITS = {name: int(default) for name, default in TeamLimits._field_defaults.items()}
NAMES = (*_TEXTS, *_LIMITS, *_TEAM_LIMITS)


class Value(NamedTuple):
    """A setting and where it came from."""

    name: str
    value: str
    source: str


class Settings(NamedTuple):
    """All settings, frozen. Empty home, project or agent: to be found from the working directory."""

    home: str
    project: str
    agent: str
    lease: str
    sender_check: str
    url: str
    key: str
    admin_key: str
    human_key: str
    data: str
    checkpoints: str
    store: str
    store_connections: str
    node: str
    linger: str
    host: str
    port: str
    allowed_hosts: str
    event_names: str
    webhook_targets: str
    rego: str
    approvals_home: str
    approvals_project: str
    approvals_agent: str
    limits: Limits
    team_limits: TeamLimits
    runtime: str
    editor: str
    colour: bool
    user_home: str
    cwd: str
    sources: tuple[Value, ...]


def load(flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read every source once. `BadConfig` names the file and the key."""
    env = os.environ if environ is None else environ
    cwd = _working_directory()
    user_home = os.path.expanduser("~") if environ is None else env.get("HOME", "/")
    config = env.get("XDG_CONFIG_HOME") or os.path.join(user_home, ".config")
    files = [os.path.join(cwd, "parley.toml"), os.path.join(config, "parley", "parley.toml")]
    tables = [(path, _read(path)) for path in files]
    variables = {variable: env[variable] for variable in env if variable.startswith(_PREFIXES)}
    values = {name: _value(name, flags or {}, variables, tables) for name in NAMES}
    _check_choice(values["sender_check"], ("warn", "enforce"))
    _check_choice(values["event_names"], ("rfc", "sdk"))
    _check_choice(values["webhook_targets"], ("public", "any"))
    if values["lease"].source != DEFAULT:
        _check_duration(values["lease"])
    _check_store(values["store"])
    _to_int(values["store_connections"], minimum=4)
    _to_int(values["linger"], minimum=0)
    team_limits = TeamLimits(
        **{
            name: _to_int(values[name], minimum=0 if name.endswith("retention_days") else 1)
            for name in _TEAM_LIMITS
            if values[name].source != DEFAULT
        }
    )
    if team_limits.http_body_bytes > HARD_FILE_BYTES:
        raise BadConfig(f"{values['http_body_bytes'].source}: http_body_bytes may be at most {HARD_FILE_BYTES}")
    limits = Limits(**{name: _to_int(values[name]) for name in _LIMITS if values[name].source != DEFAULT})
    if limits.file_bytes > HARD_FILE_BYTES:
        raise BadConfig(f"{values['file_bytes'].source}: file_bytes may be at most {HARD_FILE_BYTES}")
    return Settings(
        **{name: values[name].value for name in _TEXTS},
        limits=limits,
        team_limits=team_limits,
        runtime=_detect_runtime(env),
        editor=env.get("VISUAL") or env.get("EDITOR") or "",
        colour="NO_COLOR" not in env and env.get("TERM") != "dumb",
        user_home=user_home,
        cwd=cwd,
        sources=tuple(values[name] for name in NAMES),
    )


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"  # removed under our feet: then nothing is found from it


def _read(path: str) -> dict[str, object]:
    if not os.path.exists(path):
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror}", hint="make it readable or remove it") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number or a nesting without end
        raise BadConfig(f"{path}: {error}") from None
    for name in table:
        if name not in NAMES:
            raise BadConfig(f"{path}: unknown setting {name!r}", hint=f"known are {', '.join(NAMES)}")
    return table


def _value(
    name: str, flags: Mapping[str, str], env: Mapping[str, str], tables: list[tuple[str, dict[str, object]]]
) -> Value:
    if flags.get(name):
        return Value(name, flags[name], "flag")
    for variable in (f"PARLEY_{name.upper()}", *_OACP_VARIABLES.get(name, ())):
        if env.get(variable, "").strip():
            return Value(name, env[variable].strip(), f"${variable}")
    for path, table in tables:
        if name in table:
            value = table[name]
            if not isinstance(value, str | int) or isinstance(value, bool):
                raise BadConfig(f"{path}: {name} must be text or a number")
            return Value(name, str(value), path)
    default = _LIMITS.get(name, _TEAM_LIMITS.get(name, ""))
    return Value(name, _TEXTS.get(name) or str(default), DEFAULT)


def _to_int(value: Value, *, minimum: int = 1) -> int:
    text = value.value
    if not text.isascii() or not text.isdigit() or len(text) > 10 or not minimum <= int(text) < 2**31:
        raise BadConfig(f"{value.source}: {value.name} must be a whole number above {minimum - 1}, not {text[:70]!r}")
    return int(text)


def _check_choice(value: Value, choices: tuple[str, ...]) -> None:
    if value.value not in choices:
        raise BadConfig(f"{value.source}: {value.name} must be {' or '.join(choices)}, not {value.value!r}")


def _check_store(value: Value) -> None:
    if value.value and not value.value.startswith(("postgresql://", "postgres://")):
        hint = "postgresql://USER@HOST/DATABASE; without it everything is kept in a file"
        raise BadConfig(f"{value.source}: store is not the address of a PostgreSQL database", hint=hint)


def _check_duration(value: Value) -> None:
    try:
        parse_duration(value.value)
    except Invalid as error:
        raise BadConfig(f"{value.source}: {value.name}: {error.message}", hint=error.hint) from None


def _detect_runtime(env: Mapping[str, str]) -> str:
    """Which coding agent runs us, by its own word or by the marks it leaves in the environment."""
    name = env.get("OACP_RUNTIME", "").strip().lower()
    if name in _RUNTIMES:
        return name
    return next((runtime for mark, runtime in _RUNTIME_VARIABLES if env.get(mark, "").strip()), "")


def data_directory(settings: Settings) -> str:
    """Where a server keeps its store: as given, else the user's data folder."""
    if settings.data:
        return os.path.abspath(os.path.expanduser(settings.data))
    share = os.environ.get("XDG_DATA_HOME") or os.path.join(settings.user_home, ".local", "share")
    return os.path.join(share, "parley")


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


def child_environment(**additions: str) -> dict[str, str]:
    """This process's environment with additions, for a command that we start."""
    return {**os.environ, **additions}
