"""`parley approvals list|show|approve|reject|answer|link`: list held messages and decide about them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import NO_DECIDER_HINT, confirm, count_of, is_interactive, join_with_or, label_of, safe
from parley.cli.parts.body import read_text_file
from parley.cli.parts.decisions import ApprovalFilter, ServerDecisions, add_server_or_mailbox_options, decisions_of
from parley.cli.parts.remote import (
    access_of,
    add_server_options,
    age_column,
    connection_of,
    field_column,
    show_result,
    show_table,
    time_column,
    time_text,
)
from parley.cli.rules.exchange import writer_of
from parley.cli.table import Column, id_column, text_column
from parley.domain.content.invisible_characters import hidden_in, made_visible
from parley.domain.errors.errors import Ambiguous, Forbidden, Invalid, NotFound
from parley.domain.errors.rules import ApprovalDecided, HumanRequired, NotApprover, SelfApproval
from parley.domain.exchange.approval import ApprovalStatus, Cause
from parley.domain.exchange.exchange import summary_of
from parley.domain.limits import HARD_FILE_BYTES
from parley.domain.lookup import Candidate, list_candidates

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from parley.cli.output import Screen
    from parley.cli.parts.decisions import Decisions, Document

_ALL = "all"
_ORDERS = ("oldest", "newest", "expiring")
# Of a message in the list; all of it: approvals show.
_SUMMARY_CHARS = 60
_PENDING = ApprovalStatus.PENDING.value
# To find the only one; more are listed in part.
_PENDING_LOOKED_AT = 100
_NO_DECIDER = f"no one (no approver is set); {NO_DECIDER_HINT}"
_REFUSALS = {error.code: error for error in (HumanRequired, NotApprover, SelfApproval)}
_KEY_NOTE = (
    "Only a person can decide, with a key of their own. On a server it is created by\n"
    "parley key create --user NAME and given in --key or PARLEY_KEY. For a mailbox it\n"
    "is created by parley governance add-human and given in --key or\n"
    "PARLEY_HUMAN_KEY, or entered when asked."
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
    causes = [cause.value for cause in Cause]
    parser.add_argument(
        "--cause", default="", choices=causes, metavar="CAUSE", help=f"only held for this: {', '.join(causes)}"
    )
    parser.add_argument(
        "--order",
        default=_ORDERS[0],
        choices=_ORDERS,
        metavar="ORDER",
        help=f"{', '.join(_ORDERS)} first (default: {_ORDERS[0]})",
    )
    parser.add_argument("--after", default="", metavar="APPROVAL", help="only approvals after this one in the list")
    parser.add_argument(
        "--limit", type=int, default=100, metavar="N", help="number of approvals at most (default: 100)"
    )
    add_server_or_mailbox_options(parser, agent=False)


_ID_HELP = "id of the approval, or the end of it; see: approvals list"


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_optional_id(parser)
    add_server_or_mailbox_options(parser, agent=False)


def _add_optional_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "approval", nargs="?", metavar="APPROVAL", help=f"{_ID_HELP} (default: the only one that waits)"
    )


def _add_decision(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    if is_optional:
        _add_optional_id(parser)
    else:
        parser.add_argument("approval", metavar="APPROVAL", help=_ID_HELP)
    add_server_or_mailbox_options(parser, agent=False)
    parser.add_argument("--note", default="", metavar="TEXT", help="reason, for the audit log")
    parser.add_argument(
        "--digest",
        default="",
        metavar="DIGEST",
        help="decide only if the held message still has this digest (see: approvals show)",
    )
    parser.description = f"{parser.description}.\n\n{_KEY_NOTE}"


def _add_approve(parser: argparse.ArgumentParser) -> None:
    _add_decision(parser, is_optional=True)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.description = (
        f"{parser.description}\n\n"
        "The command shows the message and asks for confirmation. Exactly this message\n"
        "is sent: if it has changed meanwhile, nothing is sent. Without a terminal the\n"
        "command needs --yes or --digest."
    )


def _add_answer(parser: argparse.ArgumentParser) -> None:
    _add_decision(parser)
    parser.add_argument("text", nargs="?", default=None, metavar="TEXT", help="your answer; '-' reads standard input")
    parser.add_argument("--body-file", default=None, metavar="FILE", help="read the answer from a file")


def _add_link(parser: argparse.ArgumentParser) -> None:
    _add_optional_id(parser)
    add_server_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "The link opens one page that shows this message and decides about it, in your\n"
        "name, in any browser. It ends when the message is decided or expires, when your\n"
        "key is revoked, and after 24 hours. Give it to nobody else.\n\n"
        'The server must allow links: approval_links = "decide". It needs your own key.'
    )


# ---------------------------------------------------------------- list and show


def _list(args: argparse.Namespace) -> int:
    status = "" if args.status == _ALL else args.status
    wanted = ApprovalFilter(status, args.cause, args.order)
    approvals = decisions_of(args).list_approvals(wanted, after=args.after, limit=args.limit)
    columns = (
        id_column("ID", field_column("id")),
        Column("STATUS", field_column("status"), 7, usual=_PENDING),
        Column("CAUSE", field_column("cause"), 3),
        Column("AGE", age_column("created_at"), 5),
        Column("EXPIRES", time_column("expires_at"), 2),
        Column("APPROVER", _deciders_column, 4),
        Column("FROM", field_column("agent"), 8),
        Column("TO", field_column("to"), 8),
        Column("LEVEL", field_column("classification"), 1),
        text_column("MESSAGE", _words_column),
        text_column("REASON", field_column("reason"), 6),
    )
    nothing = "No messages held for approval." if status == _PENDING else "No matching approvals."
    screen = screen_of(args)
    show_table(args, screen, approvals, columns, nothing)
    if not args.json and any(approval["status"] == _PENDING and not approval["deciders"] for approval in approvals):
        screen.prose(f"Some messages have no approver: {NO_DECIDER_HINT}.", "yellow")
    return OK


def _words_column(approval: Mapping[str, Any]) -> str:
    """The beginning of what would be sent; of a mailbox message its body."""
    payload = approval["payload"] or {}
    return made_visible(summary_of(payload.get("body") or payload))[:_SUMMARY_CHARS] or "-"


def _deciders_column(approval: Mapping[str, Any]) -> str:
    """Who may decide; after the decision, the person of the agent."""
    return join_with_or(approval["deciders"], "no one") if approval["status"] == _PENDING else str(approval["user"])


def _show(args: argparse.Namespace) -> int:
    decisions = decisions_of(args)
    approval = decisions.get_approval(_chosen_id(args, decisions))
    screen = screen_of(args)
    if args.json:
        screen.json(approval)
    else:
        show_approval(screen, approval, _transcript(decisions, approval))
    return OK


def _transcript(decisions: Decisions, approval: Document) -> list[Mapping[str, Any]]:
    """The previous messages of the exchange, if there is one and the caller may see it."""
    if not approval["exchange_id"] or approval["escalation"]:
        return []  # an escalation has a summary of it
    try:
        exchange = decisions.get_exchange(approval["exchange_id"])
    except (NotFound, Forbidden):
        return []
    return list(exchange["transcript"])


def show_approval(screen: Screen, approval: Mapping[str, Any], transcript: Sequence[Mapping[str, Any]] = ()) -> None:
    """Print an approval with exactly the message that would be sent, with invisible characters made visible."""
    screen.prose(
        f"{safe(approval['agent'])} (acting for {safe(approval['user'])}) to {safe(approval['to'])}: "
        + screen.paint(safe(approval["status"]), "yellow" if approval["status"] == _PENDING else "dim")
    )
    for name in ("id", "cause", "reason", "detectedKeywords", "exchange_type", "classification", "message_type"):
        _show_field(screen, approval, name)
    for name in ("exchange_id", "conversation_id", "channel_id", "correlation_id", "policy_version", "created_at"):
        _show_field(screen, approval, name)
    if approval["status"] == _PENDING:
        screen.field("deciders", join_with_or(approval["deciders"], _NO_DECIDER))
    for name in ("expires_at", "decided_at", "decided_by", "note", "message_id"):
        _show_field(screen, approval, name)
    if approval["escalation"]:
        screen.line()
        screen.prose(safe(approval["escalation"]["reason"]))
        for line in str(approval["escalation"]["conversationSummary"]).split("\n"):
            screen.prose(f"  {safe(line)}")
    if transcript:
        screen.line()
        screen.prose("Previous messages:", "cyan")
    for turn in transcript:
        screen.prose(f"  Round {turn['round']}, {writer_of(turn)}: {safe(made_visible(str(turn['summary'])))}")
    for title, part in (("Message to send:", approval["payload"]), ("Metadata:", approval["metadata"])):
        if part:
            screen.line()
            screen.prose(title, "cyan")
            screen.line(_visible_json(part))
    for warning in _hidden_character_warnings(approval):
        screen.prose(warning, "red")
    screen.line()
    if approval["status"] == _PENDING and approval["closes"]:
        screen.prose(f"To reject it closes {_other_messages(approval)}, too.", "yellow")
    _show_field(screen, approval, "digest")


def _other_messages(approval: Mapping[str, Any]) -> str:
    others = approval["closes"]
    return f"{count_of(len(others), 'other held message')} of the exchange ({', '.join(map(safe, others))})"


def _show_field(screen: Screen, approval: Mapping[str, Any], name: str) -> None:
    value = approval.get(name)
    if value:
        text = ", ".join(value) if isinstance(value, list) else str(value)
        screen.field(label_of(name), time_text(text) if name.endswith("_at") else safe(text))


def _visible_json(part: object) -> str:
    """Indented JSON with invisible characters made visible."""
    return "\n".join([f"  {made_visible(line)}" for line in json.dumps(part, ensure_ascii=False, indent=2).split("\n")])


def _hidden_character_warnings(approval: Mapping[str, Any]) -> Iterator[str]:
    """A line for each kind of invisible character in the message."""
    kinds: dict[str, int] = {}
    for text in _texts([approval["payload"], approval["metadata"]]):
        for character in hidden_in(text):
            shown = f"{character.code_point} {character.name}"
            kinds[shown] = kinds.get(shown, 0) + 1
    if kinds:
        number = sum(kinds.values())
        yield f"Warning: {count_of(number, 'invisible character')}, shown as ⟨U+...⟩:"
    for shown, count in kinds.items():
        yield f"  {count} x {shown}"


def _texts(part: object) -> Iterator[str]:
    """Iterate over all strings in a document, keys included."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for name, value in part.items():
            yield name
            yield from _texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from _texts(value)


