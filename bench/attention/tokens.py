"""What a message and the list of tools cost a model, in tokens of o200k, as the real coding agents send them."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from bench.attention.record import MessageCost, ToolCost
from bench.attention.waking import IDLE, SITUATIONS
from parley.cli.attention.run import RUN_TEXT
from parley.domain.mailbox.hook_events import NOTICE_ENDING
from parley.surfaces.mcp.tools import INSTRUCTIONS, TOOLS
from tests.harness.model_apis import ModelRequest, Step
from tests.harness.programs import AGENTS
from tests.harness.scripted_model import Script, handle_messages
from tests.harness.stage import a_stage
from tests.harness.tokens import count_tokens
from tests.harness.waking import IDLE_SECONDS, is_told, waiting_agent

PLAIN = "plain"
# 33 tokens.
BODY = (
    "The login test fails on main since today noon: test_expired_token gets 200 instead of 401. Did you change the"
    " clock of our own session store?"
)
_NOTICE = re.compile(rf"Parley: \d.*?{re.escape(NOTICE_ENDING)}|{re.escape(RUN_TEXT)}")
_ANSWER = re.compile(r'"Answer to [^"]*"')


def measure_message(program: str, way: str) -> MessageCost:
    """Let an idle agent handle one message, and count what passes between it and its model until the end."""
    calls: list[str] = []

    def rule(request: ModelRequest) -> Step:
        step = Step("Nothing waits.") if "Sent to" in request.news else handle_messages(request)
        if step.tool is not None:  # the words of the answer are not counted
            calls.append(_ANSWER.sub('""', f"{step.tool.name} {json.dumps(dict(step.arguments))}"))
        return step

    with a_stage(program, record=True) as stage, waiting_agent(stage, way):
        time.sleep(IDLE_SECONDS)
        stage.model.rule = rule
        before = len(stage.model.received)
        message = stage.place.send(BODY)
        stage.model.wait_for(lambda received: is_told(received, message), before)
        stage.model.wait_for(
            lambda received: received.request is not None and "Sent to" in received.request.news, before
        )
        requests = [received.request for received in stage.model.received[before:] if received.request is not None]
    news = [request.news for request in requests]
    own = [" ".join(_NOTICE.findall(news[0])), *(text.partition("Output:\n")[2] or text for text in news[1:])]
    counted = count_tokens([BODY, *calls, *own, *news])
    body, tokens = counted[0], counted[1:]
    shared, rest = tokens[: len(calls)], tokens[len(calls) :]
    around = sum(shared) - body
    return MessageCost(program, body, len(news), around + sum(rest[: len(own)]), around + sum(rest[len(own) :]))


def message_ways() -> dict[str, str]:
    """For each program the way in which it waits for messages: the first of its situations."""
    return {program: way for program, way, state in reversed(SITUATIONS) if state == IDLE}


def measure_tools() -> list[ToolCost]:
    """The list of tools with the instructions, plain and in the first request of each program."""
    plain = sum(count_tokens([json.dumps([*TOOLS], separators=(",", ":")), INSTRUCTIONS]))
    costs = [ToolCost(PLAIN, plain)]
    for program in AGENTS:
        with a_stage(program, Script([])) as stage:
            stage.place.set_up()
            stage.place.print_mode("Hello.")
            text = json.dumps(tools_as_sent(stage.model.requests[0]), separators=(",", ":"))
        # Codex sends the instructions as a part of the list, the others elsewhere.
        texts = [text] if INSTRUCTIONS[:60] in text else [text, INSTRUCTIONS]
        costs.append(ToolCost(program, sum(count_tokens(texts))))
    return costs


def tools_as_sent(request: ModelRequest) -> list[dict[str, Any]]:
    """The entries of a request that are tools of Parley."""
    entries = request.body["tools"]
    if request.api == "gemini":
        entries = [function for entry in entries for function in entry.get("functionDeclarations", ())]
    return [entry for entry in entries if "parley" in str(entry.get("name") or entry.get("function", {}).get("name"))]
