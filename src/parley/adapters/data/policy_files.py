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
from parley.wire.files.policy import read_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ENDING = ".yaml"
_REPLACED = ".replaced"
_WRITTEN = ".written"
_MOST_FILES = 10_000


class _Sight(NamedTuple):
    """A file as it was when it was last read: edited and readable, broken, or (neither) as it was written."""

    about: tuple[int, int, int]
    edit: PolicyEdit | None = None
    broken: BrokenPolicy | None = None


class PolicyFiles:
    """See `ports.outside.PolicyFolder`. What was read once is not read again until the file changes."""

    def __init__(self, folder: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._folder = folder
        self._limits = limits
        self._written: dict[str, dict[str, str]] = {}
        self._seen: dict[str, dict[str, _Sight]] = {}

    async def look(self, tenants: Sequence[str]) -> dict[str, PolicyLook]:
        return await asyncio.to_thread(self._look_all, tenants)

    async def mirror(self, tenant: str, texts: Mapping[str, str]) -> tuple[str, ...]:
        return await asyncio.to_thread(self._mirror, tenant, texts)

    def _look_all(self, tenants: Sequence[str]) -> dict[str, PolicyLook]:
        return {tenant: self._look(tenant) for tenant in tenants}

    def _look(self, tenant: str) -> PolicyLook:
        known, seen = self._seen.get(tenant, {}), {}
        try:
            written = self._known(tenant)
            for file, about in self._files(tenant):
                sight = known.get(file)
                if sight is None or sight.about != about or sight.edit is not None:
                    sight = self._read(tenant, file, about, written)
                seen[file] = sight
        except OSError as error:
            return PolicyLook(broken=(BrokenPolicy("", f"the policy files cannot be read: {_said(error)}"),))
        self._seen[tenant] = seen
        return PolicyLook(
            tuple([one.edit for one in seen.values() if one.edit is not None]),
            tuple([one.broken for one in seen.values() if one.broken is not None]),
            gone=any(document + _ENDING not in seen for document in written),
        )

    def _files(self, tenant: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """Everything that could be meant as a policy, with what tells whether it was changed."""
        for folder in ("", *sorted(_listed(self._path(tenant)))):
            for name in sorted(_listed(self._path(tenant, folder)))[:_MOST_FILES]:
                # What editors put beside a file begins with a dot or ends otherwise.
                if name.endswith(_ENDING) and not name.startswith("."):
                    with suppress(FileNotFoundError):
                        file = f"{folder}/{name}" if folder else name
                        about = os.lstat(self._path(tenant, file))
                        yield file, (about.st_mtime_ns, about.st_size, about.st_ino)

    def _read(self, tenant: str, file: str, about: tuple[int, int, int], written: dict[str, str]) -> _Sight:
        scope, slash, name = file.removesuffix(_ENDING).partition("/")
        if not slash or scope not in tuple(Scope):
            folders = ", ".join(f"{one}/" for one in Scope)
            return _Sight(about, broken=BrokenPolicy(file, f"{file}: a policy lies in one of {folders}"))
        try:
            document = document_name(scope, name)
            content = self._content(self._path(tenant, file))
            if digest(content) == written.get(document):
                return _Sight(about)
            # What is too large is cut off, perhaps in the middle of a character, and refused for its size.
            text = content.decode("utf-8", "replace" if len(content) > self._limits.file_bytes else "strict")
            fragment = read_policy(text, file, self._limits, scope=Scope(scope))
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            flaw = {"file": file, "line": line, "key": "", "code": "not_text", "detail": "is not UTF-8 text"}
            return _Sight(about, broken=BrokenPolicy(file, f"{file}:{line}: is not UTF-8 text", (flaw,)))
        except Invalid as error:
            flaws = error.facts.get("flaws", ())
            return _Sight(about, broken=BrokenPolicy(file, error.message, tuple(flaws)))  # type: ignore[arg-type]
        except OSError as error:
            return _Sight(about, broken=BrokenPolicy(file, f"{file}: {_said(error)}"))
        return _Sight(about, PolicyEdit(document, text, fragment, written.get(document, "")))

    def _content(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(ELOOP, "not a regular file")
            return file.read(self._limits.file_bytes + 1)

    def _mirror(self, tenant: str, texts: Mapping[str, str]) -> tuple[str, ...]:
        restored = []
        with _refusing(self._path(tenant)):
            written = self._known(tenant)
            wanted = {document: digest(text.encode()) for document, text in texts.items()}
            edits = [one.edit for one in self._seen.get(tenant, {}).values() if one.edit is not None]
            # An edit that has come into force was there when it was read: what is there by now is the next one.
            taken = {one.document for one in edits if digest(one.text.encode()) == wanted.get(one.document)}
            for document, text in texts.items():
                path = self._path(tenant, document + _ENDING)
                there, same = os.path.lexists(path), written.get(document) == wanted[document]
                if there and (same or document in taken or self._holds(path, wanted[document])):
                    continue
                if same:
                    restored.append(document + _ENDING)
                elif there and not self._holds(path, written.get(document, "")):
                    os.rename(path, path + _REPLACED)
                _write(path, text.encode())
            for document in written.keys() - wanted.keys():
                with suppress(FileNotFoundError):
                    os.unlink(self._path(tenant, document + _ENDING))
            if written != wanted:
                _write(self._path(tenant, _WRITTEN), json.dumps(wanted, sort_keys=True).encode())
                self._written[tenant] = wanted
        return tuple(restored)

    def _holds(self, path: str, wanted: str) -> bool:
        """Whether a file is as it should be: an editor that has it open need not be told that it changed."""
        try:
            return digest(self._content(path)) == wanted
        except OSError:
            return False

    def _known(self, tenant: str) -> dict[str, str]:
        """What was written last, by document; nothing when that is not known."""
        known = self._written.get(tenant)
        if known is None:
            known = {}
            with suppress(FileNotFoundError, ValueError), open(self._path(tenant, _WRITTEN), "rb") as file:
                read = json.load(file)
                known = {str(key): str(value) for key, value in read.items()} if isinstance(read, dict) else {}
            self._written[tenant] = known
        return known

    def _path(self, tenant: str, inside: str = "") -> str:
        return os.path.join(self._folder, tenant, inside) if inside else os.path.join(self._folder, tenant)


def _write(path: str, content: bytes) -> None:
    folder, name = os.path.split(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    aside = os.path.join(folder, f".{name}.new")
    with suppress(FileNotFoundError):
        os.unlink(aside)  # of a write that was interrupted
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(aside, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(aside, path)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    """What the disk refuses, as our error."""
    try:
        yield
    except OSError as error:
        refusal = DiskFull if error.errno in (ENOSPC, EDQUOT) else Unavailable
        raise refusal(f"{path}: {_said(error)}") from None


def _said(error: OSError) -> str:
    return error.strerror or str(error)
