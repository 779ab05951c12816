"""`parley policy list|show|put|remove` on a server; `check` and `diff` without one."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.cli.command import Command, add_json, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import confirmed, on_terminal, safe, safe_text
from parley.cli.parts.remote import add_server, aged, cell, connection_of, field, show, show_table
from parley.cli.parts.unknown_names import note_unknown
from parley.cli.rules.files import (
    ENDING,
    add_as,
    document_as,
    file_text,
    files_in,
    folder_snapshot,
    note_new,
    read_text,
    scope_of,
)
from parley.domain.errors.errors import Invalid, NotFound

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from parley.cli.output import Screen
    from parley.domain.rules.meet import Difference
    from parley.domain.rules.policy import PolicySnapshot
    from parley.sdk.blocking.connection import Connection

_LABEL = re.compile(r"[0-9]+-[0-9a-f]{12}", re.ASCII)
_CURRENT = "current"
_ENTERPRISE = "enterprise"
_NOTHING = (
    "There is no enterprise policy: nothing at all is delivered. Put one into force: "
    "parley policy put enterprise/default FILE"
)
_DOCUMENT = "enterprise/NAME, org/UNIT, team/TEAM or user/USER"


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--history", action="store_true", help="everything that was in force, the newest first")
    add_server(parser, agent=False)


def _add_document(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", metavar="SCOPE/NAME", help=_DOCUMENT)
    add_server(parser, agent=False)


def _add_put(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", metavar="SCOPE/NAME", help=_DOCUMENT)
    parser.add_argument("file", metavar="FILE", help="the document; '-' is standard input")
    add_server(parser, agent=False)


def _add_remove(parser: argparse.ArgumentParser) -> None:
    _add_document(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask, also for the last one of the enterprise")


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="policy files, or folders with them")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing about valid files")
    add_json(parser)


def _add_diff(parser: argparse.ArgumentParser) -> None:
    what = f"a file, a folder, a label of the server, or {_CURRENT!r} for what is in force there"
    parser.add_argument("old", metavar="OLD", help=what)
    parser.add_argument("new", metavar="NEW", help="the same")
    add_as(parser)
    add_server(parser, agent=False)


# ---------------------------------------------------------------- on a server


def _list(args: argparse.Namespace) -> int:
    connection, screen = connection_of(args, agent=False), screen_of(args)
    if args.history:
        columns = {
            "LABEL": field("label"),
            "AGE": aged("made_at"),
            "BY": field("made_by"),
            "DOCUMENTS": field("documents"),
        }
        show_table(args, screen, connection.get("policies", "history"), columns, "Nothing was ever in force.")
        return OK
    found = connection.get("policies")
    if args.json:
        screen.json(found)
        return OK
    by = f", by {safe(found['made_by'])}" if found["made_by"] else ""
    screen.line(f"In force: {safe(found['label'])}{by}")
    if found["policies"]:
        rows = [[safe(one["scope"]), safe(one["name"]), safe(", ".join(one["keys"]))] for one in found["policies"]]
        screen.table(("SCOPE", "NAME", "SAYS"), rows)
    if not any(one["scope"] == _ENTERPRISE for one in found["policies"]):
        screen.line(screen.paint(_NOTHING, "red"))
    if found["broken"]:
        screen.line(screen.paint("These files cannot be used; what was in force before stays in force:", "red"))
    for line in [line for one in found["broken"] for line in _lines(one)]:
        screen.line(f"  {safe(line)}")
    return OK


def _lines(broken: Mapping[str, Any]) -> Iterator[str]:
    for flaw in broken["flaws"]:
        key = f"{flaw['key']}: " if flaw["key"] else ""
        yield f"{flaw['file']}:{flaw['line']}: {key}{flaw['detail']}"
    if not broken["flaws"]:
        yield str(broken["message"])


def _show(args: argparse.Namespace) -> int:
    scope, name = _split(args.document)
    found = connection_of(args, agent=False).get("policies", scope, name)
    show(args, screen_of(args), found, safe_text(found["text"]).rstrip("\n"))
    return OK


def _put(args: argparse.Namespace) -> int:
    scope, name = _split(args.document)
    text = file_text(args.file)
    # What is wrong is said with the name of the file that lies here.
    read_text(text, args.file, scope)
    connection = connection_of(args, agent=False)
    put = connection.send("PUT", "policies", scope, name, body={"text": text}).document
    show(args, screen_of(args), put, f"Put {safe(args.document)} into force ({safe(put['label'])})")
    if scope != _ENTERPRISE and not args.json:
        note_unknown(connection, scope, name)
    return OK


def _remove(args: argparse.Namespace) -> int:
    scope, name = _split(args.document)
    connection, screen = connection_of(args, agent=False), screen_of(args)
    if scope == _ENTERPRISE and not args.yes and _is_last(connection, name) and not _meant(args):
        screen.line("Nothing was changed.")
        return FOUND_PROBLEMS
    left = connection.send("DELETE", "policies", scope, name).document
    show(args, screen, left, f"Took {safe(args.document)} out of force ({safe(left['label'])})")
    return OK


def _is_last(connection: Connection, name: str) -> bool:
    """Whether nothing of the enterprise would be left without it."""
    listed = connection.get("policies")["policies"]
    return [one["name"] for one in listed if one["scope"] == _ENTERPRISE] == [name]


def _meant(args: argparse.Namespace) -> bool:
    """Whether somebody says that everything is to stop."""
    said = f"{safe(args.document)} is the last policy of the enterprise: without it nothing at all is delivered"
    if args.json or not on_terminal():
        raise Invalid(said, hint="add --yes if that is meant")
    return confirmed(f"{said}. Remove it?")


def _split(document: str) -> tuple[str, str]:
    from parley.domain.rules.policy import document_name

    scope, slash, name = document.partition("/")
    if not slash:
        raise Invalid(f"{document!r} names no policy", hint=f"write {_DOCUMENT}")
    document_name(scope, name)
    return scope, name


# ---------------------------------------------------------------- files


class _Checked(NamedTuple):
    file: str
    lines: list[str]
    flaws: list[Mapping[str, Any]]


def _check(args: argparse.Namespace) -> int:
    checked = [_checked(file) for path in args.files for file in files_in(path)]
    screen = screen_of(args)
    if args.json:
        shown = [{"file": one.file, "valid": not one.lines, "errors": one.lines, "flaws": one.flaws} for one in checked]
        screen.json(shown)
    else:
        for one in checked:
            _show_checked(screen, one, quiet=args.quiet)
    return FOUND_PROBLEMS if any(one.lines for one in checked) else OK


def _show_checked(screen: Screen, checked: _Checked, *, quiet: bool) -> None:
    for line in checked.lines:
        screen.line(safe(line))
    if not checked.lines and not quiet:
        screen.line(f"{safe(checked.file)}: {screen.paint('valid', 'green')}")


def _checked(file: str) -> _Checked:
    try:
        read_text(file_text(file), file, scope_of(file))
    except (Invalid, NotFound) as error:
        given = error.facts.get("flaws")
        flaws: list[Mapping[str, Any]] = given if isinstance(given, list) else []
        return _Checked(file, list(_lines({"flaws": flaws, "message": error.message})), flaws)
    return _Checked(file, [], [])


# ---------------------------------------------------------------- differences


def _diff(args: argparse.Namespace) -> int:
    from parley.domain.rules.meet import differences
    from parley.wire.files.policy import encode_value

    if args.document and not any(os.path.isfile(one) for one in (args.old, args.new)):
        raise Invalid("--as says which document a file is, and neither is a file", hint="leave it out")
    old, new = _side(args, args.old, args.new), _side(args, args.new, args.old)
    found = differences(old, new)

    def row(one: Difference) -> dict[str, Any]:
        return {"key": one.key, "old": encode_value(one.old), "new": encode_value(one.new)}

    documents = [{"document": one.where, **row(one)} for one in found.documents]
    in_force = [{"for": one.where, **row(one)} for one in found.effective]
    screen = screen_of(args)
    if args.json:
        screen.json({"documents": documents, "effective": in_force})
        return OK
    values = {"KEY": field("key"), "OLD": _value("old"), "NEW": _value("new")}
    show_table(args, screen, documents, {"DOCUMENT": field("document"), **values}, "The documents say the same.")
    screen.line()
    show_table(args, screen, in_force, {"IN FORCE FOR": field("for"), **values}, "In force nothing changes.")
    return OK


def _value(side: str) -> Any:  # noqa: ANN401  # a column
    def shown(row: Mapping[str, Any]) -> str:
        value = row[side]
        if isinstance(value, bool):
            return "true" if value else "false"
        return cell(value)

    return shown


def _side(args: argparse.Namespace, given: str, other: str) -> PolicySnapshot:
    """What one of two names stands for: the policies of a folder, of a label, or one file in place of the other's."""
    from parley.domain.rules.policy import CURRENT, PolicySnapshot

    if os.path.isdir(given):
        return folder_snapshot(given)
    if not os.path.lexists(given) and (given == _CURRENT or _LABEL.fullmatch(given)):
        query = {"texts": "true", "label": "" if given == _CURRENT else given}
        return _snapshot(connection_of(args, agent=False).get("policies", query=query))
    # A file alone is one document, and everything else is as on the other side.
    text = file_text(given)
    alone = os.path.isfile(other)
    beside = PolicySnapshot(id=CURRENT, tenant_id="") if alone else _side(args, other, other)
    document = document_as(args.document, args.old if alone else given)
    fragment = read_text(text, given, document.partition("/")[0])
    note_new(document, args.document, given, beside.fragments)
    return PolicySnapshot(id=CURRENT, tenant_id="", fragments={**beside.fragments, document: fragment})


