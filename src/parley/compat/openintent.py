"""Makes agents that are written for the `openintent` SDK work on a Parley server: import this, and their code runs.

    import parley.compat.openintent

Its classes stay as they are, decorated with its own `@Agent` and `@on_message`. What its runtime cannot do is done by
Parley's: dispatch messages, answer, resume, stop in good order. Only what `REPLACED` and `ADDED` name changes, and
`uninstall()` brings the old back.
"""

from __future__ import annotations

import inspect
import warnings
from types import MethodType
from typing import Any

try:
    import openintent
    from openintent import agents as _openintent_agents
    from openintent import client as _openintent_clients
except ImportError:
    raise ImportError(
        "parley.compat.openintent works on the openintent SDK, which is not installed: "
        "pip install 'agent-parley[openintent]'"
    ) from None

from parley.compat.agents import AGENT, WORKER
from parley.compat.channels import Channels, ask_all, ask_all_async, channels_of

__all__ = ["ADDED", "REPLACED", "TESTED", "UntestedVersion", "install", "uninstall"]

# Other versions may have changed or fixed what is replaced here.
TESTED = ("0.17.0",)

# What of theirs is replaced, by class; and what is added because RFC-0021 names it and they do not have it.
REPLACED: dict[str, tuple[str, ...]] = {
    "BaseAgent": ("__init__", *sorted(AGENT), "channels"),
    "Worker": tuple(sorted(WORKER)),
}
ADDED = {"OpenIntentClient": "ask_all", "AsyncOpenIntentClient": "ask_all"}

_originals: dict[tuple[str, str], Any] = {}
_added: list[tuple[type, str]] = []


class UntestedVersion(UserWarning):
    """This version of the openintent SDK was never tried with Parley."""


def install() -> None:
    """Replace what does not work. Importing the module does this; doing it twice is no error."""
    if _originals:
        return
    if openintent.__version__ not in TESTED:
        text = f"openintent {openintent.__version__} was not tested with Parley; tested: {', '.join(TESTED)}"
        warnings.warn(text, UntestedVersion, stacklevel=2)
    originals = {
        (kind, name): inspect.getattr_static(getattr(_openintent_agents, kind, None), name, None)
        for kind, names in REPLACED.items()
        for name in names
    }
    if missing := [f"{kind}.{name}" for (kind, name), old in originals.items() if old is None]:
        raise ImportError(f"openintent {openintent.__version__} has no {missing[0]}; tested: {', '.join(TESTED)}")
    _originals.update(originals)
    new: dict[str, dict[str, Any]] = {
        "BaseAgent": {"__init__": _init_agent, **AGENT, "channels": property(channels_of)},
        "Worker": WORKER,
    }
    for kind, name in originals:
        setattr(getattr(_openintent_agents, kind), name, new[kind][name])
    for kind, method in (("OpenIntentClient", ask_all), ("AsyncOpenIntentClient", ask_all_async)):
        client = getattr(_openintent_clients, kind)
        if not hasattr(client, ADDED[kind]):
            setattr(client, ADDED[kind], method)
            _added.append((client, ADDED[kind]))


def uninstall() -> None:
    """Bring the old methods back. Classes that were decorated, and agents that were made meanwhile, keep the new."""
    for (kind, name), old in _originals.items():
        setattr(getattr(_openintent_agents, kind), name, old)
    for client, name in _added:
        delattr(client, name)
    _originals.clear()
    _added.clear()


def _init_agent(agent: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # their constructor, whatever it takes
    """Their `BaseAgent.__init__`, and then whatever `@Agent` has left out of the class.

    Their decorator copies methods into the class, overwrites `run` with one that calls itself, and forgets
    `channels`. A class may have been decorated before this module was imported, so each agent is seen to when it is
    made; its class is left alone.
    """
    _originals["BaseAgent", "__init__"](agent, *args, **kwargs)
    kind = type(agent)
    for name, method in AGENT.items():
        if inspect.getattr_static(kind, name, None) is _originals["BaseAgent", name]:
            setattr(agent, name, MethodType(method, agent))
    if isinstance(inspect.getattr_static(kind, "run", None), classmethod):
        agent.run = MethodType(AGENT["run"], agent)
    if not hasattr(kind, "channels"):
        agent.channels = Channels(agent)
    if not hasattr(kind, "identity_config"):
        agent.identity_config = getattr(kind, "_identity_config", {})
    # Their search for handlers touches every property, and so makes clients before the agent may have its name.
    if agent._client is not None:
        agent._client.close()
    agent._client = agent._async_client = None


install()
