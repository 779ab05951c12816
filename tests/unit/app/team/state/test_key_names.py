"""The names that keys were given to: read once, and again when a key is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parley.app.team.directory import keys
from parley.app.team.directory.keys import KeyDraft
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, Caller, IssuedKey, Key, KeyKind
from tests.rigs.node import two_nodes
from tests.rigs.team import Rig, in_loop, with_rig

pytestmark = pytest.mark.both_stores

ADMIN = Caller(DEFAULT_TENANT, "", KeyKind.ADMIN, "key_admin")


async def people(rig: Rig) -> set[str]:
    await rig.store.catch_up("", DEFAULT_TENANT)
    return set((await rig.team.key_names.of(DEFAULT_TENANT)).people)


async def give_key(rig: Rig, user: str) -> str:
    return (await keys.create(rig.team, ADMIN, KeyDraft(KeyKind.HUMAN, user_id=user))).key.id


@with_rig
async def test_they_are_read_once_until_a_key_is_created(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await give_key(rig, "ann")
    children, reads = rig.store.children, []

    async def counted(kind: type[Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401  # as the store
        reads.append(kind)
        return await children(kind, *args, **options)

    monkeypatch.setattr(rig.store, "children", counted)
    for _ in range(3):
        assert await people(rig) == {"ann"}
    assert reads == [IssuedKey]

    await keys.revoke(rig.team, ADMIN, await give_key(rig, "ben"))
    assert await people(rig) == {"ann", "ben"}


@with_rig
async def test_keys_of_before_there_was_such_a_record_count(rig: Rig) -> None:
    owner: dict[str, Any] = {
        "owner": DEFAULT_TENANT,
        "key_kind": KeyKind.AGENT,
        "agent_id": "zed",
        "created_at": rig.at(),
    }
    await rig.put(Key(id="key_zed", tenant_id=NO_TENANT, digest="0", **owner))
    await rig.put(IssuedKey(id="key_zed", tenant_id=DEFAULT_TENANT))

    assert (await rig.team.key_names.of(DEFAULT_TENANT)).agents == {"zed"}


@in_loop
async def test_another_node_knows_a_new_name_at_once(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        assert await people(b) == set()
        await give_key(a, "ann")

        assert await people(b) == {"ann"}
