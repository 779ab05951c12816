"""The rules of one transaction: who is refused, which version and which name holds, and the order of it all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parley.domain.channel.channel import Channel
from parley.domain.channel.post import PostState, Receipt
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import NotFound, ParleyError, Stale
from parley.domain.errors.rules import Overspent
from parley.domain.errors.team import NameTaken
from parley.domain.record import Expect, expecting
from parley.domain.store.changes import ErasableMessage, Moved, Spend, TeamChanges
from parley.domain.store.writes import EraseContent, ForgetKeys, InsertPosts, InsertReceipts, TrimAudit
from tests.contract.team_store import (
    AT,
    LATER,
    T1,
    T2,
    a_channel,
    a_post,
    a_use,
    an_intent,
)
from tests.samples.governed import an_exchange
from tests.unit.domain.store.transactions import Shelf, a_fact, a_shelf, after, begun, kept, much, noted


@pytest.fixture
def shelf() -> Shelf:
    return a_shelf()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"expects": (Expect("channel", "chan_1", 7),)}, Stale),
        ({"expects": (Expect("channel", "chan_1", 0),)}, Stale),
        ({"expects": (Expect("role", "none", 1),)}, Stale),
        ({"puts": (an_intent("intent_none", version=3),)}, Stale),
        ({"drops": (a_channel(version=7),)}, Stale),
        ({"puts": (a_channel("chan_2", label="chan_1"),)}, NameTaken),
        ({"posts": (a_post("msg_1"), a_post("msg_2", "chan_none"))}, NotFound),
        ({"saved": a_use("used")}, Stale),
        ({"spends": (Spend("key", 5), Spend("spent", 1))}, Overspent),
        ({"erase": (ErasableMessage("msg_9"),)}, NotFound),
        ({"new_conversations": ("conv-1",)}, Stale),
    ],
)
def test_a_refused_commit_leaves_no_trace(shelf: Shelf, wrong: dict[str, Any], refusal: type[ParleyError]) -> None:
    after(shelf, TeamChanges(T1, puts=(an_exchange(tenant_id=T1),)))
    shelf.scopes.add((T1, "used"))
    shelf.budgets[T1, "spent", ""] = 1
    done = begun(shelf)
    done.take(TeamChanges(T1, (a_post("msg_0"),)))
    before = noted(done)

    with pytest.raises(refusal):
        done.take(much(**wrong))

    assert noted(done) == before
    assert done.take(TeamChanges(T1, (a_post("msg_1"),))).posts[0].position == 2


@pytest.mark.parametrize(
    "refusal",
    [{"spends": (Spend("spent", 1),)}, {"puts": (a_channel("chan_2", label="chan_1"),)}],
    ids=["budget", "name"],
)
def test_a_commit_that_drops_what_has_changed_is_decided_again_whatever_else_would_refuse_it(
    shelf: Shelf, refusal: dict[str, Any]
) -> None:
    shelf.budgets[T1, "spent", ""] = 1

    with pytest.raises(Stale):
        begun(shelf).take(TeamChanges(T1, drops=(a_channel(version=7),), **refusal))


def test_who_is_refused_hears_which_record_has_changed(shelf: Shelf) -> None:
    with pytest.raises(Stale) as refused:
        begun(shelf).take(TeamChanges(T1, expects=(Expect("channel", "chan_1", 7),)))

    assert refused.value.facts == {"kind": "channel", "id": "chan_1", "tenant": T1}


def test_what_is_as_it_was_expected_is_no_obstacle(shelf: Shelf) -> None:
    expects = (expecting(kept(shelf)), Expect("role", "none", 0))

    assert after(shelf, TeamChanges(T1, (a_post(),), expects)).heads[T1].position == 1


# ---------------------------------------------------------------- versions


def test_of_two_commits_of_one_version_in_one_transaction_the_second_is_stale(shelf: Shelf) -> None:
    done = begun(shelf)
    channel = kept(shelf)
    first = done.take(TeamChanges(T1, puts=(replace(channel, created_by="bob"),)))

    for second in (TeamChanges(T1, puts=(channel,)), TeamChanges(T1, expects=(expecting(channel),))):
        with pytest.raises(Stale):
            done.take(second)

    assert first.puts[0].version == 2
    assert done.records == {(T1, "channel", "chan_1"): first.puts[0]}
    assert done.before == {(T1, "channel", "chan_1"): channel}


def test_a_record_that_is_put_twice_in_a_transaction_is_kept_as_it_was_last(shelf: Shelf) -> None:
    done = begun(shelf)
    first = done.take(TeamChanges(T1, puts=(an_intent(),))).puts[0]
    assert isinstance(first, Intent)

    second = done.take(TeamChanges(T1, (a_post(),), (expecting(first),), puts=(replace(first, title="new"),))).puts[0]

    assert second == replace(first, title="new", version=2)
    assert done.records == {(T1, "intent", "intent_1"): second}
    assert done.before == {(T1, "intent", "intent_1"): None}


def test_what_was_dropped_in_a_transaction_is_gone_for_the_rest_of_it(shelf: Shelf) -> None:
    done = begun(shelf)
    done.take(TeamChanges(T1, drops=(kept(shelf),)))

    with pytest.raises(NotFound):
        done.take(TeamChanges(T1, (a_post(),)))
    with pytest.raises(Stale):
        done.take(TeamChanges(T1, expects=(Expect("channel", "chan_1", 1),)))

    assert done.records == {(T1, "channel", "chan_1"): None}
    assert done.gone_channels == {(T1, "chan_1")}


def test_what_was_unsettled_becomes_the_position_before_the_commits_own_posts(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, (a_post("msg_1"), a_post("msg_2"))))

    (channel,) = begun(shelf).take(TeamChanges(T1, (a_post("msg_3"),), puts=(a_channel("chan_2"),))).puts

    assert isinstance(channel, Channel)
    assert {one.since for one in channel.members} == {2}


# ---------------------------------------------------------------- names


def test_a_name_that_was_taken_in_this_transaction_is_taken(shelf: Shelf) -> None:
    done = begun(shelf)
    done.take(TeamChanges(T1, puts=(a_channel("chan_2", label="hall"),)))

    with pytest.raises(NameTaken) as refused:
        done.take(TeamChanges(T1, puts=(a_channel("chan_3", label="hall"),)))

    assert refused.value.facts == {"channel_id": "chan_2"}
    done.take(TeamChanges(T1, puts=(a_channel("chan_4", label="hall", intent_id="intent_2"),)))
    done.take(TeamChanges(T2, puts=(a_channel("chan_5", T2, label="hall"),)))


def test_a_name_that_was_let_go_in_this_transaction_is_free(shelf: Shelf) -> None:
    done = begun(shelf)

    done.take(TeamChanges(T1, puts=(replace(kept(shelf), label="old"),)))
    done.take(TeamChanges(T1, puts=(a_channel("chan_2", label="chan_1"),)))

    with pytest.raises(NameTaken):
        done.take(TeamChanges(T1, puts=(a_channel("chan_3", label="chan_1"),)))


def test_a_name_of_a_record_that_was_dropped_is_free(shelf: Shelf) -> None:
    done = begun(shelf)

    done.take(TeamChanges(T1, drops=(kept(shelf),)))
    done.take(TeamChanges(T1, puts=(a_channel("chan_2", label="chan_1"),)))

    assert done.records[T1, "channel", "chan_1"] is None


def test_two_records_can_change_names_in_one_transaction(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2"),)))
    one, other = kept(shelf), kept(shelf, "chan_2")
    done = begun(shelf)

    (aside,) = done.take(TeamChanges(T1, puts=(replace(one, label="aside"),))).puts
    done.take(TeamChanges(T1, puts=(replace(other, label="chan_1"),)))
    assert isinstance(aside, Channel)
    done.take(TeamChanges(T1, puts=(replace(aside, label="chan_2"),)))

    assert {record.name for record in done.records.values() if record} == {"chan_1", "chan_2"}
    with pytest.raises(NameTaken):
        done.take(TeamChanges(T1, puts=(a_channel("chan_3", label="chan_1"),)))
    done.take(TeamChanges(T1, puts=(a_channel("chan_3", label="aside"),)))


def test_a_record_that_stays_does_not_stand_in_its_own_way(shelf: Shelf) -> None:
    assert after(shelf, TeamChanges(T1, puts=(kept(shelf),))).records[T1, "channel", "chan_1"] is not None


# ---------------------------------------------------------------- new conversations


@pytest.mark.parametrize(
    "first",
    [
        TeamChanges(T1, puts=(an_exchange(tenant_id=T1),), new_conversations=("conv-1",)),
        TeamChanges(T1, creates=(an_exchange(tenant_id=T1, version=1),), new_conversations=("conv-1",)),
    ],
    ids=["put", "created"],
)
def test_a_conversation_with_an_exchange_of_this_transaction_is_not_new(shelf: Shelf, first: TeamChanges) -> None:
    done = begun(shelf)
    assert done.take(first).new_conversations == ("conv-1",)

    with pytest.raises(Stale) as refused:
        done.take(TeamChanges(T1, puts=(an_exchange(id="exch_2", tenant_id=T1),), new_conversations=("conv-1",)))

    assert refused.value.facts["conversation_id"] == "conv-1"


def test_a_request_that_was_answered_is_not_decided_again_for_what_changed_since(shelf: Shelf) -> None:
    """Only a refusal that names a record is: its answer is stored, and a second decision would be recorded."""
    after(shelf, TeamChanges(T1, puts=(an_exchange(tenant_id=T1),)))
    shelf.scopes.add((T1, "used"))

    with pytest.raises(Stale) as refused:
        begun(shelf).take(TeamChanges(T1, (a_post("msg_1"),), new_conversations=("conv-1",), saved=a_use("used")))

    assert "kind" not in refused.value.facts


def test_a_conversation_is_new_whatever_others_and_other_tenants_call_theirs(shelf: Shelf) -> None:
    elsewhere = [an_exchange(tenant_id=T1, conversation_id="conv-2"), an_exchange(tenant_id=T2)]
    after(shelf, *(TeamChanges(one.tenant_id, puts=(one,)) for one in elsewhere))
    done = begun(shelf)

    taken = done.take(TeamChanges(T1, puts=(an_exchange(id="exch_3", tenant_id=T1),), new_conversations=("conv-1",)))

    assert taken.puts[0].version == 1


# ---------------------------------------------------------------- what is written in its order


def test_acts_are_in_the_order_of_the_commits(shelf: Shelf) -> None:
    receipt = Receipt("msg_1", "bob", AT)

    done = after(
        shelf,
        TeamChanges(T1, (a_post("msg_1"),)),
        TeamChanges(T1, receipts=(receipt,)),
        TeamChanges(T1, (a_post("msg_2"),)),
        TeamChanges(T1, trim_audit=3),
        TeamChanges(T1, forget_before=LATER),
    )

    assert [type(act) for act in done.writes] == [InsertPosts, InsertReceipts, InsertPosts, TrimAudit, ForgetKeys]
    assert done.writes[1] == InsertReceipts(1, (receipt,))
    assert done.writes[3:] == [TrimAudit(1, 3), ForgetKeys(LATER)]


def test_what_is_blanked_is_counted_and_its_entry_says_so(shelf: Shelf) -> None:
    shelf.unblanked[T1] = 2
    blank = (ErasableMessage("msg_1", ("scope",)), ErasableMessage("msg_2"), ErasableMessage("msg_3"))
    done = begun(shelf)
    first, second = a_fact(1), a_fact(2)._replace(facts={"messages": 40})
    with pytest.raises(NotFound):
        done.take(TeamChanges(T2, audits=(first,), erase=blank))

    committed = done.take(TeamChanges(T1, audits=(first, second), erase=blank))

    assert committed.erased == 2
    assert done.writes == [EraseContent(1, blank)]
    assert [json.loads(entry.document)["messages"] for _, entry in done.audits] == [2, 42]


def test_an_entry_of_a_commit_that_blanks_nothing_counts_nothing(shelf: Shelf) -> None:
    done = after(shelf, TeamChanges(T1, audits=(a_fact(1),)))

    assert "messages" not in json.loads(done.audits[0][1].document)


@pytest.mark.parametrize(
    "changes",
    [
        TeamChanges(T1, moved=(Moved("msg_1", PostState.EXPIRED),)),
        TeamChanges(T1, ended=("chan_1",)),
        TeamChanges(T1, purges=("chan_1",)),
        TeamChanges(T1, departed=("bob",)),
        TeamChanges(T1, erase=(ErasableMessage("msg_1"),)),
        TeamChanges(T1, trim_audit=1),
        TeamChanges(T1, forget_before=AT),
    ],
)
def test_what_depends_on_rows_of_others_stands_alone(changes: TeamChanges) -> None:
    assert changes.stands_alone


def test_what_depends_on_nothing_else_does_not_stand_alone() -> None:
    assert not much().stands_alone
