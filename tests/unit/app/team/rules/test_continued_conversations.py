"""Messages in named conversations: what is written like one before is what would have been decided."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.app.team.channels import posting
from parley.app.team.rules import governed_messages, governed_terms
from parley.app.team.state.rules import RulesState
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.rules import ExchangeClosed
from parley.domain.exchange.exchange import Exchange, Outcome, accepted, ended
from parley.domain.message.message import Pattern
from parley.domain.record import Expect
from parley.domain.rules.ruling import scan
from parley.domain.store.changes import TeamChanges
from parley.domain.store.transaction import Transaction
from parley.domain.times import stamp
from tests.rigs.dialogues import ANSWER, ANSWERED, ASK, BACK, BEGUN, KNOWN, QUERY, TEXTS, deliver, exchange_of, said
from tests.rigs.remembered import (
    CLOSE,
    Change,
    Message,
    Step,
    changes,
    compare,
    govern,
    handed_on,
    looser,
    moved,
    newest_request,
    partly,
    stopped,
    tighter,
    withdrawn,
)
from tests.rigs.team import CHANNEL, Rig, before_the_commit, with_rig
from tests.samples.governed import an_exchange

# ---------------------------------------------------------------- what happens to an exchange meanwhile


async def _asked(rig: Rig, asker: str) -> Exchange | None:
    """The exchange of an agent's newest request."""
    request = await newest_request(rig, asker)
    exchange_id = request.exchange_id if request is not None else ""
    return await rig.store.get(Exchange, DEFAULT_TENANT, exchange_id) if exchange_id else None


async def took_a_round(rig: Rig, conversation: str = "", asker: str = "") -> None:
    exchange = await _asked(rig, asker) if asker else await exchange_of(rig, conversation)
    if exchange is not None:
        await rig.put(accepted(exchange, "bob", "Said meanwhile", rig.at(), exchange.hops))


async def closed(rig: Rig, conversation: str = "", asker: str = "") -> None:
    exchange = await _asked(rig, asker) if asker else await exchange_of(rig, conversation)
    if exchange is not None and not exchange.over:
        await rig.put(ended(exchange, Outcome.RESOLVED, rig.at(), "alice", "done"))


async def opened_by_another(rig: Rig, conversation: str) -> None:
    """Someone has told alice something in this conversation: what she says there is one hop further on."""
    if await exchange_of(rig, conversation) is None:
        exchange = an_exchange(
            id=rig.team.new_id("exch"),
            tenant_id=DEFAULT_TENANT,
            conversation_id=conversation,
            initiator="carol",
            responder="alice",
            channel_id=CHANNEL,
            expires_at=stamp(rig.clock.at + timedelta(hours=1)),
        )
        await rig.put(accepted(exchange, "carol", "Said meanwhile", rig.at(), 1))


async def days_later(rig: Rig) -> None:
    rig.clock.at += timedelta(days=2)


def exchange_changes() -> st.SearchStrategy[Change]:
    return st.one_of(
        st.builds(
            partly, st.sampled_from([took_a_round, closed, opened_by_another]), st.sampled_from(("four", "five"))
        ),
        st.builds(partly, st.sampled_from([took_a_round, closed]), st.just(""), st.just("alice")),
        st.builds(partly, st.sampled_from([withdrawn, handed_on]), st.just("alice")),
        st.just(days_later),
    )


def requests() -> st.SearchStrategy[Message]:
    """Requests of alice, of which most are like those before, and what is answered to them."""
    meanwhile = st.none() | st.none() | exchange_changes() | changes() | st.sampled_from([tighter, looser])
    metadata = st.sampled_from(({}, {}, {}, QUERY, {"partial": True}, {"conversation_id": "four"}, {"note": "x"}))
    answers = st.builds(
        Message,
        st.sampled_from(("bob", "bob", "bob", "carol")),
        st.just("alice"),
        metadata,
        st.sampled_from(TEXTS),
        pattern=st.just(Pattern.RESPONSE),
        meanwhile=meanwhile,
    )
    asked = {**QUERY, "conversation_id": "four"}
    requests = st.builds(
        Message,
        st.just("alice"),
        st.sampled_from(("bob", "bob", "carol")),
        st.sampled_from((QUERY, QUERY, asked, {**QUERY, "max_rounds": 1})),
        st.sampled_from(TEXTS),
        meanwhile=st.none(),
        pattern=st.just(Pattern.REQUEST),
    )
    return answers | requests


