"""`parley send` and `parley reply`: send a message from a mailbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.cli.command import Command, add_mailbox_options, kernel_of, screen_of, settings_of
from parley.cli.exits import HELD, OK
from parley.cli.output import NO_DECIDER_MAILBOX_HINT, join_with_or, safe
from parley.cli.parts.body import add_body, discard_edited, read_body, read_text_file
from parley.domain.errors.errors import Invalid, ParleyError, Undelivered, UnknownMessage
from parley.domain.mailbox.listing import Sent
from parley.domain.message.bodies import default_kind, default_reply, default_subject, is_structured
from parley.domain.message.message import KINDS, PRIORITIES, Draft, Kind, Value
from parley.domain.names import is_message_ref
from parley.domain.times import parse_duration, parse_moment
from parley.wire.oacp.format import OacpFormat
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    import argparse

    from parley.app.mailbox.sending import ClosedMessage
    from parley.domain.content.envelope import Wishes
    from parley.domain.message.message import Body, Message

# Repeated here, since only few messages need the modules that define them.
_PURPOSES = ("information_query", "commitment_request", "meeting_scheduling")
_LEVELS = ("public", "internal", "confidential", "restricted")
# The states that --until waits for; an answer is what --wait waits for.
_ANSWER = "answer"
_UNTIL = ("injected", "acknowledged", "acted", _ANSWER)


def _add_send(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipient", nargs="?", default="", metavar="TO", help="recipient, or several with commas")
    _add_text(parser)
    parser.add_argument("--to", action="append", default=[], help="recipient; repeat it or separate with commas")
    parser.add_argument(
        "--type", "--kind", dest="kind", default="", choices=["", *KINDS], metavar="TYPE", help=_kinds_help()
    )
    parser.add_argument(
        "--subject", default=None, help="one line about the message (default: the first line of the text)"
    )
    parser.add_argument("--wait", default="", metavar="TIME", help="wait this long for the reply and print it: 30s, 5m")
    parser.add_argument(
        "--until",
        default="",
        choices=["", *_UNTIL],
        metavar="STATE",
        help=f"wait until every recipient is that far: {', '.join(_UNTIL)} (at most 5m, or --wait)",
    )
    parser.add_argument(
        "--reply-to", default="", metavar="MESSAGE", help="message to answer: id, file name, or the end of an id"
    )
    parser.add_argument(
        "--conversation", "--conversation-id", default="", metavar="ID", help="conversation to continue"
    )
    _add_optional(parser)
    add_body(parser)
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Exit code 0: every recipient has the message, and with --wait has replied. The\n"
        "reply is finished (archived) once it is printed. Exit code 8: no reply in that\n"
        "time; it will be in the inbox. Exit code 9: the message is held for approval.\n\n"
        "With --until, exit code 0 says that every recipient is that far, and 8 that one\n"
        "is not. See parley status --help for the states."
    )


def _add_reply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "message",
        nargs="?",
        default="",
        metavar="MESSAGE",
        help="message to answer: id, file name, or the end of an id (default: the only claimed message)",
    )
    _add_text(parser)
    parser.add_argument("--to", action="append", default=[], help="recipient (default: the sender of the message)")
    parser.add_argument(
        "--type",
        "--kind",
        dest="kind",
        default="",
        choices=["", *KINDS],
        metavar="TYPE",
        help="default: the reply type that the message expects",
    )
    parser.add_argument("--subject", default="", help="default: Re: and the subject of the message")
    parser.add_argument("--keep-open", action="store_true", help="do not finish the message with the reply")
    _add_optional(parser)
    add_body(parser)
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "The reply and the end of the message are one commit: no crash can leave an\n"
        "answered message open. A reply that is held for approval finishes nothing.\n\n"
        "A text may stand alone: it answers the only claimed message. One that looks like\n"
        "the end of an id (four letters or digits) needs the message before it."
    )


def _add_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", default=None, metavar="TEXT", help="text of the message, like --body")


def _add_optional(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--priority", type=str.upper, default="", choices=list(PRIORITIES), metavar="P0..P3", help="default: by type"
    )
    parser.add_argument(
        "--expires",
        default="",
        metavar="TIME",
        help="30m, 2h, 7d, a day (its end), or a time like 2026-03-14T12:00:00Z",
    )
    parser.add_argument(
        "--channel", "--tag", dest="tag", default="", help="category of your choice, such as review or deploy"
    )
    parser.add_argument("--related-pr", default="", metavar="PR", help="42, #42 or a URL")
    parser.add_argument(
        "--related-packet",
        default="",
        metavar="ID",
        help="id of the review packet (the files under review) that it is about",
    )
    parser.add_argument("--context-keys", default="", metavar="TEXT", help="free text: background for the reader")
    parser.add_argument("--context-keys-file", default="", metavar="FILE", help="read it from a file")
    group = parser.add_argument_group("policies (any of these puts the message under the policies of the project)")
    group.add_argument(
        "--purpose", default="", choices=["", *_PURPOSES], metavar="PURPOSE", help=f"one of {', '.join(_PURPOSES)}"
    )
    group.add_argument(
        "--classification",
        default="",
        choices=["", *_LEVELS],
        metavar="LEVEL",
        help=f"one of {', '.join(_LEVELS)} (default: internal)",
    )
    group.add_argument(
        "--max-rounds", type=int, default=None, metavar="N", help="number of messages before a person must decide"
    )
    group.add_argument(
        "--data",
        default="",
        metavar="FILE",
        help="YAML or JSON list that declares the data it contains: source, fields, classification, description",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the message, or that it would be held, without sending it",
    )


def _kinds_help() -> str:
    return f"one of {', '.join(KINDS)} (default: question if the text ends with '?' or with --wait, else notification)"


def _send(args: argparse.Namespace) -> int:
    if args.to and args.recipient:  # --to names the recipients, so the only word is the text
        if args.text is not None:
            raise Invalid(f"recipients given twice: {args.recipient!r} and --to", hint="leave one of them out")
        args.recipient, args.text = "", args.recipient
    if not args.to and not args.recipient:
        raise Invalid("no recipient given", hint="for example: parley send codex 'mTLS or JWT?'")
    args.to = args.to or [args.recipient]
    _use_text(args)
    kind = KINDS[args.kind] if args.kind else None
    seconds = _checked_wait(args, kind)
    if kind is None and args.fields:
        raise Invalid("no type given", hint="--set needs --type; see: parley kinds")
    kernel = kernel_of(args)
    body = read_body(args, kind or Kind.NOTIFICATION, settings_of(args).editor)
    text = body if isinstance(body, str) else ""
    kind = kind or (Kind.QUESTION if seconds and args.until in ("", _ANSWER) else default_kind(text))
    if args.subject is None:
        args.subject = default_subject(text, kernel.limits.subject_chars)
    draft = _draft(args, kernel, kind, body)._replace(conversation_id=args.conversation)
    if args.reply_to:
        from parley.app.mailbox import find

        draft = draft._replace(in_reply_to=drive(find.full_id(kernel, args.reply_to)))
    return _send_or_preview(args, kernel, draft, seconds=seconds)


def _use_text(args: argparse.Namespace) -> None:
    """Take the text that was given as a word for the body."""
    if args.text is None:
        return
    if args.body is not None or args.body_file is not None or args.fields:
        raise Invalid("more than one body given", hint="use one of TEXT, --body, --body-file and --set")
    args.body = args.text


def _checked_wait(args: argparse.Namespace, kind: Kind | None) -> float:
    """The seconds to wait for a reply, or for the state of --until; 0 without either."""
    if args.until:
        args.wait = args.wait or "5m"
    if not args.wait:
        return 0.0
    from parley.domain.mailbox.waiting import expects_answer

    if args.dry_run:
        raise Invalid(f"--{'until' if args.until else 'wait'} and --dry-run together", hint="leave one of them out")
    if args.until in _UNTIL[:-1]:
        return parse_duration(args.wait).total_seconds()
    if kind is not None and not expects_answer(kind):
        raise Invalid(f"nobody answers a {kind}, so --wait would end without a reply", hint="send a question instead")
    return parse_duration(args.wait).total_seconds()


def _reply(args: argparse.Namespace) -> int:
    from parley.app.mailbox import claims, sending

    kernel = kernel_of(args)
    answered = None
    try:
        answered = drive(sending.find_answered(kernel, args.message)) if args.message else None
    except UnknownMessage as error:
        if not _is_alone(args):
            raise
        if is_message_ref(args.message):
            similar = error.hint if error.hint.startswith("did you mean") else ""
            answer = _answer_hint(args, kernel)
            error.hint = "; ".join(filter(None, (similar, answer))) or error.hint
            raise
        args.message, args.text = "", args.message
    _use_text(args)
    if answered is None:
        answered = drive(sending.find_answered(kernel, drive(claims.only_claim(kernel))))
    message = answered.message
    kind = KINDS[args.kind] if args.kind else default_reply(message.kind)
    body = read_body(args, kind, settings_of(args).editor)
    draft = sending.answer(_draft(args, kernel, kind, body), message, kernel.limits, kind_given=True)
    closes = None if args.keep_open else sending.ClosedMessage(answered)
    return _send_or_preview(args, kernel, draft, message, closes=closes)


def _is_alone(args: argparse.Namespace) -> bool:
    """Whether no text is given but the word that stands for a message."""
    return args.text is None and args.body is None and args.body_file is None and not args.fields


def _answer_hint(args: argparse.Namespace, kernel: Kernel) -> str:
    """How to answer the only claimed message with a text that has the form of an id; "" unless there is one."""
    from shlex import quote

    from parley.app.mailbox import claims, find
    from parley.cli.mailbox.compact import agent_option

    try:
        ref = drive(find.short_ref(kernel, drive(claims.only_claim(kernel))))
    except ParleyError:
        return ""
    command = f"parley reply {ref} {quote(args.message)}{agent_option(args, kernel.agent)}"
    return f'to answer "{args.message}": {command}'


def _draft(args: argparse.Namespace, kernel: Kernel, kind: Kind, body: Body) -> Draft:
    context = read_text_file(args.context_keys_file) if args.context_keys_file else args.context_keys
    expires = parse_moment(args.expires, kernel.clock.now().at, ends=True) if args.expires else None
    return Draft(
        sender=kernel.agent,
        to=tuple(name.strip(" ") for group in args.to for name in group.split(",")),
        kind=kind,
        subject=args.subject,
        body=body,
        priority=PRIORITIES[args.priority] if args.priority else None,
        expires_at=expires,
        tag=args.tag,
        related_packet=args.related_packet,
        related_pr=args.related_pr,
        context_keys=context,
        wishes=_wishes(args),
    )


def _wishes(args: argparse.Namespace) -> Wishes | None:
    """The envelope that the options ask for; None without any."""
    if not (args.purpose or args.classification or args.data) and args.max_rounds is None:
        return None
    from parley.domain.content.classification import Classification
    from parley.domain.content.envelope import Purpose, Wishes
    from parley.wire.oacp.envelope import read_items

    if args.max_rounds is not None and args.max_rounds < 1:
        raise Invalid("--max-rounds must be at least 1")
    return Wishes(
        purpose=Purpose(args.purpose) if args.purpose else None,
        classification=Classification(args.classification) if args.classification else None,
        max_rounds=args.max_rounds,
        data=read_items(read_text_file(args.data), args.data) if args.data else (),
        meant=True,
    )


def _send_or_preview(
    args: argparse.Namespace,
    kernel: Kernel,
    draft: Draft,
    answered: Message | None = None,
    *,
    seconds: float = 0.0,
    closes: ClosedMessage | None = None,
) -> int:
    from parley.app.mailbox import sending

    sent = None
    try:
        if args.dry_run:
            _preview(args, kernel, draft, answered)
        else:
            sent = drive(sending.send(kernel, draft, answered=answered, closes=closes))
            if not (args.json and seconds):
                _show_sent(args, sent)
    except Undelivered as error:
        if args.json and isinstance(error.sent, Sent):
            _show_sent(args, error.sent)
        discard_edited(args)
        raise
    except ParleyError as error:
        if error.code == "held":  # by its code: a command that succeeds does not load the errors of policies
            discard_edited(args)
            return _show_held(args, error)
        error.hint = error.hint or _body_hint(error, draft)
        if getattr(args, "edited", ""):
            error.hint = "; ".join(filter(None, (error.hint, f"your text is in {args.edited}")))
        raise
    discard_edited(args)
    if sent is not None and seconds and args.until in _UNTIL[:-1]:
        from parley.cli.mailbox.receipts import show_until

        show_until(args, kernel, sent.message, seconds, _sent_fields(sent))
    elif sent is not None and seconds:
        from parley.cli.mailbox.answers import show_answers

        show_answers(args, kernel, sent.message, seconds, _sent_fields(sent))
    return OK


def _body_hint(error: ParleyError, draft: Draft) -> str:
    """How to give the body that the message lacks."""
    if not any(problem.field.split(".")[0] == "body" for problem in error.problems):
        return ""
    if is_structured(draft.kind):
        return f"see: parley kinds {draft.kind}; give each field with --set FIELD=VALUE"
    return "use --body TEXT" if any(problem.code == "missing_field" for problem in error.problems) else ""


def _show_held(args: argparse.Namespace, held: ParleyError) -> int:
    """Print in one line that a message is or would be held, for whom and why."""
    screen = screen_of(args)
    if args.dry_run:
        # The ids name records that do not exist.
        facts = {name: held.facts[name] for name in ("reason", "cause", "detectedKeywords", "deciders")}
        if args.json:
            screen.json({"status": "would_be_held", "requiresHuman": True, **facts})
        else:
            screen.prose(f"Would be held for approval by {_deciders(held)}: {safe(held.message)}")
    elif args.json:
        screen.json({"status": "held", "requiresHuman": True, **held.facts})
    else:
        approval = str(held.facts["approval"])
        next_step = "" if held.facts["deciders"] else f"; {NO_DECIDER_MAILBOX_HINT}"
        screen.prose(
            f"Held for approval by {_deciders(held)}: {safe(held.message)} (approval {safe(approval)}){next_step}"
        )
    return HELD


def _deciders(held: ParleyError) -> str:
    deciders = held.facts["deciders"]
    return join_with_or(deciders if isinstance(deciders, list) else (), "no one (no approver is set)")


def _preview(args: argparse.Namespace, kernel: Kernel, draft: Draft, answered: Message | None) -> None:
    """Print the file as it would be sent; the random part of its id is a placeholder."""
    from parley.app.mailbox import preview

    content = kernel.format.encode(drive(preview.preview(kernel, draft, answered)))
    screen = screen_of(args)
    if args.json:
        screen.json(OacpFormat().fields(kernel.format.decode(content)))
    else:
        sys.stdout.write(content.decode())


def _sent_fields(sent: Sent) -> dict[str, Value]:
    deliveries: list[Value] = [
        {"to": delivery.key.recipient, "status": delivery.status.value, "reason": delivery.reason}
        for delivery in sent.deliveries
    ]
    warnings: list[Value] = [str(warning) for warning in sent.warnings]
    fields = {**OacpFormat().fields(sent.message), "file": sent.file, "deliveries": deliveries, "warnings": warnings}
    return {**fields, "finished": sent.finished} if sent.finished else fields


def _show_sent(args: argparse.Namespace, sent: Sent) -> None:
    screen = screen_of(args)
    if args.json:
        screen.json(_sent_fields(sent))
        return
    screen.prose(f"Sent {safe(sent.message.id)} to {', '.join(sent.message.to)} ({sent.message.kind})")
    if sent.finished:
        screen.prose(f"Finished {safe(sent.finished)} (archived).")
    if sent.warnings:
        from parley.cli.reports import warn

        for warning in sent.warnings:
            warn(str(warning))


COMMANDS = {
    "send": Command(
        "Send a message to one or more agents",
        _add_send,
        _send,
        (
            "parley send codex 'mTLS or JWT?'",
            "parley send codex 'mTLS or JWT?' --wait 5m",
            "parley send --from claude --to codex --type question --subject 'mTLS or JWT?' --body 'Internal calls.'",
            "git diff --stat | parley send --to codex,gemini --type notification --subject 'Pushed'",
            "parley send --to codex --type review_request --subject 'Review #55' --set pr=#55 --set branch=x ...",
            "parley send --to sales --type question --purpose information_query --classification internal ...",
        ),
    ),
    "reply": Command(
        "Reply to a message and finish it",
        _add_reply,
        _reply,
        (
            "parley reply 'Signed JWTs.'",
            "parley reply a8f3 'Signed JWTs.'",
            "parley reply a8f3 'I look into it.' --keep-open",
            "parley reply a8f3 --type review_lgtm --set quality_gate_result=pass --set merge_ready=true",
        ),
    ),
}
