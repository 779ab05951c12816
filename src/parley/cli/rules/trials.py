"""`parley policy explain|test|replay`: what the rules make of a message, and of what was said already."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.cli.command import Command, add_json, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import safe
from parley.cli.parts.remote import add_server, connection_of, field, past
from parley.cli.rules.files import add_as, document_as, document_of, file_text, folder_snapshot, note_new, read_text
from parley.domain.content.classification import LEVELS
from parley.domain.content.envelope import Purpose
from parley.domain.errors.errors import Conflict, Invalid

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.domain.rules.policy import PolicySnapshot
    from parley.sdk.blocking.connection import Connection
    from parley.wire.files.policy_cases import PolicyCase

_LEVELS = tuple(one.value for one in LEVELS)
_PURPOSES = tuple(one.value for one in Purpose)
_COLOURS = {"allow": "green", "hold": "yellow", "deny": "red"}
_PIECE = 500
_MOST = 100_000
_OFFLINE = ("from_org", "to_org", "from_max", "to_max")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="sender", required=True, metavar="AGENT", help="who would send it")
    parser.add_argument("--to", required=True, metavar="AGENT", help="who would get it")
    parser.add_argument("--purpose", default=None, choices=_PURPOSES, help="what it would be for")
    parser.add_argument("--classification", default=None, choices=_LEVELS, help="the level it would declare")
    parser.add_argument("--text", default="", help="what it would say")
    parser.add_argument("--round", type=_number, default=1, metavar="N", help="which round it would be (default: 1)")
    parser.add_argument("--max-rounds", type=_number, default=None, metavar="N", help="how many it would ask for")
    parser.add_argument("--data", action="append", default=[], choices=_LEVELS, help="data of that level in it")
    parser.add_argument("--reply", action="store_true", help="it would answer what the other side began")
    parser.add_argument("--human", action="store_true", help="a person would write it")
    group = parser.add_argument_group("without a server")
    group.add_argument("--policies", default="", metavar="DIR", help="the policies: a folder, or one file")
    for side, name in (("from", "sender"), ("to", "receiver")):
        group.add_argument(f"--{side}-org", default="", metavar="UNIT", help=f"the {name}'s org unit")
        group.add_argument(f"--{side}-max", default="", choices=_LEVELS, help=f"the most that the {name} may know")
    add_server(parser, agent=False)


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="files with cases")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing about cases that hold")
    add_json(parser)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    what = "one document, everything else as it is in force; or a folder, which is all that would be in force"
    parser.add_argument("path", metavar="FILE|DIR", help=what)
    add_as(parser)
    parser.add_argument("--since", default="", metavar="TIME", help="only what was sent since; 7d is seven days ago")
    parser.add_argument(
        "--limit", type=_number, default=_MOST, metavar="N", help=f"at most so many messages (default: {_MOST})"
    )
    add_server(parser, agent=False)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:7]) <= 1_000_000:
        raise Invalid(f"{text!r} is not a whole number from 1 to 1000000")
    return int(text)


# ---------------------------------------------------------------- explain


def _explain(args: argparse.Namespace) -> int:
    found = _explained_here(args) if args.policies else _explained_there(args)
    screen = screen_of(args)
    if args.json:
        screen.json(found)
        return OK
    if found["steps"]:
        columns = {
            "CHECK": field("check"),
            "VALUE": field("value"),
            "SAID BY": field("source"),
            "FOUND": field("found"),
        }
        screen.table(tuple(columns), [[make(one) for make in columns.values()] for one in found["steps"]])
        screen.line()
    screen.line(_verdict(screen, found))
    return OK


def _verdict(screen: Screen, found: Mapping[str, Any]) -> str:
    """The verdict in one line."""
    word = screen.paint(found["verdict"], _COLOURS[found["verdict"]])
    if not found["governed"]:
        return f"{word}: the rules do not concern it, it goes out as it is"
    if found["verdict"] == "allow":
        return f"{word}: nothing stands against it"
    return f"{word} ({safe(found['code'])}): {safe(found['reason'])}"


def _explained_there(args: argparse.Namespace) -> Mapping[str, Any]:
    given = [f"--{name.replace('_', '-')}" for name in _OFFLINE if getattr(args, name)]
    if given:
        raise Invalid(f"{given[0]} goes with --policies", hint="on a server its directory knows who belongs where")
    body = {
        "sender": args.sender,
        "to": args.to,
        "exchange_type": args.purpose,
        "classification": args.classification,
        "text": args.text,
        "round": args.round,
        "max_rounds": args.max_rounds,
        "replies": args.reply,
        "human": args.human,
        "data": args.data,
    }
    found: Mapping[str, Any] = connection_of(args, agent=False).post("policies", "explain", body=body)
    return found


def _explained_here(args: argparse.Namespace) -> Mapping[str, Any]:
    from parley.domain.agents.party import Attributes, Party
    from parley.domain.content.classification import Classification
    from parley.domain.content.envelope import Origin
    from parley.domain.rules.rulebook import Rulebook
    from parley.domain.rules.trial import Trial, run_trial
    from parley.wire.api.trials import explanation_of

    def party(agent: str, org: str, most: str) -> Party:
        said = Attributes(org_unit=org) if org else Attributes()
        return Party(agent, _with_most(said, most))

    trial = Trial(
        party(args.sender, args.from_org, args.from_max),
        party(args.to, args.to_org, args.to_max),
        Purpose(args.purpose) if args.purpose else None,
        classification=Classification(args.classification) if args.classification else None,
        texts=(args.text,) if args.text else (),
        origin=Origin.HUMAN if args.human else Origin.AGENT,
        round=args.round,
        max_rounds=args.max_rounds,
        initiates=not args.reply,
        data=tuple(Classification(one) for one in args.data),
    )
    return explanation_of(run_trial(trial, Rulebook(_policies(args.policies)))).to_dict()


def _with_most(attributes: Any, most: str) -> Any:  # noqa: ANN401  # what the directory says about somebody
    from dataclasses import replace

    from parley.domain.content.classification import Classification

    return replace(attributes, max_classification=Classification(most)) if most else attributes


def _policies(path: str) -> PolicySnapshot:
    """What would be in force: the files of a folder, one file as the enterprise's, or what Parley brings along."""
    from parley.domain.rules.policy import CURRENT, PolicySnapshot, first_snapshot, with_document

    if not path:
        from parley.wiring import default_policy

        return first_snapshot("", default_policy())
    if os.path.isdir(path):
        return folder_snapshot(path)
    document, text = document_of(path), file_text(path)
    fragment = read_text(text, path, document.partition("/")[0])
    return with_document(PolicySnapshot(id=CURRENT, tenant_id=""), document, text, fragment)


