"""`parley next`, `extend`, `release` and `done`: claim and finish the messages of an inbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.app.mailbox import answers, claims, find
from parley.app.mailbox.receipts import steps
from parley.cli.command import Command, add_mailbox_options, kernel_of, screen_of, settings_of
from parley.cli.exits import NO_MESSAGE, OK
from parley.cli.mailbox.compact import add_model_options, agent_option, next_steps, wants_compact
from parley.cli.output import count_of, message_fields, names_of, refused_fields, safe, show_message
from parley.domain.mailbox.waiting import expects_answer
from parley.domain.message.kinds import Kind
from parley.domain.times import clock_time, parse_duration, parse_time
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    import argparse
    from datetime import datetime, timedelta

    from parley.domain.mailbox.listing import Claimed, InboxPass
    from parley.domain.message.message import Value


def _add_next(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lease", default="", metavar="TIME", help="how long the claim lasts: 30s, 10m, 2h (default 30m)"
    )
    parser.add_argument(
        "--wait", nargs="?", default="", const="5m", metavar="TIME", help="wait this long for a message: 30s, 2h (5m)"
    )
    add_model_options(parser)
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Exit code 14: there is no message; with --wait, none came in that time. --json\n"
        "prints null then."
    )


def _add_claimed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "message",
        nargs="?",
        default="",
        metavar="MESSAGE",
        help="id, file name, or the end of an id (default: the only claimed message)",
    )
    parser.add_argument(
        "--token", default=None, help="token that `next --json` printed: fail if the claim has passed to another"
    )
    add_mailbox_options(parser)


def _add_extend(parser: argparse.ArgumentParser) -> None:
    _add_claimed(parser)
    parser.add_argument("--lease", default="", metavar="TIME", help="how long from now (default 30m)")


def _add_done(parser: argparse.ArgumentParser) -> None:
    _add_claimed(parser)
    parser.add_argument("--delete", action="store_true", help="delete the file instead of moving it to the archive")


def _next(args: argparse.Namespace) -> int:
    length = parse_duration(args.lease or settings_of(args).lease)
    seconds = parse_duration(args.wait).total_seconds() if args.wait else 0.0
    compact = wants_compact(args)
    kernel = kernel_of(args)
    looked = _look_or_wait(kernel, length, seconds)
    claimed = looked.claimed
    screen = screen_of(args)
    _warn_of_refused(looked)
    if claimed is None:
        waiting = f"; {count_of(looked.expired, 'expired message')} in the inbox" if looked.expired else ""
        if args.json:
            screen.json(None)
            if waiting:
                from parley.cli.reports import note

                note(f"no message for {kernel.agent}{waiting}")
        else:
            screen.prose(f"No message for {kernel.agent}{waiting}.")
        return NO_MESSAGE
    doubts: list[Value] = [str(doubt) for doubt in claimed.doubts]
    fields = message_fields(claimed.message)
    lease: dict[str, Value] = {"token": claimed.lease.token, "until": claimed.lease.until}
    answered: list[Value] = [*drive(answers.answered_by(kernel, claimed.message))]
    now = kernel.clock.now().at
    if compact:
        from parley.wire.model_text import message_text

        ref = drive(find.short_ref(kernel, claimed.message.id))
        notes = [f"already answered by {', '.join(map(str, answered))}"] if answered else []
        notes += _expected_notes(claimed, now)
        notes += [str(fields["disclosure"])] if "ocip" in fields else []
        following = next_steps(claimed.message, ref, agent_option(args, kernel.agent), answered=bool(answered))
        text = message_text(
            claimed.message, ref, following, now, kernel.ids.token(), args.budget, [*notes, *map(str, doubts)]
        )
        screen.line(text)
    elif args.json:
        expects: list[Value] = [_expected_fields(kind) for kind in claimed.message.kind.answers]
        refused: list[Value] = [refused_fields(file) for file in looked.refused]
        shown = {"file": claimed.file, "lease": lease, "tries": claimed.tries, "doubts": doubts, "refused": refused}
        screen.json({**fields, **shown, "expects": expects, "answered_by": answered})
    else:
        ref = drive(find.short_ref(kernel, claimed.message.id))
        notes = [*_next_steps(claimed, ref, kernel.agent, [str(name) for name in answered], now), *map(str, doubts)]
        show_message(screen, {**fields, "file": claimed.file}, notes, now)
    sys.stdout.flush()
    steps.acknowledge(kernel, claimed, "next")
    return OK


def _look_or_wait(kernel: Kernel, length: timedelta, seconds: float) -> InboxPass:
    if not seconds:
        return drive(claims.look_for_next(kernel, length))
    import gc
    import time

    from parley.app.mailbox import waiting
    from parley.cli.waiting_line import waiting_for

    gc.enable()
    with waiting_for(f"a message for {kernel.agent}").running():
        return drive(waiting.next_message(kernel, length, seconds, time.sleep))


def _expected_fields(kind: Kind) -> dict[str, Value]:
    required, optional = _field_names(kind)
    return {"type": kind.value, "required": [*required], "optional": [*optional]}


def _field_names(kind: Kind) -> tuple[list[str], list[str]]:
    """Required and optional fields of a kind as an answer: a follow_up may be free text then."""
    fields = kind.spec.fields if kind is not Kind.FOLLOW_UP else ()
    return [field.name for field in fields if field.required], [field.name for field in fields if not field.required]


def _next_steps(claimed: Claimed, ref: str, agent: str, answered: list[str], now: datetime) -> list[str]:
    """What the reader has to know and do: how long the claim lasts, which answer is expected, how to finish."""
    message = claimed.message
    until = parse_time(claimed.lease.until) if claimed.lease.until else None
    steps = [f"claimed until {clock_time(until, now)}"] if until else []
    if answered:
        steps.append(f"already answered by {', '.join(answered)}")
    elif expects_answer(message.kind):
        reply, *others = message.kind.answers
        steps.append(f"expects {_with_names(reply)}")
        steps += [f"  or {_with_names(kind)}" for kind in others]
        text = "" if reply.spec.fields and reply is not Kind.FOLLOW_UP else " TEXT"
        steps.append(f"answer and finish: parley reply {ref}{text} --agent {agent}")
        if reply.spec.fields:
            steps.append(f"fields: parley kinds {reply}")
        if message.kind is Kind.REVIEW_REQUEST:
            steps.append(f"review: parley review status {ref} --agent {agent}")
    else:
        steps.append("expects no answer")
    finish = "finish without an answer" if expects_answer(message.kind) and not answered else "finish"
    steps.append(f"{finish}: parley done {ref} --agent {agent}")
    return steps


def _expected_notes(claimed: Claimed, now: datetime) -> list[str]:
    """Until when the claim lasts, and the answer that is expected where it has fields of its own."""
    until = claimed.lease.until
    notes = [f"claimed until {clock_time(parse_time(until), now)}"] if until else []
    kinds = claimed.message.kind.answers
    if expects_answer(claimed.message.kind) and any(kind.spec.fields for kind in kinds if kind is not Kind.FOLLOW_UP):
        notes.append(f"expects {' or '.join(map(_with_names, kinds))}; parley kinds {kinds[0]}")
    return notes


def _with_names(kind: Kind) -> str:
    """A kind with its fields: `review_lgtm (quality_gate_result, merge_ready, [nits])`."""
    required, optional = _field_names(kind)
    names = ", ".join([*required, *[f"[{name}]" for name in optional]])
    return f"{kind} ({names})" if names else f"{kind}"


def _warn_of_refused(looked: InboxPass) -> None:
    """Print a line for the files that were moved to the dead letters, and one for those that are left in the inbox."""
    if not looked.refused:
        return
    from parley.cli.reports import warn

    moved = [refused for refused in looked.refused if refused.place != "inbox"]
    left = [refused for refused in looked.refused if refused.place == "inbox"]
    if moved:
        rest = f"; {looked.unread:,} more follow with the next calls" if looked.unread else ""
        files = count_of(len(moved), "file")
        warn(f"moved {files} to dead_letter/: {names_of(moved)}{rest}")
    if left:
        warn(f"left {count_of(len(left), 'file')} in the inbox: {names_of(left)}")


def claimed_ref(args: argparse.Namespace, kernel: Kernel) -> str:
    """The message that the arguments name, else the only one that the agent has claimed."""
    return args.message or drive(claims.only_claim(kernel))


def _extend(args: argparse.Namespace) -> int:
    length = parse_duration(args.lease or settings_of(args).lease)
    kernel = kernel_of(args)
    message_id, lease = drive(claims.extend(kernel, claimed_ref(args, kernel), length, args.token))
    screen = screen_of(args)
    if args.json:
        screen.json({"id": message_id, "lease": {"token": lease.token, "until": lease.until}})
    else:
        until = clock_time(parse_time(lease.until), kernel.clock.now().at)
        screen.prose(f"Claim on {safe(message_id)} extended until {until}.")
    return OK


def _release(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    message_id = drive(claims.release(kernel, claimed_ref(args, kernel), args.token))
    screen = screen_of(args)
    if args.json:
        screen.json({"id": message_id, "status": "new"})
    else:
        screen.prose(f"Released {safe(message_id)}; it is back in the inbox.")
    return OK


def _done(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    finished = drive(claims.done(kernel, claimed_ref(args, kernel), delete=args.delete, token=args.token))
    screen = screen_of(args)
    if args.json:
        changed = finished.content_changed
        screen.json({"id": finished.message_id, "file": finished.file, "how": finished.how, "content_changed": changed})
        return OK
    screen.prose(f"Finished {safe(finished.message_id)} ({finished.how}).")
    if finished.content_changed:
        screen.prose("note: the file was changed after it was claimed; the new content is in dead_letter/")
    return OK


COMMANDS = {
    "next": Command(
        "Claim the next message and show it",
        _add_next,
        _next,
        (
            "parley next",
            "parley next --wait 5m",
            "parley next --budget 2000",
            "parley next --agent codex --lease 10m --json",
        ),
    ),
    "extend": Command("Extend the claim on a message", _add_extend, _extend, ("parley extend a8f3 --lease 1h",)),
    "release": Command("Release a claimed message back to the inbox", _add_claimed, _release, ("parley release a8f3",)),
    "done": Command(
        "Finish a message: archive it or delete it",
        _add_done,
        _done,
        ("parley done", "parley done a8f3", "parley done a8f3 --delete"),
    ),
}
