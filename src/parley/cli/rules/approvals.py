"""`parley approvals list|show|approve|reject|answer`: what waits for a person, and what the person decides."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import NO_DECIDER_HINT, confirm, is_interactive, join_with_or, safe
from parley.cli.parts.body import read_text_file
from parley.cli.parts.decisions import add_server_or_mailbox_options, decisions_of
from parley.cli.parts.remote import age_column, field_column, show_result, show_table
from parley.domain.content.invisible_characters import hidden_in, made_visible
from parley.domain.errors.errors import Forbidden, Invalid, NotFound
from parley.domain.errors.rules import HumanRequired, NotApprover, SelfApproval
from parley.domain.exchange.approval import ApprovalStatus
from parley.domain.limits import HARD_FILE_BYTES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from parley.cli.output import Screen
    from parley.cli.parts.decisions import Decisions, Document

_ALL = "all"
_PENDING = ApprovalStatus.PENDING.value
_NO_DECIDER = f"nobody who may decide; {NO_DECIDER_HINT}"
_REFUSALS = {error.code: error for error in (HumanRequired, NotApprover, SelfApproval)}
_KEY_NOTE = (
    "Only a person decides, with a key of its own: on a server in --key or PARLEY_KEY, on a mailbox in\n"
    "--key or PARLEY_HUMAN_KEY (else it is asked for)."
)


def _add_list(parser: argparse.ArgumentParser) -> None:
    statuses = [status.value for status in ApprovalStatus]
    parser.add_argument(
        "--status",
        default=_PENDING,
        choices=[*statuses, _ALL],
        metavar="STATUS",
        help=f"{', '.join(statuses)} or {_ALL} (default: {_PENDING})",
    )
    parser.add_argument("--after", default="", metavar="APPROVAL", help="what comes after this one")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many (default: 100)")
    add_server_or_mailbox_options(parser, agent=False)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("approval", metavar="ID", help="the approval, as `parley approvals list` shows it")
    add_server_or_mailbox_options(parser, agent=False)


def _add_decision(parser: argparse.ArgumentParser) -> None:
    _add_show(parser)
    parser.add_argument("--note", default="", metavar="TEXT", help="why, for the audit log")
    parser.add_argument("--digest", default="", metavar="DIGEST", help="decide only if this is what waits")
    parser.description = f"{parser.description}.\n\n{_KEY_NOTE}"


def _add_approve(parser: argparse.ArgumentParser) -> None:
    _add_decision(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.description = (
        f"{parser.description}\n\nIt shows what would be sent, asks, and sends the digest of what it showed: what has\n"
        "changed meanwhile is not released. Without a terminal it needs --yes or --digest."
    )


def _add_answer(parser: argparse.ArgumentParser) -> None:
    _add_decision(parser)
    parser.add_argument("text", nargs="?", default=None, metavar="TEXT", help="what you say; '-' reads standard input")
    parser.add_argument("--body-file", default=None, metavar="FILE", help="read it from a file")


# ---------------------------------------------------------------- looking


def _list(args: argparse.Namespace) -> int:
    status = "" if args.status == _ALL else args.status
    approvals = decisions_of(args).list_approvals(status, after=args.after, limit=args.limit)
    columns = {
        "ID": field_column("id"),
        "STATUS": field_column("status"),
        "CAUSE": field_column("cause"),
        "AGE": age_column("created_at"),
        "UNTIL": lambda approval: safe(str(approval["expires_at"])[:16]),
        "FOR": _deciders_column,
        "FROM": field_column("agent"),
        "TO": field_column("to"),
        "LEVEL": field_column("classification"),
        "REASON": field_column("reason"),
    }
    nothing = "Nothing waits for a decision." if status == _PENDING else "There is no such approval."
    screen = screen_of(args)
    show_table(args, screen, approvals, columns, nothing)
    if not args.json and any(approval["status"] == _PENDING and not approval["deciders"] for approval in approvals):
        screen.line(screen.paint(f"Where it waits for nobody: {NO_DECIDER_HINT}.", "yellow"))
    return OK


def _deciders_column(approval: Mapping[str, Any]) -> str:
    """Who may decide; once it is decided, for whom it waited."""
    return join_with_or(approval["deciders"], "nobody") if approval["status"] == _PENDING else safe(approval["user"])


def _show(args: argparse.Namespace) -> int:
    decisions = decisions_of(args)
    approval = decisions.get_approval(args.approval)
    screen = screen_of(args)
    if args.json:
        screen.json(approval)
    else:
        show_approval(screen, approval, _transcript(decisions, approval))
    return OK


def _transcript(decisions: Decisions, approval: Document) -> list[Mapping[str, Any]]:
    """What was said in its exchange before, where there is one already and it may be seen."""
    if not approval["exchange_id"] or approval["escalation"]:
        return []  # an escalation tells it anyway
    try:
        exchange = decisions.get_exchange(approval["exchange_id"])
    except (NotFound, Forbidden):
        return []
    return list(exchange["transcript"])


def show_approval(screen: Screen, approval: Mapping[str, Any], transcript: Sequence[Mapping[str, Any]] = ()) -> None:
    """An approval with exactly what would be sent, in which nothing is hidden from the reader."""
    screen.line(
        f"{safe(approval['agent'])}, who acts for {safe(approval['user'])}, to {safe(approval['to'])}: "
        + screen.paint(safe(approval["status"]), "yellow" if approval["status"] == _PENDING else "dim")
    )
    for name in ("id", "cause", "reason", "detectedKeywords", "exchange_type", "classification", "message_type"):
        _show_field(screen, approval, name)
    for name in ("exchange_id", "conversation_id", "channel_id", "correlation_id", "policy_version", "created_at"):
        _show_field(screen, approval, name)
    if approval["status"] == _PENDING:
        screen.line(f"{screen.paint('deciders:', 'cyan')} {join_with_or(approval['deciders'], _NO_DECIDER)}")
    for name in ("expires_at", "decided_at", "decided_by", "note", "message_id"):
        _show_field(screen, approval, name)
    if approval["escalation"]:
        screen.line()
        screen.line(safe(approval["escalation"]["reason"]))
        for line in str(approval["escalation"]["conversationSummary"]).split("\n"):
            screen.line(f"  {safe(line)}")
    if transcript:
        screen.line()
        screen.line(screen.paint("Said so far:", "cyan"))
    for turn in transcript:
        screen.line(f"  Round {turn['round']} ({safe(turn['sender'])}): {safe(made_visible(str(turn['summary'])))}")
    for title, part in (("What would be sent:", approval["payload"]), ("Beside it:", approval["metadata"])):
        if part:
            screen.line()
            screen.line(screen.paint(title, "cyan"))
            screen.line(_visible_json(part))
    for warning in _hidden_character_warnings(approval):
        screen.line(screen.paint(warning, "red"))
    screen.line()
    _show_field(screen, approval, "digest")


def _show_field(screen: Screen, approval: Mapping[str, Any], name: str) -> None:
    value = approval.get(name)
    if value:
        text = ", ".join(value) if isinstance(value, list) else str(value)
        screen.line(f"{screen.paint(name + ':', 'cyan')} {safe(text)}")


def _visible_json(part: object) -> str:
    """JSON as people read it; what they could not see is spelled out."""
    return "\n".join([f"  {made_visible(line)}" for line in json.dumps(part, ensure_ascii=False, indent=2).split("\n")])


def _hidden_character_warnings(approval: Mapping[str, Any]) -> Iterator[str]:
    """One line for each kind of character that hides something."""
    kinds: dict[str, int] = {}
    for text in _texts([approval["payload"], approval["metadata"]]):
        for character in hidden_in(text):
            shown = f"{character.code_point} {character.name}"
            kinds[shown] = kinds.get(shown, 0) + 1
    if kinds:
        number = sum(kinds.values())
        yield f"Look closely: {number} hidden character{'s' if number > 1 else ''}, shown here as ⟨U+...⟩:"
    for shown, count in kinds.items():
        yield f"  {count} x {shown}"


def _texts(part: object) -> Iterator[str]:
    """Every text and every name in a document."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for name, value in part.items():
            yield name
            yield from _texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from _texts(value)


