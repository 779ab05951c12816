"""Policies as files: mirrored, private, and a way in for whoever edits them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parley.adapters.data.policy_files import PolicyFiles
from parley.domain.errors.errors import Unavailable
from parley.domain.hashes import digest
from parley.domain.rules.policy import Fragment, PolicyEdit, PolicyLook
from tests.rigs.team import in_loop

TWO = "agent-to-agent:\n  max_rounds: 2\n"
THREE = "agent-to-agent:\n  max_rounds: 3\n"
FOUR = "agent-to-agent:\n  max_rounds: 4\n"
BROKEN = "agent-to-agent:\n  max_rounds: many\n"
IN_FORCE = {"enterprise/default": THREE, "org/sales": TWO}


def write(path: Path, text: str) -> None:
    """As an editor does: aside, then in its place, so that it never has the same inode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".tmp").write_text(text)
    path.with_suffix(".tmp").replace(path)


async def seen(files: PolicyFiles, tenant: str) -> PolicyLook:
    return (await files.look([tenant]))[tenant]


@in_loop
async def test_what_is_in_force_lies_there_as_private_files(tmp_path: Path) -> None:
    await PolicyFiles(str(tmp_path)).mirror("acme", IN_FORCE)

    assert (tmp_path / "acme" / "enterprise" / "default.yaml").read_text() == THREE
    assert (tmp_path / "acme" / "org" / "sales.yaml").read_text() == TWO
    for path in (tmp_path / "acme").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@in_loop
async def test_its_own_files_are_no_edits_not_even_after_a_restart(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)

    for one in (files, files, PolicyFiles(str(tmp_path))):
        assert await seen(one, "acme") == PolicyLook()


@in_loop
async def test_a_file_that_somebody_changed_or_added_is_an_edit(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)
    write(tmp_path / "acme" / "org" / "sales.yaml", THREE)
    write(tmp_path / "acme" / "user" / "ana@example.com.yaml", TWO)

    edited, broken, _ = await seen(files, "acme")

    assert edited == (
        PolicyEdit("org/sales", THREE, Fragment(max_rounds=3), digest(IN_FORCE["org/sales"].encode())),
        PolicyEdit("user/ana@example.com", TWO, Fragment(max_rounds=2)),
    )
    assert broken == ()


@in_loop
async def test_a_file_edited_while_no_server_ran_is_an_edit(tmp_path: Path) -> None:
    await PolicyFiles(str(tmp_path)).mirror("acme", IN_FORCE)
    write(tmp_path / "acme" / "org" / "sales.yaml", THREE)

    edited, _, _ = await seen(PolicyFiles(str(tmp_path)), "acme")

    assert [one.document for one in edited] == ["org/sales"]


@in_loop
async def test_a_file_that_is_only_behind_is_no_edit_and_catches_up(tmp_path: Path) -> None:
    """The server was killed after it had put a policy into force, and before it could mirror it."""
    await PolicyFiles(str(tmp_path)).mirror("acme", IN_FORCE)
    files = PolicyFiles(str(tmp_path))

    assert (await seen(files, "acme")).edited == ()
    await files.mirror("acme", {**IN_FORCE, "org/sales": THREE})

    assert (tmp_path / "acme" / "org" / "sales.yaml").read_text() == THREE


@in_loop
async def test_an_edit_is_told_until_it_is_in_force_and_its_file_is_left_alone(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)
    path = tmp_path / "acme" / "org" / "sales.yaml"
    write(path, THREE)
    inode = path.stat().st_ino

    assert len((await seen(files, "acme")).edited) == len((await seen(files, "acme")).edited) == 1
    await files.mirror("acme", {**IN_FORCE, "org/sales": THREE})

    assert await seen(files, "acme") == PolicyLook()
    assert path.stat().st_ino == inode


@in_loop
async def test_a_broken_file_is_named_with_its_line_and_stays_for_whoever_mends_it(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)
    path = tmp_path / "acme" / "org" / "sales.yaml"
    write(path, BROKEN)

    first, second = await seen(files, "acme"), await seen(files, "acme")
    await files.mirror("acme", IN_FORCE)

    assert first == second
    assert first.edited == ()
    assert [one.message for one in first.broken] == [
        'org/sales.yaml:2: max_rounds: must be a whole number from 1 to 1000, not "many"'
    ]
    assert [one["line"] for one in first.broken[0].flaws] == [2]
    assert path.read_text() == BROKEN


@in_loop
async def test_a_broken_file_gives_way_when_its_policy_is_changed_otherwise(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)
    write(tmp_path / "acme" / "org" / "sales.yaml", BROKEN)
    await seen(files, "acme")

    await files.mirror("acme", {**IN_FORCE, "org/sales": THREE})

    assert (tmp_path / "acme" / "org" / "sales.yaml").read_text() == THREE
    assert await seen(files, "acme") == PolicyLook()


