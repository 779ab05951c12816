"""`parley next`, `extend`, `release` and `done`: claim and finish the messages of an inbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.app.mailbox import answers, claims, find
from parley.cli.command import Command, add_mailbox_options, kernel_of, screen_of, settings_of
from parley.cli.exits import NO_MESSAGE, OK
from parley.cli.output import count_of, message_fields, names_of, refused_fields, safe, show_message
from parley.domain.mailbox.waiting import expects_answer
from parley.domain.message.kinds import Kind
from parley.domain.times import clock_time, parse_duration, parse_time
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Coroutine
    from datetime import datetime, timedelta

    from parley.domain.mailbox.listing import Claimed, InboxPass
    from parley.domain.message.message import Value


def _add_next(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lease", default="", metavar="TIME", help="how long the claim lasts: 30s, 10m, 2h (default 30m)"
    )
    parser.add_argument("--wait", default="", metavar="TIME", help="wait this long for a message: 30s, 5m")
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
    kernel = kernel_of(args)
    looked = drive(_look_or_wait(kernel, length, seconds))
    claimed = looked.claimed
    screen = screen_of(args)
    _warn_of_refused(looked)
    if claimed is None:
        waiting = f"; {count_of(looked.expired, 'expired message')} in the inbox" if looked.expired else ""
        if args.json:
            screen.json(None)
            if waiting:
                sys.stderr.write(f"parley: note: no message for {kernel.agent}{waiting}\n")
        else:
            screen.line(f"No message for {kernel.agent}{waiting}.")
        return NO_MESSAGE
    doubts: list[Value] = [str(doubt) for doubt in claimed.doubts]
    fields = message_fields(claimed.message)
    lease: dict[str, Value] = {"token": claimed.lease.token, "until": claimed.lease.until}
    answered: list[Value] = [*drive(answers.answered_by(kernel, claimed.message))]
    if args.json:
        expects: list[Value] = [_expected_fields(kind) for kind in claimed.message.kind.answers]
        refused: list[Value] = [refused_fields(file) for file in looked.refused]
        shown = {"file": claimed.file, "lease": lease, "tries": claimed.tries, "doubts": doubts, "refused": refused}
        screen.json({**fields, **shown, "expects": expects, "answered_by": answered})
    else:
        now = kernel.clock.now().at
        ref = drive(find.short_ref(kernel, claimed.message.id))
        notes = [*_next_steps(claimed, ref, kernel.agent, [str(name) for name in answered], now), *map(str, doubts)]
        show_message(screen, {**fields, "file": claimed.file}, notes, now)
    return OK


def _look_or_wait(kernel: Kernel, length: timedelta, seconds: float) -> Coroutine[object, None, InboxPass]:
    if not seconds:
        return claims.look_for_next(kernel, length)
    import gc
    import time

    from parley.app.mailbox import waiting

    gc.enable()
    return waiting.next_message(kernel, length, seconds, time.sleep)


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
        steps.append(f"answer: parley reply {ref} --agent {agent}")
        if reply.spec.fields:
            steps.append(f"fields: parley kinds {reply}")
        if message.kind is Kind.REVIEW_REQUEST:
            steps.append(f"review: parley review status {ref} --agent {agent}")
    else:
        steps.append("expects no answer")
    steps.append(f"finish: parley done {ref} --agent {agent}")
    return steps


def _with_names(kind: Kind) -> str:
    """A kind with its fields: `review_lgtm (quality_gate_result, merge_ready, [nits])`."""
    required, optional = _field_names(kind)
    names = ", ".join([*required, *[f"[{name}]" for name in optional]])
    return f"{kind} ({names})" if names else f"{kind}"


def _warn_of_refused(looked: InboxPass) -> None:
    """Print a line for the files that were moved to the dead letters, and one for those that are left in the inbox."""
    moved = [refused for refused in looked.refused if refused.place != "inbox"]
    left = [refused for refused in looked.refused if refused.place == "inbox"]
    if moved:
        rest = f"; {looked.unread:,} more follow with the next calls" if looked.unread else ""
        files = count_of(len(moved), "file")
        sys.stderr.write(f"parley: warning: moved {files} to dead_letter/: {names_of(moved)}{rest}\n")
    if left:
        sys.stderr.write(f"parley: warning: left {count_of(len(left), 'file')} in the inbox: {names_of(left)}\n")


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
        screen.line(f"Claim on {safe(message_id)} extended until {lease.until}.")
    return OK


def _release(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    message_id = drive(claims.release(kernel, claimed_ref(args, kernel), args.token))
    screen = screen_of(args)
    if args.json:
        screen.json({"id": message_id, "status": "new"})
    else:
        screen.line(f"Released {safe(message_id)}; it is back in the inbox.")
    return OK


def _done(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    finished = drive(claims.done(kernel, claimed_ref(args, kernel), delete=args.delete, token=args.token))
    screen = screen_of(args)
    if args.json:
        changed = finished.content_changed
        screen.json({"id": finished.message_id, "file": finished.file, "how": finished.how, "content_changed": changed})
        return OK
    screen.line(f"Finished {safe(finished.message_id)} ({finished.how}).")
    if finished.content_changed:
        screen.line("note: the file was changed after it was claimed; the new content is in dead_letter/")
    return OK


COMMANDS = {
    "next": Command(
        "Claim the next message and show it",
        _add_next,
        _next,
        ("parley next", "parley next --wait 5m", "parley next --agent codex --lease 10m --json"),
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
