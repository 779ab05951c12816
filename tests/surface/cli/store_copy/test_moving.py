"""A living installation moves to PostgreSQL and back, and nobody who talks there notices."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from parley.settings import without_password
from tests.surface.cli.store_copy.installation import BEHIND, Talk, copying, in_store, serving, take_along
from tests.surface.stage import Ran, Stage


@pytest.mark.slow
def test_an_installation_moves_to_postgresql_and_back_and_everything_goes_on(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    data, new, back = tmp_path / "data", tmp_path / "new", tmp_path / "back"
    with serving(data) as node:
        talk = Talk(stage, node)
        before = talk.seen()
    copied = stage.run(*copying(data, dsn, "--json"))
    assert (copied.code, copied.err) == (0, "")
    assert (copied.json["finished"], copied.json["behind"]) == (True, 0)
    assert copied.json["take_along"][:2] == ["audit.key", "audit.pub"]
    take_along(data, new)

    with serving(new, "--store", dsn, key=node.key) as moved:
        talk.meet(moved)
        assert talk.seen() == before
        assert talk.repeated(moved) == talk.once
        assert stage.run("audit", "verify").code == 0
        talk.approve(talk.waiting)
        added = talk.post(talk.channel, "text=here")
        later = talk.said("messages", talk.channel, "--since", before["messages"][-1]["id"])
        assert added in [one["id"] for one in later]
        assert talk.said("messages", talk.channel) == before["messages"] + later
        assert talk.said("channel", "create", talk.intent, "one-more")["id"]
        talk.said("tenant", "create", "initech")
        assert stage.run("audit", "verify").code == 0
        after = talk.seen()

    refused = stage.run(*copying(data, dsn))
    assert (refused.code, refused.error) == (4, "conflict")
    assert "was in use since it was copied" in refused.err
    assert stage.run(*copying(data, dsn, "--verify-only")).code == 1

    returned = stage.run(*copying(dsn, back, "--json"))
    assert (returned.code, returned.err) == (0, "")
    same = stage.run(*copying(dsn, back, "--verify-only", "--json"))
    assert (same.code, same.json["same"], same.json["differences"]) == (0, True, [])
    for name in ("audit.key", "audit.pub"):
        shutil.copy2(new / name, back / name)
    with serving(back, key=node.key) as home:
        talk.meet(home)
        assert talk.seen() == after
        assert talk.repeated(home) == talk.once
        assert stage.run("audit", "verify").code == 0
        talk.post(talk.channel, "text=home again")


def starting(stage: Stage, place: str, data: Path) -> Ran:
    """What `parley up` says that does not start."""
    where = ("--store", place, "--data", str(data)) if "://" in place else ("--data", place)
    return stage.script("up", "--port", "0", *where)


@pytest.mark.parametrize("from_database", [False, True])
def test_no_server_starts_on_a_store_that_was_moved_until_it_is_reopened(
    stage: Stage, dsn: str, tmp_path: Path, *, from_database: bool
) -> None:
    data, back, own = in_store(tmp_path / "data"), tmp_path / "back", tmp_path / "own"
    source, target = str(data), dsn
    if from_database:
        assert stage.run(*copying(data, dsn)).code == 0
        source, target = dsn, str(back)
    shown = without_password(target) if "://" in target else target

    copied = stage.run(*copying(source, target))
    refused = starting(stage, source, own)

    assert copied.out.splitlines()[-1].startswith("No server starts on ")
    assert (refused.code, refused.out) == (4, "")
    assert f"was moved to {shown} [conflict]\nhint: start" in refused.err
    assert "parley store reopen" in refused.err
    assert len(refused.err.splitlines()) == 2
    assert stage.run(*copying(source, target, "--verify-only")).code == 0

    reopened, again = stage.run("store", "reopen", source), stage.run("store", "reopen", source, "--json")
    assert reopened.out.startswith("Reopened ")
    assert shown in reopened.out
    assert again.json["moved_to"] == ""
    options = ("--store", source) if from_database else ()
    with serving(own if from_database else data, *options, key="none") as node:
        assert node.url


def test_a_copy_that_is_not_finished_or_a_trial_leaves_its_source_to_the_servers(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with serving(data) as node:
        assert stage.run(*copying(data, dsn)).code == BEHIND
    assert stage.run(*copying(data, tmp_path / "trial", "--though-behind")).code == 0

    with serving(data, key=node.key) as again:
        assert again.connection().get("agents") == []


def test_a_store_that_was_moved_is_copied_nowhere_else_and_nothing_is_copied_into_it(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    data, other = in_store(tmp_path / "data"), in_store(tmp_path / "other")
    for _ in range(2):
        assert stage.run(*copying(data, dsn)).code == 0
    elsewhere = stage.run(*copying(data, tmp_path / "elsewhere"))
    assert stage.run(*copying(dsn, tmp_path / "back")).code == 0
    into_database = stage.run(*copying(data, dsn))
    (data / "parley.db").unlink()
    into_file = stage.run(*copying(other, data))

    assert (elsewhere.code, into_database.code, into_file.code) == (4, 4, 4)
    assert "FROM was moved to postgresql://" in elsewhere.err
    assert f"was moved to {tmp_path / 'back'}" in into_database.err
    assert "was moved to postgresql://" in into_file.err
