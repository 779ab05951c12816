"""Messages as text for a language model: compact, within a budget of tokens, what others wrote marked as theirs.

[a8f3] P1 question from claude, 3m ago. Written by claude, not by your user.
--- 7f3a
mTLS or JWT?
--- 7f3a
To answer and finish it: parley reply a8f3 TEXT. ...

The four characters are fresh for each text and are not in what they enclose, so no body can end its frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.content.visible import safe, safe_text
from parley.domain.errors.errors import Invalid
from parley.domain.mailbox.hook_events import NOTICE_BEGINNING, NOTICE_ENDING, NOTICE_NAMES_MAX, notice_ref
from parley.domain.message.kinds import KINDS
from parley.domain.message.message import PRIORITIES
from parley.domain.message.token_estimate import cut_to_tokens, estimate_tokens
from parley.domain.names import is_name
from parley.domain.times import ago, parse_time
from parley.wire.yaml.write import mapping_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from typing import Protocol

    from parley.domain.mailbox.listing import Item
    from parley.domain.message.message import Body

    class ReadableMessage(Protocol):
        """What is shown of a message, from wherever it came."""

        @property
        def sender(self) -> str: ...
        @property
        def kind(self) -> str: ...
        @property
        def priority(self) -> str: ...
        @property
        def created_at(self) -> datetime: ...
        @property
        def subject(self) -> str: ...
        @property
        def body(self) -> Body: ...
        @property
        def related_pr(self) -> str: ...


# Below this, not even a heading and the next steps fit.
LEAST_BUDGET = 200
_SUBJECT_TOKENS = 40
_NOTE_TOKENS = 40
_REF_CHARS = 64
_NONCE_CHARS = 4
_SHORTEST_ENDING = 4
UNKNOWN = "unknown"


class NextSteps(NamedTuple):
    """What the reader does with a message, in the words of its command line or its tools."""

    reply: str
    done: str
    # The way to what a budget left out.
    read: str


def check_budget(budget: int) -> None:
    """Refuse a budget that nothing fits into; 0 is none."""
    if budget and budget < LEAST_BUDGET:
        raise Invalid(f"a budget of {budget} tokens is too small", hint=f"at least {LEAST_BUDGET}")


def sender_text(sender: str) -> str:
    """A sender's name; what is no name is not shown."""
    return sender if is_name(sender) else UNKNOWN


def kind_text(kind: str) -> str:
    """The type of a message; what is no type is not shown."""
    return kind if kind in KINDS else UNKNOWN


def short_refs(ids: Sequence[str]) -> list[str]:
    """For each id its end, where that is long enough and names no other; else the whole id."""
    endings = [message_id.rpartition("-")[2] for message_id in ids]
    return [
        ending if len(ending) >= _SHORTEST_ENDING and endings.count(ending) == 1 else message_id
        for message_id, ending in zip(ids, endings, strict=True)
    ]


def _ref_text(ref: str) -> str:
    return safe(ref)[:_REF_CHARS]


def message_text(
    message: ReadableMessage,
    ref: str,
    steps: NextSteps,
    now: datetime,
    token: str,
    budget: int = 0,
    notes: Iterable[str] = (),
) -> str:
    """A message that was handed to the reader, with what to do next. `token` is fresh noise for the frame."""
    sender = sender_text(message.sender)
    heading = (
        f"[{_ref_text(ref)}] {message.priority} {message.kind} from {sender}, {ago(message.created_at, now)}."
        f" Written by {sender}, not by your user."
    )
    footer = [f"Note: {cut_to_tokens(safe(note), _NOTE_TOKENS)}" for note in notes]
    if steps.reply:
        footer.append(f"To answer and finish it: {steps.reply}. To finish it without an answer: {steps.done}.")
    elif steps.done:
        footer.append(f"It expects no answer. To finish it: {steps.done}.")
    lines = _content_lines(message)
    nonce = _nonce(token, "\n".join(lines))
    frame = f"--- {nonce}"
    if budget:
        around = estimate_tokens("\n".join([heading, frame, frame, *footer, ""]))
        lines = _cut_lines(lines, budget - around, steps.read)
    return "\n".join([heading, frame, *lines, frame, *footer])


def _content_lines(message: ReadableMessage) -> list[str]:
    """What the sender wrote. The subject is left out where it is the beginning of the text."""
    body = message.body if isinstance(message.body, str) else mapping_text(message.body)
    subject = message.subject.removesuffix("…")
    about = [] if body.lstrip().startswith(subject) else [safe(message.subject)]
    if message.related_pr:
        about.append(f"related_pr: {safe(message.related_pr)}")
    return [*about, *safe_text(body).rstrip("\n").split("\n")]


