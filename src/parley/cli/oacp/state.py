"""What a watcher has shown already: the OACP tool's own state file, so that both tools can take turns."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files.place import replace
from parley.adapters.files.workspace import PRIVATE, Workspace
from parley.domain.errors.errors import BadConfig, NotFound, ParleyError, Unavailable
from parley.domain.limits import HARD_FILE_BYTES

if TYPE_CHECKING:
    from parley.adapters.files.folders import Folder

_VERSION = 1
# A state of the largest inbox; what is larger was not written by a watcher.
_MOST_BYTES = 64 * HARD_FILE_BYTES

Entries = dict[str, dict[str, str]]


class StateFile(NamedTuple):
    """The state of one watcher of one agent in one project."""

    home: str
    project: str
    agent: str
    state_id: str = ""

    @property
    def name(self) -> str:
        return f"{self.agent}.{self.state_id}.json" if self.state_id else f"{self.agent}.json"

    def load(self) -> Entries | None:
        """The messages known by file name, None at the first time; `BadConfig` for a file that is no state."""
        try:
            with Workspace(self.home, self.project).open() as project, project.walk("state", "watch") as folder:
                content = _read(folder, self.name)
        except NotFound:
            return None
        return None if content is None else _read_entries(content)

    def save(self, entries: Entries) -> None:
        """Replace the state in one step."""
        document: dict[str, object] = {
            "version": _VERSION,
            "project": self.project,
            "agent": self.agent,
            "messages": entries,
        }
        if self.state_id:
            document["state_id"] = self.state_id
        content = json.dumps(document, indent=2, sort_keys=True) + "\n"
        with (
            Workspace(self.home, self.project).open() as project,
            project.make("state", PRIVATE) as state,
            state.make("watch", PRIVATE) as folder,
        ):
            replace(folder, self.name, content.encode())


def _read(folder: Folder, name: str) -> bytes | None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"invalid state file: {error.strerror}") from None
    with os.fdopen(fd, "rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BadConfig(f"invalid state file: larger than {_MOST_BYTES} bytes")
    return content


def _read_entries(content: bytes) -> Entries:
    try:
        document = json.loads(content.decode("utf-8"))
        if not isinstance(document, dict):
            raise BadConfig("invalid state file: state file root must be a JSON object")
        messages = document.get("messages", {})
        if not isinstance(messages, dict):
            raise BadConfig("invalid state file: state file 'messages' must be a JSON object")
        int(document.get("version", _VERSION))
    except ParleyError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise BadConfig(f"invalid state file: {error}") from None
    return {
        name: {key: str(value) for key, value in entry.items()}
        for name, entry in messages.items()
        if isinstance(entry, dict)
    }