# ---------------------------------------------------------------- deciding


def _approve(args: argparse.Namespace) -> int:
    must_confirm = not args.yes and not args.digest
    if must_confirm and (args.json or not is_interactive()):
        raise Invalid(
            "nobody can be asked here", hint="look with: parley approvals show; then add --yes, or its --digest"
        )
    decisions = decisions_of(args)
    approval = _get_decidable(decisions, args.approval)
    screen = screen_of(args)
    if not args.json:
        show_approval(screen, approval, _transcript(decisions, approval))
    if must_confirm and not confirm("Send exactly this?"):
        screen.line("Nothing was decided.")
        return FOUND_PROBLEMS
    decided = _decide(args, decisions, approval, "approve")
    show_result(args, screen, decided, f"Approved {safe(decided['id'])}: sent as {safe(str(decided['message_id']))}")
    return OK


def _reject(args: argparse.Namespace) -> int:
    decisions = decisions_of(args)
    decided = _decide(args, decisions, _get_decidable(decisions, args.approval), "reject")
    line = f"Rejected {safe(decided['id'])}: nothing of it is sent, and its exchange is denied"
    show_result(args, screen_of(args), decided, line)
    return OK


def _answer(args: argparse.Namespace) -> int:
    text = _read_answer(args)
    decisions = decisions_of(args)
    decided = _decide(args, decisions, _get_decidable(decisions, args.approval), "answer", text)
    line = f"Answered {safe(decided['id'])} as {safe(str(decided['decided_by']))}: {safe(str(decided['message_id']))}"
    show_result(args, screen_of(args), decided, line)
    return OK