# ---------------------------------------------------------------- decide


def _approve(args: argparse.Namespace) -> int:
    must_confirm = not args.yes and not args.digest
    if must_confirm and (args.json or not is_interactive()):
        raise Invalid(
            "cannot ask for confirmation without a terminal",
            hint="see: parley approvals show; then add --yes or --digest",
        )
    if args.yes and not args.approval and not args.digest:
        raise Invalid("--yes without an ID approves what you have not seen", hint="add the ID, or leave out --yes")
    decisions = decisions_of(args)
    approval = _get_decidable(decisions, _chosen_id(args, decisions))
    screen = screen_of(args)
    if not args.json:
        show_approval(screen, approval, _transcript(decisions, approval))
    if must_confirm and not confirm("Send exactly this message?"):
        screen.prose("No decision was made.")
        return FOUND_PROBLEMS
    decided = _decide(args, decisions, approval, "approve")
    show_result(args, screen, decided, f"Approved {safe(decided['id'])}: sent as {safe(str(decided['message_id']))}")
    return OK


def _reject(args: argparse.Namespace) -> int:
    decisions = decisions_of(args)
    decided = _decide(args, decisions, _get_decidable(decisions, args.approval), "reject")
    line = f"Rejected {safe(decided['id'])}: the message is not sent, and its exchange is denied"
    if decided["closes"]:
        line += f"; this closes {_other_messages(decided)}, too"
    show_result(args, screen_of(args), decided, line)
    return OK