def _cut_lines(lines: list[str], room: int, rest: str) -> list[str]:
    """The first lines that fit, and a last one that says how many do not, and where they are."""
    if estimate_tokens("\n".join(lines)) <= room:
        return lines
    fitting: list[str] = []
    used = estimate_tokens(f"\n... {len(lines):,} more lines: {rest}")
    for line in lines:
        used += estimate_tokens(f"{line}\n")
        if used > room:
            break
        fitting.append(line)
    left = len(lines) - len(fitting)
    return [*fitting, f"... {left:,} more {'line' if left == 1 else 'lines'}: {rest}"]


def _nonce(token: str, text: str) -> str:
    """Four characters of the token that are not in the text; all of it where every four are."""
    windows = (token[at : at + _NONCE_CHARS] for at in range(len(token) - _NONCE_CHARS + 1))
    return next((window for window in windows if window not in text), token)


def inbox_text(
    agent: str,
    items: Sequence[Item],
    now: datetime,
    token: str,
    budget: int = 0,
    bodies: Iterable[tuple[Item, ReadableMessage]] = (),
) -> str:
    """What waits in an inbox: headings in processing order, then whole bodies, as far as they fit into the budget."""
    messages = [item for item in items if not item.problem]
    unreadable = len(items) - len(messages)
    bad = f" {unreadable:,} unreadable." if unreadable else ""
    if not messages:
        return f"No message for {agent}.{bad}"
    first = f"{_count(len(messages), 'message')} for {agent}, subjects written by their senders, not by your user.{bad}"
    refs = dict(zip([item.file for item in messages], short_refs([item.id for item in messages]), strict=True))
    headings = [_heading(item, refs[item.file], now) for item in messages]
    if not budget:
        return "\n".join([first, *headings])
    room = budget - estimate_tokens(f"{first}\n{_left_out(len(messages), len(messages))}\n")
    lines, room = _take(headings, room)
    left_headings = len(headings) - len(lines)
    left_bodies = 0
    for item, message in bodies:
        if left_headings or left_bodies:
            left_bodies += 1
            continue
        content = _content_lines(message)
        frame = f"--- {_nonce(token, chr(10).join(content))}"
        block = "\n".join([f"[{_ref_text(refs[item.file])}]", frame, *content, frame])
        shown, room = _take([block], room)
        left_bodies += not shown
        lines += shown
    return "\n".join([first, *lines, *filter(None, [_left_out(left_headings, left_bodies)])])


def notice_text(agent: str, items: Sequence[Item], from_agents: Sequence[Item]) -> str:
    """That messages wait, without a word of any of them: it reaches a model with more authority than a message has.

    A sender is named only for the items `from_agents` of the project, since anybody can call itself anything.
    """
    senders = {item.file: sender_text(item.sender) for item in from_agents}
    lines = [
        f"{kind_text(item.kind)} from {senders.get(item.file, UNKNOWN)}"
        f"{f' [{ref}]' if (ref := notice_ref(item.id)) else ''}"
        f"{f' {item.priority}' if item.priority in PRIORITIES else ''}"
        for item in items[:NOTICE_NAMES_MAX]
    ]
    more = f"; and {len(items) - NOTICE_NAMES_MAX:,} more" if len(items) > NOTICE_NAMES_MAX else ""
    verb, them, they = ("waits", "it", "It is") if len(items) == 1 else ("wait", "them", "They are")
    return (
        f"{NOTICE_BEGINNING}{_count(len(items), 'message')} {verb} for {agent}: {'; '.join(lines)}{more}."
        f" Read {them} with the next tool, or with: parley next. {they} {NOTICE_ENDING}"
    )


def _take(blocks: Sequence[str], room: int) -> tuple[list[str], int]:
    """The first blocks that fit, and the room that is left."""
    taken: list[str] = []
    for block in blocks:
        cost = estimate_tokens(f"{block}\n")
        if cost > room:
            break
        taken.append(block)
        room -= cost
    return taken, room


def _heading(item: Item, ref: str, now: datetime) -> str:
    state = "expired" if item.expired else item.status
    age = ago(parse_time(item.created_at), now) if item.created_at else ""
    what = f"[{_ref_text(ref)}] {item.priority} {kind_text(item.kind)} from {sender_text(item.sender)}, {age}"
    subject = cut_to_tokens(safe(item.subject), _SUBJECT_TOKENS)
    return f"{what}{'' if state == 'new' else f', {state}'}: {subject}"


def _left_out(headings: int, bodies: int) -> str:
    parts = [_count(headings, "message")] if headings else []
    parts += [_count(bodies, "body", "bodies")] if bodies else []
    return f"Not shown: {' and '.join(parts)}." if parts else ""


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
