"""Fetching the coding agents that the tests run: pinned versions, compared with their digests, kept in a cache.

`python -m tests.harness.packages` fetches all of them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

_LOCK = Path(__file__).with_name("packages.toml")
_FETCH_SECONDS = 300


class PackageUnavailable(Exception):
    """A package cannot be fetched here, or is not what the lock file says."""


class Package(NamedTuple):
    """One entry of the lock file."""

    key: str
    package: str
    version: str
    integrity: str
    program: str

    @property
    def folder(self) -> Path:
        """Where it is unpacked; another digest is another folder."""
        mark = hashlib.sha256(self.integrity.encode()).hexdigest()[:12]
        return cache() / f"{self.key}-{self.version}-{mark}"

    @property
    def path(self) -> Path:
        """The file to run."""
        return self.folder / self.program

    @property
    def short_version(self) -> str:
        """The version without the name of a platform."""
        return self.version.partition("-")[0]


def cache() -> Path:
    """The folder of what was fetched, outside of the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("PARLEY_HARNESS_CACHE") or f"{base}/parley-harness")


def locked() -> dict[str, Package]:
    """The entries of the lock file."""
    with _LOCK.open("rb") as file:
        return {key: Package(key, **entry) for key, entry in tomllib.load(file).items()}


def fetch(package: Package) -> None:
    """Have a package unpacked in the cache."""
    if package.path.exists():
        return
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix="fetch-") as scratch:
        archive = _download(package, Path(scratch))
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != package.integrity:
            raise PackageUnavailable(f"{package.package}@{package.version} is not what packages.toml names")
        with tarfile.open(archive) as unpacked:
            unpacked.extractall(scratch, filter="data")
        shutil.rmtree(package.folder, ignore_errors=True)
        (Path(scratch) / "package").rename(package.folder)
    if not package.path.exists():
        raise PackageUnavailable(f"{package.package}@{package.version} has no {package.program}")


def _download(package: Package, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise PackageUnavailable("npm is not installed; it fetches the coding agents")
    wanted = f"{package.package}@{package.version}"
    command = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder), wanted]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, cwd=folder, check=False)
    except subprocess.TimeoutExpired:
        raise PackageUnavailable(f"npm did not fetch {wanted} within {_FETCH_SECONDS} s") from None
    archives = [*folder.glob("*.tgz")]
    if ran.returncode or len(archives) != 1:
        raise PackageUnavailable(f"npm could not fetch {wanted}: {ran.stderr.strip()[-500:]}")
    return archives[0]


def fetch_all() -> None:
    """Have every package, or end with one line that says which one is missing."""
    for package in locked().values():
        try:
            fetch(package)
        except PackageUnavailable as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    fetch_all()
