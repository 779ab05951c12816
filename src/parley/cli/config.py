"""`parley config`: show each setting and where its value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, add_mailbox_options, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.domain.errors.errors import ParleyError
from parley.settings import DEFAULT, SECRETS, Settings, Value, data_directory, unknown_variables, without_password

if TYPE_CHECKING:
    import argparse


def _config(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    others = (v for v in (*settings.sources, *settings.team_sources()) if v.name not in ("home", "project", "agent"))
    access = {value.name: value for value in _access_values(settings)}
    values = [*_place_values(settings), *(_printable_value(access.get(v.name, v), settings) for v in others)]
    unknown = unknown_variables().items()
    values += [Value(variable, "-", f"unknown, ignored: {hint or 'not a setting'}") for variable, hint in unknown]
    screen = screen_of(args)
    if args.json:
        screen.json({value.name: {"value": value.value, "source": value.source} for value in values})
    else:
        width = max(len(value.name) for value in values)
        for value in values:
            # Paths stay whole: a person compares them.
            name = screen.paint(f"{safe(value.name):<{width}}", "cyan")
            screen.prose(f"{name}  {safe(value.value) or '-'}  ({safe(value.source)})", indent=" " * (width + 2))
        if settings.files:
            screen.prose(f"Settings files, the nearest first: {safe(', '.join(settings.files))}")
    return OK


def _printable_value(value: Value, settings: Settings) -> Value:
    """Hide secrets and passwords, and resolve the data directory."""
    if value.name in SECRETS and value.value:
        return value._replace(value="(set)")
    if value.name == "store":
        return value._replace(value=without_password(value.value))
    return value._replace(value=data_directory(settings)) if value.name == "data" else value


def _access_values(settings: Settings) -> list[Value]:
    """Address, key and context as a command would resolve them, or why it cannot."""
    from parley.login_wiring import find_access, login_file

    try:
        access = find_access(settings)
    except ParleyError as error:
        names = ("url", "key", "context")
        return [Value(name, "-", f"not found: {error.message}") for name in names if not settings.is_given(name)]
    values = [Value("url", access.url, access.url_source), Value("key", access.key, access.key_source or DEFAULT)]
    if access.login is not None and not settings.context:
        values.append(Value("context", access.login.name, login_file(settings).path))
    return values


def _place_values(settings: Settings) -> list[Value]:
    """Home, project and agent as a command would resolve them, or why it cannot."""
    from parley import wiring
    from parley.adapters.files.workspace import Workspace

    values: list[Value] = []
    try:
        home = wiring.find_home(settings)
        values.append(home)
        values.append(wiring.find_project(settings, home.value))
        values.append(wiring.find_agent(settings, Workspace(home.value, values[-1].value)))
    except ParleyError as error:
        missing = ("home", "project", "agent")[len(values) :]
        values += [Value(name, "-", f"not found: {error.message}") for name in missing]
    return values


COMMANDS = {
    "config": Command(
        "Show each setting and where its value comes from",
        add_mailbox_options,
        _config,
        ("parley config", "parley config --json"),
    ),
}
