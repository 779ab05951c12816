"""docs/reference/workflow.md: every key of a workflow file."""

from __future__ import annotations

from collections.abc import Iterator

from parley.wire.files import workflow
from tools.reference.markdown import table

INTRO = """\
# The workflow file

YAML, with these keys and no others: an unknown key is an error, with file, line and key. How to write and run one:
[Run a workflow](../how-to/run-a-workflow.md).

A *time* is written `30s`, `5m` or `2h`. A *handler* is `module:function`, or only the name of a function in the
handlers module.
"""
PARTS = {
    "The file": ("", workflow._TOP),
    "intent": ("What is to be reached. It is created when the workflow runs.", workflow._INTENT),
    "channels": ("Each key is the name of a channel on the intent; below it:", workflow._CHANNEL),
    "agents": ("Each key is the name of an agent; below it, or nothing:", workflow._AGENT),
    "on_message": ("Each item of the list says which messages go to which function.", workflow._RULE),
    "workflow": ("Each key is the name of a step; below it:", workflow._STEP),
}
MEANINGS = {
    "The file.version": '`"1.0"`; required',
    "The file.intent": "what is to be reached; required",
    "The file.channels": "where agents talk",
    "The file.agents": "who they are",
    "The file.workflow": "the steps of the work. Without any, it works until somebody completes the intent",
    "The file.timeout": "a time after which it ends, wherever it is",
    "The file.handlers": "the module of handlers that name none; else `handlers.py` beside the file",
    "intent.title": "in one line; required",
    "intent.description": "in more",
    "intent.state": "a mapping, the state to begin with",
    "intent.constraints": "a mapping or a list",
    "intent.access": "who has access beside the agents of the file and of its steps: `closed` (nobody, the default),"
    " `open` (every agent), or a list of agents",
    "channels.members": "a list of agents",
    "channels.member_policy": "`intent` (any agent with access to the intent, the default) or `explicit` (members)",
    "channels.audit": "`true`: every message is copied into the log of the intent",
    "channels.ttl_seconds": "the channel closes so many seconds after the last message",
    "channels.max_messages": "how many messages are kept; 1000 when it is left out",
    "agents.description": "its title in the registry",
    "agents.role": "the role that the agent holds",
    "agents.capabilities": "a list of words",
    "agents.concurrency": "how many messages it deals with at once; 10 when it is left out",
    "agents.handler": "for those of its steps that name none",
    "agents.on_message": "a list, see below",
    "on_message.channel": "only those in this channel",
    "on_message.kind": "only `request`, `response`, `notify` or `broadcast`, or one of the [twelve kinds](kinds.md)",
    "on_message.from": "only those of this agent, or of a list of agents",
    "on_message.handler": "the function; it gets the message, and the agent if it takes two. Required",
    "on_message.timeout": "a time that a call may take",
    "workflow.title": "in one line; its name when it is left out",
    "workflow.description": "in more",
    "workflow.assign": "the agent that does it; this or a role is required",
    "workflow.role": "a role: one agent that holds it does the step, elsewhere",
    "workflow.depends_on": "a list of steps that have to be completed before",
    "workflow.handler": "the function; it gets the step, and the agent if it takes two. Else that of its agent. "
    "Without any, the step is sent as a request to its agent, which runs elsewhere",
    "workflow.timeout": "a time that one try may take",
    "workflow.retries": "how often it is tried again when it fails; 0 when it is left out",
    "workflow.inputs": "a mapping; a value like `collect.rows` is what the step `collect` gave under the key `rows`",
    "workflow.outputs": "a list of keys that its result has to have",
    "workflow.constraints": "a mapping or a list, for the agent that does the step",
}


OTHER_WORDS = {
    "openintent": "`version`",
    "info": "`intent`, with `name` for `title`; its `version` is for people",
    "agent": "`assign`",
    "initial_state": "`inputs`",
    "retry": "`retries`: `max_attempts` counts the first one, too; `backoff` (`exponential`, `linear` or `constant`), "
    "`initial_delay_ms` and `max_delay_ms` say when it is tried again",
}


def workflow_page() -> Iterator[str]:
    yield INTRO.rstrip()
    for part, (about, keys) in PARTS.items():
        yield ""
        yield f"## {part}"
        yield ""
        if about:
            yield about
            yield ""
        yield from table(("key", "meaning"), ((f"`{key}`", MEANINGS[f"{part}.{key}"]) for key in keys))
    yield ""
    yield "## Files of the OpenIntent SDK"
    yield ""
    yield "These words of its files are read as ours:"
    yield ""
    words = (*workflow._OTHER_TOP, *workflow._OTHER_STEP)
    yield from table(("key", "stands for"), ((f"`{word}`", OTHER_WORDS[word]) for word in words))
    yield ""
    yield "These keys have no counterpart. Each is named once, with its lines; `parley workflow check` exits with 15."
    yield ""
    unavailable = workflow._UNAVAILABLE.items()
    yield from table(("key", "without it"), ((f"`{key}`", without) for key, without in unavailable))
