"""`oacp watch`: one look at inboxes, telling what changed since the last look.

The state moves on only after the events were written out: who loses an event's line to a full disk or a closed pipe
sees it again next time.
"""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.oacp.arguments import make_parser
from parley.cli.oacp.cells import cell
from parley.cli.oacp.listing import Row, rows_of
from parley.cli.oacp.places import check_project, home_of, shown
from parley.cli.oacp.policy import policy_of
from parley.cli.oacp.refusal import Refusal
from parley.cli.oacp.state import Entries, StateFile
from parley.domain.errors.errors import ParleyError
from parley.domain.names import is_name
from parley.settings import Settings, load

if TYPE_CHECKING:
    import argparse

_STATE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_DURATION = re.compile(r"(\d+)([smhd])\Z", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_EPOCH = datetime.min.replace(tzinfo=UTC)
_WORD = re.compile(r"[A-Za-z0-9._-]+\Z")
_FILE = re.compile(r"[A-Za-z0-9._-]+\.yaml\Z")

Event = dict[str, str | None]


class Look(NamedTuple):
    """What one look at one inbox found."""

    state: StateFile
    entries: Entries
    events: list[Event]


def run(arguments: list[str]) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.state_id is not None and not _STATE_ID.match(args.state_id):
        parser.error("--state-id must match [A-Za-z0-9._-]{1,64}")
    since = _cutoff(parser, args.since)
    settings = load()
    home = home_of(args.oacp_dir, settings)
    report = _Report(args.agent, as_json=args.json)
    looks = []
    for project in _projects(home, args, report):
        look = _look(StateFile(home, project, args.agent, args.state_id or ""), since, args, settings, report)
        looks += [look] if look is not None else []
    try:
        for look in looks:
            for event in look.events:
                report.event(event)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stderr.write(f"ERROR: cannot write events: {error} — they will be reported again\n")
        # The same failure is waiting in the stream's buffer; Python must not meet it on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    for look in looks:
        _save(look, report)
    return 1 if report.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(prog="oacp_watch.py", description="Tell what changed in inboxes, once.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--project", action="append", dest="projects", help="project to look at; may be repeated")
    where.add_argument("--all-projects", action="store_true", help="every project where the agent has an inbox")
    parser.add_argument("--agent", required=True, help="the agent whose inboxes to look at")
    parser.add_argument("--oacp-dir", help="OACP home (default: $OACP_HOME, a marker, ~/oacp)")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--state-id", help="keep a state of its own under this name")
    parser.add_argument("--since", default="now", help="first look: now, epoch, 30s, 5m, 2h, 7d or an ISO 8601 time")
    parser.add_argument("--show-archived", action="store_true", help="also tell which messages have left")
    return parser


def _cutoff(parser: argparse.ArgumentParser, text: str) -> datetime:
    from parley.adapters.process import SystemClock

    now = SystemClock().now().at
    if text == "now":
        return now
    if text == "epoch":
        return _EPOCH
    if match := _DURATION.match(text):
        try:
            return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
        except OverflowError:
            return _EPOCH
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        forms = "use 'now', 'epoch', a duration like '30s'/'5m'/'2h'/'7d', or an ISO 8601 timestamp"
        parser.error(f"--since: cannot parse '{text}' ({forms})")


def _projects(home: str, args: argparse.Namespace, report: _Report) -> list[str]:
    if args.projects:
        return list(dict.fromkeys(args.projects))
    folder = f"{home}/projects"
    names = [name for name in os.listdir(folder) if is_name(name)] if os.path.isdir(folder) else []
    projects = sorted(name for name in names if os.path.isdir(f"{folder}/{name}/agents/{args.agent}/inbox"))
    if not projects:
        pattern = shown(home, "projects", "*", "agents", args.agent, "inbox")
        report.error(f"no projects found with inbox path {pattern}")
    return projects


def _look(
    state: StateFile, since: datetime, args: argparse.Namespace, settings: Settings, report: _Report
) -> Look | None:
    """What is new in one inbox; None when it cannot be looked at."""
    problem = _missing(state)
    if problem is not None:
        report.error(problem[1], project=state.project, path=problem[0])
        return None
    try:
        before = state.load()
        policy = policy_of(state.home, state.project, state.agent)
        rows = list(rows_of(state.home, state.project, state.agent, settings, policy))
    except ParleyError as error:
        path = shown(state.home, "projects", state.project, "state", "watch", state.name)
        report.error(error.message, project=state.project, path=path)
        return None
    entries = {row.file: _entry(row) for row in rows if not row.error}
    if before is None:
        before = {row.file: entries[row.file] for row in rows if row.file in entries and _is_old(row, since)}
    for row in rows:
        if row.error:
            report.error(row.error, project=state.project, path=row.path, file=row.file)
    events = [_event("new_message", state, entries[name]) for name in sorted(entries.keys() - before.keys())]
    if args.show_archived:
        gone = sorted(before.keys() - entries.keys())
        events += [_event("message_archived", state, {"file": name, **before[name]}) for name in gone]
    return Look(state, entries, events)


def _missing(state: StateFile) -> tuple[str, str] | None:
    """The path that is not there and the tool's words for it."""
    root = shown(state.home, "projects", state.project)
    try:
        check_project(state.project)
    except Refusal as refusal:
        return root, str(refusal)
    if not os.path.isdir(root):
        return root, f"project '{state.project}' not found under {shown(state.home, 'projects')}"
    folder = shown(root, "agents", state.agent)
    if not is_name(state.agent) or not os.path.isdir(folder):
        return folder, f"agent '{state.agent}' not found in project '{state.project}'"
    inbox = shown(folder, "inbox")
    return None if os.path.isdir(inbox) else (inbox, f"inbox directory not found: {inbox}")


def _is_old(row: Row, since: datetime) -> bool:
    modified = row.modified()
    return modified is not None and modified <= since


def _entry(row: Row) -> dict[str, str]:
    entry = {
        "file": row.file,
        "from": row.sender,
        "type": row.kind,
        "priority": row.priority,
        "subject": row.subject,
    }
    return entry | ({"auth": row.auth} if row.auth else {})


def _event(name: str, state: StateFile, entry: dict[str, str]) -> Event:
    return {**entry, "event": name, "project": state.project, "agent": state.agent}


def _save(look: Look, report: _Report) -> None:
    try:
        look.state.save(look.entries)
    except ParleyError as error:
        path = shown(look.state.home, "projects", look.state.project, "state", "watch", look.state.name)
        report.error(f"failed to write state file: {error.message}", project=look.state.project, path=path)


class _Report:
    """Events on standard output, errors on standard error and, as JSON, on both."""

    def __init__(self, agent: str, *, as_json: bool) -> None:
        self._agent = agent
        self._json = as_json
        self.failed = False

    def event(self, event: Event) -> None:
        if self._json:
            sys.stdout.write(json.dumps(event, sort_keys=True) + "\n")
            return
        words = [str(event["event"]).upper()]
        for key in ("project", "agent", "file", "type", "priority"):
            words.append(f"{key}={_word(event.get(key) or '-', _FILE if key == 'file' else _WORD)}")
        subject = cell(event.get("subject") or "")
        sys.stdout.write(" ".join([*words, *([subject] if subject else [])]) + "\n")

    def error(self, text: str, *, project: str | None = None, path: str = "", file: str = "") -> None:
        self.failed = True
        if self._json:
            event: Event = {"event": "error", "project": project, "agent": self._agent, "error": text}
            places = {"path": path, "file": file}
            self.event(event | {key: place for key, place in places.items() if place})
        sys.stderr.write(f"ERROR: {cell(path or file or '(unknown)')}: {cell(text)}\n")


def _word(text: str, form: re.Pattern[str]) -> str:
    safe = cell(text)
    return safe if form.match(safe) else json.dumps(safe)
