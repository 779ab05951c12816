"""`oacp send`: write a message into other agents' inboxes."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from parley.cli.oacp.cells import harmless
from parley.cli.oacp.places import home_of, require_agent, shown
from parley.cli.oacp.policy import policy_of
from parley.cli.oacp.refusal import Refusal
from parley.cli.oacp.schema import problems_of
from parley.cli.oacp.send_options import send_parser
from parley.cli.oacp.sender import sender_of
from parley.domain import names
from parley.domain.errors.errors import NameExists, ParleyError
from parley.domain.message.message import KINDS, PRIORITIES, Draft, Message
from parley.domain.times import format_time
from parley.settings import load
from parley.wiring import Kernel, drive, open_kernel

if TYPE_CHECKING:
    import argparse

    from parley.domain.mailbox.listing import Sent

_USAGE = 2
_SUFFIX = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_EXPIRES = re.compile(r"(\d+)\s*([hHdDmM])\Z")
_UNITS = {"h": "hours", "d": "days", "m": "minutes"}
_NO_SIGNING = "Parley does not sign messages — send it unsigned, or with the OACP tool itself: oacp send"


def run(arguments: list[str]) -> int:
    args = send_parser().parse_args(arguments)
    try:
        return _send(args)
    except Refusal as refusal:
        message, status = str(refusal), refusal.status
    except ParleyError as error:
        message, status = error.message, 1
    if args.json:
        sys.stdout.write(json.dumps({"error": message}) + "\n")
    else:
        sys.stderr.write(harmless(f"ERROR: {message}\n"))
    return status


def _send(args: argparse.Namespace) -> int:
    from parley.adapters.process import SystemClock

    settings = load()
    home = home_of(args.oacp_dir or None, settings)
    now = SystemClock().now().at
    sender = sender_of(args.sender, home, args.project, settings)
    draft = _draft(args, sender, now)
    _check_names(args, draft)
    problems = problems_of(_fields(args, draft, now))
    if problems:
        raise Refusal("; ".join(problems))
    require_agent(home, args.project, sender)
    _check_signing(args, home, sender)
    kernel = open_kernel(home, args.project, sender, settings)
    draft, warnings = _threaded(args, kernel, draft, now)
    for recipient in draft.to:
        require_agent(home, args.project, recipient)
        warnings += _offline(home, args, recipient)
    if args.dry_run:
        message = _preview(kernel, draft, now)
        return _show(args, home, message, warnings, text=kernel.format.encode(message).decode())
    sent = drive(_post(kernel, draft, args.suffix or ""))
    warnings += [f"WARNING: {problem}" for problem in sent.warnings]
    return _show(args, home, sent.message, warnings, file=sent.file)


async def _post(kernel: Kernel, draft: Draft, suffix: str) -> Sent:
    from parley.app.mailbox import sending as post

    try:
        return await post.send(kernel, draft, suffix=suffix, free_form=True)
    except NameExists:
        # The tool's names always hold something random too, so a script may use one suffix again and again.
        return await post.send(kernel, draft, suffix=f"{kernel.ids.suffix(6)}_{suffix}", free_form=True)


def _draft(args: argparse.Namespace, sender: str, now: datetime) -> Draft:
    body = _body(args)
    context = args.context_keys or ""
    if args.context_keys_file:
        context = _file_text(args.context_keys_file, "context-keys file")
    return Draft(
        sender=sender,
        to=tuple(dict.fromkeys(name.strip() for name in args.recipient.split(",") if name.strip())),
        kind=KINDS[args.type],
        subject=args.subject,
        body=body.rstrip("\n"),
        priority=PRIORITIES[args.priority],
        expires_at=_expiry(args.expires, now) if args.expires else None,
        tag=args.channel or "",
        related_packet=args.related_packet or "",
        related_pr=args.related_pr or "",
        conversation_id=args.conversation_id or "",
        in_reply_to=args.in_reply_to or args.parent_message_id or "",
        context_keys=context.rstrip("\n"),
        extras={"autonomy_hint": args.autonomy_hint} if args.autonomy_hint else {},
    )


def _body(args: argparse.Namespace) -> str:
    if args.body_file == "-":
        if sys.stdin.isatty():
            raise Refusal("--body-file - specified but stdin is a terminal (no piped input)", _USAGE)
        return _decoded(sys.stdin.buffer.read())
    if args.body_file is not None:
        return _file_text(args.body_file, "body file")
    if args.body is not None:
        return str(args.body)
    if sys.stdin.isatty():
        raise Refusal("no message body provided — use --body, --body-file, or pipe to stdin", _USAGE)
    return _decoded(sys.stdin.buffer.read())


def _file_text(path: str, what: str) -> str:
    if not os.path.isfile(os.path.expanduser(path)):
        raise Refusal(f"{what} not found: {path}", _USAGE)
    try:
        with open(os.path.expanduser(path), "rb") as file:
            return _decoded(file.read())
    except OSError as error:
        raise Refusal(str(error), _USAGE) from None


def _decoded(content: bytes) -> str:
    """Text with LF as its only line break, as the tool reads every file."""
    try:
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise Refusal(str(error), _USAGE) from None


def _expiry(text: str, now: datetime) -> datetime:
    match = _EXPIRES.match(text.strip())
    if match is None:
        expected = "expected <number><unit> where unit is h/d/m"
        raise Refusal(f"invalid duration format: {text!r} — {expected}", _USAGE)
    try:
        return now + timedelta(**{_UNITS[match[2].lower()]: int(match[1])})
    except (OverflowError, ValueError):
        raise Refusal(f"invalid duration: {text!r} — further away than time goes", _USAGE) from None


def _check_names(args: argparse.Namespace, draft: Draft) -> None:
    """Names become folders, so what could lead elsewhere is refused before anything is looked up."""
    for what, name in (("sender", draft.sender), *(("recipient", name) for name in draft.to)):
        if name in (".", "..") or "/" in name or "\\" in name:
            raise Refusal(f"{what} name must not be a path component: {name!r}")
    if args.suffix and not _SUFFIX.match(args.suffix):
        raise Refusal(f"suffix must match [A-Za-z0-9._-]{{1,64}}, got: {args.suffix!r}")


def _fields(args: argparse.Namespace, draft: Draft, now: datetime) -> dict[str, object]:
    """The draft under the file's field names, as the tool would check it."""
    conversation = draft.conversation_id
    if not conversation and not draft.in_reply_to:
        conversation = names.conversation_id(now, draft.sender, 1)
    optional = {
        "related_packet": draft.related_packet,
        "related_pr": draft.related_pr,
        "conversation_id": conversation,
        "parent_message_id": draft.in_reply_to,
        "channel": draft.tag,
        **draft.extras,
    }
    return {
        "id": names.message_id(now, draft.sender, "0000"),
        "from": draft.sender,
        "to": draft.to[0] if len(draft.to) == 1 else list(draft.to) or "",
        "type": args.type,
        "priority": args.priority,
        "created_at_utc": format_time(now),
        "subject": draft.subject,
        "body": draft.body,
        **{key: value for key, value in optional.items() if value},
    }


