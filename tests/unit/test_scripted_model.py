"""The scripted model answers in the APIs of four coding agents, and keeps what it was asked."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.model_apis import Step, Tool
from tests.harness.scripted_model import Script, ScriptedModel, handle_messages, use_tool

PATHS = {
    "messages": "/v1/messages?beta=true",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-pro:streamGenerateContent?alt=sse",
    "chat": "/v1/chat/completions",
}
NEXT = {
    "messages": Tool("mcp__parley__next"),
    "responses": Tool("next", "mcp__parley"),
    "gemini": Tool("mcp_parley_next"),
    "chat": Tool("parley_next"),
}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "messages": [{"name": "Bash"}, {"name": "mcp__parley__next"}],
    "responses": [{"type": "namespace", "name": "mcp__parley", "tools": [{"name": "next"}]}],
    "gemini": [{"functionDeclarations": [{"name": "mcp_parley_next"}]}],
    "chat": [{"type": "function", "function": {"name": "parley_next"}}],
}
APIS = sorted(PATHS)


def body_of(api: str, *texts: tuple[str, str], tools: bool = True) -> dict[str, Any]:
    """A request with a conversation of roles and texts, as the API writes it."""
    body: dict[str, Any] = {"stream": True, **({"tools": TOOLS[api]} if tools else {})}
    if api == "gemini":
        body["contents"] = [{"role": role, "parts": [{"text": text}]} for role, text in texts]
    elif api == "responses":
        body["input"] = [{"type": "message", "role": role, "content": [{"text": text}]} for role, text in texts]
    else:
        body["messages"] = [{"role": role, "content": text} for role, text in texts]
    return body


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(Script([Step("One."), use_tool("next", wait=1)])) as model:
        yield model


def post(model: ScriptedModel, path: str, content: bytes, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=30)
    try:
        connection.request("POST", path, content, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def ask(model: ScriptedModel, api: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The documents of the events that come back."""
    _, text = post(model, PATHS[api], json.dumps(body).encode())
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def said_and_called(api: str, events: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The words and the calls of tools in an answer, read as the client of the API does."""
    if api == "messages":
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        calls = [{"name": block["name"]} for block in blocks if block["type"] == "tool_use"]
        arguments = [json.loads(delta["partial_json"]) for delta in deltas if "partial_json" in delta]
        calls = [{**call, "arguments": given} for call, given in zip(calls, arguments, strict=True)]
        return "".join(delta.get("text", "") for delta in deltas), calls
    if api == "responses":
        items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        text = "".join(part["text"] for item in items for part in item.get("content", ()))
        calls = [item for item in items if item["type"] == "function_call"]
        assert events[-1]["type"] == "response.completed"
        return text, [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls]
    if api == "gemini":
        parts = events[0]["candidates"][0]["content"]["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        text = "".join(part.get("text", "") for part in parts)
        return text, [{"name": call["name"], "arguments": call["args"]} for call in calls]
    delta = events[0]["choices"][0]["delta"]
    calls = [call["function"] for call in delta.get("tool_calls", ())]
    return delta["content"], [{**call, "arguments": json.loads(call["arguments"])} for call in calls]


@pytest.mark.parametrize("api", APIS)
def test_a_script_is_followed_step_by_step_in_every_api(model: ScriptedModel, api: str) -> None:
    answers = [said_and_called(api, ask(model, api, body_of(api, ("user", "Go.")))) for _ in range(3)]

    call = {"name": NEXT[api].name, "arguments": {"wait": 1}}
    assert answers == [("One.", []), ("", [call]), ("Finished.", [])]


@pytest.mark.parametrize("api", APIS)
def test_a_request_without_tools_takes_no_step(model: ScriptedModel, api: str) -> None:
    title = said_and_called(api, ask(model, api, body_of(api, ("user", "Name this."), tools=False)))

    assert title == ("ok", [])
    assert model.requests == []
    assert said_and_called(api, ask(model, api, body_of(api, ("user", "Go."))))[0] == "One."


@pytest.mark.parametrize("api", APIS)
def test_what_is_new_is_what_came_after_the_last_word_of_the_model(model: ScriptedModel, api: str) -> None:
    word = "model" if api == "gemini" else "assistant"
    ask(model, api, body_of(api, ("user", "Old."), (word, "Mine."), ("user", "First."), ("user", "Second.")))

    assert model.requests[0].news == "First.\nSecond."
    assert model.requests[0].tool("next") == NEXT[api]
    assert model.requests[0].tool("send") is None


@pytest.mark.parametrize(
    ("news", "tool", "arguments"),
    [
        ("Hello.", None, {}),
        ("Parley: 1 message waits for codex: question from claude [a8f3] P2.", "next", {}),
        (
            "[a8f3] P1 question from claude. Written by claude, not by your user.",
            "reply",
            {"id": "a8f3", "text": "Answer to a8f3."},
        ),
        ("Sent to claude as notification, and finished the message.", "next", {}),
        ("No message for codex.", None, {}),
    ],
)
def test_the_rule_for_messages_takes_answers_and_stops(
    news: str, tool: str | None, arguments: dict[str, object]
) -> None:
    body = body_of("chat", ("user", news))
    body["tools"] = [{"type": "function", "function": {"name": f"parley_{name}"}} for name in ("next", "reply")]
    with ScriptedModel(handle_messages) as model:
        text, calls = said_and_called("chat", ask(model, "chat", body))

    wanted = [{"name": f"parley_{tool}", "arguments": arguments}] if tool else []
    assert calls == wanted
    assert bool(text) == (tool is None)


def test_every_body_is_kept_with_its_time_and_written_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "model.log"
    with ScriptedModel(Script([]), log) as model:
        post(model, "/v1/messages/count_tokens", b'{"a": 1}')
        post(model, PATHS["chat"], gzip.compress(b'{"b": 2}'), **{"Content-Encoding": "gzip"})

    assert [received.body for received in model.received] == [{"a": 1}, {"b": 2}]
    assert model.received[0].at <= model.received[1].at
    assert [json.loads(line)["body"] for line in log.read_text().splitlines()] == [{"a": 1}, {"b": 2}]


def test_a_request_in_pieces_is_read_and_one_that_is_no_json_is_refused(model: ScriptedModel) -> None:
    status, _ = post(model, PATHS["chat"], b"3\r\n{}\n\r\n0\r\n\r\n", **{"Transfer-Encoding": "chunked"})

    assert status == 200
    assert post(model, PATHS["chat"], b"{")[0] == 400
    assert [received.body for received in model.received] == [{}]


def test_a_test_can_wait_for_a_request(model: ScriptedModel) -> None:
    body = body_of("chat", ("user", "Later."))
    sender = threading.Thread(target=ask, args=(model, "chat", body))
    sender.start()

    received = model.wait_for(lambda received: "Later." in received.text)

    sender.join()
    assert received.body == body
    with pytest.raises(TimeoutError, match=r"no such request among 1 within 0\.01 s"):
        model.wait_for(lambda received: "Never." in received.text, seconds=0.01)
