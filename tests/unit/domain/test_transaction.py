"""The rules of one transaction, with a store that is a few dictionaries."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parley.domain.acts import Act, Blanked, Departed, Ended, Evicted, Expired, Forgotten, Found, LetGo, Received, Said
from parley.domain.audit import NO_HASH, AuditDraft, SideHead
from parley.domain.changes import GENESIS, canonical, chained
from parley.domain.channel import Channel, Options, Tally
from parley.domain.errors import NotFound, ParleyError, Stale
from parley.domain.event import Event, EventDraft
from parley.domain.governance_errors import Overspent
from parley.domain.intent import Intent
from parley.domain.post import Post, PostState, Receipt
from parley.domain.record import Expect, Record, expecting
from parley.domain.team_changes import Moved, Spend, Spoken, TeamChanges
from parley.domain.team_errors import NameTaken
from parley.domain.transaction import (
    EVICT_STEP,
    FREE,
    BudgetKey,
    Head,
    LogEnd,
    NameKey,
    Place,
    RecordKey,
    SideKey,
    Spelling,
    Transaction,
    name_key,
    stands_alone,
)
from tests.contract.team_store import (
    AT,
    LATER,
    T1,
    T2,
    a_channel,
    a_post,
    a_request,
    a_use,
    an_answer,
    an_entry,
    an_event,
    an_intent,
)

NUMBERS = {T1: 1, T2: 2}


class Shelf:
    """A store in memory: what was there before the transaction."""

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {tenant: Head(number, 0, 0, GENESIS) for tenant, number in NUMBERS.items()}
        self.records: dict[RecordKey, Record] = {}
        self.places: dict[tuple[str, str], Place] = {}
        self.sides: dict[SideKey, SideHead] = {}
        self.budgets: dict[BudgetKey, int] = {}
        self.scopes: set[tuple[str, str]] = set()
        self.logs: dict[tuple[str, str], LogEnd] = {}
        self.waiting: dict[tuple[str, str], Post] = {}
        self.unblanked: dict[str, int] = {}
        self.channels = 0

    def keep(self, done: Transaction) -> None:
        """What a store does with a transaction, as far as another one sees it."""
        self.records = {key: record for key, record in (self.records | done.records).items() if record is not None}
        self.places.update(done.places)
        self.heads.update(done.heads)
        self.sides.update(done.sides)
        self.budgets.update(done.budgets)
        self.scopes.update(done.saved)
        for tenant, event in done.events:
            name = next(one for one, number in NUMBERS.items() if number == tenant)
            self.logs[name, event.intent_id] = (event.sequence, event.event_hash)

    def head(self, tenant: str) -> Head:
        return self.heads[tenant]

    def record(self, key: RecordKey) -> Record | None:
        return self.records.get(key)

    def holder(self, name: NameKey) -> str:
        return next((one.id for one in self.records.values() if name_key(one) == name), FREE)

    def place(self, tenant: str, channel_id: str) -> Place | None:
        return self.places.get((tenant, channel_id))

    def new_channel(self) -> int:
        self.channels += 1
        return self.channels

    def side(self, key: SideKey) -> SideHead:
        return self.sides.get(key, SideHead())

    def spent(self, key: BudgetKey) -> int:
        return self.budgets.get(key, 0)

    def is_saved(self, tenant: str, scope: str) -> bool:
        return (tenant, scope) in self.scopes

    def log_end(self, tenant: str, intent_id: str) -> LogEnd:
        return self.logs.get((tenant, intent_id), (0, ""))

    def pending(self, tenant: str, message_id: str) -> Post | None:
        return self.waiting.get((tenant, message_id))

    def unerased(self, tenant: str, messages: tuple[Spoken, ...]) -> int:
        del messages
        return self.unblanked.get(tenant, 0)


def _event(draft: EventDraft, position: int, sequence: int, previous: str) -> Event:
    spelled = f"{previous}>{draft.id}"
    return Event(position, draft.intent_id, sequence, draft.id, "comment", draft.actor, AT, "", b"{}", spelled)


def _entry(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode()


SPELLING = Spelling(_event, _entry)


@pytest.fixture
def shelf() -> Shelf:
    """One with a channel, `chan_1`."""
    made = Shelf()
    done = begun(made)
    done.take(TeamChanges(T1, puts=(a_channel(),)))
    made.keep(done)
    return made


def begun(shelf: Shelf) -> Transaction:
    return Transaction(shelf, SPELLING)


def after(shelf: Shelf, *batch: TeamChanges) -> Transaction:
    """Commits that are all taken, and kept."""
    done = begun(shelf)
    for changes in batch:
        done.take(changes)
    done.acts += done.evicted()
    shelf.keep(done)
    return done


def kept(shelf: Shelf, channel_id: str = "chan_1") -> Channel:
    found = shelf.records[T1, "channel", channel_id]
    assert isinstance(found, Channel)
    return found


def of_kind(done: Transaction, kind: type[Act]) -> list[Any]:
    return [act for act in done.acts if isinstance(act, kind)]


def noted(done: Transaction) -> object:
    """All that an adapter would write."""
    return (
        [(list(act.posts), list(act.answered)) if isinstance(act, Said) else act for act in done.acts],
        dict(done.records),
        dict(done.heads),
        dict(done.places),
        set(done.new_channels),
        set(done.gone_channels),
        list(done.events),
        list(done.entries),
        list(done.audits),
        dict(done.budgets),
        dict(done.saved),
        dict(done.sides),
    )


def a_fact(number: int, side: str = "alice") -> AuditDraft:
    return AuditDraft(f"aud_{number}", side, AT, "agent_exchange", side, {"n": number})


def much(**changes: Any) -> TeamChanges:  # noqa: ANN401
    """A commit of every sort that can stand beside others."""
    everything = TeamChanges(
        T1,
        (a_post("msg_much"),),
        events=(an_event("evt_much"),),
        receipts=(Receipt("msg_much", "bob", AT),),
        entries=(an_entry("much"),),
        saved=a_use("much"),
        audits=(a_fact(9),),
        spends=(Spend("key", 5),),
    )
    puts = (an_intent("intent_much"), a_channel("chan_much"), *changes.pop("puts", ()))
    return everything._replace(puts=puts, **changes)


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
        ({"blank": (Spoken("msg_9"),)}, NotFound),
    ],
)
def test_a_refused_commit_leaves_no_trace(shelf: Shelf, wrong: dict[str, Any], refusal: type[ParleyError]) -> None:
    shelf.scopes.add((T1, "used"))
    shelf.budgets[T1, "spent", ""] = 1
    done = begun(shelf)
    done.take(TeamChanges(T1, (a_post("msg_0"),)))
    before = noted(done)

    with pytest.raises(refusal):
        done.take(much(**wrong))

    assert noted(done) == before
    assert done.take(TeamChanges(T1, (a_post("msg_1"),))).posts[0].position == 2


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


# ---------------------------------------------------------------- messages and their places


def test_positions_and_places_are_dense_over_commits_and_transactions(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2"),)))
    placed: list[tuple[int, int]] = []
    for turn in range(3):
        done = begun(shelf)
        for n in range(4):
            with pytest.raises(Stale):
                done.take(TeamChanges(T1, (a_post("msg_x"),), (Expect("channel", "chan_1", 9),)))
            committed = done.take(TeamChanges(T1, (a_post(f"msg_{turn}_{n}"), a_post(f"msg_o{turn}_{n}", "chan_2"))))
            placed += [(post.position, post.seq) for post in committed.posts]
            assert committed.position == committed.posts[-1].position
        shelf.keep(done)

    assert placed == [(n, (n + 1) // 2) for n in range(1, 25)]
    assert shelf.places[T1, "chan_1"] == Place(1, "intent_1", 12, Tally(12, AT, 0))


def test_messages_and_events_share_positions_and_each_tenant_has_its_own(shelf: Shelf) -> None:
    done = begun(shelf)

    mine = done.take(TeamChanges(T1, (a_post("msg_1"),), events=(an_event("evt_1"), an_event("evt_2"))))
    theirs = done.take(TeamChanges(T2, events=(an_event("evt_3"),)))
    again = done.take(TeamChanges(T1, (a_post("msg_2"),)))

    assert [post.position for post in mine.posts + again.posts] == [1, 4]
    assert [event.position for event in mine.events] == [2, 3]
    assert theirs.events[0].position == 1
    assert {tenant: head.position for tenant, head in done.heads.items()} == {T1: 4, T2: 1}


def test_messages_of_many_commits_are_said_at_once(shelf: Shelf) -> None:
    done = after(shelf, *[TeamChanges(T1, (a_post(f"msg_{n}"),)) for n in range(10)])

    (said,) = done.acts
    assert isinstance(said, Said)
    assert [(tenant, channel, post.id) for tenant, channel, post in said.posts] == [
        (1, 1, f"msg_{n}") for n in range(10)
    ]


def test_time_does_not_fall_in_a_channel(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2"),)), TeamChanges(T1, (a_post("msg_1", created_at=LATER),)))

    committed = begun(shelf).take(TeamChanges(T1, (a_post("msg_2"), a_post("msg_3", "chan_2"))))

    assert [post.created_at for post in committed.posts] == [LATER, AT]


def test_a_channel_is_made_and_spoken_in_within_one_commit(shelf: Shelf) -> None:
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, (a_post("msg_1", "chan_2"),), puts=(a_channel("chan_2"),)))

    assert (committed.posts[0].position, committed.posts[0].seq) == (1, 1)
    assert done.new_channels == {(T1, "chan_2")}
    assert done.places == {(T1, "chan_2"): Place(2, "intent_1", 1, Tally(1, AT, 0))}


def test_a_channel_of_another_tenant_is_no_channel(shelf: Shelf) -> None:
    with pytest.raises(NotFound):
        begun(shelf).take(TeamChanges(T2, (a_post(),)))


def test_a_channel_that_goes_and_comes_again_begins_anew_under_another_number(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, (a_post("msg_1"),)))
    done = begun(shelf)

    done.take(TeamChanges(T1, drops=(kept(shelf),)))
    assert done.take(TeamChanges(T1, (a_post("msg_2"),), puts=(a_channel(),))).posts[0].seq == 1

    assert (done.gone_channels, done.new_channels) == ({(T1, "chan_1")}, {(T1, "chan_1")})
    assert done.places[T1, "chan_1"].number == 2


def test_a_channel_that_comes_and_goes_is_not_new(shelf: Shelf) -> None:
    done = begun(shelf)
    (channel,) = done.take(TeamChanges(T1, puts=(a_channel("chan_2", most=1),))).puts
    done.take(TeamChanges(T1, tuple(a_post(f"msg_{n}", "chan_2") for n in range(EVICT_STEP + 1))))

    done.take(TeamChanges(T1, drops=(channel,)))
    done.acts += done.evicted()

    assert (done.new_channels, done.gone_channels) == (set(), {(T1, "chan_2")})
    assert of_kind(done, Evicted) == []


def test_an_answer_names_its_request(shelf: Shelf) -> None:
    done = after(shelf, TeamChanges(T1, (a_request("msg_1"), an_answer("msg_2", "msg_1"))))

    assert of_kind(done, Said)[0].answered == [(1, "msg_1")]


# ---------------------------------------------------------------- what goes away


def test_floors_rise_with_each_message_and_what_is_below_goes_in_steps(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2", most=10),)))
    removed: list[tuple[int, list[Evicted]]] = []

    for n in range(1, 2 * EVICT_STEP + 12):
        done = after(shelf, TeamChanges(T1, (a_post(f"msg_{n}", "chan_2"),)))
        assert done.places[T1, "chan_2"].tally.floor == max(0, n - 10)
        removed += [(n, evicted)] if (evicted := of_kind(done, Evicted)) else []

    assert removed == [
        (EVICT_STEP + 10, [Evicted(1, 2, EVICT_STEP)]),
        (2 * EVICT_STEP + 10, [Evicted(1, 2, 2 * EVICT_STEP)]),
    ]


def test_what_is_evicted_is_removed_once_after_it_was_said(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2", most=10),)))

    done = after(shelf, *[TeamChanges(T1, (a_post(f"msg_{n}", "chan_2"),)) for n in range(200)])

    said, evicted = done.acts
    assert isinstance(said, Said)
    assert evicted == Evicted(1, 2, 190)


def test_a_channel_that_may_keep_fewer_keeps_fewer_at_once(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, tuple(a_post(f"msg_{n}") for n in range(5))))

    done = after(shelf, TeamChanges(T1, puts=(replace(kept(shelf), options=Options(max_messages=2)),)))

    assert done.acts == [Evicted(1, 1, 3)]
    assert done.places[T1, "chan_1"] == Place(1, "intent_1", 5, Tally(5, AT, 3))


def test_a_purge_takes_every_message_and_keeps_the_count(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, (a_post("msg_1"), a_post("msg_2"))))
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, purges=("chan_1",)))

    assert committed.ended == ("chan_1",)
    assert done.acts == [Evicted(1, 1, 2)]
    assert done.places[T1, "chan_1"].tally == Tally(2, AT, 2)


def test_the_end_of_a_channel_and_a_departure_are_told(shelf: Shelf) -> None:
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, ended=("chan_1", "chan_none"), departed=("bob",)))

    assert (committed.ended, committed.departed) == (("chan_1", "chan_none"), ("bob",))
    assert done.acts == [Ended(1), Departed(1, "bob")]


def test_nothing_of_another_tenant_is_ended_or_purged(shelf: Shelf) -> None:
    assert after(shelf, TeamChanges(T2, ended=("chan_1",))).acts == []
    assert after(shelf, TeamChanges(T2, purges=("chan_1",))).acts == []


def waiting(shelf: Shelf, message_id: str = "msg_1", channel_id: str = "chan_1") -> Post:
    """A message that nobody could receive yet."""
    post = a_post(message_id, channel_id, to="role:r", recipients=(), state=PostState.PENDING)
    (placed,) = (entry[2] for entry in of_kind(after(shelf, TeamChanges(T1, (post,))), Said)[0].posts)
    assert isinstance(placed, Post)
    shelf.waiting[T1, message_id] = placed
    return placed


def test_a_moved_message_takes_a_new_position(shelf: Shelf) -> None:
    post = waiting(shelf)
    after(shelf, TeamChanges(T1, (a_post("msg_2"),)))
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, (a_post("msg_3"),), moved=(Moved("msg_1", PostState.DELIVERED, ("bob",)),)))

    moved = post._replace(position=4, seq=4, state=PostState.DELIVERED, recipients=("bob",))
    assert committed.posts[1:] == (moved,)
    assert done.acts[1:] == [Found(1, moved)]
    # It was counted when it was said.
    assert done.places[T1, "chan_1"] == Place(1, "intent_1", 4, Tally(3, AT, 0))


def test_a_message_that_does_not_wait_is_not_moved(shelf: Shelf) -> None:
    waiting(shelf)
    move = Moved("msg_1", PostState.DELIVERED, ("bob",))

    assert begun(shelf).take(TeamChanges(T1, moved=(Moved("msg_9", PostState.DELIVERED),))).posts == ()
    assert begun(shelf).take(TeamChanges(T2, moved=(move,))).posts == ()
    assert len(begun(shelf).take(TeamChanges(T1, moved=(move, move))).posts) == 1


def test_a_message_that_this_commit_evicts_is_not_moved(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))
    waiting(shelf, channel_id="chan_2")
    moved = (Moved("msg_1", PostState.DELIVERED, ("bob",)),)

    committed = begun(shelf).take(TeamChanges(T1, (a_post("msg_2", "chan_2"),), moved=moved))

    assert [post.id for post in committed.posts] == ["msg_2"]


def test_an_expired_message_keeps_its_place(shelf: Shelf) -> None:
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, moved=(Moved("msg_1", PostState.EXPIRED),)))

    assert (committed.position, committed.posts) == (0, ())
    assert done.acts == [Expired(1, "msg_1")]


# ---------------------------------------------------------------- log, ledger, audit log


def test_the_events_of_an_intent_follow_each_other_over_transactions(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, events=(an_event("e1"), an_event("o1", "intent_2"))))

    done = after(shelf, TeamChanges(T1, events=(an_event("e2"),)), TeamChanges(T1, events=(an_event("e3"),)))

    assert [(number, one.position, one.sequence, one.event_hash) for number, one in done.events] == [
        (1, 3, 2, ">e1>e2"),
        (1, 4, 3, ">e1>e2>e3"),
    ]


def test_the_ledger_is_one_chain_for_each_tenant(shelf: Shelf) -> None:
    first = after(shelf, TeamChanges(T1, entries=(an_entry("a"), an_entry("b"))))
    second = after(shelf, TeamChanges(T2, entries=(an_entry("x"),)), TeamChanges(T1, entries=(an_entry("c"),)))

    link = GENESIS
    mine = [one for one in first.entries + second.entries if one[0] == 1]
    for position, (entry, action) in enumerate(zip(mine, "abc", strict=True), 1):
        document = canonical(position, an_entry(action))
        link = chained(link, document)
        assert entry == (1, position, document, link)
    assert second.entries[0][:2] == (2, 1)
    assert second.heads[T1].entry_link == link


def test_each_side_has_its_own_audit_chain_and_all_share_the_numbers_of_their_tenant(shelf: Shelf) -> None:
    done = [
        *after(shelf, TeamChanges(T1, audits=(a_fact(1), a_fact(2, "bob")))).audits,
        *after(
            shelf,
            TeamChanges(T1, audits=(a_fact(3, "bob"),)),
            TeamChanges(T2, audits=(a_fact(4),)),
            TeamChanges(T1, audits=(a_fact(5), a_fact(6))),
        ).audits,
    ]

    assert [(tenant, one.number, one.side, one.seq) for tenant, one in done] == [
        (1, 1, "alice", 1),
        (1, 2, "bob", 1),
        (1, 3, "bob", 2),
        (2, 1, "alice", 1),
        (1, 4, "alice", 2),
        (1, 5, "alice", 3),
    ]
    before = {one.id: json.loads(one.document)["prev_hash"] for _, one in done}
    hashes = {one.id: one.entry_hash for _, one in done}
    assert [before["aud_3"], before["aud_5"], before["aud_6"]] == [hashes["aud_2"], hashes["aud_1"], hashes["aud_5"]]
    assert {before["aud_1"], before["aud_2"], before["aud_4"]} == {NO_HASH}
    assert shelf.heads[T1].audit_number == 5


# ---------------------------------------------------------------- budgets and keys


def test_a_budget_is_spent_exactly_within_one_transaction(shelf: Shelf) -> None:
    shelf.budgets[T1, "key", ""] = 4
    done = begun(shelf)
    for _ in range(3):
        done.take(TeamChanges(T1, spends=(Spend("key", 7),)))

    with pytest.raises(Overspent) as refused:
        done.take(TeamChanges(T1, spends=(Spend("key", 7),)))

    assert refused.value.facts == {"key": "key", "most": 7}
    assert done.budgets == {(T1, "key", ""): 7}


def test_one_commit_cannot_spend_twice_what_is_there_once(shelf: Shelf) -> None:
    with pytest.raises(Overspent):
        begun(shelf).take(TeamChanges(T1, spends=(Spend("key", 1), Spend("key", 1))))


def test_what_is_given_back_can_be_spent_again_and_never_more_than_that(shelf: Shelf) -> None:
    back, spend = Spend("key", 0, amount=-1), Spend("key", 1)

    done = after(shelf, TeamChanges(T1, spends=(spend,)), *[TeamChanges(T1, spends=(back,))] * 3)
    assert done.budgets == {(T1, "key", ""): 0}
    after(shelf, TeamChanges(T1, spends=(spend,)))

    with pytest.raises(Overspent):
        begun(shelf).take(TeamChanges(T1, spends=(spend,)))


def test_an_idempotency_key_is_used_once_and_answered_later(shelf: Shelf) -> None:
    done = begun(shelf)
    done.take(TeamChanges(T1, saved=a_use("s1")))

    with pytest.raises(Stale):
        done.take(TeamChanges(T1, saved=a_use("s1", made="once_2")))
    done.take(TeamChanges(T1, saved=a_use("s1", answer=b"{}")))

    assert done.saved == {(T1, "s1"): a_use("s1", answer=b"{}")}


# ---------------------------------------------------------------- what is written in its order


def test_acts_are_in_the_order_of_the_commits(shelf: Shelf) -> None:
    receipt = Receipt("msg_1", "bob", AT)

    done = after(
        shelf,
        TeamChanges(T1, (a_post("msg_1"),)),
        TeamChanges(T1, receipts=(receipt,)),
        TeamChanges(T1, (a_post("msg_2"),)),
        TeamChanges(T1, let_go=3),
        TeamChanges(T1, forget_before=LATER),
    )

    assert [type(act) for act in done.acts] == [Said, Received, Said, LetGo, Forgotten]
    assert done.acts[1] == Received(1, (receipt,))
    assert done.acts[3:] == [LetGo(1, 3), Forgotten(LATER)]


def test_what_is_blanked_is_counted_and_its_entry_says_so(shelf: Shelf) -> None:
    shelf.unblanked[T1] = 2
    blank = (Spoken("msg_1", ("scope",)), Spoken("msg_2"), Spoken("msg_3"))
    done = begun(shelf)
    first, second = a_fact(1), a_fact(2)._replace(facts={"messages": 40})
    with pytest.raises(NotFound):
        done.take(TeamChanges(T2, audits=(first,), blank=blank))

    committed = done.take(TeamChanges(T1, audits=(first, second), blank=blank))

    assert committed.blanked == 2
    assert done.acts == [Blanked(1, blank)]
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
        TeamChanges(T1, blank=(Spoken("msg_1"),)),
        TeamChanges(T1, let_go=1),
        TeamChanges(T1, forget_before=AT),
    ],
)
def test_what_depends_on_rows_of_others_stands_alone(changes: TeamChanges) -> None:
    assert stands_alone(changes)


def test_what_depends_on_nothing_else_does_not_stand_alone() -> None:
    assert not stands_alone(much())
