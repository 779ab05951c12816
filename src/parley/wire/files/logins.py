"""The file of saved logins: JSON, so that reading it costs a command next to nothing.

{"current": "local", "contexts": {"local": {"url": "http://127.0.0.1:8420", "key": "pk_...", "kind": "admin"}}}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from parley.domain.errors.errors import BadConfig
from parley.domain.logins import Login, SavedLogins
from parley.domain.names import is_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS = Login._fields[1:]
_REQUIRED = ("url", "key")
_HINT = "fix it, or remove it and log in again: parley login URL"


def read_logins(content: bytes, path: str) -> SavedLogins:
    """The saved logins in a file. `BadConfig` names the file and what is wrong, but nothing that may be a key."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise BadConfig(f"{path} is not JSON", hint=_HINT) from None
    contexts = document.get("contexts", {}) if isinstance(document, dict) else None
    current = document.get("current", "") if isinstance(document, dict) else None
    if not isinstance(contexts, dict) or not isinstance(current, str):
        raise BadConfig(f"{path} has no contexts", hint=_HINT)
    return SavedLogins(current, tuple([_read_login(name, contexts[name], path) for name in sorted(contexts)]))


def _read_login(name: str, fields: object, path: str) -> Login:
    if not is_name(name) or not isinstance(fields, dict):
        raise BadConfig(f"{path}: {name[:70]!r} is not a context", hint=_HINT)
    for field in _FIELDS:
        value = fields.get(field, "")
        if not isinstance(value, str) or (field in _REQUIRED and not value):
            raise BadConfig(f'{path}: context "{name}" has no valid {field}', hint=_HINT)
    return Login(name, **{field: fields[field] for field in _FIELDS if field in fields})


def write_logins(saved: SavedLogins) -> bytes:
    """The content of the file, for people to read, too."""
    contexts = {login.name: _fields_of(login) for login in saved.logins}
    return json.dumps({"current": saved.current, "contexts": contexts}, indent=2).encode() + b"\n"


def _fields_of(login: Login) -> Mapping[str, str]:
    fields = login._asdict()
    return {field: fields[field] for field in _FIELDS if fields[field]}
