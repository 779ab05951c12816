"""Say a refusal in the words of the command line: which name was wrong, and which option, command or setting helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from parley.domain.errors.errors import ParleyError


# Options and arguments that name an agent which must exist, the most specific first.
_AGENT_OPTIONS = ("name", "assignee", "for_agent", "agent")


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