def _snapshot(listed: Mapping[str, Any]) -> PolicySnapshot:
    from parley.domain.rules.policy import CURRENT, PolicySnapshot

    texts = {f"{one['scope']}/{one['name']}": one["text"] for one in listed["policies"]}
    read = {one: read_text(text, f"{one}{ENDING}", "") for one, text in texts.items()}
    return PolicySnapshot(id=CURRENT, tenant_id="", fragments=read, texts=texts)


COMMANDS = {
    "policy list": Command(
        "List the policies in force, and files that cannot be used",
        _add_list,
        _list,
        ("parley policy list", "parley policy list --history", "parley policy list --json"),
    ),
    "policy show": Command(
        "Show a policy as it was written", _add_document, _show, ("parley policy show enterprise/default",)
    ),
    "policy put": Command(
        "Put a policy into force, in place of the one of its name",
        _add_put,
        _put,
        ("parley policy put org/sales sales.yaml", "parley policy put enterprise/default - < enterprise.yaml"),
    ),
    "policy remove": Command(
        "Take a policy out of force; without any of the enterprise nothing is allowed",
        _add_remove,
        _remove,
        ("parley policy remove user/ada@example.org", "parley policy remove enterprise/default --yes"),
    ),
    "policy check": Command(
        "Check policy files; all errors at once, exit code 1 when there are any",
        _add_check,
        _check,
        ("parley policy check sales.yaml", "parley policy check ./policies --json"),
    ),
    "policy diff": Command(
        "Show what one policy changes in another, key by key, and what that changes in force",
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
