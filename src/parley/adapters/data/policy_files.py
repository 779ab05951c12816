"""The policies in force as files: `TENANT/SCOPE/NAME.yaml`, private to the server's user, who may edit them.

    .written   for each document the digest of the text that was mirrored last: a file with another one was edited

A file is written aside and renamed, so that nobody ever reads half of one. What somebody wrote and what has to give way
to what is in force is kept beside it, as `NAME.yaml.replaced`.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from contextlib import contextmanager, suppress
from errno import EDQUOT, ELOOP, ENOSPC
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import DiskFull, Invalid, Unavailable
from parley.domain.hashes import digest
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.rules.policy import BrokenPolicy, PolicyEdit, PolicyLook, Scope, document_name
from parley.durable_files import replace_file
from parley.wire.files.policy import read_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ENDING = ".yaml"
_REPLACED = ".replaced"
_WRITTEN = ".written"
_FILES_LIMIT = 10_000


class _FileState(NamedTuple):
    """A file as it was when it was last read: edited and readable, broken, or (neither) as it was written."""

    fingerprint: tuple[int, int, int]
    edit: PolicyEdit | None = None
    broken: BrokenPolicy | None = None


class PolicyFiles:
    """See `ports.outside.PolicyFolder`. What was read once is not read again until the file changes."""

    def __init__(self, folder: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._folder = folder
        self._limits = limits
        self._written: dict[str, dict[str, str]] = {}
        self._states: dict[str, dict[str, _FileState]] = {}

    async def look(self, tenants: Sequence[str]) -> dict[str, PolicyLook]:
        return await asyncio.to_thread(self._look_all, tenants)

    async def mirror(self, tenant: str, texts: Mapping[str, str]) -> tuple[str, ...]:
        return await asyncio.to_thread(self._mirror, tenant, texts)

    def _look_all(self, tenants: Sequence[str]) -> dict[str, PolicyLook]:
        return {tenant: self._look(tenant) for tenant in tenants}

    def _look(self, tenant: str) -> PolicyLook:
        previous, states = self._states.get(tenant, {}), {}
        try:
            written = self._last_written(tenant)
            for file, fingerprint in self._files(tenant):
                state = previous.get(file)
                if state is None or state.fingerprint != fingerprint or state.edit is not None:
                    state = self._read(tenant, file, fingerprint, written)
                states[file] = state
        except OSError as error:
            return PolicyLook(broken=(BrokenPolicy("", f"the policy files cannot be read: {_error_text(error)}"),))
        self._states[tenant] = states
        return PolicyLook(
            tuple([state.edit for state in states.values() if state.edit is not None]),
            tuple([state.broken for state in states.values() if state.broken is not None]),
            gone=any(document + _ENDING not in states for document in written),
        )

    def _files(self, tenant: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """Everything that could be meant as a policy, with what tells whether it was changed."""
        for folder in ("", *sorted(_list_names(self._path(tenant)))):
            for name in sorted(_list_names(self._path(tenant, folder)))[:_FILES_LIMIT]:
                # What editors put beside a file begins with a dot or ends otherwise.
                if name.endswith(_ENDING) and not name.startswith("."):
                    with suppress(FileNotFoundError):
                        file = f"{folder}/{name}" if folder else name
                        info = os.lstat(self._path(tenant, file))
                        yield file, (info.st_mtime_ns, info.st_size, info.st_ino)

    def _read(self, tenant: str, file: str, fingerprint: tuple[int, int, int], written: dict[str, str]) -> _FileState:
        scope, slash, name = file.removesuffix(_ENDING).partition("/")
        if not slash or scope not in tuple(Scope):
            folders = ", ".join(f"{scope_name}/" for scope_name in Scope)
            return _FileState(fingerprint, broken=BrokenPolicy(file, f"{file}: a policy lies in one of {folders}"))
        try:
            document = document_name(scope, name)
            content = self._read_content(self._path(tenant, file))
            if digest(content) == written.get(document):
                return _FileState(fingerprint)
            # What is too large is cut off, perhaps in the middle of a character, and refused for its size.
            text = content.decode("utf-8", "replace" if len(content) > self._limits.file_bytes else "strict")
            fragment = read_policy(text, file, self._limits, scope=Scope(scope))
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            flaw = {"file": file, "line": line, "key": "", "code": "not_text", "detail": "is not UTF-8 text"}
            return _FileState(fingerprint, broken=BrokenPolicy(file, f"{file}:{line}: is not UTF-8 text", (flaw,)))
        except Invalid as error:
            flaws = error.facts.get("flaws", ())
            return _FileState(fingerprint, broken=BrokenPolicy(file, error.message, tuple(flaws)))  # type: ignore[arg-type]
        except OSError as error:
            return _FileState(fingerprint, broken=BrokenPolicy(file, f"{file}: {_error_text(error)}"))
        return _FileState(fingerprint, PolicyEdit(document, text, fragment, written.get(document, "")))

    def _read_content(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(ELOOP, "not a regular file")
            return file.read(self._limits.file_bytes + 1)

    def _mirror(self, tenant: str, texts: Mapping[str, str]) -> tuple[str, ...]:
        restored = []
        with _os_errors(self._path(tenant)):
            written = self._last_written(tenant)
            digests = {document: digest(text.encode()) for document, text in texts.items()}
            edits = [state.edit for state in self._states.get(tenant, {}).values() if state.edit is not None]
            # An edit that has come into force was there when it was read: what is there by now is the next one.
            applied = {edit.document for edit in edits if digest(edit.text.encode()) == digests.get(edit.document)}
            for document, text in texts.items():
                path = self._path(tenant, document + _ENDING)
                exists, unchanged = os.path.lexists(path), written.get(document) == digests[document]
                if exists and (unchanged or document in applied or self._has_digest(path, digests[document])):
                    continue
                if unchanged:
                    restored.append(document + _ENDING)
                elif exists and not self._has_digest(path, written.get(document, "")):
                    os.rename(path, path + _REPLACED)
                _write(path, text.encode())
            for document in written.keys() - digests.keys():
                with suppress(FileNotFoundError):
                    os.unlink(self._path(tenant, document + _ENDING))
            if written != digests:
                _write(self._path(tenant, _WRITTEN), json.dumps(digests, sort_keys=True).encode())
                self._written[tenant] = digests
        return tuple(restored)

    def _has_digest(self, path: str, expected: str) -> bool:
        """Whether a file already has this content; then it is not written, so an open editor sees no change."""
        try:
            return digest(self._read_content(path)) == expected
        except OSError:
            return False

    def _last_written(self, tenant: str) -> dict[str, str]:
        """What was written last, by document; nothing when that is not known."""
        digests = self._written.get(tenant)
        if digests is None:
            digests = {}
            with suppress(FileNotFoundError, ValueError), open(self._path(tenant, _WRITTEN), "rb") as file:
                document = json.load(file)
                digests = (
                    {str(key): str(value) for key, value in document.items()} if isinstance(document, dict) else {}
                )
            self._written[tenant] = digests
        return digests

    def _path(self, tenant: str, inside: str = "") -> str:
        return os.path.join(self._folder, tenant, inside) if inside else os.path.join(self._folder, tenant)


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace_file(path, content)


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """What the disk refuses, as our error."""
    try:
        yield
    except OSError as error:
        refusal = DiskFull if error.errno in (ENOSPC, EDQUOT) else Unavailable
        raise refusal(f"{path}: {_error_text(error)}") from None


def _error_text(error: OSError) -> str:
    return error.strerror or str(error)
