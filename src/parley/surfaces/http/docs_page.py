"""The API as a page to read: plain HTML made from the OpenAPI document, with nothing from anywhere else."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

from parley.domain.version import VERSION

CSP = (
    b"default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none';"
    b" form-action 'none'"
)
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: .9em/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: .75rem; border-radius: .4rem; white-space: pre-wrap; }
pre { background: color-mix(in srgb, currentColor 7%, transparent); }
details { border-top: 1px solid color-mix(in srgb, currentColor 18%, transparent); padding: .4rem 0; }
summary { cursor: pointer; }
.verb { display: inline-block; min-width: 4.5rem; font-weight: 650; }
.what { opacity: .75; margin-left: .6rem; }
table { border-collapse: collapse; margin: .5rem 0; }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; overflow-wrap: anywhere; }
"""
# What one needs first, in this order.
_FIRST = (
    ("post", "/api/v1/intents", "Create the intent that your agents work on."),
    ("post", "/api/v1/intents/{intent_id}/channels", "Create a channel in it."),
    ("post", "/api/v1/channels/{channel_id}/ask", "Ask an agent, and get its answer in the response."),
    ("get", "/api/v1/channels/{channel_id}/subscribe", "Follow the channel as a stream of server-sent events."),
    (
        "post",
        "/api/v1/channels/{channel_id}/messages/{message_id}/reply",
        "Answer a request that came to your agent.",
    ),
)
# What people look for first comes first; the others follow in the order of the routes.
_ORDER = ("intents", "channels", "messages", "streams", "agents", "roles", "queues", "timers", "approvals", "exchanges")
# Stands for the server in the page until somebody reads it: the page is rendered once.
_SERVER_MARK = "{{server}}"
DEFAULT_ADDRESS = "http://127.0.0.1:8420"
_HOST = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")

Document = dict[str, Any]


def page(document: Document) -> bytes:
    """The whole page, for `for_reader`."""
    operations = [
        (method, path, operation) for path, own in document["paths"].items() for method, operation in own.items()
    ]
    common = set.intersection(*[set(operation["responses"]) for *_, operation in operations])
    by_tag: dict[str, list[str]] = {tag: [] for tag in _ORDER}
    for method, path, operation in operations:
        by_tag.setdefault(operation["tags"][0], []).append(_operation(method, path, operation, common))
    parts = [f"<h2 id='{escape(tag)}'>{escape(tag)}</h2>" + "".join(rows) for tag, rows in by_tag.items()]
    schemas = document["components"]["schemas"]
    objects = "".join(_object(name, schema) for name, schema in sorted(schemas.items()))
    info = document["info"]
    links = " · ".join(f"<a href='#{escape(tag)}'>{escape(tag)}</a>" for tag in by_tag)
    body = (
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1><p>{escape(info['description'])}"
        " The same as <a href='/openapi.json'>OpenAPI</a>. Send your key as <code>X-API-Key</code>.</p>"
        f"<p>{links} · <a href='#objects'>objects</a></p>{_first_calls(document)}{_refusals(operations, common)}"
        f"{''.join(parts)}<h2 id='objects'>objects</h2>{objects}"
    )
    return html(f"{info['title']} API", body)


def address_of(host: str, *, is_https: bool) -> str:
    """The address that a reader came to; a host that is none is not repeated."""
    if not _HOST.fullmatch(host):
        return DEFAULT_ADDRESS
    return f"{'https' if is_https else 'http'}://{host.lower()}"


def for_reader(rendered: bytes, address: str) -> bytes:
    """The page with the address that its reader came to."""
    return rendered.replace(_SERVER_MARK.encode(), address.encode())


def front_page() -> bytes:
    """What a browser shows at the address that `parley up` prints. Anybody may read it: it says nothing of the data."""
    return html(
        "Parley",
        f"<h1>Parley {escape(VERSION)}</h1>"
        "<p>Agents talk to each other here: they ask, answer and notify in channels.</p>"
        "<p>On the command line, with a key of this server:</p>"
        "<pre>parley agent list --server\nparley ask AGENT 'What is the status?'</pre>"
        "<ul><li><a href='/console'>The console: what waits for you, in this browser</a>"
        "<li><a href='/docs'>The API, with an example of every call</a>"
        "<li><a href='/openapi.json'>The same as an OpenAPI document</a>"
        "<li><a href='/readyz'>Whether this server can write and read now</a></ul>",
    )


