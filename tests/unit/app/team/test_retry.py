import pytest

from parley.app.team.retry import committed
from parley.app.team.team import ATTEMPTS
from parley.domain.directory.callers import DEFAULT_TENANT, Saved
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import Conflict, Stale
from parley.domain.record import Expect
from parley.domain.store.changes import TeamChanges
from tests.rigs.team import INTENT, Rig, with_rig

pytestmark = pytest.mark.both_stores


@with_rig
async def test_a_decision_is_made_again_when_somebody_else_was_faster(rig: Rig) -> None:
    await rig.intent()
    loaded: list[int] = []

    async def decide() -> TeamChanges:
        intent = await rig.store.get(Intent, DEFAULT_TENANT, INTENT)
        assert intent is not None
        loaded.append(intent.version)
        if len(loaded) == 1:
            await rig.put(intent)
        return TeamChanges(DEFAULT_TENANT, puts=(intent,))

    done = await committed(rig.team, rig.caller("alice"), decide, "intent")

    assert done is not None
    assert loaded == [1, 2]
    assert done.puts[0].version == 3


@with_rig
async def test_it_is_given_up_after_a_few_times(rig: Rig) -> None:
    tries: list[int] = []

    async def decide() -> TeamChanges:
        tries.append(1)
        return TeamChanges(DEFAULT_TENANT, expects=(Expect(Intent.kind, "nope", 7),))

    with pytest.raises(Conflict):
        await committed(rig.team, rig.caller("alice"), decide, "intent")

    assert len(tries) == ATTEMPTS


@with_rig
async def test_nothing_to_write_writes_nothing(rig: Rig) -> None:
    async def decide() -> None:
        return None

    assert await committed(rig.team, rig.caller("alice"), decide, "intent") is None


@with_rig
async def test_an_idempotency_key_that_was_used_is_no_reason_to_try_again(rig: Rig) -> None:
    saved = Saved("scope", "f", "made", rig.at())
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, saved=saved))
    tries: list[int] = []

    async def decide() -> TeamChanges:
        tries.append(1)
        return TeamChanges(DEFAULT_TENANT)

    with pytest.raises(Stale):
        await committed(rig.team, rig.caller("alice")._replace(saved=saved), decide, "intent")

    assert len(tries) == 1