def messages() -> st.SearchStrategy[Message]:
    more: st.SearchStrategy[dict[str, object]] = st.just({}) | st.fixed_dictionaries(
        {},
        optional={
            "classification": st.sampled_from(("internal", "public")),
            "max_rounds": st.sampled_from((2, 3)),
            "note": st.just('four "conversation_id":"four" <differs> 100%'),
        },
    )
    meanwhile = st.none() | st.none() | exchange_changes() | changes() | st.sampled_from([tighter, looser])
    pairs = (("alice", "bob"), ("alice", "bob"), ("bob", "alice"), ("bob", "alice"), ("carol", "bob"))
    return st.builds(
        _message,
        st.sampled_from(pairs),
        st.sampled_from(("four", "four", "five")),
        more,
        st.sampled_from(TEXTS),
        meanwhile,
    )


def _message(
    pair: tuple[str, str], conversation: str, more: dict[str, object], text: str, meanwhile: Change | None
) -> Message:
    metadata = {**QUERY, "conversation_id": conversation, **more}
    return Message(*pair, metadata, text, meanwhile=meanwhile)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(messages() | messages() | exchange_changes() | changes(), min_size=2, max_size=8))
def test_what_goes_on_with_a_conversation_is_written_as_it_would_have_been_decided(steps: list[Step]) -> None:
    compare([*KNOWN, *steps], governed=True)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(requests() | requests() | messages() | exchange_changes() | changes(), min_size=2, max_size=8))
def test_an_answer_is_written_as_it_would_have_been_decided(steps: list[Step]) -> None:
    compare([*ANSWERED, *steps], governed=True)


# ---------------------------------------------------------------- mutants

# Where other nodes write, too, such messages are decided: a mutant of what is done in memory changes nothing there.


