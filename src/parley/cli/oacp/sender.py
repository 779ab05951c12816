"""Who is sending: as given, from the environment, or the one agent whose card names the runtime we run in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley.cli.oacp.refusal import Refusal
from parley.domain.names import is_name

if TYPE_CHECKING:
    from parley.settings import Settings

_USAGE = 2
_WAYS = "--from, OACP_AGENT, or AGENT_NAME."


def sender_of(sender: str | None, home: str, project: str, settings: Settings) -> str:
    """The sender's name, or a refusal that says how to name one."""
    if sender:
        return sender
    if settings.agent:
        return settings.agent
    names = _by_runtime(home, project, settings.runtime) if settings.runtime else []
    if len(names) == 1:
        return names[0]
    if not names:
        raise Refusal(f"Cannot infer sender — use {_WAYS}", _USAGE)
    matching = f"multiple agent cards match current runtime '{settings.runtime}': {', '.join(names)}"
    raise Refusal(f"Cannot infer sender — {matching}. Use {_WAYS}", _USAGE)


def _by_runtime(home: str, project: str, runtime: str) -> list[str]:
    from parley.adapters.files.layout import read_card
    from parley.adapters.files.workspace import Workspace

    folder = f"{home}/projects/{project}/agents"
    if not is_name(project) or not os.path.isdir(folder):
        return []
    workspace = Workspace(home, project)
    names = []
    for name in sorted(filter(is_name, os.listdir(folder))):
        card = read_card(workspace.agent(name))
        if card.get("runtime", "").lower() == runtime:
            names.append(card.get("name") or name)
    return names