def _answer(args: argparse.Namespace) -> int:
    text = _read_answer(args)
    decisions = decisions_of(args)
    decided = _decide(args, decisions, _get_decidable(decisions, args.approval), "answer", text)
    line = f"Answered {safe(decided['id'])} as {safe(str(decided['decided_by']))}: {safe(str(decided['message_id']))}"
    show_result(args, screen_of(args), decided, line)
    return OK


def _link(args: argparse.Namespace) -> int:
    decisions = ServerDecisions(connection_of(args, agent=False))
    link = decisions.create_link(_chosen_id(args, decisions))
    url, screen = f"{access_of(args).url}{link['path']}", screen_of(args)
    if args.json:
        screen.json({"url": url, "approval": link["approval"], "expires_at": link["expires_at"]})
        return OK
    # Not wrapped: it is copied, or clicked.
    screen.line(f"Open {url}")
    screen.prose(
        f"It decides about {safe(link['approval'])} in your name, until {time_text(link['expires_at'])} or until it is"
        " decided. Give it to nobody else."
    )
    return OK


def _chosen_id(args: argparse.Namespace, decisions: Decisions) -> str:
    """The approval that was named, else the only one that waits. An empty name, as of an unset variable, is none."""
    if args.approval is None:
        return str(_only_pending(decisions)["id"])
    if not args.approval:
        raise Invalid("the id of the approval is empty", hint="leave it out for the only one that waits")
    return str(args.approval)


