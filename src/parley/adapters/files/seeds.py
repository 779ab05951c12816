"""What the files of a new project or agent say at first: the same data as the OACP tool writes, in our own words."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from parley.domain.times import format_time
from parley.wire.yaml.write import quoted

if TYPE_CHECKING:
    from datetime import datetime

RUNTIMES = ("claude", "codex", "cursor", "gemini", "opencode")
# The version of the workspace layout that OACP tools look for.
_SPEC_VERSION = "0.5.3"
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 ()._-]*\Z")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null"})

_STATUS_MODELS = {
    "claude": "unknown",
    "codex": "unknown",
    "cursor": "cursor",
    "gemini": "gemini",
    "opencode": "unknown",
}
_CAPABILITIES = {
    "claude": "headless mcp_tools shell_access git_ops github_cli subagents parallel_teams web_search session_memory"
    " notifications async_tasks",
    "codex": "headless shell_access git_ops github_cli subagents web_search session_memory",
    "cursor": "shell_access git_ops github_cli",
    "gemini": "mcp_tools shell_access git_ops github_cli web_search browser session_memory",
    "opencode": "headless mcp_tools shell_access git_ops github_cli subagents session_memory",
}
_KINDS = "task_request question notification handoff review_request review_feedback review_lgtm follow_up"
_MORE_KINDS = "handoff_complete review_addressed brainstorm_request brainstorm_followup"

DECISIONS = "# Decision Log\n\n## {day}\n- Project workspace initialized.\n"
THREADS = "# Open Threads\n\n- None yet.\n"
FACTS = """\
# Project Facts

## Agent Roles
- Implementer (<domain>): <agent name>
- QA/Reviewer: <agent name>
- Deploy/Ops: <agent name>

## Protocol
- Shared handoff protocol version: v0.2.0
"""
DEBT = """\
# Known Debt

What is known to be wrong and not yet mended. Write it down here once it is confirmed,
so that nobody has to find it a second time.

| Item | Severity | Date Found | Source | Status |
| --- | --- | --- | --- | --- |
| _None yet._ |  |  |  |  |
"""
CONFIG = """\
# What this agent may do with an incoming message before a person has said yes.
# As it stands: nothing.
autonomy:
  default_mode: always_pause  # always_pause | auto_review
  auto_review_thresholds:
    max_estimated_minutes: 45
    max_expected_files_touched: 5
    destructive_ops: pause
    # On private repositories: pull requests, reviews and comments, but no push to main, deploy, release or merge.
    external_side_effects: allow_pr_artifacts
    auth_config_or_secrets: pause
    dependency_changes: pause
    public_visibility: pause
    git_push_or_deploy: pause
  allow_without_task_profile:
    - brainstorm_request
  # Repositories that you know to be private; what a sender says about them does not count.
  private_repo_allowlist: []
  continuation_grants:
    # When true, a grant that a person approved earlier in a thread covers later messages inside its scope.
    enabled: false
"""
_PROFILE = """\
version: 0.2.0
name: {name}
runtime: {runtime}
model: {model}
description: {description}
projects:
- {project}
routing_rules:
  primary: []
  avoid: []
trust_level: standard
quota:
  max_cost_usd_per_month: null
  reset_day: 1
  warn_threshold: 0.8
capabilities:
  tools: []
  languages: []
  domains: []
skills: []
"""
_CARD = """\
# Who this agent is in this project. What it is doing right now stands in status.yaml.
version: "0.2.0"
name: {name}
runtime: {runtime}
model: {model}
description: {description}

# What it is good at: a list of {{id, name, description, tags}}.
skills:

capabilities:
  tools: []
  languages: []
  domains: []

permissions:
  allowed_dirs: []
  denied_dirs: []
  allowed_commands: []
  denied_commands: []
  github_operations: []
  max_cost_usd_per_run: null

availability:
  schedule: "always"
  max_concurrent_tasks: 1
  timezone: "UTC"

protocol:
  inbox_path: "agents/{folder}/inbox/"
  outbox_path: "agents/{folder}/outbox/"
  supported_message_types:
{kinds}"""


def workspace(project: str, repo: str, at: datetime) -> str:
    moment = at.isoformat(timespec="microseconds")
    fields = {
        "project_name": project,
        "repo_path": repo or None,
        "created_at": moment,
        "updated_at": moment,
        "spec_version": _SPEC_VERSION,
    }
    return json.dumps(fields, indent=2) + "\n"


def identity(agent: str, runtime: str) -> dict[str, str]:
    """Name, runtime, model and description of an agent that has no description yet."""
    runtime_name = runtime or (agent if agent in RUNTIMES else "")
    description = f"{agent} agent ({runtime_name} runtime)" if runtime_name else f"{agent} agent"
    return {"name": agent, "runtime": runtime_name or "unknown", "model": runtime_name, "description": description}


def profile(agent: str, runtime: str, project: str) -> str:
    texts = {key: _plain(text) for key, text in identity(agent, runtime).items()}
    return _PROFILE.format(**texts, project=_plain(project))


def status(runtime: str, model: str, at: datetime) -> str:
    """`model` is what the agent's profile says; the bare name of a command line tool says nothing."""
    model_name = _STATUS_MODELS[runtime] if model in ("", runtime) else model
    capability_lines = "".join(f"  - {word}\n" for word in _CAPABILITIES[runtime].split())
    return (
        f'runtime: {runtime}\nmodel: {_plain(model_name)}\nstatus: available\ncurrent_task: ""\n'
        f'capabilities:\n{capability_lines}updated_at: "{format_time(at)}"\n'
    )


def card(agent: str, runtime: str, model: str, description: str) -> str:
    texts = identity(agent, runtime)
    texts["model"] = model or texts["model"]
    texts["description"] = description or texts["description"]
    kinds = f"{_KINDS} {_MORE_KINDS}" if runtime in ("claude", "codex") else _KINDS
    lines = "".join(f"    - {kind}\n" for kind in kinds.split())
    return _CARD.format(**{key: quoted(text) for key, text in texts.items()}, folder=agent, kinds=lines)


def _plain(text: str) -> str:
    """Bare where every reader takes it for text, else quoted."""
    return text if _PLAIN.match(text) and text.lower() not in _WORDS and text[-1] != " " else quoted(text)
