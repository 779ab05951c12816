"""The API as a page to read: plain HTML made from the OpenAPI document, with nothing from anywhere else."""

from __future__ import annotations

import json
from html import escape
from typing import Any

CSP = (
    b"default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none';"
    b" form-action 'none'"
)
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: .9em/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .75rem; border-radius: .4rem; }
pre { background: color-mix(in srgb, currentColor 7%, transparent); }
details { border-top: 1px solid color-mix(in srgb, currentColor 18%, transparent); padding: .4rem 0; }
summary { cursor: pointer; }
.verb { display: inline-block; min-width: 4.5rem; font-weight: 650; }
.what { opacity: .75; margin-left: .6rem; }
table { border-collapse: collapse; margin: .5rem 0; }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
"""


def page(document: dict[str, Any]) -> bytes:
    """The whole page."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    parts = [f"<h2 id='{escape(tag)}'>{escape(tag)}</h2>" + "".join(rows) for tag, rows in by_tag.items()]
    schemas = "".join(
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>{_pretty(schema)}</details>"
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    info = document["info"]
    links = " · ".join(f"<a href='#{escape(tag)}'>{escape(tag)}</a>" for tag in by_tag)
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(info['title'])} API</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style>"
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1><p>{escape(info['description'])}"
        " The same as <a href='/openapi.json'>OpenAPI</a>. Send your key as <code>X-API-Key</code>.</p>"
        f"<p>{links} · <a href='#schemas'>schemas</a></p>{''.join(parts)}<h2 id='schemas'>schemas</h2>{schemas}</html>"
    ).encode()


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(param['name'])}</code><td>{escape(param['in'])}"
        f"<td>{escape(param.get('description', ''))}"
        for param in operation["parameters"]
    )
    answers = "".join(
        f"<tr><td>{escape(status)}<td>{escape(response['description'])}<td>{_schema_link(response)}"
        for status, response in operation["responses"].items()
    )
    body = operation.get("requestBody")
    sent = f"<p>Body: {_schema_link(body)}</p>" if body else ""
    keys = ", ".join(operation["x-scope"]) or "no key needed"
    return (
        f"<details><summary><span class='verb'>{method.upper()}</span><code>{escape(path)}</code>"
        f"<span class='what'>{escape(operation['summary'])}</span></summary>"
        f"<p>Keys: {escape(keys)}</p>{sent}<table>{rows}</table><table>{answers}</table></details>"
    )


def _schema_link(part: dict[str, Any]) -> str:
    for content in part.get("content", {}).values():
        schema = content["schema"]
        many = schema.get("type") == "array"
        ref = (schema.get("items", {}) if many else schema).get("$ref", "")
        if ref:
            name = escape(ref.rsplit("/", 1)[1])
            return f"{'list of ' if many else ''}<a href='#{name}'><code>{name}</code></a>"
        return f"<code>{escape(str(schema.get('type', 'object')))}</code>"
    return ""


def _pretty(schema: dict[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
