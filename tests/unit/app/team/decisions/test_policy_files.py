"""Files and what is in force are kept the same; a broken file changes nothing and is named."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from parley.adapters.data.policy_files import PolicyFiles
from parley.app.team.decisions import policy_files
from parley.app.team.rules import policies
from parley.app.team.state.outside import PolicyState
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import DiskFull
from parley.domain.rules.policy import DEFAULT_DOCUMENT, SHORTEST, Fragment, PolicyLook
from tests.rigs.log_records import logged_by
from tests.rigs.team import Rig, soon, with_rig

ONE = "agent-to-agent:\n  max_rounds: 1\n"
TWO = "agent-to-agent:\n  max_rounds: 2\n"
SEVEN = "agent-to-agent:\n  max_rounds: 7\n"
BROKEN = "agent-to-agent:\n  max_rounds: many\n"


async def followed(rig: Rig) -> Path:
    """The folder of the default tenant, after a first look."""
    files = PolicyFiles(str(rig.path.parent / "policies"))
    rig.team.policies = PolicyState(SHORTEST, files)
    await rig.tenant()
    await policy_files.follow(rig.team, files)
    return rig.path.parent / "policies" / "default"


async def look(rig: Rig) -> None:
    assert rig.team.policies.folder is not None
    await policy_files.follow(rig.team, rig.team.policies.folder)


async def put(rig: Rig, document: str, text: str, fragment: Fragment) -> None:
    scope, _, name = document.partition("/")
    await policies.put(rig.team, rig.caller(kind=KeyKind.ADMIN), scope, name, text, fragment)


@with_rig
async def test_a_tenant_s_default_is_written_down_and_lies_there_as_a_file(rig: Rig) -> None:
    folder = await followed(rig)

    assert (await policies.current(rig.team, "default")).version == 1
    assert (folder / "enterprise" / "default.yaml").read_text() == SHORTEST.text


@with_rig
async def test_an_edited_file_comes_into_force(rig: Rig) -> None:
    folder = await followed(rig)
    (folder / "org").mkdir()
    (folder / "org" / "sales.yaml").write_text(TWO)

    await look(rig)

    now = await policies.current(rig.team, "default")
    assert (now.fragments["org/sales"], now.made_by) == (Fragment(max_rounds=2), "policy-file")
    await look(rig)
    assert (await policies.current(rig.team, "default")).label == now.label


@with_rig
async def test_a_change_by_command_reaches_the_file(rig: Rig) -> None:
    folder = await followed(rig)

    await put(rig, "org/sales", TWO, Fragment(max_rounds=2))
    await look(rig)
    assert (folder / "org" / "sales.yaml").read_text() == TWO

    await policies.remove(rig.team, rig.caller(kind=KeyKind.ADMIN), "org", "sales")
    await look(rig)
    assert not (folder / "org" / "sales.yaml").exists()
    assert list((await policies.current(rig.team, "default")).texts) == [DEFAULT_DOCUMENT]


@with_rig
async def test_a_broken_file_keeps_the_last_good_one_in_force_and_is_named_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    folder = await followed(rig)
    before = await policies.current(rig.team, "default")
    (folder / "enterprise" / "default.yaml").write_text(BROKEN)

    with caplog.at_level(logging.ERROR):
        await look(rig)
        await look(rig)

    assert (await policies.current(rig.team, "default")).label == before.label
    told = 'enterprise/default.yaml:2: max_rounds: must be a whole number from 1 to 1000, not "many"'
    assert [one.message for one in rig.team.policies.broken["default"]] == [told]
    assert [getattr(one, "detail", "") for one in logged_by("parley.policies", caplog)] == [told]


@with_rig
async def test_a_file_that_was_mended_comes_into_force_and_is_no_longer_named(rig: Rig) -> None:
    folder = await followed(rig)
    (folder / "enterprise" / "default.yaml").write_text(BROKEN)
    await look(rig)

    (folder / "enterprise" / "default.yaml").write_text(TWO)
    await look(rig)

    assert rig.team.policies.broken["default"] == ()
    assert (await policies.current(rig.team, "default")).fragments == {DEFAULT_DOCUMENT: Fragment(max_rounds=2)}


@with_rig
async def test_one_broken_file_does_not_keep_another_out(rig: Rig) -> None:
    folder = await followed(rig)
    (folder / "org").mkdir()
    (folder / "org" / "law.yaml").write_text(BROKEN)
    (folder / "org" / "sales.yaml").write_text(TWO)

    await look(rig)

    assert set((await policies.current(rig.team, "default")).texts) == {DEFAULT_DOCUMENT, "org/sales"}
    assert [one.file for one in rig.team.policies.broken["default"]] == ["org/law.yaml"]


@with_rig
async def test_a_file_that_cannot_come_into_force_is_named(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = await followed(rig)
    monkeypatch.setattr(policies, "MOST_DOCUMENTS", 1)
    (folder / "org").mkdir()
    (folder / "org" / "sales.yaml").write_text(TWO)

    await look(rig)

    assert [one.file for one in rig.team.policies.broken["default"]] == ["org/sales.yaml"]
    assert list((await policies.current(rig.team, "default")).texts) == [DEFAULT_DOCUMENT]


@with_rig
async def test_a_deleted_file_takes_nothing_out_of_force_and_comes_back(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    folder = await followed(rig)
    (folder / "enterprise" / "default.yaml").unlink()

    await look(rig)

    assert list((await policies.current(rig.team, "default")).texts) == [DEFAULT_DOCUMENT]
    assert (folder / "enterprise" / "default.yaml").read_text() == SHORTEST.text
    assert [getattr(one, "file", "") for one in logged_by("parley.policies", caplog)] == ["enterprise/default.yaml"]


@pytest.mark.both_stores
@with_rig
async def test_a_restart_keeps_what_is_in_force_and_takes_over_what_was_edited_meanwhile(rig: Rig) -> None:
    folder = await followed(rig)
    await put(rig, "org/sales", TWO, Fragment(max_rounds=2))  # and killed before it was mirrored
    (folder / "enterprise" / "default.yaml").write_text("agent-to-agent:\n  max_rounds: 7\n")

    await rig.reopen()
    rig.team.policies = PolicyState(SHORTEST, PolicyFiles(str(folder.parent)))
    await look(rig)

    now = await policies.current(rig.team, "default")
    assert now.fragments == {DEFAULT_DOCUMENT: Fragment(max_rounds=7), "org/sales": Fragment(max_rounds=2)}
    assert (folder / "org" / "sales.yaml").read_text() == TWO


@with_rig
async def test_a_file_that_was_edited_from_what_is_no_longer_in_force_undoes_nothing(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    folder = await followed(rig)
    path = folder / "org" / "sales.yaml"
    await put(rig, "org/sales", TWO, Fragment(max_rounds=2))
    await look(rig)
    files = PolicyFiles(str(folder.parent))  # of a server that was away when another one was told of the next
    await put(rig, "org/sales", ONE, Fragment(max_rounds=1))
    path.write_text(SEVEN)

    rig.team.policies = PolicyState(SHORTEST, files)
    await look(rig)

    assert (await policies.current(rig.team, "default")).fragments["org/sales"] == Fragment(max_rounds=1)
    assert (path.read_text(), path.with_name("sales.yaml.replaced").read_text()) == (ONE, SEVEN)
    assert "edited from what is no longer in force" in caplog.text


@with_rig
async def test_an_older_file_of_which_nothing_is_known_does_not_come_into_force_again(rig: Rig) -> None:
    folder = await followed(rig)
    await put(rig, "org/sales", TWO, Fragment(max_rounds=2))
    await look(rig)
    (folder / ".written").unlink()  # a restore that left out what begins with a dot
    await put(rig, "org/sales", ONE, Fragment(max_rounds=1))

    rig.team.policies = PolicyState(SHORTEST, PolicyFiles(str(folder.parent)))
    await look(rig)

    assert (await policies.current(rig.team, "default")).fragments["org/sales"] == Fragment(max_rounds=1)
    assert (folder / "org" / "sales.yaml").read_text() == ONE


@with_rig
async def test_files_that_lie_there_before_the_first_start_come_into_force(rig: Rig) -> None:
    path = rig.path.parent / "policies" / "default" / "enterprise" / "default.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(SEVEN)

    await followed(rig)

    assert (await policies.current(rig.team, "default")).fragments[DEFAULT_DOCUMENT] == Fragment(max_rounds=7)


class FullOnce:
    """A folder on a disk that is full at first."""

    def __init__(self) -> None:
        self.looks = 0
        self.mirrored: list[str] = []

    async def look(self, tenants: Sequence[str]) -> Mapping[str, PolicyLook]:
        self.looks += 1
        if self.looks == 1:
            raise DiskFull
        return {tenant: PolicyLook() for tenant in tenants}

    async def mirror(self, tenant: str, texts: Mapping[str, str]) -> tuple[str, ...]:
        del texts
        if tenant == "acme":
            raise DiskFull
        self.mirrored.append(tenant)
        return ()


@with_rig
async def test_a_tenant_whose_files_cannot_be_written_does_not_keep_the_others_back(rig: Rig) -> None:
    folder = FullOnce()
    folder.looks = 1
    for tenant in ("acme", "globex"):
        await rig.tenant(tenant)

    await policy_files.follow(rig.team, folder)
    await policy_files.follow(rig.team, folder)

    assert folder.mirrored == ["globex"]  # once: what did not change is not written again


@with_rig
async def test_it_looks_again_when_somebody_asks_and_goes_on_after_a_full_disk(rig: Rig) -> None:
    folder = FullOnce()
    rig.team.policies = PolicyState(SHORTEST, folder)
    await rig.tenant()
    work = asyncio.ensure_future(policy_files.follow_forever(rig.team))

    for looks in (1, 2, 3):
        await soon(lambda: folder.looks >= looks)  # noqa: B023
        rig.team.policies.look.set()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)

    assert folder.looks >= 3


@with_rig
async def test_without_a_folder_there_is_nothing_to_follow(rig: Rig) -> None:
    await policy_files.follow_forever(rig.team)
