"""`parley policy explain|test|replay`: try policies on a message, on test cases and on recorded messages."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.cli.command import Command, add_json, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import (
    add_server_options,
    connection_of,
    field_column,
    parse_time_ago,
    show_steps,
    utc_column,
)
from parley.cli.parts.unknown_names import note_unknown
from parley.cli.rules.files import (
    add_as_option,
    document_as,
    document_of,
    folder_snapshot,
    note_new_document,
    parse_policy,
    read_file,
)
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.agents.party import pair_name
from parley.domain.content.classification import LEVELS
from parley.domain.content.envelope import Purpose
from parley.domain.errors.errors import Conflict, Invalid
from parley.domain.rules.suspension import Stopped, Suspension, describe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.domain.rules.policy import PolicySnapshot
    from parley.sdk.blocking.connection import Connection
    from parley.wire.files.policy_cases import PolicyCase

_LEVELS = tuple(level.value for level in LEVELS)
_PURPOSES = tuple(purpose.value for purpose in Purpose)
_COLOURS = {"allow": "green", "hold": "yellow", "deny": "red"}
_BATCH = 500
_DEFAULT_LIMIT = 100_000
_OFFLINE = ("from_org", "to_org", "from_max", "to_max")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="sender", required=True, metavar="AGENT", help="sender")
    parser.add_argument("--to", required=True, metavar="AGENT", help="receiver")
    parser.add_argument("--purpose", default=None, choices=_PURPOSES, help="purpose of the message")
    parser.add_argument(
        "--classification", default=None, choices=_LEVELS, help="classification that the sender declares"
    )
    parser.add_argument("--text", default="", help="text of the message")
    parser.add_argument(
        "--round", type=_number, default=1, metavar="N", help="which message of the exchange it is (default: 1)"
    )
    parser.add_argument(
        "--max-rounds", type=_number, default=None, metavar="N", help="most rounds that the sender asks for"
    )
    parser.add_argument(
        "--data", action="append", default=[], choices=_LEVELS, help="level of shared data; repeat the option for more"
    )
    parser.add_argument("--reply", action="store_true", help="the message is an answer")
    parser.add_argument("--human", action="store_true", help="a person writes the message")
    group = parser.add_argument_group("without a server")
    group.add_argument("--policies", default="", metavar="DIR", help="policies to use: a folder or a file")
    for side, name in (("from", "sender"), ("to", "receiver")):
        group.add_argument(f"--{side}-org", default="", metavar="UNIT", help=f"org unit of the {name}")
        group.add_argument(
            f"--{side}-max", default="", choices=_LEVELS, help=f"highest classification the {name} may handle"
        )
    add_server_options(parser, agent=False)


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="files with test cases")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print passed cases")
    add_json(parser)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    what = "policy file, which replaces one document in force; or folder, which replaces all"
    parser.add_argument("path", metavar="FILE|DIR", help=what)
    add_as_option(parser)
    parser.add_argument(
        "--since", default="", metavar="TIME", help="only messages since this time; 7d is seven days ago"
    )
    parser.add_argument(
        "--limit",
        type=_number,
        default=_DEFAULT_LIMIT,
        metavar="N",
        help=f"number of messages at most (default: {_DEFAULT_LIMIT})",
    )
    add_server_options(parser, agent=False)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:7]) <= 1_000_000:
        raise Invalid(f"{text!r} is not a whole number from 1 to 1000000")
    return int(text)


# ---------------------------------------------------------------- explain


def _explain(args: argparse.Namespace) -> int:
    explanation = _explain_locally(args) if args.policies else _explain_on_server(args)
    screen = screen_of(args)
    if args.json:
        more = {} if args.policies else {"suspensions": _suspensions(connection_of(args, agent=False), args)}
        screen.json({**explanation, **more})
        return OK
    if explanation["steps"]:
        show_steps(screen, explanation["steps"])
        screen.line()
    screen.prose(_verdict_line(screen, explanation))
    if not args.policies:
        _note_suspended(args, screen)
    return OK


def _note_suspended(args: argparse.Namespace, screen: Screen) -> None:
    """Say which of the two are suspended: then nothing is sent, whatever the policies say; and which nobody knows."""
    connection = connection_of(args, agent=False)
    note_unknown(connection, "agent", *dict.fromkeys((args.sender, args.to)))
    for suspension in _suspensions(connection, args):
        who = describe(Suspension(what=Stopped(suspension["what"]), name=suspension["name"], by="", at=""))
        reason = f" ({suspension['reason']})" if suspension["reason"] else ""
        screen.prose(f"{screen.paint('suspended', 'red')}: {safe(who + reason)}; nothing is sent until it is resumed")


def _suspensions(connection: Connection, args: argparse.Namespace) -> list[dict[str, str]]:
    """What is suspended of the two agents, their units and their tenant, with the reason of each."""
    stopped = {(entry["what"], entry["name"]): entry["reason"] for entry in connection.get("suspensions")}
    units = {agent["agent_id"]: agent["org_unit"] for agent in connection.get("agents")} if stopped else {}
    subjects = [(Stopped.AGENT, args.sender), (Stopped.AGENT, args.to), (Stopped.PAIR, pair_name(args.sender, args.to))]
    subjects += [(Stopped.ORG_UNIT, units[agent]) for agent in (args.sender, args.to) if units.get(agent)]
    return [
        {"what": what.value, "name": name, "reason": stopped[what.value, name]}
        for what, name in dict.fromkeys([*subjects, (Stopped.TENANT, "")])
        if (what.value, name) in stopped
    ]


def _verdict_line(screen: Screen, explanation: Mapping[str, Any]) -> str:
    """The verdict in one line."""
    word = screen.paint(explanation["verdict"], _COLOURS[explanation["verdict"]])
    if not explanation["governed"]:
        return f"{word}: the policies do not apply; the message is sent unchanged"
    if explanation["verdict"] == "allow":
        return f"{word}: no policy forbids it"
    return f"{word} ({safe(explanation['code'])}): {safe(explanation['reason'])}"


def _explain_on_server(args: argparse.Namespace) -> Mapping[str, Any]:
    offline_options = [f"--{name.replace('_', '-')}" for name in _OFFLINE if getattr(args, name)]
    if offline_options:
        raise Invalid(f"{offline_options[0]} needs --policies", hint="a server takes it from its registered agents")
    explanation: Mapping[str, Any] = connection_of(args, agent=False).post("policies", "explain", body=_body(args))
    return explanation


def _explain_locally(args: argparse.Namespace) -> Mapping[str, Any]:
    import msgspec

    from parley.domain.agents.party import Attributes, Party
    from parley.domain.rules.rulebook import Rulebook
    from parley.domain.rules.trial import run_trial
    from parley.wire.api.trials import ExplainIn, explanation_of, trial_of

    def party(agent: str, org: str, level: str) -> Party:
        attributes = Attributes(org_unit=org) if org else Attributes()
        return Party(agent, _with_clearance(attributes, level))

    try:
        body = msgspec.convert(_body(args), ExplainIn)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from None
    trial = trial_of(body)._replace(
        sender=party(args.sender, args.from_org, args.from_max),
        receiver=party(args.to, args.to_org, args.to_max),
    )
    return explanation_of(run_trial(trial, Rulebook(_load_policies(args.policies)))).to_dict()


def _body(args: argparse.Namespace) -> dict[str, Any]:
    """The message to evaluate, as the API has it."""
    return {
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


def _with_clearance(attributes: Any, level: str) -> Any:  # noqa: ANN401  # the attributes of an agent
    from dataclasses import replace

    from parley.domain.content.classification import Classification

    return replace(attributes, max_classification=Classification(level)) if level else attributes


def _load_policies(path: str) -> PolicySnapshot:
    """Load the files of a folder, one file, or Parley's default policy."""
    from parley.domain.rules.policy import CURRENT, PolicySnapshot, first_snapshot, with_document

    if not path:
        from parley.wiring import default_policy

        return first_snapshot("", default_policy())
    if os.path.isdir(path):
        return folder_snapshot(path)
    document, text = document_of(path), read_file(path)
    fragment = parse_policy(text, path, document.partition("/")[0])
    return with_document(PolicySnapshot(id=CURRENT, tenant_id=""), document, text, fragment)


