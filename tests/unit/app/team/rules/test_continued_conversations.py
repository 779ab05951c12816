"""Messages in named conversations: what is written like one before is what would have been decided."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.app.team.channels import posting
from parley.app.team.rules import governed_messages, governed_terms, governing
from parley.app.team.state.rules import RulesState
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import Invalid
from parley.domain.errors.rules import ExchangeClosed
from parley.domain.exchange.exchange import Exchange, Outcome, accepted, ended
from parley.domain.message.message import Pattern
from parley.domain.record import Expect
from parley.domain.rules.policy import AppliesTo
from parley.domain.rules.ruling import scan
from parley.domain.store.changes import AuditQuery, TeamChanges
from parley.domain.store.transaction import Transaction
from parley.domain.times import stamp
from tests.rigs.governed import put_policy
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
    say,
    stopped,
    tighter,
    withdrawn,
)
from tests.rigs.team import CHANNEL, Rig, before_the_commit, with_rig
from tests.samples.governed import an_exchange

QUERY = {"exchange_type": "information_query"}
TEXTS = ("What is the status?", "It is done.", "3 \\ %s \u00e9", "We promise it.", "password: hunter22")


def said(sender: str, to: str, conversation: str, text: str = "What is the status?") -> Message:
    return Message(sender, to, {**QUERY, "conversation_id": conversation}, text)


def dialogue(conversation: str) -> list[Step]:
    """All rounds that an exchange has."""
    first, back = said("alice", "bob", conversation), said("bob", "alice", conversation)
    return [first, back, first]


# What alice and bob say afterwards in the second and third round of a conversation is written like this.
KNOWN: list[Step] = [*dialogue("one"), *dialogue("two"), *dialogue("three")]
BEGUN = said("alice", "bob", "four")
BACK = said("bob", "alice", "four")


ASK = Message("alice", "bob", QUERY, pattern=Pattern.REQUEST)
ANSWER = Message("bob", "alice", {}, "It is done.", pattern=Pattern.RESPONSE)
# What bob answers alice afterwards is written like this.
ANSWERED: list[Step] = [ASK, ANSWER] * 4


# ---------------------------------------------------------------- what happens to an exchange meanwhile


async def _exchange(rig: Rig, conversation: str) -> Exchange | None:
    exchanges = await rig.store.children(Exchange, DEFAULT_TENANT, conversation)
    return exchanges[0] if exchanges else None


async def _asked(rig: Rig, asker: str) -> Exchange | None:
    """The exchange of an agent's newest request."""
    request = await newest_request(rig, asker)
    exchange_id = request.exchange_id if request is not None else ""
    return await rig.store.get(Exchange, DEFAULT_TENANT, exchange_id) if exchange_id else None


async def took_a_round(rig: Rig, conversation: str = "", asker: str = "") -> None:
    exchange = await _asked(rig, asker) if asker else await _exchange(rig, conversation)
    if exchange is not None:
        await rig.put(accepted(exchange, "bob", "Said meanwhile", rig.at(), exchange.hops))


async def closed(rig: Rig, conversation: str = "", asker: str = "") -> None:
    exchange = await _asked(rig, asker) if asker else await _exchange(rig, conversation)
    if exchange is not None and not exchange.over:
        await rig.put(ended(exchange, Outcome.RESOLVED, rig.at(), "alice", "done"))


async def opened_by_another(rig: Rig, conversation: str) -> None:
    """Someone has told alice something in this conversation: what she says there is one hop further on."""
    if await _exchange(rig, conversation) is None:
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


async def _say(rig: Rig, message: Step) -> Post:
    assert isinstance(message, Message)
    post = await say(rig, message)
    assert isinstance(post, Post)
    return post


