"""`python -m tests.harness.record`: write down what the real coding agents give to hooks and to the MCP server.

The tests that need no coding agent read these files. Run it through `tests.harness.isolation`, and whenever a version
in packages.toml changes.
"""

from __future__ import annotations

import json
import re
import sys

from tests.harness.model_apis import ModelRequest, Step, Tool
from tests.harness.packages import locked
from tests.harness.programs import AGENTS
from tests.harness.scripted_model import Script, use_tool
from tests.harness.stage import HarnessStage, a_stage
from tests.samples.recorded_agents import RECORDED

_PROMPT = "Look at your messages."


def _reply(request: ModelRequest) -> Step:
    ref = re.search(r"\[([0-9a-z]{4})\] P", request.news)
    return use_tool("reply", id=ref[1] if ref else "", text="Blue.")(request)


def _steps(name: str) -> Script:
    """Take a message, answer it, and let a subagent list the agents where there are subagents."""
    steps = [use_tool("next"), _reply]
    if name == "claude":
        task = {"description": "List agents", "prompt": "List the agents.", "subagent_type": "general-purpose"}
        steps += [lambda _: Step(tool=Tool("Agent"), arguments=task), use_tool("agents"), lambda _: Step("Done.")]
    return Script(steps)


def _record(name: str) -> None:
    with a_stage(name, _steps(name), record=True) as stage:
        stage.place.set_up()
        stage.place.send("Which colour do you want?", "--subject", "A question of colour")
        stage.place.print_mode(_PROMPT)
        if name == "claude":
            stage.place.run("claude", "-p", "--continue", _PROMPT)
        events = [json.loads(_scrub(stage, path.read_text())) for path in sorted(stage.record.glob("hook-*"))]
        servers = [path.read_text() for path in sorted(stage.record.glob("mcp-*"))]
        requests = [json.loads(_scrub(stage, line)) for line in servers[0].splitlines()]
    document = {"program": name, "version": locked()[name].short_version, "hook_events": events, "mcp": requests}
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{name}.json").write_text(f"{json.dumps(document, indent=1, ensure_ascii=False)}\n")
    print(f"{name}: {len(events)} hook events, {len(requests)} MCP requests")


def _scrub(stage: HarnessStage, text: str) -> str:
    """Without the paths of this machine."""
    folder = str(stage.place.home.parent)
    for path, public in (
        (str(stage.place.repository), "/home/me/app"),
        (str(stage.place.home), "/home/me"),
        (folder, "/home/me"),
        (re.sub(r"[^A-Za-z0-9]", "-", str(stage.place.repository)), "-home-me-app"),
    ):
        text = text.replace(path, public)
    return text


if __name__ == "__main__":
    for agent in sys.argv[1:] or AGENTS:
        _record(agent)