def _check_signing(args: argparse.Namespace, home: str, sender: str) -> None:
    policy = policy_of(home, args.project, sender)
    if problem := policy.problem():
        raise Refusal(problem)
    if args.sign:
        raise Refusal(_NO_SIGNING)
    if policy.signs:
        raise Refusal(f"{policy.path} asks for signed messages: {_NO_SIGNING}")


def _threaded(args: argparse.Namespace, kernel: Kernel, draft: Draft, now: datetime) -> tuple[Draft, list[str]]:
    """The draft in the conversation of what it answers; in a new one, with a warning, when that is not found."""
    if not args.in_reply_to:
        return draft, []
    from parley.app.mailbox import find

    if drive(find.by_id(kernel, args.in_reply_to)):
        return draft, []
    lost = f"parent message '{args.in_reply_to}' not found in {draft.sender}'s inbox/outbox"
    warning = f"WARNING: {lost} — thread may be broken! A new conversation_id will be generated."
    if draft.conversation_id:
        return draft, [warning]
    number = int(kernel.ids.token()[:8], 16) % 10**6
    return draft._replace(conversation_id=f"{names.conversation_prefix(now, draft.sender)}{number:06d}"), [warning]


def _offline(home: str, args: argparse.Namespace, recipient: str) -> list[str]:
    from parley.adapters.files.profiles import read_scalars_of
    from parley.adapters.files.workspace import Workspace

    try:
        with Workspace(home, args.project).agent(recipient).open() as folder:
            status = read_scalars_of(folder, "status.yaml").get("status", "")
    except ParleyError:
        return []  # no word about it is no reason to warn
    if status.strip().lower() != "offline":
        return []
    if args.priority == "P0":
        return [f"WARNING: P0 message to OFFLINE agent '{recipient}' — consider out-of-band notification!"]
    return [f"Note: agent '{recipient}' appears offline"]


def _preview(kernel: Kernel, draft: Draft, now: datetime) -> Message:
    """The message that would be sent; nothing is written, and the numbers may differ in the end."""
    from parley.app.mailbox import find
    from parley.domain.message.compose import compose

    parents = drive(find.by_id(kernel, draft.in_reply_to)) if draft.in_reply_to else []
    if not draft.in_reply_to and not draft.conversation_id:
        draft = draft._replace(conversation_id=names.conversation_id(now, draft.sender, 1))
    message_id = names.message_id(now, draft.sender, kernel.ids.suffix(4))
    return compose(draft, message_id, now, parents[0].message if parents else None, kernel.limits, free_form=True)


def _show(
    args: argparse.Namespace, home: str, message: Message, warnings: list[str], *, text: str = "", file: str = ""
) -> int:
    for warning in warnings:
        sys.stderr.write(harmless(warning) + "\n")
    agents = shown(home, "projects", args.project, "agents")
    inboxes = [shown(agents, name, "inbox", file) for name in message.to]
    outbox = shown(agents, message.sender, "outbox", file)
    if args.json:
        document: dict[str, object] = {
            "message_id": message.id,
            "from": message.sender,
            "to": message.to[0] if len(message.to) == 1 else list(message.to),
            "type": message.kind.value,
            "priority": message.priority.value,
            "subject": message.subject,
            "created_at_utc": format_time(message.created_at),
            "dry_run": args.dry_run,
            **({"warnings": warnings} if warnings else {}),
        }
        if args.dry_run:
            document["yaml"] = text
        else:
            document |= {"inbox_path": inboxes[0]} if len(inboxes) == 1 else {"inbox_paths": inboxes}
            document["outbox_path"] = outbox
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    elif args.dry_run:
        sys.stdout.write(text)
    elif not args.quiet:
        lines = [f"OK: {message.id}", *(f"  inbox:  {path}" for path in inboxes), f"  outbox: {outbox}"]
        sys.stdout.write("\n".join(lines) + "\n")
    return 0
