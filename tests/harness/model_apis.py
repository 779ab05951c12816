"""The four APIs that coding agents speak to a model: from a request to what it says, and from a step to the answer.

| API | path | spoken by |
|---|---|---|
| Anthropic Messages | /v1/messages | Claude Code |
| OpenAI Responses | /v1/responses | Codex CLI |
| Gemini | /v1beta/models/NAME:streamGenerateContent | Gemini CLI |
| OpenAI Chat Completions | /v1/chat/completions | OpenCode |

Pure: a request is a path and a document, an answer is bytes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Document = dict[str, Any]

_MODEL_ROLES = ("assistant", "model")
_MODEL_ITEMS = ("function_call", "custom_tool_call", "reasoning")
# Where text of an item may be, in each API.
_TEXT_KEYS = ("text", "content", "output", "response", "functionResponse", "parts", "result")
_JSON, _EVENTS = "application/json", "text/event-stream"
_numbers = itertools.count(1)


class Tool(NamedTuple):
    """A tool as it is offered to a model. Codex puts those of an MCP server into a namespace."""

    name: str
    namespace: str = ""


class Step(NamedTuple):
    """What the model answers with: words, the call of a tool, or both. It takes `seconds` to think."""

    text: str = ""
    tool: Tool | None = None
    arguments: Mapping[str, object] = {}
    seconds: float = 0.0


class ModelRequest(NamedTuple):
    """One request for a step of the model."""

    api: str
    body: Document
    tools: tuple[Tool, ...]
    # Everything after the model's last word: what it has to react to.
    news: str

    def tool(self, name: str) -> Tool | None:
        """The tool of Parley with this name, however the coding agent has renamed it; None without one."""
        for tool in self.tools:
            whole = f"{tool.namespace}_{tool.name}" if tool.namespace else tool.name
            if "parley" in whole and whole.endswith(f"_{name}"):
                return tool
        return None


class Reply(NamedTuple):
    """An answer over HTTP."""

    content_type: str
    content: bytes


def api_of(path: str) -> str:
    """Which API a path belongs to; "" for none, such as a probe or a count of tokens."""
    path = path.partition("?")[0]
    for api, ending in (("messages", "/messages"), ("responses", "/responses"), ("chat", "/chat/completions")):
        if path.endswith(ending):
            return api
    return "gemini" if path.endswith((":streamGenerateContent", ":generateContent")) else ""


def read_request(api: str, body: Document) -> ModelRequest:
    """The parts of a request that a script or a rule reacts to."""
    return ModelRequest(api, body, tuple(_tools(api, body)), "\n".join(_news(_items(body))))


def encode(path: str, request: ModelRequest, step: Step) -> Reply:
    """The answer of an API to a request: a stream of events where the request wants one."""
    streams = request.body.get("stream") is True or ":streamGenerateContent" in path
    return _ENCODERS[request.api](request.body, step, streams)


def wants_json(request: ModelRequest) -> bool:
    """Whether Gemini CLI asks for a document: who speaks next, which model to take."""
    config = request.body.get("generationConfig")
    return isinstance(config, dict) and config.get("responseMimeType") == _JSON


def _items(body: Document) -> Sequence[Document]:
    items = body.get("messages") or body.get("input") or body.get("contents") or []
    return [item if isinstance(item, dict) else {"text": item} for item in items] if isinstance(items, list) else []


def _news(items: Sequence[Document]) -> Iterator[str]:
    start = len(items)
    while start and not _is_of_model(items[start - 1]):
        start -= 1
    for item in items[start:]:
        yield from texts_of(item)


def _is_of_model(item: Document) -> bool:
    return item.get("role") in _MODEL_ROLES or item.get("type") in _MODEL_ITEMS


def texts_of(part: object) -> Iterator[str]:
    """Every text in an item of a conversation."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for inner in part:
            yield from texts_of(inner)
    elif isinstance(part, dict):
        for key in _TEXT_KEYS:
            if key in part:
                yield from texts_of(part[key])


def _tools(api: str, body: Document) -> Iterator[Tool]:
    for entry in body.get("tools") or []:
        if api == "gemini":
            yield from (Tool(function["name"]) for function in entry.get("functionDeclarations", ()))
        elif api == "chat":
            yield Tool(entry["function"]["name"])
        elif entry.get("type") == "namespace":
            yield from (Tool(tool["name"], entry["name"]) for tool in entry["tools"])
        elif "name" in entry:
            yield Tool(entry["name"])