# ---------------------------------------------------------------- test


class _Tested(NamedTuple):
    file: str
    case: PolicyCase
    got: str
    code: str
    why: str

    @property
    def passed(self) -> bool:
        return self.got == self.case.expect and self.case.code in ("", self.code)

    @property
    def difference(self) -> str:
        expected = f"{self.case.expect} ({self.case.code})" if self.case.code else self.case.expect
        got = f"{self.got} ({self.code})" if self.code else self.got
        return f"expected {expected}, got {got}" + (f": {self.why}" if self.why else "")


def _test(args: argparse.Namespace) -> int:
    tested = [one for file in args.files for one in _tested(file)]
    failed = [one for one in tested if not one.passed]
    screen = screen_of(args)
    if args.json:
        rows = [
            {
                "file": one.file,
                "line": one.case.line,
                "name": one.case.name,
                "passed": one.passed,
                "expected": one.case.expect,
                "verdict": one.got,
                "code": one.code or None,
                "reason": one.why or None,
            }
            for one in tested
        ]
        screen.json({"cases": rows, "failed": len(failed)})
        return FOUND_PROBLEMS if failed else OK
    for one in tested:
        if not one.passed:
            where = f"{safe(one.file)}:{one.case.line}"
            screen.line(f"{screen.paint('FAIL', 'red')}  {where}: {safe(one.case.name)}: {safe(one.difference)}")
        elif not args.quiet:
            screen.line(f"{screen.paint('ok', 'green')}    {safe(one.case.name)}")
    cases = "1 case" if len(tested) == 1 else f"{len(tested)} cases"
    screen.line(f"{cases}, {len(failed)} failed" if failed else f"{cases}, all as expected")
    return FOUND_PROBLEMS if failed else OK


def _tested(file: str) -> list[_Tested]:
    from parley.domain.rules.rulebook import Rulebook
    from parley.domain.rules.trial import run_trial
    from parley.wire.files.policy_cases import read_cases

    if os.path.isdir(file):
        raise Invalid(f"{file} is a folder: it needs files with cases", hint=f"write {os.path.join(file, '*.yaml')}")
    cases = read_cases(file_text(file), file)
    folder = os.path.dirname(file) if file != "-" else ""
    book = Rulebook(_policies(os.path.join(folder, cases.policies) if cases.policies else ""))
    found = [(one, run_trial(one.trial, book)) for one in cases.cases]
    return [_Tested(file, one, came.word, came.code, came.why) for one, came in found]


