"""From Draft to Message: the rules a sender must keep, all broken ones named at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parley.domain.errors.errors import BadAgentName, Invalid, Problem
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.message import bodies
from parley.domain.message.message import Body, Draft, Kind, Message, Value, texts_in
from parley.domain.names import NAME_RULE, is_name

if TYPE_CHECKING:
    from datetime import datetime

# Fields of other tools that are written when, and only when, the sender gives them.
EMITTED_EXTRAS = (
    "autonomy_hint",
    "model",
    "turns",
    "input_tokens",
    "output_tokens",
    "wall_time_s",
    "est_cost_usd",
)
_TAG = r"[A-Za-z0-9_-]+\Z"
_PR_NUMBER = r"#?([0-9]{1,12})\Z"
_PR_URL = r"https?://[^\s/]+/\S+\Z"


def compose(
    draft: Draft,
    message_id: str,
    at: datetime,
    parent: Message | None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    origin: Message | None = None,
    free_form: bool = False,
) -> Message:
    """The message that `draft` becomes, or `Invalid` with every reason why not.

    `parent` is what it answers; a channel or pull request that the parent has may be sent again, whatever its form.
    `origin` is the message that its thread goes back to. `free_form` asks no more of subject, body and expiry than the
    OACP tool does: for scripts that were written for it.
    """
    body = shaped(draft)
    to = tuple(dict.fromkeys(draft.to))
    for name in (draft.sender, *to):
        if not is_name(name):
            raise BadAgentName(f"{name[:70]!r} is not a valid agent name", hint=f"use {NAME_RULE}")
    problems = [
        *check_recipients(draft.kind, draft.sender, to, limits),
        *_check_texts(draft, parent, limits, free_form=free_form),
        *_check_body(draft, body, limits, free_form=free_form),
    ]
    if not free_form and draft.expires_at is not None and draft.expires_at <= at:
        problems.append(Problem("already_expired", "expires_at", "lies in the past"))
    priority = draft.priority or bodies.default_priority(draft.kind, body, parent, origin)
    problems += [] if free_form else _check_risk(draft, body)
    if problems:
        raise Invalid.because(problems)
    return Message(
        id=message_id,
        sender=draft.sender,
        to=to,
        kind=draft.kind,
        priority=priority,
        created_at=at.replace(microsecond=0),
        subject=draft.subject,
        body=body,
        expires_at=draft.expires_at.replace(microsecond=0) if draft.expires_at else None,
        tag=draft.tag,
        related_packet=draft.related_packet,
        related_pr=_related_pr(draft, parent),
        conversation_id=draft.conversation_id or (parent.conversation_id if parent else ""),
        in_reply_to=draft.in_reply_to,
        context_keys=draft.context_keys,
        extras={key: _said(value) for key, value in draft.extras.items() if value is not None},
    )


def _said(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def shaped(draft: Draft) -> Body:
    """The draft's body in the types of its kind."""
    return bodies.shape_body(draft.kind, draft.body) if isinstance(draft.body, dict) else draft.body


def check_recipients(kind: Kind, sender: str, to: tuple[str, ...], limits: Limits) -> list[Problem]:
    """The broadcast rules."""
    problems = []
    if not to:
        problems.append(Problem("no_recipient", "to", "names nobody"))
    if len(to) > limits.recipients:
        detail = f"{len(to)} recipients, at most {limits.recipients} are allowed"
        problems.append(Problem("too_many_recipients", "to", detail))
    if len(to) > 1 and kind.spec.point_to_point:
        problems.append(Problem("point_to_point", "to", f"{kind} goes to exactly one agent"))
    if len(to) > 1 and sender in to:
        problems.append(Problem("sender_in_list", "to", f"a broadcast cannot include its sender, {sender}"))
    return problems