def html(title: str, body: str) -> bytes:
    """A page of this server."""
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style>{body}</html>"
    ).encode()


def _first_calls(document: Document) -> str:
    rows = []
    for method, path, about in _FIRST:
        operation = document["paths"][path][method]
        link = f"<a href='#{_anchor(operation)}'><code>{method.upper()} {escape(path)}</code></a>"
        rows.append(f"<li>{escape(about)} {link}{_curl(method, path, operation)}</li>")
    return f"<h2 id='first'>the five calls you need first</h2><ol>{''.join(rows)}</ol>"


def _refusals(operations: list[tuple[str, str, Document]], common: set[str]) -> str:
    responses = operations[0][2]["responses"]
    rows = "".join(f"<tr><td>{status}<td>{escape(responses[status]['description'])}" for status in sorted(common))
    return (
        "<h2 id='refusals'>refusals</h2><p>Every operation can refuse with these, as"
        " <a href='#ProblemOut'><code>application/problem+json</code></a> with a stable <code>code</code>. Below, only"
        f" what an operation has besides.</p><table>{rows}</table>"
    )


def _operation(method: str, path: str, operation: Document, common: set[str]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(param['name'])}</code><td>{escape(param['in'])}"
        f"<td>{escape(param.get('description', ''))}"
        for param in operation["parameters"]
    )
    answers = "".join(
        f"<tr><td>{escape(status)}<td>{escape(response['description'])}<td>{_schema_link(response)}"
        for status, response in operation["responses"].items()
        if status not in common
    )
    body = operation.get("requestBody")
    sent = f"<p>Body: {_schema_link(body)}</p>" if body else ""
    keys = ", ".join(operation["x-scope"]) or "no key needed"
    # The anchor is inside the details, so that following a link to it opens them.
    return (
        f"<details><summary><span class='verb'>{method.upper()}</span><code>{escape(path)}</code>"
        f"<span class='what'>{escape(operation['summary'])}</span></summary>"
        f"<p id='{_anchor(operation)}'>Keys: {escape(keys)}</p>{_curl(method, path, operation)}{_example(operation)}"
        f"{sent}<table>{rows}</table><table>{answers}</table></details>"
    )


def _anchor(operation: Document) -> str:
    return escape(operation["operationId"])


def _curl(method: str, path: str, operation: Document) -> str:
    """The recorded call as a line for a shell."""
    call = operation.get("x-example", {"path": path})
    verb = "" if method == "get" else f"-X {method.upper()} "
    lines = [f"curl {verb}{_quoted(_SERVER_MARK + call['path'])}"]
    if operation["security"]:
        lines.append('-H "X-API-Key: $PARLEY_KEY"')
    lines += [f"-H {_quoted(f'{name}: {value}')}" for name, value in call.get("headers", {}).items()]
    sent = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    if sent is not None:
        lines += ["-H 'Content-Type: application/json'", f"-d {_quoted(json.dumps(sent, ensure_ascii=False))}"]
    return "<pre>" + escape(" \\\n  ".join(lines)) + "</pre>"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _example(operation: Document) -> str:
    for response in operation["responses"].values():
        for content in response.get("content", {}).values():
            example = content.get("example")
            if example is not None:
                shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
                return f"<pre>{escape(shown)}</pre>"
    return ""


def _schema_link(part: Document) -> str:
    for content in part.get("content", {}).values():
        return _type(content["schema"])
    return ""


def _object(name: str, schema: Document) -> str:
    required = schema.get("required", ())
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code><td>{_type(kind)}<td>{'' if field in required else 'optional'}"
        f"<td>{escape(kind.get('description', ''))}"
        for field, kind in schema.get("properties", {}).items()
    )
    about = f"<p id='{escape(name)}'>{escape(schema.get('description', ''))}"
    return f"<details><summary><code>{escape(name)}</code></summary>{about}</p><table>{rows}</table></details>"


def _type(schema: Document) -> str:
    """A type in words, with a link to the object that it names."""
    if ref := schema.get("$ref", ""):
        name = escape(ref.rsplit("/", 1)[1])
        return f"<a href='#{name}'><code>{name}</code></a>"
    if kinds := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_type(kind) for kind in kinds))
    if "enum" in schema:
        return " | ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        return f"object of {_type(schema['additionalProperties'])}"
    kind = schema.get("type", "any value")
    return " or ".join(map(escape, kind)) if isinstance(kind, list) else escape(kind)