def _only_pending(decisions: Decisions) -> Document:
    """The one approval that waits and that the caller may decide; else the one that waits."""
    waiting = decisions.list_approvals(ApprovalFilter(_PENDING), after="", limit=_PENDING_LOOKED_AT)
    chosen = [approval for approval in waiting if not approval["barred"]] or waiting
    if not chosen:
        raise NotFound("no message is held for approval", hint="see all: parley approvals list --status all")
    if len(chosen) > 1:
        candidates = [Candidate(approval["id"], (_words_column(approval),)) for approval in chosen]
        raise Ambiguous(
            f"{len(chosen)} messages are held for approval: {list_candidates(candidates)}",
            hint="add the end of an id, in square brackets",
        )
    return chosen[0]


def _get_decidable(decisions: Decisions, approval_id: str) -> Document:
    """Fetch the approval; refuse, before printing it, if it is decided or the caller may not decide."""
    approval = decisions.get_approval(approval_id)
    if approval["status"] != _PENDING:
        raise ApprovalDecided(f"it was {approval['status']}", hint=f"see: parley approvals show {approval['id']}")
    if approval["barred"]:
        who = join_with_or(approval["deciders"], "")
        text = f"only {who} can decide this, with their own key" if who else f"approval by {_NO_DECIDER}"
        raise _REFUSALS.get(approval["barred"], NotApprover)(text)
    return approval


def _decide(
    args: argparse.Namespace, decisions: Decisions, approval: Document, decision: str, answer: str | None = None
) -> Document:
    """Decide about the message that was printed, or about that of --digest; its digest must still match."""
    digest = args.digest or approval["digest"]
    return decisions.decide(approval["id"], decision, digest=digest, note=args.note, answer=answer)


def _read_answer(args: argparse.Namespace) -> str:
    if args.text is not None and args.body_file is not None:
        raise Invalid("TEXT and --body-file together", hint="leave one of them out")
    if args.body_file is not None:
        text = read_text_file(args.body_file)
    elif args.text is not None and args.text != "-":
        text = args.text
    elif args.text is None and (sys.stdin is None or sys.stdin.isatty()):
        raise Invalid("no answer given", hint="use TEXT, --body-file, or standard input")
    else:
        text = _read_input()
    if not text.strip():
        raise Invalid("the answer is empty")
    return text


def _read_input() -> str:
    content = sys.stdin.buffer.read(HARD_FILE_BYTES + 1)
    if len(content) > HARD_FILE_BYTES:
        raise Invalid("standard input is larger than the largest message")
    try:
        return content.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise Invalid("standard input is not UTF-8 text") from None


COMMANDS = {
    "approvals list": Command(
        "List messages held for approval",
        _add_list,
        _list,
        (
            "parley approvals list",
            "parley approvals list --order expiring",
            "parley approvals list --status all --json",
        ),
    ),
    "approvals show": Command(
        "Show a held message and why it is held",
        _add_show,
        _show,
        ("parley approvals show appr_01K...",),
    ),
    "approvals approve": Command(
        "Approve a held message and send it",
        _add_approve,
        _approve,
        (
            "parley approvals approve",
            "parley approvals approve 7K2M",
            "parley approvals approve 7K2M --yes --note 'agreed with legal'",
            "parley approvals approve 7K2M --digest 3f1c...",
        ),
    ),
    "approvals reject": Command(
        "Reject a held message and end its exchange",
        _add_decision,
        _reject,
        ("parley approvals reject appr_01K... --note 'not before Monday'",),
    ),
    "approvals answer": Command(
        "Answer yourself instead of sending the held message",
        _add_answer,
        _answer,
        ("parley approvals answer appr_01K... 'Let us talk on Monday.'", "parley approvals answer appr_01K... < text"),
    ),
    "approvals link": Command(
        "Create a link by which you decide in any browser",
        _add_link,
        _link,
        ("parley approvals link", "parley approvals link 7K2M", "parley approvals link 7K2M --json"),
    ),
}
