"""The compact form of messages for coding agents: when it is printed, and the commands that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import settings_of
from parley.domain.errors.errors import Invalid
from parley.settings import FLAG

if TYPE_CHECKING:
    import argparse

    from parley.domain.message.message import Message
    from parley.wire.model_text import NextSteps

_HUMAN = "human"


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add --budget and --full, for commands whose output a model reads."""
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--budget", type=int, default=0, metavar="N", help="compact form in at most N tokens, estimated (200 or more)"
    )
    shown.add_argument("--full", action="store_true", help="not the compact form, which coding agents get by default")


def wants_compact(args: argparse.Namespace) -> bool:
    """Whether a model reads the output: a budget is given, or a coding agent runs the command."""
    if args.budget < 0:
        raise Invalid("--budget must be a number of tokens", hint="for example: --budget 2000")
    if args.budget:
        from parley.wire.model_text import check_budget  # only models need it

        check_budget(args.budget)
    if args.json:
        if args.budget:
            raise Invalid("--budget and --json together", hint="leave one of them out")
        return False
    runtime = settings_of(args).runtime
    return bool(args.budget) or (runtime not in ("", _HUMAN) and not args.full)


def agent_option(args: argparse.Namespace, agent: str) -> str:
    """` --agent NAME` for the commands that are named, where this command had it, too."""
    return f" --agent {agent}" if settings_of(args).source_of("agent") == FLAG else ""


def next_steps(message: Message, ref: str, option: str, *, answered: bool) -> NextSteps:
    """The commands that go on from a claimed message."""
    from parley.domain.mailbox.waiting import expects_answer
    from parley.wire.model_text import NextSteps

    reply = f"parley reply {ref}{option} TEXT" if expects_answer(message.kind) and not answered else ""
    return NextSteps(reply, f"parley done {ref}{option}", f"parley read {ref}{option}")
