"""Looking after a workspace: what is found, and that mending does away with it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.adapters.files import checkup
from parley.adapters.files.abilities import Ability
from parley.adapters.files.checkup import CheckupFinding, examine
from parley.adapters.files.workspace import AgentFolder, Workspace
from parley.domain.errors.errors import NotFound

NOW = 1_800_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "projects" / "demo" / "agents" / "codex"
    for name, mode in (("inbox", 0o3730), ("outbox", 0o700), ("dead_letter", 0o700), (".parley", 0o700)):
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(mode)
    return folder


@pytest.fixture
def agent(tmp_path: Path, folder: Path) -> AgentFolder:
    return Workspace(str(tmp_path), "demo").agent("codex")


def found(agent: AgentFolder) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in examine(agent, NOW)]


def mend(findings: list[CheckupFinding]) -> None:
    for finding in findings:
        assert finding.fix is not None
        finding.fix()


def test_a_healthy_agent_has_no_findings(agent: AgentFolder) -> None:
    assert found(agent) == []


def test_a_missing_inbox_is_found_and_made(agent: AgentFolder, folder: Path) -> None:
    (folder / "inbox").rmdir()

    findings = list(examine(agent, NOW))
    mend(findings)

    assert [(one.level, one.code) for one in findings] == [("fail", "no_inbox")]
    assert stat.S_IMODE((folder / "inbox").stat().st_mode) == 0o3730
    assert found(agent) == []


def test_a_linked_inbox_is_found_and_left_to_its_owner(agent: AgentFolder, folder: Path) -> None:
    (folder / "inbox").rename(folder / "aside")
    (folder / "inbox").symlink_to("aside")

    [finding] = examine(agent, NOW)

    assert (finding.level, finding.code, finding.fix) == ("fail", "not_regular", None)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("inbox", 0o3770), ("inbox", 0o755), ("outbox", 0o750), ("dead_letter", 0o701), (".parley", 0o770)],
)
def test_a_folder_that_is_too_open_is_found_and_closed(agent: AgentFolder, folder: Path, name: str, mode: int) -> None:
    (folder / name).chmod(mode)

    findings = list(examine(agent, NOW))
    mend(findings)

    assert [(one.level, one.code) for one in findings] == [("warn", "open_mode")]
    assert f"{mode:04o}" in findings[0].detail
    assert found(agent) == []


def test_an_inbox_for_one_user_only_is_fine(agent: AgentFolder, folder: Path) -> None:
    (folder / "inbox").chmod(0o700)

    assert found(agent) == []


def test_a_temporary_file_is_a_stray_when_it_is_older_than_an_hour(agent: AgentFolder, folder: Path) -> None:
    old, fresh = folder / "inbox" / ".a.yaml.1-0.tmp", folder / "inbox" / ".b.yaml.2-0.tmp"
    for path, age in ((old, 3601), (fresh, 3599)):
        path.touch()
        os.utime(path, (NOW - age, NOW - age))

    findings = list(examine(agent, NOW))
    mend(findings)

    assert [(one.level, one.code) for one in findings] == [("warn", "stray_file")]
    assert old.name in findings[0].detail
    assert (old.exists(), fresh.exists()) == (False, True)


def test_a_stray_that_vanished_before_it_was_mended_is_told(agent: AgentFolder, folder: Path) -> None:
    stray = folder / "inbox" / ".a.yaml.1-0.tmp"
    stray.touch()
    os.utime(stray, (0, 0))

    [finding] = examine(agent, NOW)

    stray.unlink()
    with pytest.raises(NotFound):
        mend([finding])


def test_mail_that_nobody_ever_read_is_noted(agent: AgentFolder, folder: Path) -> None:
    (folder / "inbox" / "a.yaml").touch()
    assert found(agent) == [("note", "no_reader")]

    (folder / "inbox" / "archive").mkdir()
    (folder / "inbox" / "archive" / "b.yaml").touch()
    assert found(agent) == []


def test_mail_for_an_agent_with_a_ledger_is_not_noted(agent: AgentFolder, folder: Path) -> None:
    (folder / "inbox" / "a.yaml").touch()
    (folder / ".parley" / "ledger.db").touch()

    assert found(agent) == []


@pytest.mark.parametrize(("vital", "level"), [(True, "fail"), (False, "note")])
def test_what_the_file_system_cannot_do_is_told(
    agent: AgentFolder, vital: bool, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    abilities: Callable[[object], list[Ability]] = lambda _folder: [Ability("lock", False, vital, "why")]  # noqa: E731
    monkeypatch.setattr(checkup, "probe", abilities)

    [finding] = examine(agent, NOW)

    assert (finding.level, finding.code) == (level, "file_system")
    assert finding.detail == "lock does not work here: why"
