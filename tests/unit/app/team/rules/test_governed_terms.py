"""Governed messages by remembered terms: decided and recorded exactly as if every record were looked at each time."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.app.team.audit import retention
from parley.app.team.state.decision_cache import DecisionCache
from parley.domain.channel.channel import Options
from parley.domain.content.classification import LEVELS
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import PairBudget, PolicyDenied, Suspended
from parley.domain.errors.team import ChannelClosed
from parley.domain.message.message import Pattern
from parley.domain.store.changes import AuditQuery, Committed, TeamChanges
from parley.domain.store.transaction import Transaction
from tests.rigs.governed import put_policy
from tests.rigs.remembered import (
    AGENTS,
    CLOSE,
    SECOND,
    Change,
    Message,
    Step,
    changes,
    compare,
    govern,
    looser,
    moved,
    often,
    partly,
    ruled,
    say,
    stopped,
    tighter,
)
from tests.rigs.team import CHANNEL, Rig, before_the_commit, with_rig


def messages() -> st.SearchStrategy[Message]:
    metadata = st.fixed_dictionaries(
        {},
        optional={
            "exchange_type": st.sampled_from(("information_query", "information_query", "commitment_request")),
            "classification": st.sampled_from([level.value for level in LEVELS]),
            "conversation_id": st.sampled_from(("conv-1", "conv-2")),
            "max_rounds": st.sampled_from((1, 2, 3)),
        },
    )
    return st.builds(
        Message,
        st.sampled_from(AGENTS),
        st.sampled_from(("bob", "bob", "carol", "*", "role:tester")),
        metadata,
        st.sampled_from(("What is the status?", "What is the status?", "We promise it.", "password: hunter22")),
        st.sampled_from((CHANNEL, CHANNEL, SECOND)),
        st.sampled_from((Pattern.NOTIFY, Pattern.NOTIFY, Pattern.REQUEST)),
        st.none() | changes() | st.sampled_from([tighter, looser]),
    )


ASK_BOB = Message("alice", "bob", {"exchange_type": "information_query"})


# Many small strategies, which take their time on a busy machine.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(messages() | changes(), min_size=4, max_size=8))
def test_remembered_terms_decide_and_record_what_fresh_ones_do(steps: list[Step]) -> None:
    compare(often(steps, 4), governed=True)


@pytest.mark.parametrize("change", [tighter, partly(stopped, "bob"), CLOSE, partly(moved, "bob", "legal")])
def test_the_mutant_that_does_not_compare_the_generation_in_the_commit_is_caught(
    monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    steps: list[Step] = [ASK_BOB, ASK_BOB._replace(meanwhile=change)]
    compare(steps, governed=True)
    monkeypatch.setattr(Transaction, "_holds", lambda *_: True)

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


def test_the_mutant_that_remembers_across_generations_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Step] = [ASK_BOB, partly(stopped, "bob"), ASK_BOB]
    compare(steps, governed=True)
    monkeypatch.setattr(Transaction, "_holds", lambda *_: True)
    monkeypatch.setattr(DecisionCache, "find", lambda self, key, now: self._kept.get(key))

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


# ---------------------------------------------------------------- what is remembered, and for how long


async def _said_once(rig: Rig) -> None:
    await govern(rig)
    await say(rig, ASK_BOB)
    assert len(rig.team.governed_decisions) == 1


@pytest.mark.both_stores
@with_rig
async def test_the_second_message_rests_on_the_ground_of_the_first(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await _said_once(rig)
    commit, seen = rig.store.commit, list[TeamChanges]()

    async def noted(changes: TeamChanges) -> Committed:
        seen.append(changes)
        return await commit(changes)

    monkeypatch.setattr(rig.store, "commit", noted)
    await say(rig, ASK_BOB)

    (changes_,) = seen
    assert (changes_.expects, changes_.ground is not None) == ((), True)
    assert [entry.side for entry in changes_.audits] == ["alice", "bob"]


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (CLOSE, ChannelClosed),
        (partly(stopped, "bob"), Suspended),
        (partly(stopped, "alice"), Suspended),
        (partly(moved, "bob", "legal"), PolicyDenied),
    ],
)
@with_rig
async def test_what_changes_between_lookup_and_commit_is_decided_again(
    rig: Rig, change: Change, refusal: type[ParleyError], monkeypatch: pytest.MonkeyPatch
) -> None:
    await _said_once(rig)
    before_the_commit(rig, monkeypatch, change)

    with pytest.raises(refusal):
        await say(rig, ASK_BOB)


@with_rig
async def test_a_budget_that_is_spent_is_refused_on_the_ground_as_well(rig: Rig) -> None:
    await put_policy(rig, pair_budget=4)
    await _said_once(rig)
    for _ in range(3):
        await say(rig, ASK_BOB)

    with pytest.raises(PairBudget):
        await say(rig, ASK_BOB)

    refused = (await rig.store.audits(DEFAULT_TENANT, AuditQuery()))[-1]
    assert json.loads(refused.document)["code"] == "pair_budget"


@with_rig
async def test_a_message_that_was_refused_before_it_was_judged_leaves_nothing(rig: Rig) -> None:
    await govern(rig)
    await partly(stopped, "bob")(rig)

    with pytest.raises(Suspended):
        await say(rig, ASK_BOB)

    assert len(rig.team.governed_decisions) == 0


@with_rig
async def test_a_message_that_asks_for_nothing_is_no_governed_one_after_one_that_does(rig: Rig) -> None:
    await _said_once(rig)

    post = await say(rig, ASK_BOB._replace(metadata={}))

    assert getattr(post, "exchange_id", None) == ""


@pytest.mark.parametrize("options", [Options(ttl_seconds=60)])
@with_rig
async def test_what_depends_on_more_than_records_is_not_remembered(rig: Rig, options: Options) -> None:
    await govern(rig, options=options)

    await say(rig, ASK_BOB)
    await say(rig, ASK_BOB._replace(to="*"))
    await ruled(rig, 9)

    assert len(rig.team.governed_decisions) == 0


@with_rig
async def test_an_erasure_forgets_the_metadata_of_messages_that_are_alike(rig: Rig) -> None:
    await _said_once(rig)

    await retention.erase(rig.team, rig.caller("root", KeyKind.ADMIN), agent_id="alice")

    assert len(rig.team.governed_decisions) == 0