@in_loop
async def test_a_file_that_is_gone_comes_back(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)
    (tmp_path / "acme" / "org" / "sales.yaml").unlink()

    assert await seen(files, "acme") == PolicyLook(gone=True)
    assert await files.mirror("acme", IN_FORCE) == ("org/sales.yaml",)
    assert await files.mirror("acme", IN_FORCE) == ()

    assert (tmp_path / "acme" / "org" / "sales.yaml").read_text() == TWO


@in_loop
async def test_what_somebody_wrote_and_what_gives_way_is_kept_beside_it(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)
    path = tmp_path / "acme" / "org" / "sales.yaml"
    write(path, THREE)

    await files.mirror("acme", {**IN_FORCE, "org/sales": FOUR})

    assert path.read_text() == FOUR
    assert path.with_name("sales.yaml.replaced").read_text() == THREE
    assert await seen(files, "acme") == PolicyLook()


@in_loop
async def test_an_edit_that_comes_while_the_one_before_comes_into_force_is_the_next_one(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)
    path = tmp_path / "acme" / "org" / "sales.yaml"
    write(path, THREE)
    assert [one.text for one in (await seen(files, "acme")).edited] == [THREE]
    write(path, FOUR)

    await files.mirror("acme", {**IN_FORCE, "org/sales": THREE})

    assert path.read_text() == FOUR
    edited, *_ = await seen(files, "acme")
    assert edited == (PolicyEdit("org/sales", FOUR, Fragment(max_rounds=4), digest(THREE.encode())),)


@in_loop
async def test_the_file_of_a_policy_that_is_no_longer_in_force_goes(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)

    await files.mirror("acme", {"enterprise/default": THREE})

    assert not (tmp_path / "acme" / "org" / "sales.yaml").exists()


@in_loop
async def test_what_lies_where_no_policy_belongs_is_named(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    write(tmp_path / "acme" / "sales.yaml", TWO)
    write(tmp_path / "acme" / "orgs" / "sales.yaml", TWO)
    write(tmp_path / "acme" / "org" / "two words.yaml", TWO)

    edited, broken, _ = await seen(files, "acme")

    assert edited == ()
    assert [one.file for one in broken] == ["sales.yaml", "org/two words.yaml", "orgs/sales.yaml"]


@in_loop
async def test_what_editors_put_beside_a_file_is_none(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    for name in (".sales.yaml.swp", ".sales.yaml", "sales.yaml~", "sales.yaml.bak", "4913"):
        write(tmp_path / "acme" / "org" / name, BROKEN)

    assert await seen(files, "acme") == PolicyLook()


@in_loop
async def test_links_pipes_and_what_is_no_text_are_named_and_never_followed(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    folder = tmp_path / "acme" / "org"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_text(TWO)
    (folder / "link.yaml").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "folder.yaml").mkdir()
    (folder / "latin.yaml").write_bytes(b"agent-to-agent:\n  disclosure: \xe9\n")
    (folder / "large.yaml").write_bytes(b"#" * (256 * 1024) + "é".encode())

    edited, broken, _ = await seen(files, "acme")

    assert edited == ()
    assert [one.file for one in broken] == [f"org/{name}.yaml" for name in ("folder", "large", "latin", "link", "pipe")]
    assert broken[2].message == "org/latin.yaml:2: is not UTF-8 text"


@in_loop
async def test_tenants_have_folders_of_their_own(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    await files.mirror("acme", IN_FORCE)
    write(tmp_path / "acme" / "org" / "sales.yaml", THREE)

    assert await seen(files, "globex") == PolicyLook()


@in_loop
async def test_a_forgotten_record_of_what_was_written_harms_nothing(tmp_path: Path) -> None:
    await PolicyFiles(str(tmp_path)).mirror("acme", IN_FORCE)
    (tmp_path / "acme" / ".written").write_text("[not what it was")
    files = PolicyFiles(str(tmp_path))

    edited, broken, _ = await seen(files, "acme")
    await files.mirror("acme", IN_FORCE)

    assert {one.document: one.text for one in edited} == IN_FORCE  # the same that is in force, so nothing changes
    assert broken == ()
    assert await seen(files, "acme") == PolicyLook()


@in_loop
async def test_a_disk_that_refuses_is_said_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = PolicyFiles(str(tmp_path / "file"))

    with pytest.raises(Unavailable, match="Not a directory"):
        await files.mirror("acme", IN_FORCE)


@in_loop
async def test_a_tenant_whose_files_cannot_be_read_does_not_keep_the_others_back(tmp_path: Path) -> None:
    files = PolicyFiles(str(tmp_path))
    write(tmp_path / "globex" / "org" / "sales.yaml", TWO)
    (tmp_path / "acme" / ".written").mkdir(parents=True)

    looks = await files.look(["acme", "globex"])

    assert [one.message for one in looks["acme"].broken] == ["the policy files cannot be read: Is a directory"]
    assert len(looks["globex"].edited) == 1
