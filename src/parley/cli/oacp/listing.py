"""The files of an inbox as rows: what `inbox` lists and `watch` compares."""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.oacp.files import explanation, fields_of, is_no_mapping
from parley.cli.oacp.places import shown
from parley.domain.errors.errors import NotFound, NotRegular, ParleyError, TooLarge, Unreadable
from parley.wiring import drive, open_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley.cli.oacp.policy import SigningPolicy
    from parley.domain.message.message import Value
    from parley.settings import Settings

UNKNOWN = "?"
NO_SUBJECT = "(no subject)"
HELD = "(held: unverified under enforce)"
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")


class Row(NamedTuple):
    """One file. `error` says why it is no message; `created_at` is empty when the file does not say it well."""

    file: str
    path: str
    sender: str = UNKNOWN
    kind: str = UNKNOWN
    priority: str = UNKNOWN
    subject: str = NO_SUBJECT
    created_at: str = ""
    error: str = ""
    auth: str = ""

    def modified(self) -> datetime | None:
        """When the file was last written; None when it is gone."""
        try:
            return datetime.fromtimestamp(os.lstat(self.path).st_mtime, UTC)
        except OSError:
            return None


def rows_of(home: str, project: str, agent: str, settings: Settings, policy: SigningPolicy) -> Iterator[Row]:
    """The rows of an inbox by file name. A file that vanishes meanwhile is passed over."""
    kernel = open_kernel(home, project, agent, settings)
    folder = shown(home, "projects", project, "agents", agent, "inbox")
    try:
        # The tool knows no other ending.
        names = sorted(name for name, _ in drive(kernel.inbox.names()) if name.endswith(".yaml"))
    except NotFound:
        return
    mode = policy.verify_mode
    for name, content, *_ in kernel.inbox.peek(names):
        row = Row(name, shown(folder, name))
        if isinstance(content, ParleyError):
            if isinstance(content, NotRegular) and not _is_link(row.path):
                continue  # a folder or a pipe is no message, whatever it is called
            subject = "(invalid YAML)" if isinstance(content, TooLarge) else "(unreadable)"
            row = row._replace(subject=subject, error=content.message)
            content = b""  # noqa: PLW2901
        else:
            row = _read(row, content, settings)
        if mode != "off":
            from parley.cli.oacp.trailer import state_of

            row = row._replace(auth=state_of(content))
        # Nothing is ever verified here, so under enforce everything is held.
        yield Row(row.file, row.path, subject=HELD, auth=row.auth) if mode == "enforce" else row


def _read(row: Row, content: bytes, settings: Settings) -> Row:
    try:
        fields = fields_of(content, settings.limits)
    except Unreadable as error:
        if is_no_mapping(error):
            return row._replace(subject="(invalid YAML)", error=f"top-level YAML must be a mapping: {row.path}")
        return row._replace(subject="(invalid YAML)", error=explanation(error, content))
    created = _word(fields, "created_at_utc", "")
    return row._replace(
        sender=_word(fields, "from", UNKNOWN),
        kind=_word(fields, "type", UNKNOWN),
        priority=_word(fields, "priority", UNKNOWN),
        subject=_word(fields, "subject", NO_SUBJECT),
        created_at=created if moment_of(created) else "",
    )


def _word(fields: dict[str, Value], name: str, default: str) -> str:
    return str(fields.get(name, "")).strip() or default


def moment_of(text: str) -> datetime | None:
    """A time in the one spelling that the tool reads."""
    try:
        return datetime.fromisoformat(text) if _TIME.match(text) else None
    except ValueError:
        return None


def _is_link(path: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False