def _check_texts(draft: Draft, parent: Message | None, limits: Limits, *, free_form: bool) -> list[Problem]:
    problems = []
    if not draft.subject.strip():
        problems.append(Problem("missing_field", "subject", "is empty"))
    elif not free_form and not is_one_line(draft.subject):
        problems.append(Problem("not_one_line", "subject", "must be one line"))
    tag = "" if parent is not None and draft.tag == parent.tag else draft.tag
    pr = "" if parent is not None and draft.related_pr == parent.related_pr else draft.related_pr
    for field, text, most in (
        ("subject", draft.subject, limits.subject_chars),
        ("channel", tag, limits.tag_chars),
        ("conversation_id", draft.conversation_id, limits.id_chars),
        ("parent_message_id", draft.in_reply_to, limits.id_chars),
        ("related_packet", draft.related_packet, limits.id_chars),
    ):
        if len(text) > most:
            problems.append(Problem("too_long", field, f"{len(text)} characters, at most {most} are allowed"))
    if tag and not re.match(_TAG, tag):
        problems.append(Problem("bad_channel", "channel", "use letters, digits, '_' and '-'"))
    if pr and normal_pr(pr) is None:
        problems.append(Problem("bad_related_pr", "related_pr", "must be a number, #42 or a URL"))
    for key in draft.extras.keys() - set(EMITTED_EXTRAS):
        problems.append(Problem("unknown_field", key, "is not a field that Parley writes"))
    if not _is_unicode("".join(_all_texts(draft))):
        problems.append(Problem("not_text", "", "half a character (a lone surrogate) cannot be written as UTF-8"))
    return problems


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _all_texts(draft: Draft) -> list[str]:
    plain = [draft.subject, draft.tag, draft.conversation_id, draft.in_reply_to]
    return [*plain, draft.related_packet, draft.context_keys, *texts_in(draft.body), *texts_in(dict(draft.extras))]


def _check_body(draft: Draft, body: Body, limits: Limits, *, free_form: bool) -> list[Problem]:
    problems = [] if free_form else bodies.check_body(draft.kind, body, in_reply_to=draft.in_reply_to)
    if not body or (isinstance(body, str) and not body.strip()):
        if not problems:
            problems.append(Problem("missing_field", "body", "is empty"))
    elif isinstance(body, str) and len(body) > limits.body_chars:
        detail = f"{len(body)} characters, at most {limits.body_chars} are allowed"
        problems.append(Problem("body_too_long", "body", detail))
    return problems


def _check_risk(draft: Draft, body: Body) -> list[Problem]:
    tier = body.get("risk_tier") if isinstance(body, dict) else None
    if draft.kind is Kind.FOLLOW_UP and draft.priority and tier in ("P2", "P3") and draft.priority != tier:
        return [Problem("bad_priority", "priority", f"a follow_up takes its risk_tier, {tier}, as priority")]
    return []


def is_one_line(text: str) -> bool:
    """Whether a text has no line break of any kind."""
    return text.splitlines() == [text]


def normal_pr(text: str) -> str | None:
    """The digits of 42 or #42, or the URL as it is; "" stays "", anything else is None."""
    text = text.strip()
    if not text or re.match(_PR_URL, text):
        return text
    match = re.match(_PR_NUMBER, text)
    return match[1] if match else None


def _related_pr(draft: Draft, parent: Message | None) -> str:
    if parent is not None and draft.related_pr == parent.related_pr:
        return draft.related_pr
    return normal_pr(draft.related_pr) or ""


def warnings(message: Message, limits: Limits = DEFAULT_LIMITS, origin: Message | None = None) -> list[Problem]:
    """What is allowed but should be said; `origin` is the message that the thread goes back to."""
    remarks = bodies.contradictions(message.kind, message.sender, message.to, message.body)
    if message.kind is Kind.HANDOFF_COMPLETE and origin is None:
        remarks.append(Problem("no_handoff", "parent_message_id", "no handoff was found that this completes"))
    words = len(message.context_keys.split())
    if words > limits.context_words:
        detail = f"{words} words; the specification asks for at most {limits.context_words}"
        remarks.append(Problem("long_context", "context_keys", detail))
    return remarks
