"""One conversation, one message, one file that is none. Every text of them is somebody else's, and stays text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from parley.app.mailbox import overview
from parley.domain.times import format_time
from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.parts import badge, data_table, fact, fresh, moment, note, tag
from parley.surfaces.console.visit import Page
from parley.surfaces.mailbox_console.lists import REFRESH_SECONDS, TOPICS, priority_tag, review_tag

if TYPE_CHECKING:
    from datetime import datetime

    from parley.app.mailbox.overview import ProjectReader
    from parley.domain.mailbox.listing import FoundMessage
    from parley.domain.message.message import Message, Value
    from parley.domain.message.review import Review
    from parley.surfaces.console.html import Child, Html


def thread_page(project: ProjectReader, now: datetime, thread_id: str) -> Page:
    """A whole conversation, oldest message first; with the state of its review when it is one."""
    matches = overview.thread(project, thread_id)
    review = overview.review(project, thread_id)
    subject = matches[0].message.subject or thread_id
    messages = [_message(match, now) for match in matches]
    content = join(
        h("p", h("a", "Threads", href=address("threads")), class_="crumb"),
        h("h1", subject, dir="auto"),
        fresh("review", _review(review)) if review is not None else None,
        fresh("thread", messages),
    )
    return Page(subject, content, "reviews" if review else "threads", topics=TOPICS, every=REFRESH_SECONDS)


def message_page(project: ProjectReader, now: datetime, agent: str, message_id: str) -> Page:
    """One message as an agent has it: nothing is cut off, and looking leaves no trace."""
    match = overview.message(project, agent, message_id)
    message = match.message
    thread_id = message.conversation_id or message.id
    content = join(
        h("p", h("a", agent, href=address("agents", agent), dir="auto"), class_="crumb"),
        h("h1", message.subject or message.id, dir="auto"),
        [note("warn", h("b", "Doubtful: "), str(doubt)) for doubt in match.doubts],
        _message(match, now, with_subject=False),
        h("dl", _facts(match, now), class_="facts"),
        h("p", h("a", "The whole conversation", href=address("threads", thread_id), class_="button"), class_="acts"),
    )
    return Page(message.subject or message.id, content, "agents")


def file_page(project: ProjectReader, now: datetime, agent: str, name: str) -> Page:  # as every page
    """A file that is no message: why, and what is in it."""
    file, content = overview.refused_file(project, agent, name)
    shown = join(
        h("p", h("a", "Dead letters", href=address("dead-letters")), class_="crumb"),
        h("h1", name, dir="auto"),
        note("bad", h("b", "This is no message: "), file.detail, h("p", h("code", file.code))),
        h("pre", content.decode("utf-8", "replace"), dir="auto"),
    )
    return Page(name, shown, "dead-letters")


# ---------------------------------------------------------------- a message


def _message(match: FoundMessage, now: datetime, *, with_subject: bool = True) -> Html:
    message = match.message
    heading = h(
        "header",
        h("span", badge(message.sender), h("b", message.sender, dir="auto"), h("span", " → ", class_="muted"),
          h("span", ", ".join(message.to), dir="auto")),
        h("span", priority_tag(message.priority.value), tag(message.kind.value),
          moment(format_time(message.created_at), now), class_="tags"),
    )  # fmt: skip
    subject = h("p", h("b", message.subject, dir="auto")) if with_subject else None
    body = h("div", subject, _body(message), class_="card-body")
    return h("article", heading, body, class_="card letter", aria_label=f"Message of {message.sender}")


def _body(message: Message) -> Html:
    if isinstance(message.body, str):
        return h("div", message.body, class_="said", dir="auto")
    rows = [h("tr", h("th", name, scope="row"), h("td", _value(value))) for name, value in message.body.items()]
    return h("table", rows, class_="content")


def _value(value: Value) -> Child:
    if isinstance(value, str):
        return h("div", value, class_="said", dir="auto")
    if isinstance(value, dict) and value:
        rows = [h("tr", h("th", name, scope="row"), h("td", _value(inner))) for name, inner in value.items()]
        return h("table", rows, class_="content inner")
    if isinstance(value, list) and value:
        return h("ol", [h("li", _value(item)) for item in value])
    return h("code", json.dumps(value))


def _facts(match: FoundMessage, now: datetime) -> list[Html]:
    message = match.message
    expires = message.expires_at
    texts = (
        ("Id", message.id),
        ("Conversation", message.conversation_id),
        ("Answers", message.in_reply_to),
        ("Tag", message.tag),
        ("Pull request", message.related_pr),
        ("Packet", message.related_packet),
        ("Context keys", message.context_keys),
        ("File", f"{match.place}/{match.file}" if match.file else match.place),
        ("SHA-256", match.digest),
    )
    facts = [fact(name, h("code", value, dir="auto")) for name, value in texts if value]
    facts += [fact(name, h("code", json.dumps(value, ensure_ascii=False))) for name, value in message.extras.items()]
    return [*facts, fact("Expires", moment(format_time(expires), now))] if expires else facts


# ---------------------------------------------------------------- a review


def _review(review: Review) -> Html:
    gate = ("passes" if review.gate_passed else "fails") if review.reviewed else "pending"
    expected = " or ".join(review.expected)
    facts = [
        fact("State", review_tag(review)),
        fact("Round", f"{review.round:,} of {review.rounds_allowed:,}"),
        fact("Quality gate", gate),
        fact("Author", h("span", review.author, dir="auto")),
        fact("Reviewers", h("span", ", ".join([reviewer.name for reviewer in review.reviewers]) or "-", dir="auto")),
        fact("Waits for", h("span", f"{review.waiting_for}: {expected}" if expected else review.waiting_for or "nobody",
                            dir="auto")),
    ]  # fmt: skip
    closure = review.closure
    closed = note("ok", h("b", f"Closed by {closure.by}: "), closure.reason) if closure else None
    remarks = [note("warn", remark) for remark in review.remarks]
    return h("section", closed, remarks, h("dl", facts, class_="facts"), _findings(review), aria_label="Review")


def _findings(review: Review) -> Html | None:
    if not review.findings:
        return None
    rows = [
        h(
            "tr",
            h("th", h("code", finding.id), scope="row"),
            h("td", finding.severity),
            h("td", tag("blocks", "bad") if finding.blocking and not finding.resolved else ""),
            h("td", "resolved" if finding.resolved else "open"),
            h("td", finding.reviewer, dir="auto"),
            h("td", finding.summary, dir="auto"),
        )
        for finding in review.findings
    ]
    return data_table("Findings", ("Finding", "Severity", "Blocks", "State", "Reviewer", "Summary"), rows)
