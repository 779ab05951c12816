"""The files of receipts: bounded, of one writer, and never through a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.adapters.files import layout
from parley.adapters.files.receipts import folder
from parley.adapters.files.receipts.folder import FileReceipts
from parley.adapters.files.workspace import Workspace
from parley.domain.receipts import ReceiptState, ReceiptStep
from tests.samples.messages import NOW

AT = "2026-11-18T12:00:00.000000+00:00"
OFFERED = ReceiptStep(ReceiptState.OFFERED, AT, "s1", "claude prompt")
ACTED = ReceiptStep(ReceiptState.ACTED, AT, "", "archived")
ID, FILE = "msg-20261118-1200-claude-ab12", "20261118T1200Z_claude_question.yaml"


@pytest.fixture
def receipts(tmp_path: Path) -> FileReceipts:
    layout.create_project(str(tmp_path), "demo", ("claude", "codex"), at=NOW)
    workspace = Workspace(str(tmp_path), "demo")
    return FileReceipts(workspace, workspace.agent("codex"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "projects" / "demo" / "agents" / "codex" / "receipts"


def test_steps_are_read_in_the_order_in_which_they_were_written(receipts: FileReceipts) -> None:
    receipts.append(ID, FILE, (OFFERED,))
    receipts.append(ID, FILE, (ACTED,))

    assert receipts.steps("codex", ID, FILE) == (OFFERED, ACTED)
    assert receipts.steps("codex", ID, "another.yaml") == ()
    assert receipts.steps("codex", "msg-20261118-1200-claude-cd34", FILE) == ()


def test_an_agent_that_keeps_none_and_one_that_is_none_have_no_receipts(receipts: FileReceipts) -> None:
    assert receipts.steps("claude", ID, FILE) is None
    assert receipts.steps("nobody", ID, FILE) is None


def test_a_link_in_the_place_of_a_receipt_is_not_followed(receipts: FileReceipts, place: Path, tmp_path: Path) -> None:
    receipts.append(ID, FILE, (OFFERED,))
    target = tmp_path / "target"
    (place / ID).rename(target)
    (place / ID).symlink_to(target)
    before = target.read_bytes()

    assert receipts.steps("codex", ID, FILE) == ()
    with pytest.raises(Exception, match="symbolic link"):
        receipts.append(ID, FILE, (ACTED,))
    assert target.read_bytes() == before


def test_a_message_that_is_offered_for_ever_fills_no_disk_and_still_ends(receipts: FileReceipts, place: Path) -> None:
    for _ in range(500):
        receipts.append(ID, FILE, (OFFERED,))
    assert (place / ID).stat().st_size <= 16 * 1024

    receipts.append(ID, FILE, (ACTED,))

    steps = receipts.steps("codex", ID, FILE)
    assert steps is not None
    assert steps[-1] == ACTED


def test_others_may_open_a_receipt_by_name_and_list_none(receipts: FileReceipts, place: Path) -> None:
    receipts.append(ID, FILE, (OFFERED,))

    assert oct(place.stat().st_mode)[-4:] == "2710"
    assert oct((place / ID).stat().st_mode)[-3:] == "640"


def test_a_position_is_kept_and_made_only_when_asked_for(receipts: FileReceipts, place: Path) -> None:
    with receipts.position(make=False) as position:
        assert position is None
    assert not place.exists()
    with receipts.position(make=True) as position:
        assert position == [-1]
        position[0] = 41
    with receipts.position(make=False) as position:
        assert position == [41]


def test_a_position_that_cannot_be_read_begins_anew(receipts: FileReceipts, place: Path) -> None:
    with receipts.position(make=True):
        pass
    (place / ".position").write_bytes(b"12x")

    with receipts.position(make=False) as position:
        assert position == [-1]


def test_the_oldest_receipts_go_when_there_are_too_many(
    receipts: FileReceipts, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "_KEPT_FILES", 3)
    monkeypatch.setattr(folder, "_SPARE_FILES", 1)
    for number in range(6):
        receipts.append(f"msg-{number}", FILE, (OFFERED,))

    with receipts.position(make=True) as position:
        assert position is not None
        position[0] = 256

    assert len([path for path in place.iterdir() if path.name != ".position"]) == 3
