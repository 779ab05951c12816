"""`parley config`: show each setting and where its value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, add_mailbox_options, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.domain.errors.errors import ParleyError
from parley.settings import SECRETS, Settings, Value, data_directory, unknown_variables, without_password

if TYPE_CHECKING:
    import argparse


def _config(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    others = (v for v in (*settings.sources, *settings.team_sources()) if v.name not in ("home", "project", "agent"))
    values = [*_place_values(settings), *(_printable_value(value, settings) for value in others)]
    unknown = unknown_variables().items()
    values += [Value(variable, "-", f"unknown, ignored: {hint or 'not a setting'}") for variable, hint in unknown]
    screen = screen_of(args)
    if args.json:
        screen.json({value.name: {"value": value.value, "source": value.source} for value in values})
    else:
        screen.table(("SETTING", "VALUE", "FROM"), [(v.name, safe(v.value), safe(v.source)) for v in values])
        if settings.files:
            screen.line(f"Settings files, the nearest first: {safe(', '.join(settings.files))}")
    return OK


def _printable_value(value: Value, settings: Settings) -> Value:
    """Hide secrets and passwords, and resolve the data directory."""
    if value.name in SECRETS and value.value:
        return value._replace(value="(set)")
    if value.name == "store":
        return value._replace(value=without_password(value.value))
    return value._replace(value=data_directory(settings)) if value.name == "data" else value


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
