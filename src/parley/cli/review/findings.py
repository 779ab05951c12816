"""`parley review findings`: write a findings packet and count what blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parley.app.mailbox import reviews
from parley.cli.command import Command, add_conversation, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.domain.errors.errors import Invalid
from parley.domain.message.findings import SEVERITY_AND_TEXT, check_findings, normal_findings
from parley.domain.message.review import ReviewState
from parley.domain.times import format_time
from parley.wire.oacp.packets import encode_packet, read_items
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.message.message import Value
    from parley.domain.message.review import Review
    from parley.wiring import Kernel

_FOLDER = "packets/findings"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument(
        "file",
        nargs="?",
        default="",
        metavar="FILE",
        help="YAML or JSON: a list of findings, or a mapping with `findings`; '-' is standard input",
    )
    parser.add_argument(
        "--finding",
        action="append",
        default=[],
        metavar="TEXT",
        help="'P1: text': a finding with its severity (P0..P3, critical, major, minor, nit); repeat it",
    )
    parser.add_argument("--out", default="", metavar="PATH", help="path inside the project (default: by review)")
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "The packet gets an id for each finding, says which findings block, and is never\n"
        "written over another. The last line is the command that sends it. A finding has\n"
        "severity and summary, and may have id, blocking, status, file, line, expected\n"
        "and recommendation."
    )


def _findings(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    items = _read(args)
    problems = check_findings(items)
    if problems:
        raise Invalid.because(problems)
    review = drive(reviews.get(kernel, args.conversation))
    number = _round(review, kernel.agent)
    findings = normal_findings(items, [finding.id for finding in review.findings])
    blocking = sum(1 for finding in findings if finding["blocking"] and finding["status"] in _OPEN)
    path = args.out or f"{_FOLDER}/{_file_name(review)}-{kernel.agent}-round-{number}.yaml"
    packet: dict[str, Value] = {
        "packet_id": path.rpartition("/")[2].rpartition(".")[0],
        "reviewer": kernel.agent,
        "round": number,
        "created_at_utc": format_time(kernel.clock.now().at),
        "summary": {"blocking_count": blocking, "non_blocking_count": len(findings) - blocking},
    }
    drive(reviews.write_packet(kernel, path, encode_packet(packet, findings)))
    _show(args, kernel, review, {"findings_packet": path, "round": number, "blocking_count": blocking}, findings)
    return OK


_OPEN = frozenset({"open", "not_fixed", "needs_clarification"})


def _read(args: argparse.Namespace) -> list[dict[str, Value]]:
    """Read the findings from the options, a file or standard input."""
    if args.finding and args.file:
        raise Invalid("findings given twice", hint="use FILE or --finding")
    if args.finding:
        return [_parse_finding(text) for text in args.finding]
    if not args.file:
        raise Invalid("no findings given", hint="name a FILE, '-' for standard input, or use --finding 'P1: TEXT'")
    from parley.cli.parts.body import read_stdin, read_text_file

    return read_items(read_stdin() if args.file == "-" else read_text_file(args.file), args.file)


def _parse_finding(text: str) -> dict[str, Value]:
    match = re.match(SEVERITY_AND_TEXT, text)
    if match is None:
        raise Invalid(f"--finding {text!r} is not 'SEVERITY: TEXT'")
    return {"severity": match[1], "summary": match[2].strip()}


def _round(review: Review, agent: str) -> int:
    """The round that this reviewer is in: its feedback after the author addressed the last opens the next."""
    position = next((reviewer for reviewer in review.reviewers if reviewer.name == agent), None)
    if position is None:
        names = ", ".join(reviewer.name for reviewer in review.reviewers)
        raise Invalid(f"{agent} was not asked for this review", hint=f"asked: {names}" if names else "")
    return position.round + (position.state is ReviewState.ADDRESSED)


def _file_name(review: Review) -> str:
    """The review's name as a file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", review.conversation_id or review.request_id)[:100]


def _show(
    args: argparse.Namespace,
    kernel: Kernel,
    review: Review,
    fields: dict[str, Value],
    findings: list[dict[str, Value]],
) -> None:
    ids = {finding["id"] for finding in findings}
    carried = [f.id for f in review.open_findings if f.reviewer == kernel.agent and f.id not in ids]
    screen = screen_of(args)
    if args.json:
        screen.json({**fields, "findings": list(findings), "carried": carried, "reply_to": review.last_id})
        return
    blocking = f"{fields['blocking_count']} blocking"
    screen.prose(f"Wrote {safe(str(fields['findings_packet']))}: {count_of(len(findings), 'finding')}, {blocking}")
    if carried:
        screen.prose(f"still open from earlier: {', '.join(map(safe, carried))} (list one as fixed or withdrawn)")
    words = " ".join(f"--set {name}={value}" for name, value in fields.items())
    screen.prose(f"send it with: parley reply {safe(review.last_id)} --type review_feedback {words}")


COMMANDS = {
    "review findings": Command(
        "Write findings to a file and count what blocks",
        _add_arguments,
        _findings,
        (
            "parley review findings r1r1 --finding 'P1: The counter is read outside the lock' --finding 'nit: Name it'",
            "parley review findings r1r1 findings.yaml --agent codex",
        ),
    ),
}
