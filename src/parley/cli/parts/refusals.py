"""Say a refusal in the words of the command line: which name was wrong, and which option, command or setting helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from parley.domain.errors.errors import ParleyError


# Options and arguments that name an agent which must exist, the most specific first.
_AGENT_OPTIONS = ("name", "assignee", "for_agent", "agent")

# A field of a request -> the options and arguments that it may come from: attribute of the command line, and its name.
_OPTIONS = {
    "expires_at": (("expires", "--expires"),),
    "deliver_at": (("at", "--at"), ("after", "--in")),
    "to": (("to", "--to"),),
    "correlation_id": (("correlation", "--correlation"),),
    "limit": (("limit", "--limit"), ("last", "--last")),
    "title": (("title", "TITLE"),),
    "access": (("access", "--access"),),
    "agent_id": (("speaker", "--agent"), ("assignee", "AGENT"), ("name", "NAME"), ("agent", "--agent")),
    "name": (("channel", "CHANNEL"), ("name", "NAME")),
    "id": (("tenant", "TENANT"), ("name", "NAME")),
    "role_id": (("role", "--role"),),
    "org_unit": (("org_unit", "--org-unit"),),
    "user_id": (("user", "--user"),),
    "team": (("team", "--team"),),
    "endpoint": (("endpoint", "--endpoint"),),
    "members": (("member", "--member"),),
    "max_messages": (("max_messages", "--max-messages"),),
    "ttl_seconds": (("ttl", "--ttl"),),
    "capabilities": (("capability", "--capability"),),
    "description": (("description", "--description"),),
    "offset": (("offset", "--offset"),),
}
_LIST_INDEX = re.compile(r"\[\d+\]$")
# What the decoder of requests says about values, in the words of a person.
_DETAILS = (
    (re.compile(r"Expected `str` of length >= 1"), "must not be empty"),
    (re.compile(r"Expected `str` of length <= (\d+)"), r"must have at most \1 characters"),
    (re.compile(r"Expected `(?:int|float)` >= (\d+)"), r"must be at least \1"),
    (re.compile(r"Expected `(?:int|float)` <= (\d+)"), r"must be at most \1"),
)

# Commands on the mailbox of an agent that hints name.
_MAILBOX_COMMANDS = re.compile(r"parley (?:inbox|next|outbox|search TEXT)(?! --)\b")


def explain_refusal(error: ParleyError, args: argparse.Namespace, command: str = "") -> None:
    """Change message and hint of an error where the options say more than the server or the mailbox could."""
    if getattr(args, "agent", "") and not hasattr(args, "url"):
        # The command of a hint can be pasted: it acts for the same agent.
        error.hint = _MAILBOX_COMMANDS.sub(rf"\g<0> --agent {args.agent}", error.hint)
    elif error.facts.get("arrived") is False:
        from parley.cli.parts.mailboxes import has_no_server, mailbox_hint

        hint = mailbox_hint(command, args) if has_no_server(error, args) else ""
        error.hint = "; ".join(filter(None, (error.hint, hint)))
    # With `name`, the error has said it already.
    missing, intent = "name" not in error.facts and error.facts.get("missing"), getattr(args, "intent", "")
    if missing == "intent" and intent:
        error.message, error.hint = f'no intent "{intent}" that you can see', "see: parley intent list"
    elif missing == "agent" and hasattr(args, "url"):
        _name_agent(error, args)
    elif "rule" in error.facts and not error.hint:
        error.hint = _rule_hint(error, on_server=hasattr(args, "url"))
    elif error.code == "forbidden" and not error.hint and "path" in error.facts:
        from parley.cli.command import settings_of
        from parley.cli.parts.sandbox import owner_hint, sandbox_hint

        settings, path = settings_of(args), error.facts["path"]
        error.hint = sandbox_hint(settings, path) or owner_hint(settings, path)
    elif [(problem.code, problem.field) for problem in error.problems] == [("required", "sender")]:
        error.message = "no sending agent"
    elif error.problems and error.code == "invalid" and hasattr(args, "url"):
        _name_options(error, args)
    elif error.code == "bad_cursor" and getattr(args, "since", None):
        error.message = error.message.replace("since is", f"--since {args.since!r} is", 1)


def _name_options(error: ParleyError, args: argparse.Namespace) -> None:
    """Name the options of the command where the error names fields of the request."""
    problems = [(problem.field, problem.detail) for problem in error.problems]
    if len(problems) == 1 and problems[0][0] and error.message.startswith(f"{problems[0][0]}: "):
        problems = [(problems[0][0], error.message.removeprefix(f"{problems[0][0]}: "))]  # it may say more
    error.message = "; ".join(_problem_text(field, detail, args) for field, detail in problems)


def _problem_text(field: str, detail: str, args: argparse.Namespace) -> str:
    """What is wrong with a field, in the words of its option: `--expires '2020-01-01' is in the past`."""
    for pattern, words in _DETAILS:
        detail = pattern.sub(words, detail)
    options = _OPTIONS.get(_LIST_INDEX.sub("", field).removeprefix("options."), ())
    options = tuple((attribute, option) for attribute, option in options if hasattr(args, attribute))
    if not options:
        return f"{field}: {detail}" if field else detail
    _, option, value = next(
        ((name, option, value) for name, option in options if (value := getattr(args, name))), (*options[0], None)
    )
    if not detail.startswith(("is ", "must ")):
        return f"{option}: {detail}"
    return f"{option} {value!r} {detail}" if isinstance(value, str) else f"{option} {detail}"


def _name_agent(error: ParleyError, args: argparse.Namespace) -> None:
    """Say which agent was not found, and which are called like it."""
    from contextlib import suppress

    from parley.cli.parts.remote import connection_of
    from parley.domain.errors.errors import ParleyError as AnyError
    from parley.domain.lookup import Noun, unknown

    name = next((text for text in (getattr(args, option, "") for option in _AGENT_OPTIONS) if text), "")
    names: list[str] = []
    with suppress(AnyError):  # it is only a hint
        names = [agent["agent_id"] for agent in connection_of(args, agent=False).get("agents")]
    if name and name not in names:
        suggestion = unknown(Noun("agent", "", "parley agent list --server"), name, names)
        error.message, error.hint = suggestion.message, suggestion.hint


def _rule_hint(error: ParleyError, *, on_server: bool) -> str:
    """Which line of which document or of the directory denied it, and the command that explains it."""
    from parley.domain.rules.deciding import DecidingRule

    rule, sender, receiver = (error.facts.get(name) for name in ("rule", "sender", "receiver"))
    if not isinstance(rule, dict):
        return ""
    text = DecidingRule.from_facts(rule).text(str(sender), str(receiver))
    return f"{text}; see: parley policy explain --from {sender} --to {receiver}" if on_server else text
