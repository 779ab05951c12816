"""`parley policy list|show|put|remove|check|diff`: manage the policies of a server, check and compare policy files."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.cli.command import Command, add_json, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import confirm, is_interactive, safe, safe_text
from parley.cli.parts.remote import (
    actor_column,
    add_server_options,
    cell_text,
    connection_of,
    field_column,
    parse_time_ago,
    show_result,
    show_table,
    utc_column,
    utc_text,
)
from parley.cli.parts.unknown_names import note_unknown
from parley.cli.reports import note
from parley.cli.rules.files import (
    ENDING,
    add_as_option,
    document_as,
    folder_snapshot,
    note_new_document,
    parse_policy,
    policy_files,
    read_file,
    scope_of,
)
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.names import meant
from parley.domain.times import is_day

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from parley.cli.output import Screen
    from parley.domain.rules.meet import Difference
    from parley.domain.rules.policy import PolicySnapshot
    from parley.sdk.blocking.connection import Connection

_CURRENT = "current"
_ENTERPRISE = "enterprise"
_NO_ENTERPRISE_POLICY = (
    "No enterprise policy: no governed message is delivered. Add one with: parley policy put enterprise/default FILE"
)
DOCUMENT = "enterprise/NAME, org/UNIT, team/TEAM or user/USER"


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--history", action="store_true", help="all versions of the policies, newest first")
    add_server_options(parser, agent=False)


def _add_document(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", metavar="SCOPE/NAME", help=DOCUMENT)
    add_server_options(parser, agent=False)


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_document(parser)
    parser.add_argument(
        "--at", default="", metavar="LABEL|TIME", help="as it was in this version, or at this time or day (UTC)"
    )


def _add_put(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", metavar="SCOPE/NAME", help=DOCUMENT)
    parser.add_argument("file", metavar="FILE", help="policy file; '-' is standard input")
    parser.add_argument("--yes", action="store_true", help="accepted as for `policy set`; this command never asks")
    add_server_options(parser, agent=False)


def _add_remove(parser: argparse.ArgumentParser) -> None:
    _add_document(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="policy files, or folders of them")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print valid files")
    add_json(parser)


def _add_diff(parser: argparse.ArgumentParser) -> None:
    what = f"file, folder, version label of the server, or {_CURRENT!r} for the policies in force"
    parser.add_argument("old", metavar="OLD", help=what)
    parser.add_argument("new", metavar="NEW", help="the same as OLD")
    add_as_option(parser)
    add_server_options(parser, agent=False)


# ---------------------------------------------------------------- on a server


def _list(args: argparse.Namespace) -> int:
    connection, screen = connection_of(args, agent=False), screen_of(args)
    if args.history:
        columns = (
            Column("LABEL", field_column("label"), ALWAYS),
            Column("SINCE", utc_column("made_at"), 7),
            Column("BY", actor_column("made_by"), 6),
            text_column("DOCUMENTS", field_column("documents"), 8),
        )
        show_table(args, screen, connection.get("policies", "history"), columns, "No versions.")
        return OK
    policies = connection.get("policies")
    if args.json:
        screen.json(policies)
        return OK
    by = f", by {safe(policies['made_by'])}" if policies["made_by"] else ""
    screen.prose(f"In force: {safe(policies['label'])}{by}")
    if policies["policies"]:
        fields = (Column("SCOPE", field_column("scope"), ALWAYS), Column("NAME", field_column("name"), ALWAYS))
        show_rows(
            screen, (*fields, text_column("KEYS", lambda policy: ", ".join(policy["keys"]), 8)), policies["policies"]
        )
    if not any(policy["scope"] == _ENTERPRISE for policy in policies["policies"]):
        screen.prose(_NO_ENTERPRISE_POLICY, "red")
    if policies["broken"]:
        screen.prose("These files have errors; their previous versions stay in force:", "red")
    for line in [line for file in policies["broken"] for line in _flaw_lines(file)]:
        screen.prose(f"  {safe(line)}")
    return OK


def _flaw_lines(broken: Mapping[str, Any]) -> Iterator[str]:
    for flaw in broken["flaws"]:
        key = f"{flaw['key']}: " if flaw["key"] else ""
        yield f"{flaw['file']}:{flaw['line']}: {key}{flaw['detail']}"
    if not broken["flaws"]:
        yield str(broken["message"])


def _show(args: argparse.Namespace) -> int:
    scope, name = split_document(args.document)
    connection = connection_of(args, agent=False)
    label, since = _version_at(connection, args.at)
    if since and not args.json:
        note(f"version {safe(label)}, in force since {utc_text(since)}")
    policies = connection.get("policies", query={"texts": "true", "label": label})["policies"]
    by_name = {(policy["scope"], policy["name"]): policy for policy in policies}
    policy = by_name.get((scope, name))
    if policy is None:
        then = f" in version {label}" if label else ""
        listed = "parley policy list --history" if label else "parley policy list"
        hint = meant(args.document, ["/".join(parts) for parts in by_name]) or f"see: {listed}"
        raise NotFound(f"no policy {args.document!r}{then}", hint=hint)
    screen = screen_of(args)
    if args.json:
        screen.json(policy)
    else:
        screen.line(safe_text(policy["text"]).rstrip("\n"))
    return OK


def _version_at(connection: Connection, at: str) -> tuple[str, str]:
    """The label of the version that was in force at a time, and since when; or the label alone, if `at` is one."""
    from parley.domain.rules.policy import is_label

    if not at or is_label(at):
        return at, ""
    parse_time_ago(at, "--at")  # no time or day in the future
    time = str(parse_time_ago(at, "--at", ends=True))
    if not is_day(at):
        # Times are shown to the second: what changed within a second counts as in force at it.
        time = time.replace(".000000+", ".999999+")
    for revision in connection.get("policies", "history"):  # newest first
        if not revision["made_at"] or revision["made_at"] <= time:
            return str(revision["label"]), str(revision["made_at"] or "")
    raise NotFound(f"no policies were in force at {at}", hint="see: parley policy list --history")


def _put(args: argparse.Namespace) -> int:
    scope, name = split_document(args.document)
    text = read_file(args.file)
    # Parsed here first, so that errors name the local file.
    parse_policy(text, args.file, scope)
    connection = connection_of(args, agent=False)
    put = connection.send("PUT", "policies", scope, name, body={"text": text}).document
    show_result(args, screen_of(args), put, f"Policy {safe(args.document)} is in force (version {safe(put['label'])})")
    if scope != _ENTERPRISE and not args.json:
        note_unknown(connection, scope, name)
    return OK


def _remove(args: argparse.Namespace) -> int:
    scope, name = split_document(args.document)
    connection, screen = connection_of(args, agent=False), screen_of(args)
    if not args.yes and not _confirm_removal(args, connection, scope, name):
        screen.prose("No change was made.")
        return FOUND_PROBLEMS
    left = connection.send("DELETE", "policies", scope, name).document
    show_result(args, screen, left, f"Removed policy {safe(args.document)} (version {safe(left['label'])})")
    return OK


def _is_last(connection: Connection, name: str) -> bool:
    """Whether it is the last enterprise policy."""
    policies = connection.get("policies")["policies"]
    return [policy["name"] for policy in policies if policy["scope"] == _ENTERPRISE] == [name]


def _confirm_removal(args: argparse.Namespace, connection: Connection, scope: str, name: str) -> bool:
    """Ask for confirmation, with what the removal changes."""
    question = f"this removes the policy {safe(args.document)}"
    if scope == _ENTERPRISE and _is_last(connection, name):
        question = f"{safe(args.document)} is the last enterprise policy: without it no governed message is delivered"
    if args.json or not is_interactive():
        raise Invalid(question, hint="to confirm, add --yes")
    before = snapshot_of(connection.get("policies", query={"texts": "true"}))
    left = {document: fragment for document, fragment in before.fragments.items() if document != args.document}
    if len(left) < len(before.fragments):
        show_differences(args, before, replace(before, fragments=left))
    return confirm(f"{question[0].upper()}{question[1:]}. Remove it?")


def split_document(document: str) -> tuple[str, str]:
    """The scope and the name of a document."""
    from parley.domain.rules.policy import document_name

    scope, slash, name = document.partition("/")
    if not slash:
        raise Invalid(f"{document!r} is not the name of a policy", hint=f"use {DOCUMENT}")
    document_name(scope, name)
    return scope, name


# ---------------------------------------------------------------- files


class _CheckedFile(NamedTuple):
    file: str
    lines: list[str]
    flaws: list[Mapping[str, Any]]


def _check(args: argparse.Namespace) -> int:
    results = [_check_file(file) for path in args.files for file in policy_files(path)]
    screen = screen_of(args)
    if args.json:
        shown = [
            {"file": result.file, "valid": not result.lines, "errors": result.lines, "flaws": result.flaws}
            for result in results
        ]
        screen.json(shown)
    else:
        for result in results:
            _show_checked(screen, result, quiet=args.quiet)
    return FOUND_PROBLEMS if any(result.lines for result in results) else OK


def _show_checked(screen: Screen, checked: _CheckedFile, *, quiet: bool) -> None:
    for line in checked.lines:
        screen.prose(safe(line))
    if not checked.lines and not quiet:
        screen.prose(f"{safe(checked.file)}: {screen.paint('valid', 'green')}")


def _check_file(file: str) -> _CheckedFile:
    try:
        parse_policy(read_file(file), file, scope_of(file))
    except (Invalid, NotFound) as error:
        found_flaws = error.facts.get("flaws")
        flaws: list[Mapping[str, Any]] = found_flaws if isinstance(found_flaws, list) else []
        return _CheckedFile(file, list(_flaw_lines({"flaws": flaws, "message": error.message})), flaws)
    return _CheckedFile(file, [], [])


# ---------------------------------------------------------------- differences


def _diff(args: argparse.Namespace) -> int:
    if args.document and not any(os.path.isfile(path) for path in (args.old, args.new)):
        raise Invalid("--as needs a file, but neither OLD nor NEW is a file", hint="leave out --as")
    show_differences(args, _load_side(args, args.old, args.new), _load_side(args, args.new, args.old))
    return OK


def show_differences(args: argparse.Namespace, before: PolicySnapshot, after: PolicySnapshot) -> None:
    """Print what two versions differ in: in their documents, and in what is in effect for whom."""
    from parley.domain.rules.meet import differences
    from parley.wire.files.policy import encode_value

    result = differences(before, after)

    def row(difference: Difference) -> dict[str, Any]:
        old, new = encode_value(difference.old), encode_value(difference.new)
        return {"key": difference.key, "old": old, "new": new}

    documents = [{"document": difference.where, **row(difference)} for difference in result.documents]
    in_force = [{"for": difference.where, **row(difference)} for difference in result.effective]
    screen = screen_of(args)
    if args.json:
        screen.json({"documents": documents, "effective": in_force})
        return
    values = (
        Column("KEY", field_column("key"), ALWAYS),
        text_column("OLD", _value_column("old"), usual=None),
        text_column("NEW", _value_column("new"), usual=None),
    )
    names = Column("DOCUMENT", field_column("document"), 8), Column("IN EFFECT FOR", field_column("for"), 8)
    show_table(args, screen, documents, (names[0], *values), "The documents are equal.")
    screen.line()
    show_table(args, screen, in_force, (names[1], *values), "No change in effect.")


def _value_column(side: str) -> Any:  # noqa: ANN401  # a column
    def value_text(row: Mapping[str, Any]) -> str:
        value = row[side]
        if isinstance(value, bool):
            return "true" if value else "false"
        return cell_text(value)

    return value_text


def _load_side(args: argparse.Namespace, path: str, other: str) -> PolicySnapshot:
    """Load OLD or NEW: a folder, a version of the server, or a file that replaces one document of the other side."""
    from parley.domain.rules.policy import CURRENT, PolicySnapshot, is_label

    if os.path.isdir(path):
        return folder_snapshot(path)
    if not os.path.lexists(path) and (path == _CURRENT or is_label(path)):
        query = {"texts": "true", "label": "" if path == _CURRENT else path}
        return snapshot_of(connection_of(args, agent=False).get("policies", query=query))
    # A file is one document; all other documents are those of the other side.
    text = read_file(path)
    alone = os.path.isfile(other)
    beside = PolicySnapshot(id=CURRENT, tenant_id="") if alone else _load_side(args, other, other)
    document = document_as(args.document, args.old if alone else path)
    fragment = parse_policy(text, path, document.partition("/")[0])
    note_new_document(document, args.document, path, beside.fragments)
    return PolicySnapshot(id=CURRENT, tenant_id="", fragments={**beside.fragments, document: fragment})


def snapshot_of(answer: Mapping[str, Any]) -> PolicySnapshot:
    """The policies of an answer with their texts."""
    from parley.domain.rules.policy import CURRENT, PolicySnapshot

    texts = {f"{policy['scope']}/{policy['name']}": policy["text"] for policy in answer["policies"]}
    fragments = {document: parse_policy(text, f"{document}{ENDING}", "") for document, text in texts.items()}
    return PolicySnapshot(id=CURRENT, tenant_id="", fragments=fragments, texts=texts)


COMMANDS = {
    "policy list": Command(
        "List the policies in force and files with errors",
        _add_list,
        _list,
        ("parley policy list", "parley policy list --history", "parley policy list --json"),
    ),
    "policy show": Command(
        "Print the text of a policy",
        _add_show,
        _show,
        (
            "parley policy show enterprise/default",
            "parley policy show enterprise/default --at 2026-11-16",
            "parley policy show enterprise/default --at 3-0f1e2d3c4b5a",
        ),
    ),
    "policy put": Command(
        "Create or replace a policy",
        _add_put,
        _put,
        ("parley policy put org/sales sales.yaml", "parley policy put enterprise/default - < enterprise.yaml"),
    ),
    "policy remove": Command(
        "Remove a policy",
        _add_remove,
        _remove,
        ("parley policy remove user/ada@example.org", "parley policy remove enterprise/default --yes"),
    ),
    "policy check": Command(
        "Check policy files; exit code 1 on errors",
        _add_check,
        _check,
        ("parley policy check sales.yaml", "parley policy check ./policies --json"),
    ),
    "policy diff": Command(
        "Compare policies: each setting, and the result",
        _add_diff,
        _diff,
        (
            "parley policy diff before.yaml after.yaml",
            "parley policy diff current ./policies",
            "parley policy diff current draft.yaml --as enterprise/default",
            "parley policy diff 3-0f1e2d3c4b5a current",
        ),
    ),
}