def _new_id(kind: str) -> str:
    return f"{kind}_{next(_numbers):08d}"


def _json_reply(document: Document) -> Reply:
    return Reply(_JSON, json.dumps(document).encode())


def _named_events(events: list[tuple[str, Document]]) -> Reply:
    """Events that carry their name twice, as Anthropic and OpenAI send them."""
    lines = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events]
    return Reply(_EVENTS, "".join(lines).encode())


def _encode_messages(body: Document, step: Step, streams: bool) -> Reply:
    blocks: list[Document] = [{"type": "text", "text": step.text}] if step.text else []
    if step.tool is not None:
        call = {"type": "tool_use", "id": _new_id("toolu"), "name": step.tool.name, "input": dict(step.arguments)}
        blocks.append(call)
    reason = "tool_use" if step.tool is not None else "end_turn"
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message: Document = {
        "id": _new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    if not streams:
        return _json_reply({**message, "content": blocks, "stop_reason": reason})
    events: list[tuple[str, Document]] = [("message_start", {"message": message})]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append(("content_block_start", {"index": index, "content_block": empty}))
        events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
    ending = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 5}}
    return _named_events([*events, ("message_delta", ending), ("message_stop", {})])


def _encode_responses(body: Document, step: Step, streams: bool) -> Reply:
    items: list[Document] = []
    if step.text:
        content = [{"type": "output_text", "text": step.text, "annotations": []}]
        message = {"type": "message", "role": "assistant", "id": _new_id("msg"), "status": "completed"}
        items.append({**message, "content": content})
    if step.tool is not None:
        call = {"type": "function_call", "id": _new_id("fc"), "call_id": _new_id("call"), "name": step.tool.name}
        namespace = {"namespace": step.tool.namespace} if step.tool.namespace else {}
        items.append({**call, **namespace, "arguments": json.dumps(dict(step.arguments)), "status": "completed"})
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    response = {"id": _new_id("resp"), "object": "response", "model": body.get("model")}
    completed = {**response, "status": "completed", "output": items, "usage": usage}
    if not streams:
        return _json_reply(completed)
    events: list[tuple[str, Document]] = [
        ("response.created", {"response": {**response, "status": "in_progress", "output": []}})
    ]
    for index, item in enumerate(items):
        empty = {**item, "content": []} if item["type"] == "message" else item
        events.append(("response.output_item.added", {"output_index": index, "item": empty}))
        if item["type"] == "message":
            delta = {"item_id": item["id"], "output_index": index, "content_index": 0, "delta": step.text}
            events.append(("response.output_text.delta", delta))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    return _named_events([*events, ("response.completed", {"response": completed})])


def _encode_gemini(_body: Document, step: Step, streams: bool) -> Reply:
    parts: list[Document] = [{"text": step.text}] if step.text else []
    if step.tool is not None:
        parts.append({"functionCall": {"name": step.tool.name, "args": dict(step.arguments)}})
    document = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "scripted",
    }
    return Reply(_EVENTS, f"data: {json.dumps(document)}\r\n\r\n".encode()) if streams else _json_reply(document)


def _encode_chat(body: Document, step: Step, streams: bool) -> Reply:
    reason = "tool_calls" if step.tool is not None else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    calls: list[Document] = []
    if step.tool is not None:
        function = {"name": step.tool.name, "arguments": json.dumps(dict(step.arguments))}
        calls.append({"index": 0, "id": _new_id("call"), "type": "function", "function": function})
    message = {"role": "assistant", "content": step.text, **({"tool_calls": calls} if calls else {})}
    head = {"id": _new_id("chat"), "created": 0, "model": body.get("model")}
    if not streams:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return _json_reply({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
    head["object"] = "chat.completion.chunk"
    spoken = {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    ended = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in (spoken, ended)]
    return Reply(_EVENTS, f"{''.join(lines)}data: [DONE]\n\n".encode())


_ENCODERS: Mapping[str, Callable[[Document, Step, bool], Reply]] = {
    "messages": _encode_messages,
    "responses": _encode_responses,
    "gemini": _encode_gemini,
    "chat": _encode_chat,
}
