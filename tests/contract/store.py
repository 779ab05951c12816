"""The contract of every store, as one suite: a store's own test inherits it and says how to make one."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from parley.domain.audit.entry import AuditDraft
from parley.domain.content.envelope import Purpose, ReplyPolicy
from parley.domain.errors.errors import Duplicate, Stale
from parley.domain.exchange.exchange import Exchange
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict, Spent
from parley.domain.hashes import digest
from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Lease, Status
from parley.domain.mailbox.ledger import (
    Entry,
    ExpectDelivery,
    MailboxChanges,
    StoredEntry,
    StoredMessage,
    WatchedFile,
    expect,
)
from parley.domain.message.message import Kind, Message
from parley.ports.mailbox import Store
from tests.samples.messages import NOW, STRUCTURED, a_message

T = TypeVar("T")


def kept(message: Message, content: bytes = b"", *, minted: bool = False) -> StoredMessage:
    """A message with bytes; the store never reads them, so any will do."""
    carried = content or f"{message.id}\n{message.subject}\n{message.body}\n".encode()
    return StoredMessage(message, carried, digest(carried), minted)


def delivery_of(one: StoredMessage, status: Status = Status.PENDING, /, **changes: object) -> Delivery:
    changed: dict[str, Any] = changes
    delivery = Delivery(DeliveryKey(one.message.id, one.digest, one.message.to[0]), f"{one.message.id}.yaml", status)
    return delivery._replace(**changed)


def entry(action: str = "sent", message_id: str = "m1", **facts: str) -> Entry:
    return Entry(action, "2026-03-13T14:30:00Z", "claude", message_id, "d" * 64, facts)


def an_exchange(exchange_id: str, **changes: Any) -> Exchange:  # noqa: ANN401  # whatever an exchange has
    exchange = Exchange(
        id=exchange_id,
        tenant_id="acme",
        conversation_id="conv-1",
        initiator="claude",
        responder="codex",
        purpose=Purpose.INFORMATION_QUERY,
        reply_policy=ReplyPolicy.AGENT_OK,
        requires_commitment=False,
        max_rounds=3,
        started_at="2026-03-13T14:30:00.000000+00:00",
        expires_at="2026-03-14T14:30:00.000000+00:00",
    )
    return replace(exchange, **changes)


def an_audit(entry_id: str, **facts: str) -> AuditDraft:
    return AuditDraft(entry_id, "claude", "2026-03-13T14:30:00Z", "agent_exchange", "claude", facts, "e1")


def assert_chained(written: tuple[StoredEntry, ...]) -> None:
    """Positions from 1 without a gap, each link recomputed from the entry and the link before it."""
    previous = b"\x00" * 32
    for position, one in enumerate(written, start=1):
        document = {**one.entry._asdict(), "facts": dict(one.entry.facts), "position": position}
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        previous = hashlib.sha256(b"\x00" + previous + canonical).digest()
        assert (one.position, one.link) == (position, previous)


class StoreContract(ABC):
    """What holds for every store."""

    @abstractmethod
    def make_store(self) -> Store:
        """A store with an empty ledger."""

    @pytest.fixture
    def store(self) -> Store:
        return self.make_store()

    def run(self, verb: Coroutine[Any, Any, T]) -> T:
        """Drive a verb that never suspends; a store that does brings its own way."""
        try:
            verb.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        verb.close()
        raise AssertionError("the store suspended")

    def commit(self, store: Store, /, **changes: object) -> int:
        parts: dict[str, Any] = changes
        return self.run(store.commit(MailboxChanges(**parts)))

    def everything(self, store: Store) -> list[object]:
        """All that any read shows: two equal answers mean that nothing was written between them."""
        return [
            self.run(store.deliveries(*Status)),
            self.run(store.search("", 1_000)),
            self.run(store.entries(0, 1_000)),
            self.run(store.seen_files("watcher")),
            self.run(store.count_conversations("")),
        ]

    # -- keeping

    def test_a_kept_message_is_found_as_it_was(self, store: Store) -> None:
        message = a_message(
            Kind.HANDOFF,
            to=("codex", "gemini"),
            expires_at=NOW.replace(year=2027),
            tag="review",
            related_packet="p-1",
            related_pr="42",
            conversation_id="conv-1",
            in_reply_to="m0",
            context_keys="- a\n- ü\n",
            extras={"turns": "3", "nested": {"a": ["b", None]}},
        )
        one = kept(message, b"\xff raw bytes \x00")

        self.commit(store, messages=(one,))

        assert self.run(store.find(message.id)) == (one,)
        assert self.run(store.conversation("conv-1")) == (one,)

    def test_structured_bodies_keep_their_types(self, store: Store) -> None:
        for number, (kind, body) in enumerate(STRUCTURED.items()):
            self.commit(store, messages=(kept(a_message(kind, id=f"m{number}", body=body)),))

            assert self.run(store.find(f"m{number}"))[0].message.body == body

    def test_keeping_the_same_message_again_changes_nothing(self, store: Store) -> None:
        one = kept(a_message(), minted=True)
        self.commit(store, messages=(one,))
        before = self.everything(store)

        self.commit(store, messages=(one, one))

        assert self.everything(store) == before

    def test_a_minted_id_with_other_content_is_a_duplicate(self, store: Store) -> None:
        self.commit(store, messages=(kept(a_message(), b"one", minted=True),))
        before = self.everything(store)

        with pytest.raises(Duplicate, match="msg-20260313T1430Z-claude-a8f3"):
            self.commit(store, messages=(kept(a_message(), b"two", minted=True),), entries=(entry(),))

        assert self.everything(store) == before

    def test_one_commit_cannot_mint_an_id_twice(self, store: Store) -> None:
        with pytest.raises(Duplicate):
            self.commit(store, messages=tuple(kept(a_message(), text, minted=True) for text in (b"one", b"two")))

        assert self.run(store.find(a_message().id)) == ()

    def test_an_id_that_another_sender_uses_may_be_minted(self, store: Store) -> None:
        foreign = kept(a_message(sender="gemini"), b"one")
        mine = kept(a_message(), b"two", minted=True)
        self.commit(store, messages=(foreign,))

        self.commit(store, messages=(mine,))

        assert [one.content for one in self.run(store.find(a_message().id))] == [b"one", b"two"]

    def test_foreign_messages_may_share_an_id(self, store: Store) -> None:
        first, second = kept(a_message(), b"one"), kept(a_message(), b"two")

        self.commit(store, messages=(first,))
        self.commit(store, messages=(second,))

        assert self.run(store.find(a_message().id)) == (first, second)

    def test_an_unknown_id_finds_nothing(self, store: Store) -> None:
        self.commit(store, messages=(kept(a_message()),))

        assert self.run(store.find("msg-20260313T1430Z-claude")) == ()

    # -- all or nothing

    @pytest.mark.parametrize(
        ("refusal", "cause"),
        [
            pytest.param(
                {"expects": (ExpectDelivery(DeliveryKey("m1", "x", "codex"), Status.PENDING),)}, Stale, id="expectation"
            ),
            pytest.param({"new_conversation": "conv-1"}, Stale, id="conversation"),
            pytest.param({"new_file": "taken.yaml"}, Stale, id="file"),
            pytest.param({"messages": (kept(a_message(id="m1"), b"other", minted=True),)}, Duplicate, id="duplicate"),
        ],
    )
    def test_a_refused_commit_leaves_no_trace(
        self, store: Store, refusal: dict[str, Any], cause: type[Exception]
    ) -> None:
        known = kept(a_message(id="m1", conversation_id="conv-1"))
        delivery = delivery_of(known, file="taken.yaml")
        self.commit(
            store,
            messages=(known,),
            deliveries=(delivery,),
            entries=(entry(),),
            watched=(WatchedFile("watcher", "old.yaml"),),
        )
        before = self.everything(store)
        new = kept(a_message(id="m2", conversation_id="conv-2"))
        changes = {
            "messages": (new,),
            "deliveries": (delivery_of(new), delivery._replace(status=Status.DELIVERED)),
            "entries": (entry("claimed"), entry("done")),
            "watched": (WatchedFile("watcher", "new.yaml"),),
            "unwatched": (WatchedFile("watcher", "old.yaml"),),
        }
        if "messages" in refusal:
            refusal = {"messages": (new, *refusal["messages"])}

        with pytest.raises(cause):
            self.commit(store, **{**changes, **refusal})

        assert self.everything(store) == before
        assert self.run(store.delivery(delivery.key)) == delivery
        assert self.commit(store, entries=(entry("next"),)) == 2
        assert_chained(self.run(store.entries(0, 10)))

    # -- looking up

    def test_entries_about_a_message_are_found_by_action(self, store: Store) -> None:
        name = 'odd "id" \u00e9\n'
        entries = (entry("closed", name), entry("closed", "m2", note=name), entry("sent", name), entry("closed", name))
        self.commit(store, entries=entries)

        assert [stored.position for stored in self.run(store.entries_about(name, "closed"))] == [1, 4]
        assert self.run(store.entries_about("closed", name)) == ()

    def test_replies_are_found_by_the_message_that_they_answer(self, store: Store) -> None:
        name = 'odd "id" \u00e9'
        answer = kept(a_message(id="m2", in_reply_to=name))
        self.commit(store, messages=(kept(a_message(id=name)), answer, kept(a_message(id="m3", subject=name))))

        assert self.run(store.replies(name)) == (answer,)
        assert self.run(store.replies("")) == ()

    # -- expectations

    def test_a_delivery_that_is_as_it_was_loaded_may_be_changed(self, store: Store) -> None:
        claimed = delivery_of(kept(a_message()), Status.CLAIMED, lease=Lease("t1", "", "boot", None))
        self.commit(store, deliveries=(claimed,))

        self.commit(store, deliveries=(claimed._replace(status=Status.DONE, lease=None),), expects=(expect(claimed),))

        loaded = self.run(store.delivery(claimed.key))
        assert loaded is not None
        assert (loaded.status, loaded.lease) == (Status.DONE, None)

    @pytest.mark.parametrize(
        ("status", "token"),
        [
            (None, None),
            (Status.DELIVERED, None),
            (Status.DELIVERED, "t1"),
            (Status.CLAIMED, None),
            (Status.CLAIMED, "t2"),
        ],
    )
    def test_a_stale_expectation_is_refused(self, store: Store, status: Status | None, token: str | None) -> None:
        claimed = delivery_of(kept(a_message()), Status.CLAIMED, lease=Lease("t1", "", "boot", None))
        self.commit(store, deliveries=(claimed,))

        with pytest.raises(Stale):
            self.commit(store, entries=(entry(),), expects=(ExpectDelivery(claimed.key, status, token),))

    def test_nobody_may_have_been_faster_where_nothing_was_expected(self, store: Store) -> None:
        delivery = delivery_of(kept(a_message()))
        nothing = ExpectDelivery(delivery.key, None)

        self.commit(store, deliveries=(delivery,), expects=(nothing,))

        with pytest.raises(Stale):
            self.commit(store, deliveries=(delivery,), expects=(nothing,))

    def test_one_broken_expectation_among_many_is_enough(self, store: Store) -> None:
        delivery = delivery_of(kept(a_message()))
        self.commit(store, deliveries=(delivery,))

        with pytest.raises(Stale):
            self.commit(store, expects=(expect(delivery), expect(delivery._replace(status=Status.DONE))))

    # -- what must be new

    def test_a_new_conversation_must_be_unknown(self, store: Store) -> None:
        self.commit(store, messages=(kept(a_message(conversation_id="conv-1")),), new_conversation="conv-1")

        second = kept(a_message(id="m2", conversation_id="conv-1"))
        with pytest.raises(Stale, match="conv-1"):
            self.commit(store, messages=(second,), new_conversation="conv-1")

        self.commit(store, messages=(kept(a_message(id="m3", conversation_id="conv-1")),))

    def test_a_new_file_must_be_unknown_to_every_recipient(self, store: Store) -> None:
        one = kept(a_message())
        both = tuple(
            delivery_of(one, key=DeliveryKey(one.message.id, one.digest, who), file="a.yaml")
            for who in ("codex", "gemini")
        )
        self.commit(store, deliveries=both, new_file="a.yaml")

        with pytest.raises(Stale, match=r"a\.yaml"):
            self.commit(store, deliveries=(delivery_of(kept(a_message(id="m2"))),), new_file="a.yaml")

        self.commit(store, deliveries=(delivery_of(kept(a_message(id="m3"))),), new_file="b.yaml")

    # -- deliveries

    def test_a_delivery_is_read_back_as_it_was(self, store: Store) -> None:
        lease = Lease("token", "2026-03-13T15:00:00Z", "boot", 1234.5)
        delivery = delivery_of(kept(a_message()), Status.CLAIMED, tries=3, lease=lease, reason="because: ü")

        self.commit(store, deliveries=(delivery,))

        assert self.run(store.delivery(delivery.key)) == delivery

    @pytest.mark.parametrize("field", ["message_id", "digest", "recipient"])
    def test_each_part_of_the_key_tells_deliveries_apart(self, store: Store, field: str) -> None:
        delivery = delivery_of(kept(a_message()))
        self.commit(store, deliveries=(delivery,))

        assert self.run(store.delivery(delivery.key._replace(**{field: "other"}))) is None

    def test_deliveries_are_filtered_by_state_and_come_oldest_first(self, store: Store) -> None:
        states = [Status.PENDING, Status.CLAIMED, Status.DONE, Status.PENDING, Status.CLAIMED]
        made = [delivery_of(kept(a_message(id=f"m{n}")), status) for n, status in enumerate(reversed(states))]
        for one in made:
            self.commit(store, deliveries=(one,))

        # A change moves nothing: the first stays first.
        first = made[0]._replace(tries=7)
        self.commit(store, deliveries=(first,))

        assert self.run(store.deliveries(Status.CLAIMED)) == (first, made[3])
        assert self.run(store.deliveries(Status.PENDING, Status.DONE)) == (made[1], made[2], made[4])
        assert self.run(store.deliveries(Status.FAILED)) == ()
        assert self.run(store.deliveries()) == ()

    def test_deliveries_are_named_by_id_or_by_file(self, store: Store) -> None:
        first = delivery_of(kept(a_message(id="m1")), file="one.yaml")
        second = delivery_of(kept(a_message(id="m2")), file="two.yaml")
        elsewhere = first._replace(key=first.key._replace(recipient="gemini"))
        self.commit(store, deliveries=(first, elsewhere, second))

        assert self.run(store.find_deliveries("codex", "m1")) == (first,)
        assert self.run(store.find_deliveries("codex", "two.yaml")) == (second,)
        assert self.run(store.find_deliveries("codex", "two.yaml", "m1")) == (first, second)
        assert self.run(store.find_deliveries("gemini", "m1", "m2")) == (elsewhere,)
        assert self.run(store.find_deliveries("codex", "m", "one", "")) == ()
        assert self.run(store.find_deliveries("codex")) == ()

    # -- conversations and search

    def test_a_conversation_is_read_in_the_order_it_was_kept(self, store: Store) -> None:
        made = [kept(a_message(id=f"m{n}", conversation_id="conv-1")) for n in (2, 1, 3)]
        self.commit(store, messages=(made[0],))
        self.commit(store, messages=(kept(a_message(id="m9", conversation_id="conv-10")), made[1], made[2]))

        assert self.run(store.conversation("conv-1")) == tuple(made)

    def test_messages_without_a_conversation_are_none(self, store: Store) -> None:
        self.commit(store, messages=(kept(a_message(id="m1")), kept(a_message(id="m2"))))

        assert self.run(store.conversation("")) == ()
        assert self.run(store.count_conversations("")) == 0

    def test_conversations_are_counted_once_each_by_the_beginning_of_their_id(self, store: Store) -> None:
        ids = ["conv-a-001", "conv-a-001", "conv-a-002", "conv-a", "conv-b-001", "CONV-A-003", "conv-a-\u00fc"]
        self.commit(store, messages=tuple(kept(a_message(id=f"m{n}", conversation_id=c)) for n, c in enumerate(ids)))

        assert self.run(store.count_conversations("conv-a-")) == 3
        assert self.run(store.count_conversations("conv-")) == 5
        assert self.run(store.count_conversations("conv-%")) == 0

    @pytest.mark.parametrize(
        ("where", "text", "wanted"),
        [
            ("subject", "Rate LIMITS", "rate limits"),
            ("subject", "GRÜSSE aus Köln", "grüsse"),
            ("subject", "Die Straße", "STRASSE"),
            ("subject", "ΟΔΟΣ", "οδος"),
            ("body", "Привет, МИР\nsecond", "мир"),
            ("body", "100% of_them", "0% OF_"),
            ("id", "MSG-Nr-7", "msg-nr-7"),
        ],
    )
    def test_search_finds_text_in_any_case(self, store: Store, where: str, text: str, wanted: str) -> None:
        self.commit(store, messages=(kept(a_message(id="other")), kept(a_message(**{"id": "m1", where: text}), b"raw")))

        for spelling in (wanted, wanted.upper(), text):
            assert [one.content for one in self.run(store.search(spelling, 10))] == [b"raw"]

    def test_search_looks_into_the_fields_of_a_body(self, store: Store) -> None:
        self.commit(store, messages=(kept(a_message(Kind.REVIEW_REQUEST, id="m1")), kept(a_message(id="m2"))))

        assert [one.message.id for one in self.run(store.search("FEAT/rate-limit", 10))] == ["m1"]

    def test_search_takes_no_part_of_the_text_as_a_pattern(self, store: Store) -> None:
        self.commit(store, messages=(kept(a_message(body="plain")),))

        assert self.run(store.search("%", 10)) == ()
        assert self.run(store.search("pl_in", 10)) == ()
        assert self.run(store.search("'; DROP TABLE message; --", 10)) == ()

    def test_search_gives_the_newest_first_and_no_more_than_asked(self, store: Store) -> None:
        for number in range(5):
            self.commit(store, messages=(kept(a_message(id=f"m{number}")),))

        assert [one.message.id for one in self.run(store.search("rate", 3))] == ["m4", "m3", "m2"]
        assert len(self.run(store.search("", 100))) == 5

    # -- the ledger

    def test_positions_are_dense_and_each_entry_is_linked_to_the_one_before(self, store: Store) -> None:
        assert self.commit(store, entries=(entry("sent", to="codex", file="ü"), entry("delivered"))) == 2
        assert self.commit(store, watched=(WatchedFile("watcher", "a.yaml"),)) == 2
        assert self.commit(store, entries=(entry("claimed"),), durable=False) == 3

        written = self.run(store.entries(0, 10))

        assert [one.entry.action for one in written] == ["sent", "delivered", "claimed"]
        assert written[0].entry == entry("sent", to="codex", file="ü")
        assert_chained(written)

    def test_an_empty_ledger_stands_at_zero(self, store: Store) -> None:
        assert self.commit(store) == 0
        assert self.run(store.entries(0, 10)) == ()

    def test_entries_are_paged_without_gap_or_overlap(self, store: Store) -> None:
        for number in range(7):
            self.commit(store, entries=tuple(entry(f"a{number}.{n}") for n in range(number % 3)))
        paged: list[StoredEntry] = []

        while page := self.run(store.entries(paged[-1].position if paged else 0, 2)):
            assert len(page) <= 2
            paged += page

        assert tuple(paged) == self.run(store.entries(0, 100))
        assert_chained(tuple(paged))

    # -- watchers

    def test_what_one_watcher_has_seen_says_nothing_about_another(self, store: Store) -> None:
        self.commit(
            store, watched=(WatchedFile("one", "a.yaml"), WatchedFile("one", "b.yaml"), WatchedFile("two", "c.yaml"))
        )

        assert self.run(store.seen_files("one")) == {"a.yaml", "b.yaml"}
        assert self.run(store.seen_files("two")) == {"c.yaml"}
        assert self.run(store.seen_files("three")) == frozenset()

    def test_seeing_twice_is_seeing_once_and_can_be_taken_back(self, store: Store) -> None:
        self.commit(store, watched=(WatchedFile("one", "a.yaml"), WatchedFile("two", "a.yaml")))
        self.commit(store, watched=(WatchedFile("one", "a.yaml"),))

        self.commit(store, unwatched=(WatchedFile("one", "a.yaml"), WatchedFile("one", "never.yaml")))

        assert self.run(store.seen_files("one")) == frozenset()
        assert self.run(store.seen_files("two")) == {"a.yaml"}

    # -- records

    def test_a_record_is_kept_with_the_version_that_counts_on(self, store: Store) -> None:
        self.commit(store, puts=(an_exchange("e1"),))
        first = self.run(store.record(Exchange, "e1"))
        assert first == an_exchange("e1", version=1)

        self.commit(store, puts=(replace(first, current_round=1),))

        assert self.run(store.record(Exchange, "e1")) == an_exchange("e1", version=2, current_round=1)
        assert self.run(store.record(Exchange, "e2")) is None
        assert self.run(store.record(Spent, "e1")) is None

    @pytest.mark.parametrize("version", [0, 2])
    def test_a_record_of_another_version_is_stale_and_nothing_of_the_commit_is_written(
        self, store: Store, version: int
    ) -> None:
        self.commit(store, puts=(an_exchange("e1"),))
        before = self.everything(store)

        with pytest.raises(Stale):
            self.commit(store, puts=(an_exchange("e1", version=version),), audits=(an_audit("a1"),), entries=(entry(),))

        assert self.everything(store) == before
        assert self.run(store.audits(0, 10)) == ()

    def test_a_name_has_one_record_in_its_parent(self, store: Store) -> None:
        self.commit(store, puts=(an_exchange("e1"), an_exchange("e2", conversation_id="other")))

        with pytest.raises(Stale):
            self.commit(store, puts=(an_exchange("e3"),))
        self.commit(store, puts=(an_exchange("e3", reserved=False), an_exchange("e4", responder="gemini")))

        assert len(self.run(store.records(Exchange))) == 4

    def test_records_are_listed_by_kind_and_parent_and_paged(self, store: Store) -> None:
        pairs = [(f"e{number}", "even" if number % 2 == 0 else "odd") for number in range(5)]
        for name, conversation in reversed(pairs):
            self.commit(store, puts=(an_exchange(name, conversation_id=conversation, responder=name),))
        self.commit(store, puts=(Spent(id="e9", tenant_id="acme"),))

        def ids(parent: str | None = None, after: str = "", limit: int = 10) -> list[str]:
            return [one.id for one in self.run(store.records(Exchange, parent, after=after, limit=limit))]

        assert ids() == ["e0", "e1", "e2", "e3", "e4"]
        assert ids("even") == ["e0", "e2", "e4"]
        assert ids("even", after="e0", limit=1) == ["e2"]
        assert self.run(store.has_records("exchange", "odd"))
        assert not self.run(store.has_records("exchange", "none"))
        assert not self.run(store.has_records("spent", "odd"))

    def test_a_record_that_moves_to_another_parent_is_found_there_only(self, store: Store) -> None:
        held = InboxReceipt(id="d", tenant_id="acme", message_id="m", file="f", status=InboxVerdict.HELD, at="")
        self.commit(store, puts=(held,))

        self.commit(store, puts=(replace(held, version=1, status=InboxVerdict.ADMITTED),))

        assert not self.run(store.has_records("receipt", "held"))
        assert [one.status for one in self.run(store.records(InboxReceipt, "admitted"))] == [InboxVerdict.ADMITTED]

    # -- the audit chain

    def test_audit_entries_are_one_chain_of_one_tenant_in_the_order_of_commits(self, store: Store) -> None:
        self.commit(store, audits=(an_audit("a1"), an_audit("a2", text="ü")), tenant="acme")
        self.commit(store, audits=(an_audit("a3"),), tenant="renamed")

        found = self.run(store.audits(0, 10))

        previous = "0" * 64
        for seq, one in enumerate(found, start=1):
            document = json.loads(one.document)
            canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            assert one.document == canonical
            assert (one.seq, one.number, document["seq"], document["prev_hash"]) == (seq, seq, seq, previous)
            assert (one.side, document["side"], document["tenant"]) == ("claude", "claude", "acme")
            previous = hashlib.sha256(b"\x00" + one.document).hexdigest()
            assert one.entry_hash == previous
        assert [one.id for one in found] == ["a1", "a2", "a3"]
        assert [one.exchange_id for one in found] == ["e1", "e1", "e1"]

    def test_audit_entries_are_paged_without_gap_or_overlap(self, store: Store) -> None:
        for number in range(5):
            self.commit(store, audits=(an_audit(f"a{number}"),), tenant="acme")
        paged: list[str] = []
        after = 0

        while page := self.run(store.audits(after, 2)):
            paged += [one.id for one in page]
            after = page[-1].seq

        assert paged == ["a0", "a1", "a2", "a3", "a4"]

    def test_a_message_and_its_audit_entry_are_written_together_or_not_at_all(self, store: Store) -> None:
        one = kept(a_message(), minted=True)
        self.commit(store, messages=(one,), audits=(an_audit("a1"),), puts=(an_exchange("e1"),), tenant="acme")
        other = kept(a_message(), b"other", minted=True)

        with pytest.raises(Duplicate):
            self.commit(store, messages=(other,), audits=(an_audit("a2"),), puts=(an_exchange("e2", responder="x"),))

        assert [found.id for found in self.run(store.audits(0, 10))] == ["a1"]
        assert self.run(store.record(Exchange, "e2")) is None