def _get_decidable(decisions: Decisions, approval_id: str) -> Document:
    """What is to be decided; refused at once, and before anything of it is shown, for who may not decide."""
    approval = decisions.get_approval(approval_id)
    if approval["barred"]:
        who = join_with_or(approval["deciders"], "")
        text = f"only {who} may decide this, with a key of their own" if who else f"it waits for {_NO_DECIDER}"
        raise _REFUSALS.get(approval["barred"], NotApprover)(text)
    return approval


def _decide(
    args: argparse.Namespace, decisions: Decisions, approval: Document, decision: str, answer: str | None = None
) -> Document:
    """Decide about what was fetched, or about what the user has seen elsewhere: the digests are compared."""
    digest = args.digest or approval["digest"]
    return decisions.decide(args.approval, decision, digest=digest, note=args.note, answer=answer)


def _read_answer(args: argparse.Namespace) -> str:
    if args.text is not None and args.body_file is not None:
        raise Invalid("give the answer once: TEXT or --body-file")
    if args.body_file is not None:
        text = read_text_file(args.body_file)
    elif args.text is not None and args.text != "-":
        text = args.text
    elif args.text is None and (sys.stdin is None or sys.stdin.isatty()):
        raise Invalid("there is no answer", hint="give it as TEXT, with --body-file, or on standard input")
    else:
        text = _read_input()
    if not text.strip():
        raise Invalid("the answer is empty")
    return text


def _read_input() -> str:
    content = sys.stdin.buffer.read(HARD_FILE_BYTES + 1)
    if len(content) > HARD_FILE_BYTES:
        raise Invalid("standard input is larger than any message may be")
    try:
        return content.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise Invalid("standard input is not UTF-8 text") from None


COMMANDS = {
    "approvals list": Command(
        "List what waits for a person's decision",
        _add_list,
        _list,
        ("parley approvals list", "parley approvals list --status all --json"),
    ),
    "approvals show": Command(
        "Show exactly what would be sent, and why it waits",
        _add_show,
        _show,
        ("parley approvals show appr_01K...",),
    ),
    "approvals approve": Command(
        "Release what was held, once",
        _add_approve,
        _approve,
        (
            "parley approvals approve appr_01K...",
            "parley approvals approve appr_01K... --yes --note 'agreed with legal'",
            "parley approvals approve appr_01K... --digest 3f1c...",
        ),
    ),
    "approvals reject": Command(
        "Refuse what was held; its exchange is denied",
        _add_decision,
        _reject,
        ("parley approvals reject appr_01K... --note 'not before Monday'",),
    ),
    "approvals answer": Command(
        "Speak for yourself instead of what was held",
        _add_answer,
        _answer,
        ("parley approvals answer appr_01K... 'Let us talk on Monday.'", "parley approvals answer appr_01K... < text"),
    ),
}
