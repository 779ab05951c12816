"""The rules of a project in files: found, read once, and refused when others could have written them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from parley.adapters.files import layout
from parley.adapters.files.governance import GovernanceFiles
from parley.adapters.files.workspace import Workspace
from parley.domain.agents.party import Attributes
from parley.domain.errors.errors import Forbidden, NameExists, NotFound, NotRegular, ParleyError
from parley.domain.errors.rules import PolicyInvalid
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.rules.policy import Document, Fragment
from tests.samples.messages import NOW

BUILT_IN = Document("built in", Fragment(enabled=True, max_rounds=3))
PUBLIC_KEY = "ed25519:" + "f" * 64


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    layout.create_project(str(tmp_path), "demo", ["alice", "bob"], at=NOW)
    return Workspace(str(tmp_path), "demo")


@pytest.fixture
def files(workspace: Workspace) -> GovernanceFiles:
    return GovernanceFiles(workspace, lambda: BUILT_IN, DEFAULT_LIMITS)


def folder_of(workspace: Workspace) -> Path:
    return Path(workspace.path) / ".parley"


def policy(workspace: Workspace, name: str, text: str) -> Path:
    path = folder_of(workspace) / "policies" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    # As an editor does: aside, then in its place. Written twice within a tick of the clock, a file has the same times.
    aside = path.with_suffix(".tmp")
    aside.write_text(text)
    aside.chmod(0o640)
    aside.replace(path)
    return path


def rounds(files: GovernanceFiles) -> int:
    found = files.load().book.of(Attributes())
    assert found is not None
    return found.max_rounds


def test_a_project_without_the_file_is_a_tenant_of_its_own_under_the_built_in_policy(files: GovernanceFiles) -> None:
    governance = files.load()

    assert not files.is_set_up()
    assert (governance.set_up, governance.tenant, rounds(files)) == (False, "demo", 3)


def test_setting_up_names_every_agent_and_lets_only_the_group_read(
    files: GovernanceFiles, workspace: Workspace
) -> None:
    path = files.set_up("acme")

    governance = files.load()
    assert files.is_set_up()
    assert (governance.set_up, governance.tenant) == (True, "acme")
    assert set(governance.directory.agents) == {"alice", "bob"}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    assert stat.S_IMODE(os.stat(folder_of(workspace)).st_mode) == 0o2750


def test_setting_up_twice_changes_nothing(files: GovernanceFiles) -> None:
    path = files.set_up("")
    before = Path(path).read_bytes()

    with pytest.raises(NameExists, match="edit it"):
        files.set_up("other")

    assert Path(path).read_bytes() == before


def test_a_bad_tenant_writes_nothing(files: GovernanceFiles) -> None:
    with pytest.raises(PolicyInvalid):
        files.set_up("a b")

    assert not files.is_set_up()


def test_a_person_is_added_and_the_mode_stays(files: GovernanceFiles) -> None:
    path = files.set_up("acme")

    files.add_human("ann", PUBLIC_KEY)

    assert files.load().directory.humans == {"ann": PUBLIC_KEY}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


def test_a_person_needs_a_project_that_is_set_up(files: GovernanceFiles) -> None:
    with pytest.raises(NotFound, match="governance init"):
        files.add_human("ann", PUBLIC_KEY)


def test_policy_files_are_in_force_with_or_without_the_other_file(files: GovernanceFiles, workspace: Workspace) -> None:
    policy(workspace, "enterprise/default.yaml", "agent-to-agent:\n  max_rounds: 2\n")
    assert rounds(files) == 2

    files.set_up("acme")
    assert rounds(files) == 2


def test_a_change_is_seen_at_once_and_what_did_not_change_is_the_same(
    files: GovernanceFiles, workspace: Workspace
) -> None:
    files.set_up("acme")
    policy(workspace, "enterprise/default.yaml", "agent-to-agent:\n  max_rounds: 2\n")
    first = files.load()
    assert files.load() is first

    policy(workspace, "enterprise/default.yaml", "agent-to-agent:\n  max_rounds: 1\n")

    assert rounds(files) == 1


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("enterprise/default.yaml", "agent-to-agent:\n  max_rounds: many\n", "default.yaml:2: max_rounds"),
        ("team/core.yaml", "agent-to-agent:\n  disclosure: hello\n", "team/core.yaml:2: disclosure"),
        ("planet/earth.yaml", "agent-to-agent:\n  max_rounds: 1\n", "a policy lies in one of"),
        ("user/two words.yaml", "agent-to-agent:\n  max_rounds: 1\n", "name"),
    ],
)
def test_a_broken_policy_allows_nothing_and_says_where(
    files: GovernanceFiles, workspace: Workspace, name: str, text: str, said: str
) -> None:
    policy(workspace, name, text)

    with pytest.raises(ParleyError, match=said):
        files.load()


def test_what_is_no_text_or_too_long_is_refused(files: GovernanceFiles, workspace: Workspace) -> None:
    path = policy(workspace, "enterprise/default.yaml", "")
    for content in (b"agent-to-agent:\n  disclosure: \xff\n", b"#" * (DEFAULT_LIMITS.file_bytes + 1)):
        path.write_bytes(content)
        with pytest.raises(PolicyInvalid):
            files.load()


@pytest.mark.parametrize("mode", [0o660, 0o646, 0o666])
def test_a_file_that_others_could_change_is_refused(files: GovernanceFiles, mode: int) -> None:
    path = files.set_up("acme")
    os.chmod(path, mode)

    with pytest.raises(Forbidden, match="changed by others"):
        files.load()


def test_a_link_is_not_followed(files: GovernanceFiles, workspace: Workspace, tmp_path: Path) -> None:
    path = Path(files.set_up("acme"))
    path.rename(tmp_path / "elsewhere.yaml")
    path.symlink_to(tmp_path / "elsewhere.yaml")

    assert files.is_set_up()
    with pytest.raises(NotRegular):
        files.load()


def test_a_pipe_does_not_make_us_wait(files: GovernanceFiles) -> None:
    path = Path(files.set_up("acme"))
    path.unlink()
    os.mkfifo(path, 0o600)

    with pytest.raises(NotRegular):
        files.load()
