"""`parley workflow check|graph|run`: check, draw and run workflow files."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.cli.command import Command, add_json, screen_of
from parley.cli.exits import FOUND_PROBLEMS, INTERRUPTED, OK, UNSUPPORTED
from parley.cli.output import safe
from parley.cli.parts.remote import HINTS, access_of, add_server_options, connection_of, parse_seconds
from parley.cli.rules.files import read_file
from parley.domain.errors.errors import Invalid, NotFound, ParleyError
from parley.domain.errors.workflow import WorkflowUnsupported
from parley.login_wiring import access_hints
from parley.sdk.protocol.lookup import find_intent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from parley.cli.output import Screen
    from parley.cli.parts.live_table import LiveTable, Rows
    from parley.domain.workflow.plan import WorkflowPlan
    from parley.sdk.workflow.result import WorkflowEvent, WorkflowResult
    from parley.sdk.workflow.workflow import Workflow

_COLOURS = {"completed": "green", "failed": "red", "running": "yellow", "skipped": "dim", "cancelled": "dim"}
_HINTS = {
    **HINTS,
    "sender_mismatch": "use a key for all agents of the file: parley key create --kind service",
}
_HANDLERS = "Python module of handlers that are named without one (default: as in the file, else handlers.py beside it)"


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="workflow file; '-' is standard input")


def _add_handlers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--handlers", default="", metavar="MODULE", help=_HANDLERS)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="workflow files; '-' is standard input")
    _add_handlers(parser)
    parser.add_argument("--no-import", action="store_true", help="do not import the handlers")
    parser.description = (
        f"{parser.description}.\n\n"
        "Lists each error with file, line and key, and for a valid file who runs\n"
        "elsewhere: agents and roles of steps without a handler.\n\n"
        "Exit codes: 0 valid, 1 errors, 15 the only errors are features of the\n"
        "OpenIntent SDK that Parley does not have; each of them is named once."
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print valid files")
    add_json(parser)


def _add_graph(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    what = "colour the steps by their state in this intent, by its title or id (needs a server)"
    parser.add_argument("--run", dest="intent", default="", metavar="INTENT", help=what)
    add_server_options(parser, agent=False)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    _add_handlers(parser)
    parser.add_argument(
        "--timeout", default="", metavar="TIME", help="stop after 30s, 5m, 2h (default: as in the file)"
    )
    what = "continue the run of this intent, whose process was killed: finished steps are not repeated"
    parser.add_argument("--resume", default="", metavar="INTENT", help=what)
    parser.add_argument("-v", "--verbose", action="store_true", help="print the traceback when a handler fails")
    add_server_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "Creates the intent and its channels, runs the agents of the file in this\n"
        "process, and runs the steps in parallel where possible. A step without a\n"
        "handler is sent as a request to its agent, which runs elsewhere. A workflow\n"
        "without steps runs until the intent is completed. When a step fails, the steps\n"
        "that depend on it are skipped, the others are run, and the intent is abandoned.\n"
        "Ctrl-C cancels the running steps and abandons the intent; a second Ctrl-C stops\n"
        "at once.\n\n"
        "Needs a service key or an admin key, which can act as all agents of the file.\n\n"
        "Exit codes: 0 completed, 2 the file has errors, 3 no such file or intent, 4 it\n"
        "cannot be resumed: it has ended, or another process runs it, 10 a step failed,\n"
        "11 timed out, 12 the intent was abandoned by someone else, 15 the file uses\n"
        "features that Parley does not have, 130 interrupted."
    )


def _read(path: str, handlers: str = "") -> Workflow:
    from parley.sdk.workflow.workflow import Workflow

    folder = "." if path == "-" else os.path.dirname(os.path.abspath(path))
    return Workflow.parse(read_file(path), path, folder, handlers=handlers)


# ---------------------------------------------------------------- check


class _CheckedWorkflow(NamedTuple):
    file: str
    lines: list[str]
    flaws: list[Mapping[str, Any]]
    about: str = ""
    unsupported: bool = False


def _check(args: argparse.Namespace) -> int:
    results = [_check_file(file, args) for file in args.files]
    screen = screen_of(args)
    if args.json:
        screen.json([{"file": result.file, "valid": not result.lines, "flaws": result.flaws} for result in results])
    for result in () if args.json else results:
        for line in result.lines:
            screen.prose(safe(line))
        if not result.lines and not args.quiet:
            screen.prose(f"{safe(result.file)}: {screen.paint('valid', 'green')}{result.about}")
    faulty = [result for result in results if result.lines]
    if faulty and all(result.unsupported for result in faulty):
        return UNSUPPORTED
    return FOUND_PROBLEMS if faulty else OK


def _check_file(file: str, args: argparse.Namespace) -> _CheckedWorkflow:
    try:
        workflow = _read(file, args.handlers)
        if not args.no_import:
            with redirect_stdout(sys.stderr):  # a module may print while it is imported
                workflow.check()
    except (Invalid, NotFound) as error:
        found_flaws = error.facts.get("flaws")
        flaws: list[Mapping[str, Any]] = found_flaws if isinstance(found_flaws, list) else []
        lines = [f"{flaw['file']}:{flaw['line']}: {_key(flaw)}{flaw['detail']}" for flaw in flaws]
        unsupported = isinstance(error, WorkflowUnsupported)
        return _CheckedWorkflow(file, lines or [error.message], flaws, unsupported=unsupported)
    return _CheckedWorkflow(file, [], [], f" ({_counts(workflow.plan)})")


def _key(flaw: Mapping[str, Any]) -> str:
    return f"{flaw['key']}: " if flaw["key"] else ""


def _counts(plan: WorkflowPlan) -> str:
    counts = (("step", plan.steps), ("agent", plan.agents), ("channel", plan.channels))
    here = ", ".join(f"{len(some)} {word}{'' if len(some) == 1 else 's'}" for word, some in counts)
    return f"{here}; elsewhere: {', '.join(plan.remote_doers)}" if plan.remote_doers else here


# ---------------------------------------------------------------- graph


def _graph(args: argparse.Namespace) -> int:
    workflow = _read(args.file)
    states = _states(args, workflow) if args.intent else {}
    drawn = workflow.diagram(states)
    screen = screen_of(args)
    if args.json:
        screen.json({"diagram": drawn, "states": states})
    else:
        screen.line(drawn.rstrip("\n"))
    return OK


def _states(args: argparse.Namespace, workflow: Workflow) -> dict[str, str]:
    """The state of each step in a run."""
    connection = connection_of(args, agent=False)
    intent = connection.run(find_intent(connection.session, args.intent))
    tasks = connection.get("intents", intent.id, "tasks", query={"limit": 1000})
    step_names = {step.name for step in workflow.plan.steps}
    statuses = {task["metadata"].get("step"): task["status"] for task in tasks if isinstance(task["metadata"], dict)}
    states = {name: status for name, status in statuses.items() if name in step_names}
    if not states:
        raise Invalid(
            f"intent {args.intent} has no task for a step of {args.file}", hint="is it a run of this workflow?"
        )
    return states


# ---------------------------------------------------------------- run


def _run(args: argparse.Namespace) -> int:
    import gc

    gc.enable()  # it may run for long
    limit = parse_seconds(args.timeout, "--timeout") if args.timeout else None
    if limit == 0:
        raise Invalid("--timeout must be more than 0")
    screen = screen_of(args)
    with redirect_stdout(sys.stderr):
        workflow = _read(args.file, args.handlers)
        workflow.check()
    access = access_of(args)
    try:
        with _event_printer(args, screen, workflow) as tell:
            result = workflow.run(access.url, access.key, timeout=limit, on_event=tell, resume=args.resume)
    except ParleyError as error:
        code = "unreachable" if error.facts.get("arrived") is False else error.code
        error.hint = {**_HINTS, **access_hints(access)}.get(code, error.hint)
        raise
    if args.json:
        screen.json({"event": "result", **result.to_dict()}, compact=True)
    else:
        screen.prose(_result_line(result))
    if result.outcome == "interrupted":
        return INTERRUPTED
    result.or_raise()
    return OK


def _result_line(result: WorkflowResult) -> str:
    from parley.sdk.workflow.result import NOT_REPORTED

    words = {"timed_out": "Timed out", "failed": "Failed", "interrupted": "Interrupted", "abandoned": "Abandoned"}
    where = f" [{result.intent_id}]" if result.intent_id else ""
    heard = bool(where) and not result.detail.endswith(NOT_REPORTED)
    left = "; its intent is abandoned" if result.outcome in ("timed_out", "failed", "interrupted") and heard else ""
    return f"{words.get(result.outcome, 'Completed')} after {result.seconds:.1f}s{where}{left}"


@contextmanager
def _event_printer(
    args: argparse.Namespace, screen: Screen, workflow: Workflow
) -> Iterator[Callable[[WorkflowEvent], None]]:
    """Print events as JSON lines, a live table or text. The output of handlers is kept apart."""
    from parley.cli.parts.handler_log import logging_to
    from parley.cli.parts.live_table import terminal

    out = sys.stdout
    if args.json or terminal() is None:
        line = _json_line if args.json else _text_line

        def print_event(event: WorkflowEvent) -> None:
            text = line(workflow, event)
            if text:
                out.write(text + "\n")
                out.flush()

        with redirect_stdout(sys.stderr) if args.json else _no_redirection(), logging_to(verbose=args.verbose):
            yield print_event
        return
    board = _StepsTable(workflow, screen)
    with board.table.running(), logging_to(verbose=args.verbose):
        yield board.update


@contextmanager
def _no_redirection() -> Iterator[None]:
    yield


def _json_line(_: Workflow, event: WorkflowEvent) -> str:
    from parley.cli.output import json_text

    return json_text(event.fields())


def _text_line(workflow: Workflow, event: WorkflowEvent) -> str:
    step, why = safe(event.step), safe(event.detail)
    again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    lines = {
        "intent_created": f"{safe(workflow.title)} [{why}]",
        "intent_resumed": f"{safe(workflow.title)} [{why}], resumed",
        "agents_ready": f"agents ready: {why}",
        "step_started": f"{step}: started by {safe(event.agent)}{again}",
        "step_retried": f"{step}: failed, retrying: {why}",
        "step_completed": f"{step}: completed in {event.seconds:.1f}s",
        "step_failed": f"{step}: failed after {event.seconds:.1f}s: {why}",
        "step_skipped": f"{step}: skipped: {why}",
        "step_cancelled": f"{step}: cancelled: {why}",
        "stopping": "stopping: cancelling running steps and abandoning the intent (Ctrl-C again to stop at once)",
    }
    return lines.get(event.name, "")


class _StepsTable:
    """A live table with the steps of a run."""

    def __init__(self, workflow: Workflow, screen: Screen) -> None:
        from parley.cli.parts.live_table import LiveTable
        from parley.cli.table import ALWAYS, Column, text_column
        from parley.wiring import monotonic

        self._workflow = workflow
        self._monotonic = monotonic
        self._began: dict[str, float] = {}
        self._steps: dict[str, tuple[str, float, str]] = {
            step.name: ("pending", 0.0, "") for step in workflow.plan.steps
        }
        columns = (
            Column("STEP", str, ALWAYS),
            Column("AGENT", str, 6, usual=None),
            Column("STATE", str, ALWAYS),
            Column("TIME", str, 7, usual=None),
            text_column("NOTE", str, 8, usual=None),
        )
        self.table: LiveTable = LiveTable(screen, columns, self._rows)

    def update(self, event: WorkflowEvent) -> None:
        if event.step:
            state = {"started": "running", "retried": "pending"}.get(
                event.name.removeprefix("step_"), event.name.removeprefix("step_")
            )
            if event.name == "step_started":
                self._began[event.step] = self._monotonic()
            note = event.detail or (f"attempt {event.attempt}" if event.attempt > 1 else "")
            self._steps[event.step] = (state, event.seconds, note)
            self.table.draw()
        elif line := _text_line(self._workflow, event):
            self.table.above(line + "\n")

    def _rows(self) -> Rows:
        rows, colours = [], []
        for step in self._workflow.plan.steps:
            state, took, note = self._steps[step.name]
            took = self._monotonic() - self._began[step.name] if state == "running" else took
            rows.append((step.name, step.doer, state, f"{took:.1f}s" if took else "-", note))
            colours.append(_COLOURS.get(state, ""))
        return rows, colours


COMMANDS = {
    "workflow check": Command(
        "Check workflow files; exit code 1 on errors",
        _add_check,
        _check,
        ("parley workflow check report.yaml", "parley workflow check report.yaml --no-import --json"),
    ),
    "workflow graph": Command(
        "Draw a workflow as a Mermaid flowchart",
        _add_graph,
        _graph,
        ("parley workflow graph report.yaml", "parley workflow graph report.yaml --run 7K2M"),
    ),
    "workflow run": Command(
        "Run a workflow until it ends",
        _add_run,
        _run,
        (
            "parley workflow run report.yaml",
            "parley workflow run report.yaml --timeout 10m --handlers crew.tools",
            "parley workflow run report.yaml --json > events.jsonl",
            "parley workflow run report.yaml --resume 7K2M",
        ),
    ),
}
