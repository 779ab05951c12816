"""Find and read local policy files."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid, NotFound

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from parley.domain.rules.policy import Fragment, PolicySnapshot

ENDING = ".yaml"


def read_file(path: str) -> str:
    """Read a text file, or standard input for '-'."""
    from parley.domain.limits import HARD_FILE_BYTES

    try:
        if path == "-":
            content = sys.stdin.buffer.read(HARD_FILE_BYTES)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Invalid(f"{path}: not a regular file")
                content = file.read(HARD_FILE_BYTES)
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Invalid(f"{path}:{line}: not UTF-8 text") from None
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror or error}") from None


def parse_policy(text: str, path: str, scope: str) -> Fragment:
    """Parse a policy; errors name its file."""
    from parley.domain.rules.policy import Scope
    from parley.wire.files.policy import read_policy

    return read_policy(text, path, scope=Scope(scope) if scope in tuple(Scope) else None)


def scope_of(path: str) -> str:
    """The scope of a file by its folder; empty if the folder is not a scope."""
    from parley.domain.rules.policy import Scope

    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return folder if folder in tuple(Scope) else ""


def policy_files(path: str) -> list[str]:
    """The file itself, or all policy files in a folder."""
    if not os.path.isdir(path):
        return [path]
    files = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.endswith(ENDING) and not name.startswith(".")
    ]
    if not files:
        raise NotFound(f"no {ENDING} file in {path}")
    return sorted(files)


def document_of(file: str) -> str:
    """The document of a file, by its folder and name; an enterprise policy if the folder is not a scope."""
    return f"{scope_of(file) or 'enterprise'}/{os.path.basename(file).removesuffix(ENDING)}"


def add_as_option(parser: argparse.ArgumentParser) -> None:
    """Add --as."""
    what = "document that a file stands for (default: by its folder and name)"
    parser.add_argument("--as", dest="document", default="", metavar="SCOPE/NAME", help=what)


def document_as(document: str, file: str) -> str:
    """The document of a file: the one named with --as, else by its folder and name."""
    from parley.domain.rules.policy import document_name

    if not document:
        return document_of(file)
    scope, _, name = document.partition("/")
    return document_name(scope, name)


def note_new_document(document: str, option: str, file: str, others: Collection[str]) -> None:
    """Note on standard error that a file would be a new document, when there are others of its scope."""
    same_scope = sorted(name for name in others if name.partition("/")[0] == document.partition("/")[0])
    if not option and document not in others and same_scope:
        choices = " or ".join(same_scope[:3])
        advice = f"to replace another one, add --as {choices}"
        from parley.cli.reports import note

        note(f"{file} is read as a new document {document}; {advice}")


def folder_snapshot(folder: str) -> PolicySnapshot:
    """The policies that would be in force with only the files of a folder."""
    from parley.domain.rules.policy import CURRENT, PolicySnapshot, with_document

    snapshot = PolicySnapshot(id=CURRENT, tenant_id="")
    for file in policy_files(folder):
        document, text = document_of(file), read_file(file)
        snapshot = with_document(snapshot, document, text, parse_policy(text, file, document.partition("/")[0]))
    return snapshot