@pytest.mark.parametrize("change", [tighter, partly(stopped, "bob"), CLOSE, partly(moved, "bob", "legal")])
@pytest.mark.parametrize(("before", "last"), [((*KNOWN, BEGUN), BACK), ((*ANSWERED, ASK), ANSWER)])
def test_the_mutant_that_goes_on_on_a_stale_ground_is_caught(
    monkeypatch: pytest.MonkeyPatch, change: Change, before: tuple[Step, ...], last: Message
) -> None:
    steps: list[Step] = [*before, last._replace(meanwhile=change)]
    compare(steps, governed=True)
    monkeypatch.setattr(Transaction, "_holds", lambda *_: True)

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.parametrize(
    "steps",
    [
        [*KNOWN, BEGUN, BACK, BEGUN._replace(meanwhile=partly(closed, "four"))],
        [*KNOWN, BEGUN, BACK, BEGUN._replace(meanwhile=partly(took_a_round, "four"))],
        [*ANSWERED, ASK, ANSWER._replace(meanwhile=partly(closed, "", "alice"))],
        [*ANSWERED, ASK, ANSWER._replace(meanwhile=partly(took_a_round, "", "alice"))],
    ],
)
def test_the_mutant_that_goes_on_with_an_exchange_that_has_changed_is_caught(
    monkeypatch: pytest.MonkeyPatch, steps: list[Step]
) -> None:
    compare(steps, governed=True)
    check, check_version, remembered = Transaction._check_ground, Transaction._check_version, list[bool]()

    def noting(self: Transaction, changes: TeamChanges) -> None:
        remembered[:] = [changes.ground is not None]
        check(self, changes)

    def unless_exchange(self: Transaction, key: tuple[str, str, str], version: int) -> object:
        return self.record(key) if remembered[0] and key[1] == Exchange.kind else check_version(self, key, version)

    monkeypatch.setattr(Transaction, "_check_ground", noting)
    monkeypatch.setattr(Transaction, "_check_version", unless_exchange)

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.sqlite_only
def test_the_mutant_that_does_not_ask_what_happened_to_the_request_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # A request that is withdrawn ends its exchange, so that the commit finds out by that alone.
    steps: list[Step] = [*ANSWERED, ASK, ANSWER._replace(meanwhile=partly(handed_on, "alice"))]
    compare(steps, governed=True)
    monkeypatch.setattr(governed_messages, "expect_no_mark", lambda _: Expect("intent", "none", 0))

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("last", [BEGUN, BACK])
def test_the_mutant_that_does_not_look_at_how_the_exchange_stands_is_caught(
    monkeypatch: pytest.MonkeyPatch, last: Message
) -> None:
    steps: list[Step] = [*KNOWN, BEGUN, BACK, BEGUN, last]
    compare(steps, governed=True)
    monkeypatch.setattr(governed_terms, "shape_of", lambda _: ())

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("text", ["We promise it.", "password: hunter22", "We \u200bpr0mise it", "4111 1111 1111 1111"])
@pytest.mark.parametrize(("before", "last"), [((*KNOWN, BEGUN), BACK), ((*ANSWERED, ASK), ANSWER)])
def test_the_mutant_that_does_not_inspect_what_goes_on_is_caught(
    monkeypatch: pytest.MonkeyPatch, text: str, before: tuple[Step, ...], last: Message
) -> None:
    steps: list[Step] = [*before, last._replace(text=text)]
    compare(steps, governed=True)
    monkeypatch.setattr(governed_messages, "scan", lambda *_: ((), ()))

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.sqlite_only
def test_the_mutant_that_overlooks_another_exchange_of_the_conversation_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What bob answers alice follows from what carol told him: it is one more hop away.
    steps: list[Step] = [*KNOWN, BEGUN, said("carol", "bob", "four"), BACK]
    compare(steps, governed=True)
    known = RulesState.known_conversation
    monkeypatch.setattr(RulesState, "known_conversation", lambda *of: (known(*of) or ())[:1])

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.sqlite_only
def test_the_mutant_that_opens_a_conversation_which_another_has_opened_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[Step] = [*KNOWN, BEGUN._replace(meanwhile=partly(opened_by_another, "four"))]
    compare(steps, governed=True)
    write = governed_messages._opening_changes
    monkeypatch.setattr(
        governed_messages, "_opening_changes", lambda *args: write(*args)._replace(new_conversations=())
    )

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", ["password:hunter22", "4111111111111111", "we-promise-it"])
def test_the_mutant_that_does_not_inspect_the_name_of_a_conversation_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    steps: list[Step] = [*KNOWN, said("alice", "bob", name)]
    compare(steps, governed=True)
    monkeypatch.setattr(governed_messages, "scan", lambda texts, *rest: scan(texts[:1], *rest))

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.parametrize("name", ["a+alice+llocate", "a.bob.pprove", "alice-and-bob"])
def test_the_name_of_a_conversation_is_inspected_without_those_of_its_parties(name: str) -> None:
    compare([*KNOWN, said("alice", "bob", name)], governed=True)


@pytest.mark.both_stores
@pytest.mark.parametrize("name", ["40", "a.b_c:d@e/f+g-h", "conversation_id", "four" * 32])
def test_a_conversation_is_opened_under_whatever_name(name: str) -> None:
    compare([*KNOWN, said("alice", "bob", name), said("bob", "alice", name)], governed=True)


def test_nobody_goes_on_with_an_exchange_that_has_expired() -> None:
    compare([*KNOWN, BEGUN, BACK, days_later, BEGUN], governed=True)