# ---------------------------------------------------------------- test


class _CaseResult(NamedTuple):
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
    results = [result for file in args.files for result in _run_cases(file)]
    failed = [result for result in results if not result.passed]
    screen = screen_of(args)
    if args.json:
        rows = [
            {
                "file": result.file,
                "line": result.case.line,
                "name": result.case.name,
                "passed": result.passed,
                "expected": result.case.expect,
                "verdict": result.got,
                "code": result.code or None,
                "reason": result.why or None,
            }
            for result in results
        ]
        screen.json({"cases": rows, "failed": len(failed)})
        return FOUND_PROBLEMS if failed else OK
    for result in results:
        if not result.passed:
            where = f"{safe(result.file)}:{result.case.line}"
            screen.prose(f"{screen.paint('FAIL', 'red')}  {where}: {safe(result.case.name)}: {safe(result.difference)}")
        elif not args.quiet:
            screen.prose(f"{screen.paint('ok', 'green')}    {safe(result.case.name)}")
    cases = count_of(len(results), "case")
    screen.prose(f"{cases}, {len(failed)} failed" if failed else f"{cases}, all passed")
    return FOUND_PROBLEMS if failed else OK


def _run_cases(file: str) -> list[_CaseResult]:
    from parley.domain.rules.rulebook import Rulebook
    from parley.domain.rules.trial import run_trial
    from parley.wire.files.policy_cases import read_cases

    if os.path.isdir(file):
        raise Invalid(f"{file} is a folder, not a file with test cases", hint=f"use {os.path.join(file, '*.yaml')}")
    cases = read_cases(read_file(file), file)
    folder = os.path.dirname(file) if file != "-" else ""
    book = Rulebook(_load_policies(os.path.join(folder, cases.policies) if cases.policies else ""))
    outcomes = [(case, run_trial(case.trial, book)) for case in cases.cases]
    return [_CaseResult(file, case, outcome.word, outcome.code, outcome.why) for case, outcome in outcomes]


