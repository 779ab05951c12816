"""A living installation moves to PostgreSQL and back, and nobody who talks there notices."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.surface.cli.store_copy.installation import (
    Talk,
    copying,
    serving,
    take_along,
)
from tests.surface.stage import Stage


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
