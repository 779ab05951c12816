"""Say a refusal in the words of the command line: which name was wrong, and which option, command or setting helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from parley.domain.errors.errors import ParleyError


def explain_refusal(error: ParleyError, args: argparse.Namespace) -> None:
    """Change message and hint of an error where the options say more than the server could."""
    intent = getattr(args, "intent", "")
    if error.facts.get("missing") == "intent" and intent:
        error.message, error.hint = f"no intent {intent!r} that you can see", "see: parley intent list"
    elif error.code == "policy_denied" and not error.hint:
        error.hint = _denial_hint(error, on_server=hasattr(args, "url"))
    elif error.code == "forbidden" and not error.hint and "path" in error.facts:
        from parley.cli.command import settings_of
        from parley.cli.parts.sandbox import sandbox_hint

        error.hint = sandbox_hint(settings_of(args), error.facts["path"])
    elif [(problem.code, problem.field) for problem in error.problems] == [("required", "sender")]:
        error.message = "no sending agent"


def _denial_hint(error: ParleyError, *, on_server: bool) -> str:
    from parley.domain.rules.judge import CROSS_ORG_ACTION

    # With `rules`, the organisation's own rules denied it, and have said why.
    if error.facts.get("action") != CROSS_ORG_ACTION or "rules" in error.facts:
        return ""
    see = "; see: parley policy show enterprise/default" if on_server else ""
    return f"cross_org is false in the policy{see}"