# ---------------------------------------------------------------- replay


def _replay(args: argparse.Namespace) -> int:
    connection, screen = connection_of(args, agent=False), screen_of(args)
    documents = _documents(connection, args.path, args.document)
    result = _replay_in_batches(connection, documents, parse_time_ago(args.since, "--since"), args.limit)
    if args.json:
        screen.json(result)
        return OK
    if result["changes"]:
        columns = (
            Column("TIME", utc_column("at"), 6),
            Column("FROM AND TO", lambda change: f"{change['sender']} to {change['receiver']}", ALWAYS),
            Column("BEFORE", field_column("was"), 7),
            Column("NOW", field_column("now"), ALWAYS),
            text_column("REASON", field_column("reason"), 8),
        )
        show_rows(screen, columns, result["changes"], [_COLOURS[change["now"]] for change in result["changes"]])
        screen.line()
    for document in [name for name, text in documents.items() if text is None]:
        screen.prose(f"Tried without {safe(document)}, which is in force but not in {safe(args.path)}.")
    if not os.path.isdir(args.path):
        screen.prose(f"Tried as document {safe(next(iter(documents)))}.")
    screen.prose(
        f"{count_of(result['messages'], 'message')} tried: {result['denied']} now denied, {result['held']} now held,"
        f" {result['released']} now released."
    )
    without_content = result["messages"] - result["with_content"]
    if without_content:
        screen.prose(f"{count_of(without_content, 'message')} tried without content, by the detections recorded then.")
    if result["next"] is not None:
        screen.prose(f"There are more than {count_of(args.limit, 'message')}: use --since or a higher --limit.")
    return OK


def _documents(connection: Connection, path: str, document: str) -> dict[str, str | None]:
    """The documents to try: a folder stands for all policies, so documents that it lacks are removed (None)."""
    policies = connection.get("policies")["policies"]
    in_force: dict[str, str | None] = {f"{policy['scope']}/{policy['name']}": None for policy in policies}
    if not os.path.isdir(path):
        text, read_as = read_file(path), document_as(document, path)
        parse_policy(text, path, read_as.partition("/")[0])
        note_new_document(read_as, document, path, in_force)
        return {read_as: text}
    if document:
        raise Invalid("--as needs a file, but the path is a folder", hint="leave out --as")
    return {**in_force, **folder_snapshot(path).texts}


def _replay_in_batches(
    connection: Connection, documents: Mapping[str, str | None], since: str | None, limit: int
) -> dict[str, Any]:
    """Replay in batches and add up the results."""
    result: dict[str, Any] = {}
    after = 0
    counted = ("messages", "with_content", "denied", "held", "released")
    progress = _ReplayProgress()
    try:
        while True:
            remaining = limit - result.get("messages", 0)
            body = {"documents": documents, "since": since, "after": after, "limit": min(_BATCH, remaining)}
            batch = connection.post("policies", "replay", body=body, timeout=120.0)
            if result and batch["policy_version"] != result["policy_version"]:
                raise Conflict("the policies in force have changed meanwhile", hint="run the command again")
            changes = [*result.get("changes", ()), *batch["changes"]]
            result = {**batch, **{name: result.get(name, 0) + batch[name] for name in counted}, "changes": changes}
            progress.update(result["messages"])
            if batch["next"] is None or result["messages"] >= limit:
                return result
            after = batch["next"]
    finally:
        progress.end()


class _ReplayProgress:
    """The number of replayed messages on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._shown = False

    def update(self, messages: int) -> None:
        if messages >= _BATCH and sys.stderr is not None and sys.stderr.isatty():
            self._shown = True
            sys.stderr.write(f"\rReplayed {messages} messages")
            sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


COMMANDS = {
    "policy explain": Command(
        "Explain how the policies would treat a message",
        _add_explain,
        _explain,
        (
            "parley policy explain --from alice --to mia --text 'We promise it.'",
            "parley policy explain --from alice --to mia --policies ./policies --from-org engineering --to-org sales",
        ),
    ),
    "policy test": Command(
        "Test policies with cases; exit code 1 on failures",
        _add_test,
        _test,
        ("parley policy test cases.yaml", "parley policy test tests/*.yaml --quiet"),
    ),
    "policy replay": Command(
        "Replay recorded messages under other policies",
        _add_replay,
        _replay,
        ("parley policy replay ./policies", "parley policy replay org/sales.yaml --since 7d --json"),
    ),
}