def test_a_withdrawn_request_is_not_answered_as_those_before() -> None:
    compare([*ANSWERED, ASK, ANSWER._replace(meanwhile=partly(withdrawn, "alice")), ANSWER], governed=True)


def test_what_names_a_request_and_is_no_answer_is_refused_as_ever() -> None:
    told = Message("bob", "alice", QUERY, pattern=Pattern.NOTIFY)
    compare([*ANSWERED, told, told, told, ASK, told._replace(answers=True)], governed=True)


def test_nobody_answers_in_an_exchange_that_has_expired() -> None:
    compare([*ANSWERED, ASK, days_later, ANSWER], governed=True)


def test_an_answer_beyond_the_last_round_is_held_as_ever() -> None:
    ask_once = ASK._replace(metadata={**QUERY, "max_rounds": 2})
    compare([*[ask_once, ANSWER, ANSWER] * 4], governed=True)


# ---------------------------------------------------------------- without being decided


@pytest.mark.sqlite_only
@with_rig
async def test_the_rounds_of_a_conversation_like_two_before_are_not_decided(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    for message in KNOWN:
        await deliver(rig, message)
    monkeypatch.setattr(governed_terms, "govern", None)

    said_then = [BEGUN, BACK._replace(text="Done."), BEGUN._replace(text="Thanks.")]
    posts = [await deliver(rig, message) for message in said_then]

    exchange = await exchange_of(rig, "four")
    assert exchange is not None
    assert {post.exchange_id for post in posts} == {exchange.id}
    assert {json.loads(post.metadata)["ocip"]["conversation_id"] for post in posts} == {"four"}
    assert (exchange.version, exchange.current_round) == (3, 3)
    assert [(turn.sender, turn.summary) for turn in exchange.transcript][1:] == [("bob", "Done."), ("alice", "Thanks.")]


@pytest.mark.sqlite_only
@with_rig
async def test_the_answers_to_requests_like_those_before_are_not_decided(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    answer = PostDraft(Pattern.NOTIFY, b'{"text":"It is done."}')
    requests = [await deliver(rig, ASK) for _ in range(4)]
    for request in requests[:3]:
        await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, answer)
    monkeypatch.setattr(governed_terms, "govern", None)

    post = await posting.reply(rig.team, rig.caller("bob"), CHANNEL, requests[3].id, answer)

    assert isinstance(post, Post)
    assert (post.in_reply_to, post.to, post.exchange_id) == (requests[3].id, "alice", requests[3].exchange_id)
    assert json.loads(post.metadata)["ocip"]["exchange_round"] == 2
    exchange = await rig.store.get(Exchange, DEFAULT_TENANT, post.exchange_id)
    assert exchange is not None
    assert [(turn.sender, turn.round) for turn in exchange.transcript] == [("alice", 1), ("bob", 2)]


@pytest.mark.sqlite_only
@with_rig
async def test_a_conversation_that_was_opened_without_a_name_goes_on_without_being_decided(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    for message in KNOWN:
        await deliver(rig, message)
    opened = [await deliver(rig, Message("alice", "bob", QUERY)) for _ in range(3)][-1]
    exchange = await rig.store.get(Exchange, DEFAULT_TENANT, opened.exchange_id)
    assert exchange is not None
    monkeypatch.setattr(governed_terms, "govern", None)

    back = await deliver(rig, said("bob", "alice", exchange.conversation_id))

    assert back.exchange_id == opened.exchange_id


@pytest.mark.both_stores
@with_rig
async def test_an_exchange_that_ends_between_lookup_and_commit_takes_no_message(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    for message in (*KNOWN, BEGUN):
        await deliver(rig, message)
    before_the_commit(rig, monkeypatch, lambda rig: closed(rig, "four"))

    with pytest.raises(ExchangeClosed):
        await deliver(rig, BACK)

    exchange = await exchange_of(rig, "four")
    assert exchange is not None
    assert exchange.current_round == 1
