"""Messages in a timeline. A page and the live stream render each by the same function.

A row shows a message of ordinary size completely. Of a longer one it shows the beginning, and a link to all of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.parts import badge, moment, tag

if TYPE_CHECKING:
    from parley.surfaces.console.html import Child, Html
    from parley.surfaces.console.visit import Document, Visit

# Characters of a message that a row shows.
ROW_CHARS_MAX = 2_000
# Tables within tables; what lies deeper is shown as JSON.
_DEPTH_MAX = 3


def message_row(
    visit: Visit, message: Document, seat: str, *, waits_for: str = "", channel: str = "", is_whole: bool = False
) -> Html:
    """One message. `waits_for`: who has not answered it yet; `channel`: its name, where several are shown."""
    is_answer = message["message_type"] == "response"
    return h(
        "li",
        h("header", badge(message["sender"]), _parties(message), _when(visit, message, seat),
          _tags(message, seat, waits_for, channel)),
        _body(message, seat, is_whole=is_whole),
        _metadata(message, is_whole=is_whole),
        class_=f"msg {message['message_type']}", id=f"m-{message['id']}", data_seq=str(message["seq"]),
        data_answers=message["correlation_id"] if is_answer and not message["metadata"].get("partial") else None,
    )  # fmt: skip


def waiting_tag(who: str) -> Html:
    """That a request has no answer yet."""
    return h("span", f"waits for {who}", class_="tag warn waits", dir="auto")


def receiver_of(message: Document) -> str:
    """To whom a message is; empty for everyone in its channel."""
    return "" if message["to"] in (None, "*") else str(message["to"])


def json_text(value: Any) -> str:  # noqa: ANN401  # JSON
    """A value as JSON for people."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def _parties(message: Document) -> Html:
    receiver = receiver_of(message)
    to = [h("span", " → ", class_="muted"), h("span", receiver, dir="auto")] if receiver else None
    return h("span", h("b", message["sender"], dir="auto"), to, class_="parties")


def _when(visit: Visit, message: Document, seat: str) -> Html:
    path = address("channels", message["channel_id"], "messages", message["id"], seat=seat)
    return h("a", moment(message["created_at"], visit.now), href=path, class_="when")


def _tags(message: Document, seat: str, waits_for: str, channel: str) -> Html:
    channel_id, metadata = message["channel_id"], message["metadata"]
    tags: list[Html] = []
    if channel:
        tags.append(h("a", f"# {channel}", href=address("channels", channel_id, seat=seat), class_="tag", dir="auto"))
    if message["message_type"] != "notify":
        tags.append(tag(message["message_type"]))
    if message["correlation_id"]:
        path = address("channels", channel_id, "messages", message["correlation_id"], seat=seat)
        tags.append(h("a", "answer to ↑", href=path, class_="tag"))
    if metadata.get("error"):
        tags.append(tag("error", "bad"))
    if message["status"] == "expired":
        tags.append(tag("expired"))
    if waits_for:
        tags.append(waiting_tag(waits_for))
    if message["conversation_id"] and not channel:
        path = address("threads", message["conversation_id"], seat=seat)
        tags.append(h("a", "conversation", href=path, class_="tag"))
    return h("span", tags, class_="tags")


# ---------------------------------------------------------------- content


def _body(message: Document, seat: str, *, is_whole: bool) -> Html:
    payload = message["payload"]
    if is_whole:
        return h("div", content_of(payload), class_="body")
    text = payload.get("text") if isinstance(payload.get("text"), str) and len(payload) == 1 else ""
    shown = text or json.dumps(payload, ensure_ascii=False)
    if len(shown) <= ROW_CHARS_MAX:
        return h("div", content_of(payload), class_="body")
    path = address("channels", message["channel_id"], "messages", message["id"], seat=seat)
    more = h("a", f"Show the whole message ({len(shown):,} characters)", href=path)
    return h("div", h("div", f"{shown[:ROW_CHARS_MAX]}…", class_="said", dir="auto"), h("p", more), class_="body")


def content_of(payload: Document) -> Html:
    """A payload: a text as it is, anything else field by field."""
    if len(payload) == 1 and isinstance(payload.get("text"), str):
        return h("div", payload["text"], class_="said", dir="auto")
    if not payload:
        return h("p", "(empty)", class_="muted")
    return _table(payload, _DEPTH_MAX)


def _table(fields: Document, depth: int) -> Html:
    rows = [
        h("tr", h("th", name, scope="row", dir="auto"), h("td", _value(value, depth))) for name, value in fields.items()
    ]
    return h("table", rows, class_="content")


def _value(value: Any, depth: int) -> Child:  # noqa: ANN401  # JSON
    if isinstance(value, str):
        return h("div", value, class_="said", dir="auto")
    if isinstance(value, dict) and value and depth > 1:
        return _table(value, depth - 1)
    return h("code", json.dumps(value, ensure_ascii=False), dir="auto")


def _metadata(message: Document, *, is_whole: bool) -> Html | None:
    if not message["metadata"]:
        return None
    shown = json_text(message["metadata"])
    if not is_whole and len(shown) > ROW_CHARS_MAX:
        shown = f"{shown[:ROW_CHARS_MAX]}…"
    return h("details", h("summary", "Metadata"), h("pre", shown, dir="auto"))


def log(rows: Child, *, last: int | None, seat: str, older: Html | None, newer: Html | None = None) -> Html:
    """Rows that begin at their end, as a part of the page that scrolls by itself. `last`: the number of the last
    message, where what is new is appended; None where the end is not shown.
    """
    is_live = last is not None
    timeline = h(
        "ol", rows, id="timeline", class_="messages rows", data_last=str(last) if is_live else None,
        data_seat=seat or None,
    )  # fmt: skip
    gap = h("p", h("span"), h("a", "load them", href="#"), id="skipped", class_="note warn", hidden=True)
    inner = h("div", older, gap if is_live else None, timeline, newer, h("div", id="end"), class_="inner")
    behind = h("button", type="button", id="behind", hidden=True) if is_live else None
    # What scrolls can be reached by keyboard.
    scrolled = h("div", inner, id="log", tabindex="0", role="region", aria_label="Messages")
    return h("div", join(scrolled, behind), class_="log")
