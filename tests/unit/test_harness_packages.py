"""The programs of `make harness` are pinned, and what is recorded of them is of these versions."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from tests.harness import packages
from tests.harness.packages import Package, PackageUnavailable, fetch, locked
from tests.samples.recorded_agents import RECORDED_AGENTS, load

OWN = "sha512-"


def fake_npm(folder: Path, script: str, patch: pytest.MonkeyPatch) -> None:
    """Stand for the program that fetches: a package that cannot be fetched, or is another one, is not to be had."""
    program = folder / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    patch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    patch.setenv("PARLEY_HARNESS_CACHE", str(folder / "cache"))


def test_every_package_is_pinned_by_a_digest_and_names_no_host() -> None:
    for package in locked().values():
        assert re.fullmatch(r"\d+\.\d+\.\d+(-linux-x64)?", package.version)
        assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", package.integrity)
    assert "://" not in Path(packages.__file__).with_name("packages.toml").read_text()


@pytest.mark.parametrize("name", RECORDED_AGENTS)
def test_what_is_recorded_is_of_the_pinned_version(name: str) -> None:
    record = load(name)

    assert (record["program"], record["version"]) == (name, locked()[name].short_version)
    assert not re.search(r'"/(?!home/me)[a-z]+/', json.dumps(record))


def test_a_package_that_cannot_be_fetched_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, "echo 'no network' >&2; exit 1", monkeypatch)

    with pytest.raises(PackageUnavailable, match=r"npm could not fetch opencode-linux-x64@.*: no network"):
        fetch(locked()["opencode"])


def test_a_package_with_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program").write_text("hostile")
    archive = tmp_path / "other.tgz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(tmp_path / "program", "package/bin/opencode")
    # npm pack --silent --ignore-scripts --pack-destination FOLDER PACKAGE
    fake_npm(tmp_path, f'cp {archive} "$5"', monkeypatch)

    with pytest.raises(PackageUnavailable, match=r"is not what packages\.toml names"):
        fetch(locked()["opencode"])
    assert not locked()["opencode"].path.exists()


def test_a_package_that_is_in_the_cache_is_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, "exit 1", monkeypatch)
    package = Package("own", "own", "1.0.0", f"{OWN}x", "program")
    package.folder.mkdir(parents=True)
    package.path.touch()

    fetch(package)
