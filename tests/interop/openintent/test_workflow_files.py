"""Workflow files for the OpenIntent SDK: what Parley has is read, what it does not have is named, once each.

Each file has the keys of one of the eight examples in the SDK's repository, in the same places. The SDK's own
reader has to accept it, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from openintent.workflow import WorkflowSpec

from parley.cli.exits import OK, UNSUPPORTED
from parley.cli.main import main

HEAD = 'openintent: "1.0"\ninfo: {name: An example, version: "1.0.0", description: What it is about}\n'
AGENTS = "agents:\n  one: {description: The first, capabilities: [a, b]}\n  two: {description: The second}\n"

HELLO_WORLD = (
    HEAD
    + """\
workflow:
  research: {title: Research, description: In depth, assign: one, constraints: [be thorough, be brief]}
  summarize: {title: Sum up, description: In short, assign: two, depends_on: [research], constraints: [200 words]}
"""
)
RESEARCH_PIPELINE = (
    HELLO_WORLD
    + """\
  write: {title: Write, description: A report, assign: three, depends_on: [summarize], constraints: [be clear]}
"""
)
MESSAGING_PIPELINE = (
    HEAD
    + """\
channels:
  data-sync: {members: [one, two], member_policy: explicit, audit: true, ttl_seconds: 3600}
  progress: {member_policy: intent, audit: false}
workflow:
  research: {title: Research, description: In depth, assign: one}
  process: {title: Process, description: What was found, assign: two, depends_on: [research]}
"""
)
RESEARCH_ASSISTANT = (
    HEAD
    + AGENTS
    + """\
workflow:
  research:
    title: Research
    assign: one
    permissions: [one, two]
    constraints: ["max_sources: 5"]
    initial_state: {topic: tea, depth: great}
    retry: {max_attempts: 3, backoff: exponential, initial_delay_ms: 1000}
  synthesize: {title: Sum up, assign: two, permissions: open, depends_on: [research]}
"""
)
CONTENT_PIPELINE = (
    HEAD
    + "governance: {max_cost_usd: 5.00, timeout_hours: 1}\n"
    + AGENTS
    + """\
workflow:
  research: {title: Research, assign: one, permissions: open, initial_state: {topic: tea}}
  write:
    title: Write
    assign: two
    permissions: [one, two]
    depends_on: [research]
    cost_tracking: {enabled: true, budget_usd: 2.00}
  publish:
    title: Publish
    assign: two
    permissions: private
    depends_on: [write]
    attachments: [{filename: article.md, content_type: text/markdown}]
"""
)
DATA_PIPELINE = (
    HEAD
    + "governance: {max_cost_usd: 20.00, timeout_hours: 2}\n"
    + AGENTS
    + """\
workflow:
  extract:
    title: Extract
    assign: one
    permissions: [one]
    retry: {max_attempts: 5, backoff: exponential, initial_delay_ms: 2000}
    cost_tracking: {enabled: true, budget_usd: 5.00}
  load:
    title: Load
    assign: two
    permissions: [two]
    depends_on: [extract]
    retry: {max_attempts: 3, backoff: linear, initial_delay_ms: 5000}
    attachments: [{filename: report.json, content_type: application/json}]
"""
)
MCP_WORKFLOW = (
    HEAD
    + """\
mcp:
  servers:
    files: {command: npx, args: [-y, server], allowed_tools: [read_file], security: {audit: true}}
workflow:
  gather: {title: Gather, description: Files, assign: one}
  analyze: {title: Analyse, description: Them, assign: two, depends_on: [gather]}
agents:
  one:
    tools: ["mcp:files/read_file"]
  two:
    tools: ["mcp:files/list_directory"]
"""
)
COMPLIANCE_REVIEW = (
    HEAD
    + """\
governance:
  require_approval: {when: "risk.category == 'HIGH'", approvers: [legal], timeout_hours: 24, on_timeout: escalate}
  max_cost_usd: 10.00
  access_review: {on_request: defer, approvers: [legal]}
agents:
  one: {description: The first, capabilities: [a]}
  two:
    description: The second
    default_permission: read
    approval_required: true
workflow:
  extraction:
    title: Extraction
    assign: one
    retry:
      max_attempts: 3
      backoff: exponential
      initial_delay_ms: 1000
      max_delay_ms: 30000
      retryable_errors: [TIMEOUT]
    permissions: {policy: restricted, allow: [{agent: one, level: admin}], delegate: {to: [three], level: write}}
    initial_state: {phase: extraction}
  analysis:
    title: Analysis
    assign: two
    depends_on: [extraction]
    leasing: {strategy: per_section, ttl_seconds: 60}
    cost_tracking: {enabled: true, budget_usd: 2.00, alert_at_percent: 80}
    attachments: [{filename: report.json, content_type: application/json}]
types:
  Section: {id: string, page: integer}
"""
)
EXAMPLES = {
    "hello_world": (HELLO_WORLD, []),
    "research_pipeline": (RESEARCH_PIPELINE, []),
    "messaging_pipeline": (MESSAGING_PIPELINE, []),
    "research_assistant": (RESEARCH_ASSISTANT, ["permissions"]),
    "content_pipeline": (CONTENT_PIPELINE, ["governance", "permissions", "cost_tracking", "attachments"]),
    "data_pipeline": (DATA_PIPELINE, ["governance", "permissions", "cost_tracking", "attachments"]),
    "mcp_workflow": (MCP_WORKFLOW, ["mcp", "tools"]),
    "compliance_review": (
        COMPLIANCE_REVIEW,
        [
            *("governance", "default_permission", "approval_required", "retryable_errors", "permissions"),
            *("leasing", "cost_tracking", "attachments", "types"),
        ],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_here_is_read_and_what_is_not_is_named_once(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text, missing = EXAMPLES[name]
    file = tmp_path / f"{name}.yaml"
    file.write_text(text)
    WorkflowSpec.from_yaml(file)  # the SDK reads it

    code = main(["workflow", "check", str(file)])

    lines = capsys.readouterr().out.splitlines()
    if not missing:
        assert (code, len(lines)) == (OK, 1)
        assert "elsewhere: one, two" in lines[0]
        return
    assert code == UNSUPPORTED
    named = [line.removeprefix(f"{file}:").split(": ") for line in lines]
    assert [key.rpartition(".")[2] for _, key, *_ in named] == missing
    source = text.splitlines()
    assert all(feature in source[int(line) - 1] for (line, *_), feature in zip(named, missing, strict=True))
    assert all("is not available in Parley (" in line for line in lines)