@pytest.mark.sqlite_only
@with_rig
async def test_the_rounds_of_a_conversation_like_two_before_are_not_decided(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    for message in KNOWN:
        await _say(rig, message)
    monkeypatch.setattr(governed_terms, "govern", None)

    said_then = [BEGUN, BACK._replace(text="Done."), BEGUN._replace(text="Thanks.")]
    posts = [await _say(rig, message) for message in said_then]

    exchange = await _exchange(rig, "four")
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
    requests = [await _say(rig, ASK) for _ in range(4)]
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
        await _say(rig, message)
    opened = [await _say(rig, Message("alice", "bob", QUERY)) for _ in range(3)][-1]
    exchange = await rig.store.get(Exchange, DEFAULT_TENANT, opened.exchange_id)
    assert exchange is not None
    monkeypatch.setattr(governed_terms, "govern", None)

    back = await _say(rig, said("bob", "alice", exchange.conversation_id))

    assert back.exchange_id == opened.exchange_id


@pytest.mark.both_stores
@with_rig
async def test_of_two_that_open_a_conversation_at_once_the_second_finds_the_exchange_of_the_first(rig: Rig) -> None:
    await govern(rig)
    for message in KNOWN:
        await _say(rig, message)

    # One like those before, and one like none before: it is decided.
    posts = await asyncio.gather(_say(rig, BEGUN), _say(rig, said("alice", "bob", "four", "We decided it.")))

    exchange = await _exchange(rig, "four")
    assert exchange is not None
    assert {post.exchange_id for post in posts} == {exchange.id}
    assert exchange.current_round == 2


async def _round_of(rig: Rig, message: Message) -> int | None:
    """In which round a message is delivered; None when it is held."""
    outcome = await posting.post(rig.team, rig.caller(message.sender), message.channel_id, message.draft)
    return None if isinstance(outcome, posting.Held) else _round(outcome)


def _round(post: Post) -> int:
    return int(json.loads(post.metadata)["ocip"]["exchange_round"])


@pytest.mark.both_stores
@pytest.mark.parametrize("address", ["role:tester", "*"])
@with_rig
async def test_a_message_to_several_leaves_no_more_rounds_to_one_that_is_under_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """By a role, or everyone, nobody gets more rounds than a conversation has."""
    await govern(rig)
    await rig.role("tester", "bob", "carol")
    for message in (*KNOWN, BEGUN, BACK):
        await _say(rig, message)
    rounds: list[int | None] = []

    async def say_to_several(rig: Rig) -> None:
        rounds.append(await _round_of(rig, said("alice", address, "four")))

    before_the_commit(rig, monkeypatch, say_to_several)
    # The lock is of one node.
    monkeypatch.setattr(governing, "lock_conversation", lambda *_: nullcontext())
    rounds.append(await _round_of(rig, BEGUN))

    assert rounds == [3, None]


@pytest.mark.both_stores
@with_rig
async def test_an_answer_takes_no_round_that_a_message_to_several_took(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    await rig.role("tester", "carol")
    request = await _say(rig, BEGUN._replace(metadata={**BEGUN.metadata, "max_rounds": 2}, pattern=Pattern.REQUEST))
    rounds: list[int | None] = []

    async def say_to_several(rig: Rig) -> None:
        rounds.append(await _round_of(rig, said("bob", "role:tester", "four")))

    before_the_commit(rig, monkeypatch, say_to_several)
    answer = PostDraft(Pattern.RESPONSE, b'{"text":"Fine."}', "")
    outcome = await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, answer)

    assert rounds == [2]
    assert isinstance(outcome, posting.Held)


@pytest.mark.both_stores
@pytest.mark.parametrize("answers", [False, True])
@with_rig
async def test_what_an_agent_is_told_in_a_conversation_counts_in_all_that_it_says_after_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """It is one hop further on, whether it is decided or like those before."""
    await govern(rig)
    answer = PostDraft(Pattern.RESPONSE, b'{"text":"Fine."}', "")
    for message in KNOWN:
        await _say(rig, message)
    for conversation in ("five", "six", "seven", "four"):
        await _say(rig, said("alice", "bob", conversation))
        asked = await _say(rig, said("bob", "alice", conversation)._replace(pattern=Pattern.REQUEST))
        if conversation != "four":
            await posting.reply(rig.team, rig.caller("alice"), CHANNEL, asked.id, answer)
    told: list[Post] = []

    async def tell_alice(rig: Rig) -> None:
        told.append(await _say(rig, said("carol", "alice", "four")))

    before_the_commit(rig, monkeypatch, tell_alice)
    # The lock is of one node, and messages like those before do not wait for it.
    monkeypatch.setattr(governing, "lock_conversation", lambda *_: nullcontext())
    if answers:
        after = await posting.reply(rig.team, rig.caller("alice"), CHANNEL, asked.id, answer)
    else:
        after = await _say(rig, BEGUN)

    assert isinstance(after, Post)
    assert after.seq == told[0].seq + 1
    trail = await rig.store.audits(DEFAULT_TENANT, AuditQuery(limit=1000))
    entries = [json.loads(entry.document) for entry in trail]
    assert [entry["hops"] for entry in entries if entry.get("message_id") == after.id] == [2, 2]


@pytest.mark.both_stores
@with_rig
async def test_of_two_first_messages_at_once_one_takes_the_second_round(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    await rig.role("tester", "carol")
    rounds: list[int | None] = []

    async def say_to_several(rig: Rig) -> None:
        rounds.append(await _round_of(rig, said("alice", "role:tester", "four")))

    before_the_commit(rig, monkeypatch, say_to_several)
    monkeypatch.setattr(governing, "lock_conversation", lambda *_: nullcontext())
    rounds.append(await _round_of(rig, BEGUN))

    assert rounds == [1, 2]


@pytest.mark.both_stores
@pytest.mark.parametrize("policy", [AppliesTo.ALL, AppliesTo.ANNOTATED])
@with_rig
async def test_a_node_that_missed_how_a_conversation_began_finds_it_after_the_first_try(
    rig: Rig, policy: AppliesTo
) -> None:
    await govern(rig)
    await put_policy(rig, applies_to=policy)
    first = await _say(rig, said("bob", "alice", "four"))
    rig.team.governance._conversations[DEFAULT_TENANT, "four"] = ()

    outcome = await posting.post(rig.team, rig.caller("alice"), CHANNEL, UNASKED._replace(text="Thanks.").draft)

    assert isinstance(outcome, Post)
    assert (outcome.exchange_id, _round(outcome)) == (first.exchange_id, 2)


@pytest.mark.both_stores
@with_rig
async def test_nobody_opens_an_exchange_in_a_conversation_of_a_batch_that_is_under_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _ready_for_annotated(rig)
    await _say(rig, said("alice", "carol", "four"))
    names = ("five", "four", "five")
    drafts = [UNASKED._replace(metadata={"conversation_id": name}).draft for name in names]
    are_locked: list[bool] = []

    async def look_at_locks(rig: Rig) -> None:
        are_locked.extend([rig.team.governance.lock(DEFAULT_TENANT, name).locked() for name in names])

    before_the_commit(rig, monkeypatch, look_at_locks)
    posts = await posting.post_all(rig.team, rig.caller("alice"), CHANNEL, drafts)

    assert [post.exchange_id for post in posts] == ["", "", ""]
    assert are_locked == [True, True, True]


async def _ready_for_annotated(rig: Rig) -> None:
    """Only messages that ask for something are governed, and those that go on with an exchange."""
    await govern(rig)
    await put_policy(rig, applies_to=AppliesTo.ANNOTATED)
    for message in KNOWN:
        await _say(rig, message)


UNASKED = Message("alice", "bob", {"conversation_id": "four"}, "We promise it.")


@pytest.mark.sqlite_only
@with_rig
async def test_a_message_that_is_not_governed_is_decided_again_when_its_conversation_is_opened_meanwhile(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _ready_for_annotated(rig)
    before_the_commit(rig, monkeypatch, lambda rig: _say(rig, BEGUN))

    outcome = await posting.post(rig.team, rig.caller("alice"), CHANNEL, UNASKED.draft)

    assert isinstance(outcome, posting.Held)
    exchange = await _exchange(rig, "four")
    assert exchange is not None
    assert outcome.approval.exchange_id == exchange.id


@pytest.mark.sqlite_only
@with_rig
async def test_each_conversation_that_a_batch_names_is_looked_at_in_its_commit(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _ready_for_annotated(rig)
    drafts = [UNASKED._replace(metadata={"conversation_id": name}).draft for name in ("four", "five")]
    before_the_commit(rig, monkeypatch, lambda rig: _say(rig, BEGUN))

    with pytest.raises(Invalid, match="one by one"):
        await posting.post_all(rig.team, rig.caller("alice"), CHANNEL, drafts)


@pytest.mark.both_stores
@with_rig
async def test_a_message_in_a_conversation_without_an_exchange_is_not_governed_where_nobody_asks(rig: Rig) -> None:
    await _ready_for_annotated(rig)

    posts = [await _say(rig, UNASKED) for _ in range(3)]

    assert {post.exchange_id for post in posts} == {""}


@pytest.mark.both_stores
@with_rig
async def test_an_exchange_that_ends_between_lookup_and_commit_takes_no_message(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    for message in (*KNOWN, BEGUN):
        await _say(rig, message)
    before_the_commit(rig, monkeypatch, lambda rig: closed(rig, "four"))

    with pytest.raises(ExchangeClosed):
        await _say(rig, BACK)

    exchange = await _exchange(rig, "four")
    assert exchange is not None
    assert exchange.current_round == 1
