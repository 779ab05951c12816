"""The rules of a project in files: `projects/<project>/.parley/governance.yaml` and `policies/<scope>/<name>.yaml`.

Agents obey what stands there, so a file that others of the group could change, or a link, is refused: nothing is sent
under rules that anybody may have written.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files.folders import Folder, os_errors
from parley.adapters.files.place import place, replace
from parley.domain.errors.errors import Forbidden, Invalid, NameExists, NotFound, NotRegular, Problem
from parley.domain.errors.rules import PolicyInvalid
from parley.domain.rules.policy import Document, Scope, document_name
from parley.domain.rules.project import Directory, Governance, rulebook
from parley.wire.files.policy import read_policy
from parley.wire.files.project import new_governance, read_governance, with_human

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parley.adapters.files.workspace import Workspace
    from parley.domain.limits import Limits

FOLDER = ".parley"
FILE = "governance.yaml"
POLICIES = "policies"
_FOLDER_MODE = 0o2750
_FILE_MODE = 0o640
_ENDING = ".yaml"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class _LoadedGovernance(NamedTuple):
    """What tells whether anything was changed since it was read."""

    fingerprints: tuple[tuple[str, int, int, int], ...]
    governance: Governance


class GovernanceFiles:
    """See `ports.mailbox.MailGovernance`. What was read once is not read again until a file changes."""

    def __init__(self, workspace: Workspace, built_in: Callable[[], Document], limits: Limits) -> None:
        self._workspace = workspace
        self._built_in = built_in
        self._limits = limits
        self._path = f"{workspace.path}/{FOLDER}/{FILE}"
        self._loaded: _LoadedGovernance | None = None

    def load(self) -> Governance:
        try:
            with self._workspace.open() as project, project.sub(FOLDER) as folder:
                documents = list(self._documents(folder))
                text = self._read(folder, FILE) if folder.stat(FILE) is not None else None
                fingerprints = tuple(sorted(_fingerprints(folder, [FILE, *(file for file, _ in documents)])))
                if self._loaded is not None and self._loaded.fingerprints == fingerprints:
                    return self._loaded.governance
                policies = [(name, self._policy(folder, file)) for file, name in documents]
        except NotFound:
            text, fingerprints, policies = None, (), []
            if self._loaded is not None and self._loaded.fingerprints == fingerprints:
                return self._loaded.governance
        if text is None:
            # Without the file no agent has a directory entry: the project is a tenant of its own.
            directory = Directory(self._workspace.project, {}, {})
        else:
            directory = read_governance(text, f"{FOLDER}/{FILE}", self._limits)
        book = rulebook(directory.tenant, self._built_in(), policies)
        governance = Governance(directory, book, set_up=text is not None)
        self._loaded = _LoadedGovernance(fingerprints, governance)
        return governance

    def _documents(self, folder: Folder) -> Iterator[tuple[str, str]]:
        """Every policy file, with the name of its document."""
        if folder.stat(POLICIES) is None:
            return
        with folder.sub(POLICIES) as policies:
            for scope in sorted(policies.names()):
                if scope.startswith("."):
                    continue
                if scope not in tuple(Scope):
                    _refuse_misplaced(f"{POLICIES}/{scope}")
                with policies.sub(scope) as below:
                    for name in sorted(below.names()):
                        if not name.startswith(".") and name.endswith(_ENDING):
                            file = f"{POLICIES}/{scope}/{name}"
                            yield file, document_name(scope, name.removesuffix(_ENDING))

    def _policy(self, folder: Folder, file: str) -> Document:
        _, scope, name = file.split("/")
        with folder.walk(POLICIES, scope) as below:
            text = self._read(below, name)
        return Document(text, read_policy(text, f"{FOLDER}/{file}", self._limits, scope=Scope(scope)))

    def _read(self, folder: Folder, name: str) -> str:
        path = f"{folder.path}/{name}"
        with os_errors(path):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.fd)
            with open(descriptor, "rb") as file:
                info = os.fstat(descriptor)
                if not stat.S_ISREG(info.st_mode):
                    raise NotRegular(f"{path} is not a regular file")
                if info.st_mode & _OTHERS_WRITE or os.fstat(folder.fd).st_mode & stat.S_IWOTH:
                    raise Forbidden(f"{path} could be changed by others", hint=f"chmod g-w,o-w {path}")
                content = file.read(self._limits.file_bytes + 1)
        if len(content) > self._limits.file_bytes:
            raise PolicyInvalid.because(
                [Problem("too_large", "", f"{path}: larger than {self._limits.file_bytes} bytes")]
            )
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise PolicyInvalid.because([Problem("not_text", "", f"{path}:{line}: is not UTF-8 text")]) from None

    def is_set_up(self) -> bool:
        return os.path.lexists(self._path)

    def set_up(self, tenant: str) -> str:
        """Write the file of a project that has none; where it lies."""
        text = new_governance(tenant or self._workspace.project, self._workspace.agents())
        read_governance(text, FILE, self._limits)
        with self._workspace.open() as project, project.make(FOLDER, _FOLDER_MODE) as folder:
            try:
                place(folder, FILE, text.encode(), _FILE_MODE)
            except NameExists:
                raise NameExists(f"{self._path} is there already", hint="it is a text file: edit it") from None
        return self._path

    def add_human(self, user: str, public_key: str) -> None:
        """One more person, or a new key for one."""
        if not self.is_set_up():
            raise NotFound("the project has no governance file", hint="make one with: parley governance init")
        with self._workspace.open() as project, project.sub(FOLDER) as folder:
            text = self._read(folder, FILE)
            replace(folder, FILE, with_human(text, f"{FOLDER}/{FILE}", user, public_key).encode(), _FILE_MODE)


def _fingerprints(folder: Folder, names: list[str]) -> Iterator[tuple[str, int, int, int]]:
    for name in names:
        try:
            info = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
        except OSError:
            continue
        yield name, info.st_mtime_ns, info.st_size, info.st_ino


def _refuse_misplaced(file: str) -> None:
    folders = ", ".join(f"{scope}/" for scope in Scope)
    raise Invalid.because([Problem("misplaced", "", f"{FOLDER}/{file}: a policy lies in one of {folders}")])