# ---------------------------------------------------------------- replay


def _replay(args: argparse.Namespace) -> int:
    connection, screen = connection_of(args, agent=False), screen_of(args)
    documents = _documents(connection, args.path, args.document)
    found = _replayed(connection, documents, past(args.since, "--since"), args.limit)
    if args.json:
        screen.json(found)
        return OK
    if found["changes"]:
        rows = [
            [
                safe(one["at"][:16].replace("T", " ")),
                safe(f"{one['sender']} to {one['receiver']}"),
                safe(one["was"]),
                safe(one["now"]),
                safe(one["reason"]),
            ]
            for one in found["changes"]
        ]
        colours = [_COLOURS[one["now"]] for one in found["changes"]]
        screen.table(("WHEN", "WHO", "WAS", "NOW", "WHY"), rows, colours)
        screen.line()
    for document in [name for name, text in documents.items() if text is None]:
        screen.line(f"Without {safe(document)}, which is in force and not in {safe(args.path)}.")
    if not os.path.isdir(args.path):
        screen.line(f"Tried as the document {safe(next(iter(documents)))}.")
    screen.line(
        f"{found['messages']} messages tried: {found['denied']} now denied, {found['held']} now held,"
        f" {found['released']} now released."
    )
    blind = found["messages"] - found["with_content"]
    if blind:
        screen.line(f"{blind} were tried without what they said, by what was found in it then.")
    if found["next"] is not None:
        screen.line(f"There is more than {args.limit}: narrow it with --since, or raise --limit.")
    return OK


def _documents(connection: Connection, path: str, document: str) -> dict[str, str | None]:
    """What is to be tried, by document: a folder stands for everything, so what it lacks is taken away."""
    listed = connection.get("policies")["policies"]
    in_force: dict[str, str | None] = {f"{one['scope']}/{one['name']}": None for one in listed}
    if not os.path.isdir(path):
        text, read_as = file_text(path), document_as(document, path)
        read_text(text, path, read_as.partition("/")[0])
        note_new(read_as, document, path, in_force)
        return {read_as: text}
    if document:
        raise Invalid("--as names one document, and a folder has several", hint="leave it out")
    return {**in_force, **folder_snapshot(path).texts}


def _replayed(
    connection: Connection, documents: Mapping[str, str | None], since: str | None, most: int
) -> dict[str, Any]:
    """All of it, asked for in pieces."""
    found: dict[str, Any] = {}
    after = 0
    counted = ("messages", "with_content", "denied", "held", "released")
    progress = _Progress()
    try:
        while True:
            left = most - found.get("messages", 0)
            body = {"documents": documents, "since": since, "after": after, "limit": min(_PIECE, left)}
            piece = connection.post("policies", "replay", body=body, timeout=120.0)
            if found and piece["policy_version"] != found["policy_version"]:
                raise Conflict("the policies in force have changed meanwhile", hint="replay it again")
            changes = [*found.get("changes", ()), *piece["changes"]]
            found = {**piece, **{name: found.get(name, 0) + piece[name] for name in counted}, "changes": changes}
            progress.told(found["messages"])
            if piece["next"] is None or found["messages"] >= most:
                return found
            after = piece["next"]
    finally:
        progress.end()


class _Progress:
    """How many messages were tried, on standard error, where a person looks."""

    def __init__(self) -> None:
        self._shown = False

    def told(self, messages: int) -> None:
        if messages >= _PIECE and sys.stderr is not None and sys.stderr.isatty():
            self._shown = True
            sys.stderr.write(f"\rReplayed {messages} messages")
            sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


COMMANDS = {
    "policy explain": Command(
        "Say what the rules would make of a message, and why",
        _add_explain,
        _explain,
        (
            "parley policy explain --from alice --to mia --text 'We promise it.'",
            "parley policy explain --from alice --to mia --policies ./policies --from-org engineering --to-org sales",
        ),
    ),
    "policy test": Command(
        "Test policies against cases; exit code 1 when one does not hold",
        _add_test,
        _test,
        ("parley policy test cases.yaml", "parley policy test tests/*.yaml --quiet"),
    ),
    "policy replay": Command(
        "Show which recorded messages would be denied, held or released under other policies",
        _add_replay,
        _replay,
        ("parley policy replay ./policies", "parley policy replay org/sales.yaml --since 7d --json"),
    ),
}
